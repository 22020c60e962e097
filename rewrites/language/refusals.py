"""Why a law is refused when it is made: a side that no types fit, sides that never agree, a side that grows for ever.

In: a `Law`. Out: nothing, or LawError. Types are drawn as the generated test draws them; a law about shapes, slices or
windows is given the benefit of the doubt.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse.errors import EqfuseError, LawError
from eqfuse.ops import row
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.exactness import Exactness
from eqfuse.rewrites.language.guards import Guard
from eqfuse.rewrites.language.match import Decline, RightSide, literal_of
from eqfuse.rewrites.language.samples import own_dtypes, sample_attr
from eqfuse.rewrites.language.term import LITERAL, VARIABLE, Attr, Computation, Term, walk

if TYPE_CHECKING:
    from eqfuse.rewrites.language.law import Law

_DRAWS = 3000
_DRAWN = ("axes", "axis", "dtype")  # attributes of which any value is soon drawn
_DTYPES = tuple(map(np.dtype, ("float32", "float32", "int64", "bool", "complex64", "float16", "uint8")))
_SHAPES: tuple[tuple[int, ...], ...] = (
    (2, 2), (2, 2), (2, 2, 2, 2), (1, 1), (2, 3), (3, 2), (1, 3), (3,), (), (2, 1), (2, 2, 2), (4,), (1,),
)  # fmt: skip
_FAULTS = (EqfuseError, Decline, ArithmeticError, LookupError, TypeError, ValueError)  # of computed values
Sides = tuple[Term, ...]


def misplaced(law: Law) -> None:
    """Raise LawError when something stands at another's place, as in ``Law(name, x, y, EXACT)``."""
    if why := next(_misplaced(vars(law)), ""):
        raise LawError(f"law {law.name!r}: {why}. A law is Law(name, left, right, (guards,), exactness)")


def _misplaced(fields: dict[str, Any]) -> Iterator[str]:
    name, when = fields["name"], fields["when"]
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or name.endswith("~"):
        yield "a name is one line of text that does not end in ~, which marks the law read backwards"
    if not isinstance(when, tuple) or not all(isinstance(g, Guard) for g in when):
        yield "the guards are a tuple, (guard,) or (), before the exactness"
    for what in ("exactness", "complex"):
        if not isinstance(fields[what], Exactness) and (what == "exactness" or fields[what] is not None):
            yield f"{what} is {fields[what]!r}, none of {', '.join(Exactness.__members__)}"
    for flag in ("both", "grows", "everywhere", "check"):
        if not isinstance(fields[flag], bool):
            yield f"{flag} is {fields[flag]!r}, neither True nor False"


def refuse_law(law: Law) -> None:
    """Raise LawError when `law` can never be used, or never ends."""
    if why := _misfit(law.lefts, law.rights):
        raise LawError(f"law {law.name!r}: {why}")
    if law.grows or any(g.bound and not (g.constant or g.varies) for g in law.when):
        return
    for _, lefts, rights in law.directions:
        if (again := _again(law, lefts, rights)) is not None:
            raise LawError(
                f"law {law.name!r}: the right side {_text(rights)} holds {again}, which {_text(lefts)} matches again, "
                "so it can grow without end; turn the law round, guard it with `bounded`, or say grows=True"
            )


def _text(side: Sides) -> str:
    return ", ".join(map(str, side))


# growth -----------------------------------------------------------------------------------------------------------


def _again(law: Law, lefts: Sides, rights: Sides) -> Term | None:
    """A term of the larger right side that the left side matches. (Laws leave alone what is known when the program is
    built, and a computed value may decline.)"""
    if _size(rights) <= _size(lefts):
        return None
    constants = {a.name for g in law.when if g.constant for a in g.tensors}
    for term in (t for rhs in rights for t in walk(rhs)):
        if all(t.op != VARIABLE or t.name in constants for t in walk(term)):
            continue
        if any(isinstance(value, Computation) for t in walk(term) for value in t.attrs):
            continue
        for lhs in lefts:
            bound: dict[Any, Any] = {}
            if _matches(lhs, term, bound) and not any(_excludes(g, bound) for g in law.when):
                return term
    return None


def _excludes(g: Guard, bound: dict[Any, Any]) -> bool:
    """Whether `g` is about attributes alone and false of their values in this match."""
    values = [bound.get(a) if isinstance(a, Attr) else a for a in g.args]
    if any(isinstance(v, Attr | Term) for v in values):
        return False
    try:
        return not g.predicate(*values)
    except _FAULTS:  # which the check will tell
        return False


def _size(side: Sides) -> int:
    return sum(t.op != VARIABLE for t in dict.fromkeys(t for term in side for t in walk(term)))


def _matches(pattern: Term, term: Term, bound: dict[Any, Any]) -> bool:
    """Whether `term`, whose variables stand for themselves, is an instance of `pattern`."""
    if pattern.op == VARIABLE:
        return _same(bound.setdefault(pattern.name, term), term)
    if pattern.op != term.op or len(pattern.args) != len(term.args):
        return False
    for wanted, value in zip(pattern.attrs, term.attrs, strict=True):
        if (bound.setdefault(wanted, value) if isinstance(wanted, Attr) else wanted) != value:
            return False
    return all(_matches(p, t, bound) for p, t in zip(pattern.args, term.args, strict=True))


def _same(a: Term, b: Term) -> bool:
    return a is b or (
        a.op == b.op
        and a.attrs == b.attrs
        and len(a.args) == len(b.args)
        and all(_same(x, y) for x, y in zip(a.args, b.args, strict=True))
    )


# types ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _misfit(lefts: Sides, rights: Sides) -> str:
    """Why no types fit, or nothing."""
    rng = random.Random(0)
    terms = [t for side in (*lefts, *rights) for t in walk(side)]
    if any(name not in _DRAWN or isinstance(a, tuple | Computation) for t in terms for name, a in _attributes(t)):
        return ""  # an extent that is an attribute may fit what is hardly ever drawn
    fixed = own_dtypes(terms)
    left_fits = right_fits = False
    for draw in range(_DRAWS):
        drawn = _TypeDraw(draw, fixed, rng)
        try:
            of_left = [drawn.type(lhs) for lhs in lefts]
            left_fits = True
            right = RightSide(drawn.types, drawn.attributes)
            of_right = [right.type(rhs) for rhs in rights]
        except _FAULTS:
            continue
        right_fits = True
        if of_left == of_right:
            return ""
    if not left_fits:
        return f"no types of its variables fit the left side {_text(lefts)}"
    if not right_fits:
        return f"no types that fit the left side fit the right side {_text(rights)}"
    return f"its sides never have one type: {_text(lefts)} and {_text(rights)}"


def _attributes(term: Term) -> Iterator[tuple[str, Any]]:
    if term.op not in (VARIABLE, LITERAL):
        yield from zip(row(term.op).attrs, term.attrs, strict=True)


class _TypeDraw:
    """Types for the variables of a side and values for its attributes: the first draws are the likeliest to fit."""

    def __init__(self, draw: int, fixed: dict[str, np.dtype], rng: random.Random) -> None:
        self.rng, self.fixed = rng, fixed
        self.dtype, self.shape = _DTYPES[draw % len(_DTYPES)], _SHAPES[draw // 2 % len(_SHAPES)]
        self.mixed = draw >= 40
        self.types: dict[Term | str, TensorType] = {}
        self.attributes: dict[Attr, Any] = {}

    def type(self, term: Term) -> TensorType:
        if term.op == VARIABLE:
            return self._variable(term.name)
        if term not in self.types:
            types = [None if a.op == LITERAL else self.type(a) for a in term.args]
            own_dtype = row(term.op).own_dtype
            beside = [t.dtype for i, t in enumerate(types) if t is not None and own_dtype(i) is None]
            arg_types = [
                literal_of(a.value, beside[-1]).type if t is None else t for a, t in zip(term.args, types, strict=True)
            ]
            attrs: tuple = ()
            for name, value in zip(row(term.op).attrs, term.attrs, strict=True):
                attrs = (*attrs, self._attribute(term.op, name, arg_types, attrs, value))
            self.types[term] = row(term.op).type(arg_types, attrs)
        return self.types[term]

    def _variable(self, name: str) -> TensorType:
        if name not in self.types:
            dtype, shape, rng = self.dtype, self.shape, self.rng
            if self.mixed and rng.random() < 0.1:
                dtype = rng.choice(_DTYPES)
            if self.mixed and rng.random() < 0.6:
                cut = rng.choice((0, 0, 1, len(shape)))
                shape = tuple(rng.choice((1, n)) for n in shape[cut:]) if rng.random() < 0.8 else rng.choice(_SHAPES)
            self.types[name] = TensorType(self.fixed.get(name, dtype), shape)
        return self.types[name]

    def _attribute(self, op: str, name: str, types: list[TensorType], before: tuple, value: Any) -> Any:
        if not isinstance(value, Attr):
            return value
        if value not in self.attributes:
            self.attributes[value] = sample_attr(op, name, types, before, self.dtype, self.rng)
        return self.attributes[value]
