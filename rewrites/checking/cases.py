"""One case of a law: types of its variables and values of its attributes on which both sides can be computed.

In: `Law`, and a generator of random numbers or values chosen before. Out: `LawCase`, or Decline. Next stop:
`eqfuse.rewrites.checking.data`, which makes the arrays. Guards are asked about the types, as the e-graph asks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np

from eqfuse.dtypes import BFLOAT16, FLOAT8, FLOAT16, TENSORS, kind
from eqfuse.errors import EqfuseError, LawError
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.ops import row
from eqfuse.ops.row import BOOL, Role
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.law import (
    EXACT,
    LITERAL,
    VARIABLE,
    Attr,
    Computation,
    Exactness,
    Guard,
    Law,
    Term,
    walk,
)
from eqfuse.rewrites.language.match import FAULTS, Decline, RightSide, faulty, holds, literal_of
from eqfuse.rewrites.language.samples import own_dtypes, sample_attr

FLOATS = tuple(map(np.dtype, ("float32", "float64", "float16", BFLOAT16)))
WHOLES = tuple(d for d in TENSORS if d.kind in "biu")
COMPLEXES = tuple(map(np.dtype, ("complex64", "complex128")))

# of an attribute variable: (it, operator, name of the attribute there, types of the arguments, attributes before it)
AttributeOf = Callable[[Attr, str, str, list[TensorType], tuple], Any]


class LawCase:
    """`law` at one choice of types and attributes. Raises Decline or EqfuseError where its sides do not fit.

    `graph` has the variables as inputs and returns both sides, the left first; `guards` are those that data must obey;
    `without` is a guard of types that fails here, or a guard of values that data need not obey.
    """

    def __init__(
        self,
        law: Law,
        type_of: Callable[[str], TensorType],
        attribute_of: AttributeOf,
        without: Guard | None = None,
    ) -> None:
        self.law, self._type_of, self._attribute_of = law, type_of, attribute_of
        self.types: dict[str, TensorType] = {}
        self.attributes: dict[Attr, Any] = {}
        self.guards = tuple(g for g in law.when if g is not without)
        matched = _Match()
        lefts = [self._left(lhs, matched) for lhs in law.lefts]
        with self._authors_errors():
            types: dict[Term | str, TensorType] = dict(self.types.items())
            if not holds(tuple(g for g in self.guards if not g.bound), types, self.attributes):
                raise Decline
            if without is not None and not without.about_values and holds((without,), types, self.attributes):
                raise Decline
            right = RightSide(types, self.attributes)
            if [right.type(rhs) for rhs in law.rights] != lefts:
                raise Decline
        claimed = law.claims(t.dtype for t in (*types.values(), *matched.types.values(), *right.types.values()))
        if claimed is None:
            raise Decline
        self.claimed: Exactness = claimed
        self.inputs = {name: input_node(name, t) for name, t in self.types.items()}
        outputs = [*self._nodes(law.lefts, matched.attrs), *self._nodes(law.rights, right.attrs)]
        self.graph = Graph(tuple(self.inputs.values()), tuple(outputs))

    @contextmanager
    def _authors_errors(self) -> Iterator[None]:
        """Guards and computed values must have an answer for all types that the left side can have."""
        try:
            yield
        except EqfuseError:
            raise
        except FAULTS as error:
            raise faulty(self.law, self.types, self.attributes, error) from error

    @cached_property
    def sides(self) -> list[tuple[Node, Node]]:
        """Each term of the left side with the one that it equals."""
        outputs, n = self.graph.outputs, len(self.graph.outputs) // 2
        return list(zip(outputs[:n], outputs[n:], strict=True))

    def read_bits(self, values: Mapping[Node, np.ndarray]) -> Iterator[np.ndarray]:
        """What is read bit by bit: nobody promises the bits of a NaN there, its sign included."""
        for n in self.graph.nodes:
            if n.row.reads_bits and kind(n.args[-1].dtype) in "fc":
                yield values[n.args[-1]]

    @cached_property
    def complex(self) -> bool:
        return any(n.dtype.kind == "c" for n in self.graph.nodes)

    @property
    def over(self) -> str:
        """Which of a law's claims it is about."""
        if self.complex:
            return "complex"
        return "float16" if any(n.dtype == FLOAT16 for n in self.graph.nodes) else ""

    @cached_property
    def truncates(self) -> bool:
        """Does it cast to integers? What that makes of NaN or numbers out of range varies within one NumPy array."""
        casts = [n for n in self.graph.nodes if n.op == "cast" and n.dtype.kind in "iu"]
        return any(kind(n.args[0].dtype) in "fc" for n in casts)

    @cached_property
    def roles(self) -> dict[str, set[str]]:
        return roles(self.law)

    @cached_property
    def rank(self) -> int:
        return max((t.rank for t in self.types.values()), default=0)

    def _left(self, term: Term, matched: _Match) -> TensorType:
        """The type of a matched term. Its variables and attributes are chosen as they are met."""
        if term.op == VARIABLE:
            if term.name not in self.types:
                self.types[term.name] = self._type_of(term.name)
            return self.types[term.name]
        if term not in matched.types:
            operator = row(term.op)
            own = [self._left(a, matched) if a.op != LITERAL else None for a in term.args]
            types = [t for t in own if t is not None]
            if len(types) < len(own):
                beside = [t.dtype for i, t in enumerate(own) if t is not None and operator.own_dtype(i) is None]
                types = [t or matched.literal(a, beside[-1]) for a, t in zip(term.args, own, strict=True)]
            attrs: list[Any] = []
            for i, value in enumerate(term.attrs):
                if isinstance(value, Attr):
                    if value not in self.attributes:
                        name = operator.attrs[i]
                        self.attributes[value] = self._attribute_of(value, term.op, name, types, tuple(attrs))
                    value = self.attributes[value]
                attrs.append(value)
            try:
                matched.types[term] = operator.type(types, tuple(attrs))
            except FAULTS:  # drawn attributes may make no sense to the operator's type rule
                raise Decline from None
            matched.attrs[term] = tuple(attrs)
        return matched.types[term]

    def _nodes(self, side: tuple[Term, ...], attrs: Mapping[Term, tuple]) -> list[Node]:
        """The nodes of a side, whose operators and literals have `attrs`."""
        done: dict[Term, Node] = {}

        def node_of(term: Term) -> Node:
            if term.op == VARIABLE:
                return self.inputs[term.name]
            if term not in done:
                done[term] = node("const" if term.op == LITERAL else term.op, map(node_of, term.args), attrs[term])
            return done[term]

        return [node_of(term) for term in side]


class _Match:
    """Types and attributes of the operators and literals of the left side."""

    def __init__(self) -> None:
        self.types: dict[Term, TensorType] = {}
        self.attrs: dict[Term, tuple] = {}

    def literal(self, term: Term, dtype: np.dtype) -> TensorType:
        """Take a number as one of `dtype`."""
        value = literal_of(term.value, dtype)
        self.types[term], self.attrs[term] = value.type, (value,)
        return value.type


def chosen(law: Law, types: Mapping[str, TensorType], attributes: Mapping[Attr, Any]) -> LawCase | None:
    """The case of these types and attributes; None where the sides do not fit them."""

    def attribute_of(attr: Attr, *_: Any) -> Any:
        if attr not in attributes:
            raise Decline
        return attributes[attr]

    return fitting(law, types.__getitem__, attribute_of)


def fitting(law: Law, type_of: Any, attribute_of: AttributeOf, without: Guard | None = None) -> LawCase | None:
    """`LawCase(...)`, or None where the sides do not fit."""
    try:
        return LawCase(law, type_of, attribute_of, without)
    except LawError:
        raise
    except (EqfuseError, Decline):
        return None


def drawn(
    law: Law, rng: random.Random, without: Guard | None = None, rank: int | None = None, dtype: np.dtype | None = None
) -> LawCase | None:
    """A random case of rank 0-4 with extents from 0; None when what was drawn does not fit, which is often."""
    draw = _CaseDraw(law, rng, rank, 0.1 if without is None else 0.3)
    draw.dtype = dtype or draw.dtype
    return fitting(law, draw.type_of, draw.attribute_of, without)


class _CaseDraw:
    def __init__(self, law: Law, rng: random.Random, rank: int | None, empty: float) -> None:
        self.rng, self.roles, self.places, self.own_dtypes = rng, roles(law), _places(law), _own_dtypes(law)
        self.dtype = rng.choice(_dtypes(law))
        self.base = [rng.choice((1, 2, 2, 3, 3, 4)) for _ in range(4)]
        if rng.random() < 0.5:
            self.base = [rng.choice((2, 3))] * 4
        self.ones = 0.2
        if rng.random() < empty:  # one axis, or all that are not 1 (then products contract nothing)
            if rng.random() < 0.5:
                self.base, self.ones = [0] * 4, 0.5
            else:
                self.base[rng.randrange(4)] = 0
        self.rank = rng.choice((0, 1, 2, 2, 2, 3, 3, 4, 4)) if rank is None else rank
        if rank is None and rng.random() < 0.1:  # long enough for blocks, vectors and another order of adding
            self.rank, self.base = rng.choice((1, 2)), [1, 1, *rng.choices((1, 9, 17, 40), k=2)]
        used = _used(law)
        self.of_images = "conv" in used
        self.image_rank = rng.choice((3, 4)) if used & {"conv", "window"} else 0
        self.axis_of_parts = rng.randint(-4, -1) if "join" in used else -5
        self.piece: tuple = ()  # a slice, beside which another may stand
        pieces = sum("piece" in mine for mine in self.roles.values())
        self.turns = _turns(pieces, self.rank, rng) if pieces > 1 and rng.random() < 0.4 else ()
        if self.turns:
            self.ones = 0.0
        # extents of the parts along that axis, by their place
        if "part" in used and rng.random() < 0.5:
            self.ones = 0.0
        self.parts = [rng.choice((0, 1, 1, 2, 2, 3)) for _ in range(8)] if "part" in used else []

    def type_of(self, name: str) -> TensorType:
        mine, rng = self.roles.get(name, set()), self.rng
        places = self.places.get(name, ())
        rank = self.rank if places or rng.random() < 0.7 else rng.randrange(self.rank + 1)
        if "matmul" in mine:
            rank = rng.choice((2, 2, 2, 3, 4) if self.rank != 4 else (2, 4))
        elif mine & {"conv", "window"}:
            rank = self.image_rank
        elif "scalar" in mine:
            rank = 0
        shape = tuple(1 if rng.random() < self.ones else n for n in self.base[4 - rank :])
        if "matmul" in mine and rng.random() < 0.2:  # else products are of square matrices, rows and columns
            shape = (*shape[:-2], shape[-1], shape[-2])
        if "conv" in mine and rng.random() < 0.2:  # an even number of filters, for groups
            shape = (2 * shape[0], *shape[1:])
        if places and rank >= -self.axis_of_parts and rng.random() < 0.8:
            axis = rank + self.axis_of_parts
            n = rng.choice(self.parts) if rng.random() < 0.2 else self.parts[places[0]]
            shape = (*shape[:axis], n, *shape[axis + 1 :])
        if self.turns and mine & {"piece", "filled"}:
            shape = tuple(self.base[4 - self.rank :])
            if "filled" in mine:
                shape = tuple(n * by for n, by in zip(shape, self.turns, strict=True))
        elif "piece" in mine:
            shape = tuple(n if rng.random() < 0.5 else rng.randint(0 if n == 0 else 1, n) for n in shape)
        if name in self.own_dtypes:
            return TensorType(self.own_dtypes[name], shape)
        if "cast" in mine and rng.random() < 0.3:
            return TensorType(rng.choice(WHOLES), shape)
        return TensorType(self.dtype, shape)

    def attribute_of(self, _: Attr, op: str, name: str, types: list[TensorType], before: tuple) -> Any:
        if op == "concat" and types[0].rank >= -self.axis_of_parts and self.rng.random() < 0.7:
            return self.axis_of_parts
        if name == "ranges" and len(self.piece) == types[0].rank >= -self.axis_of_parts and self.rng.random() < 0.5:
            start, stop, step = self.piece[self.axis_of_parts]
            after = start + len(range(start, stop, step)) * step
            axis = types[0].rank + self.axis_of_parts
            extent = types[0].shape[axis]
            return (*self.piece[:axis], (min(after, extent), extent, step), *self.piece[axis + 1 :])
        if name == "slices" and self.turns:
            starts = [*product(*map(range, self.turns))]
            if self.rng.random() < 0.3:
                self.rng.shuffle(starts)
            return tuple([tuple(zip(s, types[0].shape, self.turns, strict=True)) for s in starts])
        if name == "dtype" and self.rng.random() < 0.3:
            return self.dtype
        if op == "broadcast_to" and types[0].rank == 0 and self.of_images:
            return tuple(self.rng.choice((1, 2, 3)) for _ in range(self.image_rank))
        value = sample_attr(op, name, types, before, self.dtype, self.rng)
        if name == "ranges":
            self.piece = value
        return value


def _turns(pieces: int, rank: int, rng: random.Random) -> tuple[int, ...]:
    """Along each axis how many of some pieces take turns there, so that they fill an array."""
    by = rng.choice(((2, 2), (4,))) if pieces == 4 else (pieces,)
    turns = [*by, *(1,) * (rank - len(by))][:rank]
    rng.shuffle(turns)
    return tuple(turns)


@lru_cache(maxsize=256)
def roles(law: Law) -> dict[str, set[str]]:
    """What each variable is used as, to draw a fitting rank and values."""
    uses: dict[str, set[str]] = {}
    for term in (t for side in (*law.lefts, *law.rights) for t in walk(side)):
        for i, arg in enumerate(term.args):
            if arg.op != VARIABLE:
                continue
            mine, operator = uses.setdefault(arg.name, set()), row(term.op)
            if term.op in ("matmul", "conv", "cast"):
                mine.add(term.op)
            elif term.op == "concat":
                mine.add(f"part {i}")
            elif operator.role is Role.WINDOW:
                mine.add("window")
            elif operator.own_dtype(i) == BOOL:
                mine.add("condition")
            elif operator.role is Role.GATHER and i == 1:
                mine.add("indices")
            elif term.op == "pad" and i == 1:
                mine.add("scalar")
            elif term.op == "slice_scatter":
                mine.add("piece" if i else "filled")
    return uses


@lru_cache(maxsize=256)
def _places(law: Law) -> dict[str, list[int]]:
    """Which parts of what is joined each variable is."""
    parts = {name: [role for role in mine if role.startswith("part ")] for name, mine in roles(law).items()}
    return {name: sorted(int(part.split()[1]) for part in mine) for name, mine in parts.items()}


@lru_cache(maxsize=256)
def _own_dtypes(law: Law) -> dict[str, np.dtype]:
    return own_dtypes(t for side in (*law.lefts, *law.rights) for t in walk(side))


@lru_cache(maxsize=256)
def _used(law: Law) -> frozenset[str]:
    """What the variables of `law` are used as, and whether it joins any."""
    used = {role.split()[0] for mine in roles(law).values() for role in mine}
    joins = any(t.op == "concat" for side in (*law.lefts, *law.rights) for t in walk(side))
    return frozenset(used | {"join"} if joins else used)


@lru_cache(maxsize=256)
def _dtypes(law: Law) -> tuple[np.dtype, ...]:
    """The dtypes to draw from, those often that are likely to matter."""
    return FLOATS * 4 + WHOLES + FLOAT8 * (law.exactness == EXACT) + COMPLEXES * 4 * (law.complex is not None)


def is_pointwise(law: Law) -> bool:
    """Is each element of the sides computed from the same element of each variable alone?"""
    terms = [t for side in (*law.lefts, *law.rights) for t in walk(side)]
    if any(isinstance(a, Attr) or (isinstance(a, Computation) and a.args) for t in terms for a in t.attrs):
        return False
    return all(t.op in (VARIABLE, LITERAL) or row(t.op).role == Role.ELEMENTWISE for t in terms)
