"""Laws as data: two sides over tensor variables, guards, and what the law does to floating point.

In: Python expressions over `tensors(...)`. Out: `Law`, read by `eqfuse.rewrites.rule` (the e-graph's rule) and by
`eqfuse.rewrites.check` (the generated test). Both read the same sides and the same guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from eqfuse.dtypes import BFLOAT16, Numbers, kind, numbers
from eqfuse.errors import LawError
from eqfuse.ops import TABLE
from eqfuse.ops.elementwise import UFUNCS


class Exactness(IntEnum):
    """What a law does to floating point, from the safest to the loosest."""

    EXACT = 0  # the same bits, NaN, infinities and signed zeros included
    REASSOCIATES = 1  # equal over the reals: finite results differ by rounding only
    APPROXIMATE = 2  # may lose a NaN or an infinity, or needs a range


EXACT, REASSOCIATES, APPROXIMATE = Exactness

VARIABLE, LITERAL = "variable", "literal"
_OP_OF_UFUNC = {ufunc: name for name, ufunc in UFUNCS.items()} | {np.matmul: "matmul"}


@dataclass(frozen=True)
class Attr:
    """A variable that stands for an attribute: axes, a permutation, a shape, a dtype."""

    name: str


@dataclass(frozen=True, eq=False)
class Computed:
    """An attribute or scalar of the right side, computed from attributes (their values) and tensors (their types)."""

    function: Callable[..., Any]
    args: tuple[Attr | Term, ...]


@dataclass(frozen=True, eq=False)
class Term:
    """A pattern: a tensor variable, a scalar literal, or an operator of the table over terms."""

    op: str
    args: tuple[Term, ...] = ()
    attrs: tuple[Any, ...] = ()

    __array_priority__ = 1000

    def __add__(self, other: Any) -> Term:
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Term:
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Term:
        return apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Term:
        return apply("subtract", other, self)

    def __mul__(self, other: Any) -> Term:
        return apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Term:
        return apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Term:
        return apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return apply("divide", other, self)

    def __pow__(self, other: Any) -> Term:
        return apply("power", self, other)

    def __matmul__(self, other: Any) -> Term:
        return apply("matmul", self, other)

    def __neg__(self) -> Term:
        return apply("negative", self)

    def __abs__(self) -> Term:
        return apply("abs", self)

    def __lt__(self, other: Any) -> Term:
        return apply("less", self, other)

    def __le__(self, other: Any) -> Term:
        return apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Term:
        return apply("greater", self, other)

    def __ge__(self, other: Any) -> Term:
        return apply("greater_equal", self, other)

    def sum(self, axes: Any) -> Term:
        return apply("sum", self, attrs=(axes,))

    def max(self, axes: Any) -> Term:
        return apply("max", self, attrs=(axes,))

    def min(self, axes: Any) -> Term:
        return apply("min", self, attrs=(axes,))

    def transpose(self, axes: Any) -> Term:
        return apply("transpose", self, attrs=(axes,))

    def reshape(self, shape: Any) -> Term:
        return apply("reshape", self, attrs=(shape,))

    def broadcast_to(self, shape: Any) -> Term:
        return apply("broadcast_to", self, attrs=(shape,))

    def slice(self, ranges: Any) -> Term:
        return apply("slice", self, attrs=(ranges,))

    def flip(self, axes: Any) -> Term:
        return apply("flip", self, attrs=(axes,))

    def take(self, indices: Any, axis: Any) -> Term:
        return apply("take", self, indices, attrs=(axis,))

    def cast(self, dtype: Any) -> Term:
        return apply("cast", self, attrs=(dtype,))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Term:
        if method != "__call__" or kwargs or ufunc not in _OP_OF_UFUNC:
            raise LawError(f"np.{ufunc.__name__} in this form cannot stand in a law; use an operator of the table")
        return apply(_OP_OF_UFUNC[ufunc], *args)

    @staticmethod
    def __eqfuse_apply__(op: str, args: Any, attrs: Any = ()) -> Term:
        """Called by the functions of `eqfuse.functions` when an argument is a term."""
        return apply(op, *args, attrs=tuple(attrs))

    def __str__(self) -> str:
        if self.op in (VARIABLE, LITERAL):
            return _text(self.attrs[0])
        if self.op in _SIGNS:
            return f"({f' {_SIGNS[self.op]} '.join(map(str, self.args))})"
        return f"{self.op}({', '.join([*map(str, self.args), *map(_text, self.attrs)])})"

    __repr__ = __str__


_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "matmul": "@", "power": "**"}


def _text(value: Any) -> str:
    if isinstance(value, Attr):
        return value.name
    return f"<{value.function.__name__}>" if isinstance(value, Computed) else str(value)


def apply(op: str, *args: Any, attrs: tuple[Any, ...] = ()) -> Term:
    """The term `op(*args, *attrs)`. Python numbers and `computed` scalars take the dtype of the other arguments."""
    row = TABLE.get(op)
    if row is None:
        raise LawError(f"the operator table has no {op!r}")
    if (row.arity is not None and len(args) != row.arity) or len(attrs) != len(row.attrs):
        raise LawError(f"{op} takes {row.arity} tensor(s) and the attributes {row.attrs}")
    return Term(op, tuple(map(_term, args)), attrs)


def _term(value: Any) -> Term:
    if isinstance(value, Term):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, bool | int | float | Computed):
        raise LawError(f"{value!r} cannot stand in a law: write a tensor variable, an operator or a number")
    return Term(LITERAL, (), (value,))


def tensors(names: str) -> tuple[Term, ...]:
    """One tensor variable per name: ``x, y = tensors("x y")``."""
    return tuple(Term(VARIABLE, (), (name,)) for name in names.split())


def attrs(names: str) -> tuple[Attr, ...]:
    """One attribute variable per name: ``p, q = attrs("p q")``."""
    return tuple(Attr(name) for name in names.split())


def computed(function: Callable[..., Any], *args: Attr | Term) -> Any:
    """`function` of attribute values and tensor types, as an attribute or scalar of a right side.

    When `function` returns None the law does not apply.
    """
    return Computed(function, args)


@dataclass(frozen=True, eq=False)
class Guard:
    """A condition, said once for both faces: `predicate` judges attribute values and tensor types.

    The e-graph asks it about the types of classes, the generated test about the types of arrays. `known`: the tensors
    must also be computable when the program is built; `varies`: they must depend on an input that is not; both may be
    true of any array a test makes. `bound`: the law is true without the guard, which only keeps it from being used
    where it would lead nowhere.
    """

    sentence: str
    predicate: Callable[..., bool]
    args: tuple[Attr | Term, ...]
    known: bool = False
    varies: bool = False
    bound: bool = False


def guard(sentence: str, predicate: Callable[..., bool], *args: Attr | Term) -> Guard:
    """The guard that `predicate` holds of `args` (attribute values, tensor types)."""
    return Guard(sentence, predicate, args)


def bounded(sentence: str, predicate: Callable[..., bool], *args: Attr | Term) -> Guard:
    """A guard that a true law carries so that the e-graph does not grow without use."""
    return Guard(sentence, predicate, args, bound=True)


def known(*terms: Term) -> Guard:
    """The guard that these tensors are computable when the program is built."""
    return Guard(f"{', '.join(map(str, terms))} known at build time", lambda *_: True, terms, known=True, bound=True)


def varies(*terms: Term) -> Guard:
    """The guard that these tensors depend on an input that is not known when the program is built."""
    return Guard(f"{', '.join(map(str, terms))} varying", lambda *_: True, terms, varies=True, bound=True)


def floating(*terms: Term) -> Guard:
    """The guard that these tensors hold floating-point numbers (integers wrap around, which breaks order and sign)."""
    sentence = f"{', '.join(map(str, terms))} floating"
    return Guard(sentence, lambda *types: all(kind(t.dtype) == "f" for t in types), terms)


@dataclass(frozen=True, eq=False)
class Law:
    """`lhs` equals `rhs` wherever `when` holds and both have one type.

    `exactness` is about real numbers. A law is about complex ones only where `complex` says how exact it is there, and
    about float8, and sums of bfloat16 (rounded after every element), only where it keeps every bit. `both`: the law is
    read in both directions. `chain`: the operators (and the inverse, if any) whose chains the e-graph gives one order
    instead of rewriting them by this law (`eqfuse.rewrites.chains`). Raises LawError when a side is ill-formed.
    """

    name: str
    lhs: Term
    rhs: Term
    when: tuple[Guard, ...] = ()
    exactness: Exactness = EXACT
    both: bool = False
    complex: Exactness | None = None
    chain: tuple[str, ...] | None = None
    family: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for side in (self.lhs, self.rhs):
            if not isinstance(side, Term):
                raise LawError(f"law {self.name!r}: {side!r} is not a term")
        bound = self._bind(self.lhs, self.rhs)
        if self.both:
            self._bind(self.rhs, self.lhs)
        for g in self.when:
            for value in g.args:
                if _name(value) not in bound:
                    raise LawError(f"law {self.name!r}: guard {g.sentence!r} is about {value}, which is not matched")

    def _bind(self, lhs: Term, rhs: Term) -> set[tuple[str, str]]:
        if lhs.op in (VARIABLE, LITERAL):
            raise LawError(f"law {self.name!r}: the side {lhs} matches every tensor; start it with an operator")
        bound = set(names(lhs))
        if any(isinstance(a, Computed) for t in walk(lhs) for a in t.attrs):
            raise LawError(f"law {self.name!r}: the matched side {lhs} holds a computed value; bind a variable instead")
        for missing in names(rhs):
            if missing not in bound:
                raise LawError(f"law {self.name!r}: the variable {missing[1]!r} of {rhs} is not bound by {lhs}")
        return bound

    def claims(self, dtypes: Iterable[np.dtype]) -> Exactness | None:
        """How exact the law says it is where tensors of `dtypes` occur; None: it is not about such."""
        dtypes = set(dtypes)
        found = {numbers(d) for d in dtypes}
        coarse = Numbers.COARSE in found or (self._adds and BFLOAT16 in dtypes)
        if coarse and self.exactness > EXACT:
            return None
        return self.complex if Numbers.COMPLEX in found else self.exactness

    @cached_property
    def _adds(self) -> bool:
        return any(t.op in ("sum", "prod", "window_sum") for side in (self.lhs, self.rhs) for t in walk(side))

    @property
    def directions(self) -> tuple[tuple[str, Term, Term], ...]:
        """(rule name, matched side, made side) of each direction."""
        forward = (self.name, self.lhs, self.rhs)
        return (forward, (self.name + "~", self.rhs, self.lhs)) if self.both else (forward,)

    def __str__(self) -> str:
        sign = "==" if self.both else "->"
        when = f"  when {' and '.join(g.sentence for g in self.when)}" if self.when else ""
        over = "" if self.complex is None else f", complex {self.complex.name}"
        return f"{self.name}: {self.lhs} {sign} {self.rhs}{when}  [{self.exactness.name}{over}]"


def over_complex(laws: list[Law], exactness: Exactness | None, **otherwise: Exactness | None) -> list[Law]:
    """`laws` with what they do to complex numbers: `exactness`, or what `otherwise` says of a law by its name."""
    if unknown := otherwise.keys() - {law.name for law in laws}:
        raise LawError(f"there is no law {', '.join(sorted(unknown))} here")
    return [replace(law, complex=otherwise.get(law.name, exactness)) for law in laws]


def _name(value: Attr | Term) -> tuple[str, str]:
    return ("attribute", value.name) if isinstance(value, Attr) else (VARIABLE, value.attrs[0])


def walk(term: Term) -> Iterator[Term]:
    """`term` and all below it, arguments first."""
    for arg in term.args:
        yield from walk(arg)
    yield term


def names(term: Term) -> Iterator[tuple[str, str]]:
    """(kind, name) of every variable in `term`, those that computed values use included."""
    for t in walk(term):
        if t.op == VARIABLE:
            yield _name(t)
        else:
            for value in t.attrs:
                if isinstance(value, Attr):
                    yield _name(value)
                elif isinstance(value, Computed):
                    yield from map(_name, value.args)
