"""Laws as data: two sides over tensor variables, guards, and what the law does to floating point.

In: terms (`term`, whose names can be had here too). Out: `Law`, read by `eqfuse.egraph.rules` (the
e-graph's rule) and by `checking.check` (the generated test). Both read the same sides and the same guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from eqfuse.dtypes import BFLOAT16, Numbers, kind, numbers
from eqfuse.errors import LawError
from eqfuse.ops.facts import LARGEST, SMALLEST, Fact
from eqfuse.rewrites.language.term import (
    LITERAL,
    VARIABLE,
    Attr,
    Computed,
    Term,
    about,
    apply,
    attrs,
    computed,
    key,
    names,
    tensors,
    walk,
)


class Exactness(IntEnum):
    """What a law does to floating point, from the safest to the loosest. README.md says what each promises."""

    EXACT = 0  # the same bits, infinities and signed zeros included, and NaN at the same places
    REASSOCIATES = 1  # as accurate: the running error bound grows by a small factor at most, wherever it says something
    APPROXIMATE = 2  # equal over the reals: may cancel, overflow, or lose a NaN


EXACT, REASSOCIATES, APPROXIMATE = Exactness

FLOAT16 = np.dtype(np.float16)

@dataclass(frozen=True, eq=False)
class Guard:
    """A condition, said once for both faces: `predicate` judges attribute values and tensor types.

    The e-graph asks it about the types of classes, the generated test about the types of arrays. `wanted` is about
    values: what must be known of the first of `args`, given what is known of the others; the e-graph asks it about
    derived facts, the test about its arrays. `judged` is about values too: it judges the dtype of the first tensor and
    what is known of all, elements of which may be arrays. `constant`: the tensors must be computable when the program
    is built; `varies`: they must depend on an input that is not; `in_program`: they must be the program's own;
    `distinct`: they must not be one and the same; any array a test makes may be all of these. `bound`: the law is true
    without the guard, which only keeps it from being used where it would lead nowhere.
    """

    sentence: str
    predicate: Callable[..., bool]
    args: tuple[Attr | Term, ...]
    wanted: Callable[..., Fact] | None = None
    judged: Callable[..., Any] | None = None
    constant: bool = False
    varies: bool = False
    in_program: bool = False
    distinct: bool = False
    bound: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.sentence, str) or not callable(self.predicate):
            raise LawError(f"guard({self.sentence!r}, {self.predicate!r}, …): write a sentence, then the predicate")
        about(self.args, f"the guard that {self.sentence}")

    @property
    def tensors(self) -> tuple[Term, ...]:
        """Those of `args` that are tensors."""
        return tuple(a for a in self.args if isinstance(a, Term))

    @property
    def about_values(self) -> bool:
        return self.wanted is not None or self.judged is not None

    def allows(self, dtype: np.dtype, *facts: Fact) -> bool:
        """Whether what is known of its tensors is enough; `dtype` is that of the first."""
        if self.wanted is not None and not facts[0].within(self.wanted(*facts[1:])):
            return False
        with np.errstate(all="ignore"):
            return self.judged is None or bool(self.judged(dtype, *facts))


def guard(sentence: str, predicate: Callable[..., bool], *args: Attr | Term) -> Guard:
    """The guard that `predicate` holds of `args` (attribute values, tensor types)."""
    return Guard(sentence, predicate, args)


def bounded(sentence: str, predicate: Callable[..., bool], *args: Attr | Term) -> Guard:
    """A guard that a true law carries so that the e-graph does not grow without use."""
    return Guard(sentence, predicate, args, bound=True)


def is_constant(*terms: Term) -> Guard:
    """The guard that these tensors are computable when the program is built."""
    return Guard(f"{', '.join(map(str, terms))} constant", lambda *_: True, terms, constant=True, bound=True)


def varies(*terms: Term) -> Guard:
    """The guard that these tensors depend on an input that is not known when the program is built."""
    return Guard(f"{', '.join(map(str, terms))} varying", lambda *_: True, terms, varies=True, bound=True)


def in_program(*terms: Term) -> Guard:
    """The guard that these tensors stand in the program itself, so that a law does not meet its own work."""
    return Guard(f"{', '.join(map(str, terms))} in the program", lambda *_: True, terms, in_program=True, bound=True)


def distinct(*terms: Term) -> Guard:
    """The guard that these tensors are not one and the same."""
    return Guard(f"{', '.join(map(str, terms))} distinct", lambda *_: True, terms, distinct=True, bound=True)


def positive(term: Term) -> Guard:
    """The guard that every element is above zero, or NaN."""
    return _valued(f"{term} positive", Fact(lower=SMALLEST), term)


def nonnegative(term: Term) -> Guard:
    """The guard that every element is +0.0 or above (not -0.0), or NaN."""
    return _valued(f"{term} nonnegative", Fact(lower=0.0), term)


def nonpositive(term: Term) -> Guard:
    """The guard that every element is -0.0 or below (not +0.0), or NaN."""
    return _valued(f"{term} nonpositive", Fact(upper=-0.0), term)


def nonzero(term: Term) -> Guard:
    """The guard that no element is a zero; one may be NaN."""
    return _valued(f"{term} nonzero", Fact(zero=False), term)


def between(term: Term, lower: float, upper: float) -> Guard:
    """The guard that every element is in [lower, upper], or NaN."""
    return _valued(f"{term} between {lower} and {upper}", Fact(lower, upper), term)


def defined(term: Term) -> Guard:
    """The guard that no element is NaN."""
    return _valued(f"{term} defined", Fact(nan=False), term)


def finite(term: Term) -> Guard:
    """The guard that no element is NaN or an infinity."""
    return _valued(f"{term} finite", Fact(-LARGEST, LARGEST, nan=False), term)


def symmetric(term: Term) -> Guard:
    """The guard that exchanging the last two axes changes no bit."""
    return Guard(f"{term} symmetric", _square, (term,), lambda: Fact(symmetric=True))


def at_least(term: Term, other: Term) -> Guard:
    """The guard that no element of `term` is below any of `other`, +0.0 and -0.0 apart; either may hold NaN."""
    return Guard(f"{term} at least {other}", lambda *_: True, (term, other), lambda other: other.above)


def at_most(term: Term, other: Term) -> Guard:
    """The guard that no element of `term` is above any of `other`, +0.0 and -0.0 apart; either may hold NaN."""
    return Guard(f"{term} at most {other}", lambda *_: True, (term, other), lambda other: other.below)


def judged(sentence: str, predicate: Callable[..., Any], *terms: Term) -> Guard:
    """The guard that `predicate` holds of the dtype of the first of `terms` and what is known of the values of each.

    The predicate reads `lower`, `upper`, `smallest` and `largest` of a `Fact`, and must hold where these are arrays.
    """
    return Guard(sentence, lambda *_: True, terms, judged=predicate)


def _valued(sentence: str, fact: Fact, term: Term) -> Guard:
    return Guard(sentence, lambda _: True, (term,), lambda: fact)


def _square(t: Any) -> bool:
    return t.rank >= 2 and t.shape[-1] == t.shape[-2]


def ascending(*attributes: Attr) -> Guard:
    """The guard that these axes or permutations are sorted: such a permutation moves nothing."""
    sentence = f"{', '.join(a.name for a in attributes)} ascending"
    return Guard(sentence, lambda *values: all(list(v) == sorted(v) for v in values), attributes)


def floating(*terms: Term) -> Guard:
    """The guard that these tensors hold floating-point numbers (integers wrap around, which breaks order and sign)."""
    sentence = f"{', '.join(map(str, terms))} floating"
    return Guard(sentence, lambda *types: all(kind(t.dtype) == "f" for t in types), terms)


@dataclass(frozen=True, eq=False)
class Law:
    """`lhs` equals `rhs` wherever `when` holds and both have one type.

    A side may be several terms, which are matched together and each become equal to the term at its place on the other
    side; the matched ones are then different tensors, and of two that may change places the law meets one order only.
    `exactness` is about real numbers. A law is about complex ones only where `complex` says how exact it is there, and
    about float8, and sums of bfloat16 (rounded after every element), only where it keeps every bit. `float16`: how
    exact it is of float16, where that is less: its range is so small that many a product or sum overflows. `both`: the
    law is read in both directions. `chain`: the operators (and the inverse, if any) whose chains the e-graph gives one
    order instead of rewriting them by this law (`procedures.chains`). `grows`: it may be used again on what it
    makes, for ever. `admitted`: it is not about numbers of which it is looser. `everywhere`: it is applied to work that
    runs once, when a program is built, too, which other laws leave alone. `check`: a law of the user's own is checked
    before it is used; False: its author vouches for it. Raises LawError when a side is ill-formed or ill-typed, or
    grows unsaid.
    """

    name: str
    lhs: Term | tuple[Term, ...]
    rhs: Term | tuple[Term, ...]
    when: tuple[Guard, ...] = ()
    exactness: Exactness = EXACT
    both: bool = False
    complex: Exactness | None = None
    float16: Exactness | None = None
    admitted: Exactness = APPROXIMATE
    chain: tuple[str, ...] | None = None
    grows: bool = False
    everywhere: bool = False
    check: bool = True
    family: str = field(default="", init=False)

    def __post_init__(self) -> None:
        from eqfuse.rewrites.language.refusals import misplaced, refuse

        misplaced(self)
        for side in (*self.lefts, *self.rights):
            if not isinstance(side, Term):
                raise LawError(f"law {self.name!r}: {side!r} is not a term")
        if len(self.lefts) != len(self.rights):
            raise LawError(f"law {self.name!r}: {len(self.lefts)} terms cannot equal {len(self.rights)}")
        bound = self._bind(self.lefts, self.rights)
        if self.both:
            self._bind(self.rights, self.lefts)
        for g in self.when:
            for value in g.args:
                if key(value) not in bound:
                    raise LawError(f"law {self.name!r}: guard {g.sentence!r} is about {value}, which is not matched")
        refuse(self)

    def _bind(self, lefts: tuple[Term, ...], rights: tuple[Term, ...]) -> set[tuple[str, str]]:
        for lhs in lefts:
            if lhs.op in (VARIABLE, LITERAL):
                raise LawError(f"law {self.name!r}: the side {lhs} matches every tensor; start it with an operator")
            if any(isinstance(a, Computed) for t in walk(lhs) for a in t.attrs):
                raise LawError(
                    f"law {self.name!r}: the matched side {lhs} holds a computed value; bind a variable instead"
                )
        bound = {name for lhs in lefts for name in names(lhs)}
        for rhs in rights:
            for missing in names(rhs):
                if missing not in bound:
                    by = ", ".join(map(str, lefts))
                    raise LawError(f"law {self.name!r}: the variable {missing[1]!r} of {rhs} is not bound by {by}")
        return bound

    @property
    def lefts(self) -> tuple[Term, ...]:
        """The terms of the left side."""
        return self.lhs if isinstance(self.lhs, tuple) else (self.lhs,)

    @property
    def rights(self) -> tuple[Term, ...]:
        """The terms of the right side, each equal to the one at its place on the left."""
        return self.rhs if isinstance(self.rhs, tuple) else (self.rhs,)

    def claims(self, dtypes: Iterable[np.dtype]) -> Exactness | None:
        """How exact the law says it is where tensors of `dtypes` occur; None: it is not about such."""
        dtypes = set(dtypes)
        found = {numbers(d) for d in dtypes}
        coarse = Numbers.COARSE in found or (self._adds and BFLOAT16 in dtypes)
        if coarse and self.exactness > EXACT:
            return None
        claimed: Exactness | None = self.exactness
        if Numbers.COMPLEX in found:
            claimed = self.complex
        elif FLOAT16 in dtypes:
            claimed = max(self.exactness, self.float16 or EXACT)
        return claimed if claimed is not None and claimed <= self.admitted else None

    @cached_property
    def _adds(self) -> bool:
        return any(t.op in ("sum", "prod", "window_sum") for side in (*self.lefts, *self.rights) for t in walk(side))

    @property
    def directions(self) -> tuple[tuple[str, tuple[Term, ...], tuple[Term, ...]], ...]:
        """(rule name, matched terms, made terms) of each direction."""
        forward = (self.name, self.lefts, self.rights)
        return (forward, (self.name + "~", self.rights, self.lefts)) if self.both else (forward,)

    def __str__(self) -> str:
        sign = "==" if self.both else "->"
        when = f"  when {' and '.join(g.sentence for g in self.when)}" if self.when else ""
        over = "" if self.complex is None else f", complex {self.complex.name}"
        over += "" if self.float16 is None else f", float16 {self.float16.name}"
        over += "" if self.check else ", not checked"
        equations = ", ".join(f"{a} {sign} {b}" for a, b in zip(self.lefts, self.rights, strict=True))
        return f"{self.name}: {equations}{when}  [{self.exactness.name}{over}]"


def over_complex(laws: list[Law], exactness: Exactness | None, **otherwise: Exactness | None) -> list[Law]:
    """`laws` with what they do to complex numbers: `exactness`, or what `otherwise` says of a law by its name; what is
    APPROXIMATE of real numbers is so of complex ones."""
    if unknown := otherwise.keys() - {law.name for law in laws}:
        raise LawError(f"there is no law {', '.join(sorted(unknown))} here")
    return [restated(law, complex=_no_stricter(otherwise.get(law.name, exactness), law.exactness)) for law in laws]


def _no_stricter(claimed: Exactness | None, real: Exactness) -> Exactness | None:
    return claimed if claimed is None or real < APPROXIMATE else APPROXIMATE


def over_float16(laws: list[Law], *names: str) -> list[Law]:
    """`laws`, of which those of `names` are APPROXIMATE of float16."""
    if unknown := set(names) - {law.name for law in laws}:
        raise LawError(f"there is no law {', '.join(sorted(unknown))} here")
    return [restated(law, float16=APPROXIMATE) if law.name in names else law for law in laws]


def restated(law: Law, **claims: Any) -> Law:
    """`law` with other claims about the same sides, which need no second look."""
    other = object.__new__(Law)
    vars(other).update(vars(law) | claims)
    return other


__all__ = [
    "APPROXIMATE",
    "Attr",
    "Computed",
    "EXACT",
    "Exactness",
    "Guard",
    "LITERAL",
    "Law",
    "REASSOCIATES",
    "Term",
    "VARIABLE",
    "apply",
    "ascending",
    "at_least",
    "at_most",
    "attrs",
    "between",
    "bounded",
    "computed",
    "defined",
    "finite",
    "floating",
    "in_program",
    "guard",
    "is_constant",
    "names",
    "nonnegative",
    "nonpositive",
    "nonzero",
    "over_complex",
    "positive",
    "restated",
    "symmetric",
    "tensors",
    "varies",
    "walk",
]
