"""The generated test of a law: both sides on made-up arrays, compared as its exactness class demands.

In: `Law`. Out: `CheckReport`, with the smallest counterexample found. Shapes have rank 0-4 with extents 0 and 1, dtypes
are all that the law is about, data are half-integers (so that real equalities are bit equalities), and laws that claim
the same bits also meet NaN, infinities and signed zeros. Guards are asked about the arrays' types, as the e-graph asks.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqfuse.dtypes import BFLOAT16, FLOAT8, TENSORS, epsilon, kind, parts
from eqfuse.errors import EqfuseError
from eqfuse.facts import of_array
from eqfuse.ir import Graph, Literal, Node, TensorType, input_node, node, topological
from eqfuse.meaning import evaluate
from eqfuse.ops import row
from eqfuse.ops.elementwise import complex_array
from eqfuse.rewrites.law import APPROXIMATE, EXACT, LITERAL, REASSOCIATES, VARIABLE, Attr, Exactness, Law, Term, walk
from eqfuse.rewrites.rule import Decline, Made, holds, number
from eqfuse.rewrites.samples import sample_attr

CASES, TRIES = 100, 6000
_FLOATS = tuple(map(np.dtype, ("float32", "float64", "float16", BFLOAT16)))
_WHOLE = tuple(d for d in TENSORS if d.kind in "biu")
_COMPLEX = tuple(map(np.dtype, ("complex64", "complex128")))
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0)


@dataclass(frozen=True)
class Counterexample:
    """Arrays on which the two sides differ."""

    arrays: dict[str, np.ndarray]
    attributes: dict[str, Any]
    left: np.ndarray
    right: np.ndarray

    @property
    def size(self) -> int:
        return sum(a.size + a.ndim for a in self.arrays.values())

    def __str__(self) -> str:
        lines = [f"  {name} = {TensorType(a.dtype, a.shape)} {a.tolist()}" for name, a in self.arrays.items()]
        lines += [f"  {name} = {value}" for name, value in self.attributes.items()]
        return "\n".join([*lines, f"  left side  {self.left.tolist()}", f"  right side {self.right.tolist()}"])


@dataclass(frozen=True)
class CheckReport:
    """What `check` did. `measured` is the strictest exactness class that every case satisfied; None if none did.

    `measured_complex` is the same of the `complex_cases` among them; all other cases count for `measured`.
    """

    law: Law
    cases: int
    complex_cases: int
    tries: int
    measured: Exactness | None
    measured_complex: Exactness | None
    counterexample: Counterexample | None

    @property
    def ok(self) -> bool:
        return self.counterexample is None and self.cases > 0

    def __str__(self) -> str:
        if self.counterexample is not None:
            return f"{self.law}\n  is false:\n{self.counterexample}"
        if not self.cases:
            return f"{self.law}\n  was not tested: none of {self.tries} generated arguments fits its sides and guards"
        measured = [m.name for m in (self.measured, self.measured_complex) if m is not None]
        return f"{self.law}\n  holds on {self.cases} generated cases; measured {', complex '.join(measured)}"


def check(law: Law, seed: int = 0, cases: int = CASES) -> CheckReport:
    """Test `law` on generated arrays; deterministic for a `seed`."""
    rng = random.Random(zlib.crc32(law.name.encode()) + seed)
    measured: dict[bool, Exactness | None] = {}  # by whether complex numbers occur
    met = {False: 0, True: 0}
    worst: Counterexample | None = None
    tries = 0
    while sum(met.values()) < cases and tries < TRIES:
        tries += 1
        case = _Case(law, rng)
        try:
            case.build()
        except (EqfuseError, Decline):
            continue
        claimed = law.claims(n.dtype for n in case.graph.nodes)
        if claimed is None:
            continue
        over = any(n.dtype.kind == "c" for n in case.graph.nodes)
        met[over] += 1
        extremes = (claimed == EXACT or case.dtype.kind in "iu") and not case.truncates
        for special in (False, True) if extremes else (False,):
            try:
                reached, example = case.compare(special)
            except (IndexError, ValueError, Decline):  # no such data, or NumPy refuses them: 2 ** -1 in integers
                continue
            before = measured.get(over, EXACT)
            measured[over] = None if before is None or reached is None else max(before, reached)
            if (reached is None or reached > claimed) and (worst is None or example.size < worst.size):
                worst = example
    return CheckReport(
        law, sum(met.values()), met[True], tries, measured.get(False), measured.get(True), worst
    )  # fmt: skip


def without_guard(law: Law, index: int) -> Law:
    """`law` with one guard dropped: it must then have a counterexample, or the guard is idle."""
    return replace(law, when=law.when[:index] + law.when[index + 1 :], grows=True)  # it is not used


class _Case:
    """One choice of types and attributes on which both sides of a law are well-typed and its guards hold."""

    def __init__(self, law: Law, rng: random.Random) -> None:
        self.law, self.rng = law, rng
        self.types: dict[Term | str, TensorType] = {}
        self.attributes: dict[Attr, Any] = {}
        self.inputs: dict[str, Node] = {}
        self.dtype = rng.choice(
            _FLOATS * 4 + _WHOLE + FLOAT8 * (law.exactness == EXACT) + _COMPLEX * 4 * (law.complex is not None)
        )
        self.base = [rng.choice((1, 2, 2, 3, 3, 4)) for _ in range(4)]
        if rng.random() < 0.5:
            self.base = [rng.choice((2, 3))] * 4
        self.ones = 0.2
        if rng.random() < 0.1:  # empty: one axis, or all that are not 1 (then products contract nothing)
            if rng.random() < 0.5:
                self.base, self.ones = [0] * 4, 0.5
            else:
                self.base[rng.randrange(4)] = 0
        self.rank = rng.choice((0, 1, 2, 2, 3))
        self.roles = _roles(law)

    def build(self) -> None:
        done: dict[Term, Node] = {}
        lefts = [self._left(lhs, done) for lhs in self.law.lefts]
        if not holds(self.law.when, self.types, self.attributes):
            raise Decline
        made = Made(self.types, self.attributes)
        if [made.type(rhs) for rhs in self.law.rights] != [left.type for left in lefts]:
            raise Decline
        done = {}
        rights = [self._right(rhs, made, done) for rhs in self.law.rights]
        self.graph = Graph(tuple(self.inputs.values()), (*lefts, *rights))
        # what a cast to integers makes of NaN or of numbers out of range varies within one NumPy array
        casts = [n for n in self.graph.nodes if n.op == "cast" and n.dtype.kind in "iu"]
        self.truncates = any(kind(n.args[0].dtype) in "fc" for n in casts)

    def _variable(self, name: str) -> Node:
        if name in self.inputs:
            return self.inputs[name]
        roles, rng = self.roles.get(name, set()), self.rng
        rank = self.rank if rng.random() < 0.7 else rng.randrange(self.rank + 1)
        if roles & {"matmul"}:
            rank = rng.choice((2, 2, 3))
        elif roles & {"conv", "window"}:
            rank = rng.choice((3, 4))
        shape = tuple(1 if rng.random() < self.ones else n for n in self.base[4 - rank :])
        dtype = self.dtype
        if "condition" in roles:
            dtype = np.dtype(bool)
        elif "indices" in roles:
            dtype = np.dtype(np.int64)
        self.types[name] = TensorType(dtype, shape)
        self.inputs[name] = input_node(name, self.types[name])
        return self.inputs[name]

    def _left(self, term: Term, done: dict[Term, Node]) -> Node:
        if term.op == VARIABLE:
            return self._variable(term.attrs[0])
        if term not in done:
            args = [self._left(a, done) if a.op != LITERAL else None for a in term.args]
            siblings = [a.dtype for at, a in enumerate(args) if a is not None and not (term.op == "where" and at == 0)]
            nodes = [_number(t, siblings[-1]) if a is None else a for t, a in zip(term.args, args, strict=True)]
            attrs: list[Any] = []
            for at, value in enumerate(term.attrs):
                if isinstance(value, Attr):
                    if value not in self.attributes:
                        name = row(term.op).attrs[at]
                        self.attributes[value] = sample_attr(
                            term.op, name, [n.type for n in nodes], tuple(attrs), self.dtype, self.rng
                        )
                    value = self.attributes[value]
                attrs.append(value)
            done[term] = node(term.op, nodes, attrs)
        return done[term]

    def _right(self, term: Term, made: Made, done: dict[Term, Node]) -> Node:
        if term.op == VARIABLE:
            return self.inputs[term.attrs[0]]
        if term not in done:
            args = [self._right(a, made, done) for a in term.args]
            attrs = made.attrs[term]
            done[term] = node("const" if term.op == LITERAL else term.op, args, attrs)
        return done[term]

    def compare(self, special: bool) -> tuple[Exactness | None, Counterexample]:
        """The strictest class in which the sides agree on random data, and the data."""
        random_state = np.random.default_rng(self.rng.randrange(2**32))
        arrays = {name: self._data(name, n.type, special, random_state) for name, n in self.inputs.items()}
        self._obey(arrays)
        with np.errstate(all="ignore"):
            results = evaluate(self.graph, tuple(arrays.values()))
            everything = Graph(self.graph.inputs, tuple(topological(self.graph.outputs)))
            scale = 1.0
            for value in evaluate(everything, tuple(arrays.values())):
                finite = np.abs(parts(value[np.isfinite(value)]).astype(np.float64))
                scale = max(scale, float(finite.max(initial=0.0)))
        values = {a.name: v.text() if isinstance(v, Literal) else v for a, v in self.attributes.items()}
        pairs = list(zip(results[: len(results) // 2], results[len(results) // 2 :], strict=True))
        reached = [agreement(left, right, scale) for left, right in pairs]
        strictness = [len(Exactness) if r is None else int(r) for r in reached]
        worst = strictness.index(max(strictness))
        return reached[worst], Counterexample(arrays, values, *pairs[worst])

    def _obey(self, arrays: dict[str, np.ndarray]) -> None:
        """Make `arrays` as the law's guards about values want them; Decline where that cannot be."""
        for again in (False, True):
            for g in self.law.when:
                if g.wanted is not None:
                    subject, *others = (a.attrs[0] for a in g.tensors)
                    fact = g.wanted(*(of_array(arrays[other]) for other in others))
                    if again and not fact.includes(arrays[subject]):
                        raise Decline
                    arrays[subject] = fact.obeying(arrays[subject])

    def _data(self, name: str, t: TensorType, special: bool, rng: np.random.Generator) -> np.ndarray:
        if "indices" in self.roles.get(name, set()):
            extents = [n for other, v in self.inputs.items() if other != name for n in v.shape if n]
            return rng.integers(0, min(extents, default=1), t.shape).astype(t.dtype)
        if t.dtype.kind == "c":
            of_part = TensorType(np.dtype(f"f{t.dtype.itemsize // 2}"), t.shape)
            return complex_array(*(self._data(name, of_part, special, rng) for _ in range(2)))
        if t.dtype.kind == "b":
            return rng.integers(0, 2, t.shape).astype(bool)
        data = rng.integers(0 if self.truncates else -6, 7, t.shape) * (rng.random(t.shape) < 0.8)
        if t.dtype.kind in "iu":
            limits = np.iinfo(t.dtype)
            large = [limits.min, limits.max, *(limits.max // n for n in (3, 5, 7))]
            extremes = rng.choice(np.array(large, t.dtype), t.shape)
            return np.where(special & (rng.random(t.shape) < 0.3), extremes, data.astype(t.dtype)).astype(t.dtype)
        if special:
            odd = rng.choice(np.array(_SPECIAL), t.shape)
            return np.where(rng.random(t.shape) < 0.5, odd, data / 2).astype(t.dtype)
        return (data / 2).astype(t.dtype)


def _number(term: Term, dtype: np.dtype) -> Node:
    return node("const", (), (number(term.attrs[0], dtype),))


def agreement(left: np.ndarray, right: np.ndarray, scale: float) -> Exactness | None:
    """The strictest class in which `left` and `right` agree, when values as large as `scale` were met on the way."""
    if kind(left.dtype) not in "fc":
        return EXACT if np.array_equal(left, right) else None
    finite_left, finite_right = np.isfinite(left), np.isfinite(right)  # a complex number is finite in both its parts
    both = finite_left & finite_right
    error = np.abs(parts(left[both]).astype(np.float64) - parts(right[both]).astype(np.float64))
    slack = 64 * epsilon(left.dtype) * scale
    left, right = parts(left), parts(right)
    if ((left == right) & (np.signbit(left) == np.signbit(right)) | np.isnan(left) & np.isnan(right)).all():
        return EXACT
    if (error > slack).any():
        return None
    return REASSOCIATES if (finite_left == finite_right).all() else APPROXIMATE


def _roles(law: Law) -> dict[str, set[str]]:
    """What each variable is used as, to draw a fitting rank and dtype."""
    roles: dict[str, set[str]] = {}
    for term in (t for side in (*law.lefts, *law.rights) for t in walk(side)):
        for at, arg in enumerate(term.args):
            if arg.op != VARIABLE:
                continue
            mine = roles.setdefault(arg.attrs[0], set())
            if term.op == "matmul" or term.op == "conv":
                mine.add(term.op)
            elif term.op.startswith("window"):
                mine.add("window")
            elif term.op == "where" and at == 0:
                mine.add("condition")
            elif term.op.startswith("take") and at == 1:
                mine.add("indices")
    return roles
