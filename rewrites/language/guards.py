"""Guards: the conditions of a law, each said once for the e-graph and for the generated test.

In: variables of a law, and what must hold of them. Out: `Guard`, of which a `Law` has several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.errors import LawError
from eqfuse.ops.facts import LARGEST, SMALLEST, Fact
from eqfuse.rewrites.language.term import Attr, Term, about


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


def nonempty(term: Term) -> Guard:
    """The guard that there are elements."""
    return Guard(f"{term} is not empty", lambda t: t.size > 0, (term,))


def floating(*terms: Term) -> Guard:
    """The guard that these tensors hold floating-point numbers (integers wrap around, which breaks order and sign)."""
    sentence = f"{', '.join(map(str, terms))} floating"
    return Guard(sentence, lambda *types: all(kind(t.dtype) == "f" for t in types), terms)
