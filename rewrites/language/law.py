"""Laws as data: two sides over tensor variables, guards, and what the law does to floating point.

In: terms, guards and exactness, whose names can be had here too. Out: `Law`, read by `eqfuse.egraph.rules` (the
e-graph's rule) and by `checking.check` (the generated test). Both read the same sides and the same guards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from eqfuse.dtypes import BFLOAT16, FLOAT16, Numbers, numbers
from eqfuse.errors import LawError
from eqfuse.rewrites.language.exactness import APPROXIMATE, EXACT, REASSOCIATES, Exactness
from eqfuse.rewrites.language.guards import (
    Guard,
    ascending,
    at_least,
    at_most,
    between,
    bounded,
    defined,
    distinct,
    finite,
    floating,
    guard,
    in_program,
    is_constant,
    nonempty,
    nonnegative,
    nonpositive,
    nonzero,
    positive,
    symmetric,
    varies,
)
from eqfuse.rewrites.language.refusals import misplaced, refuse_law
from eqfuse.rewrites.language.term import (
    LITERAL,
    VARIABLE,
    Attr,
    Computation,
    Term,
    apply,
    attrs,
    computed,
    names,
    tensors,
    variable_key,
    walk,
)
from eqfuse.summary import cut

MOST_ARGUMENTS = 16  # of an operator in a law: the e-graph takes those of more as one vector, which no pattern reads


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """`lhs` equals `rhs` wherever `when` holds and both have one type.

    A side may be several terms, which are matched together and each become equal to the term at its place on the other
    side; the left ones are then different tensors, and of two that may change places the law meets one order only.
    `exactness` is about real numbers. A law is about complex ones only where `complex` says how exact it is there, and
    about float8, and sums of bfloat16 (rounded after every element), only where it keeps every bit. `float16`: how
    exact it is of float16, where that is less: its range is so small that many a product or sum overflows. `both`: the
    law is read in both directions. `chain`: the operators (and the inverse, if any) whose chains the e-graph gives one
    order instead of rewriting them by this law (`procedures.chains`). `slices`: a reduction, and what joins the results
    of its slices along a short axis, which the e-graph takes all at once, where that saves an array of all pairs
    (`procedures.short_axes`). `grows`: it may be used again on what it makes, for ever. `admitted`: it is not about
    numbers of which it is looser. `everywhere`: it is applied to work that runs once, when a program is built, too,
    which other laws leave alone. `check`: a law of the user's own is checked before it is used; False: its author
    vouches for it. Raises LawError when a side is ill-formed or ill-typed, or grows unsaid.
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
    slices: tuple[str, str] | None = None
    grows: bool = False
    everywhere: bool = False
    check: bool = True
    family: str = field(default="", init=False)

    def __post_init__(self) -> None:
        misplaced(self)
        for side in (*self.lefts, *self.rights):
            if not isinstance(side, Term):
                raise LawError(f"law {self.name!r}: {side!r} is not a term")
            if any(len(term.args) > MOST_ARGUMENTS for term in walk(side)):
                raise LawError(f"law {self.name!r}: {cut(str(side))} has more than {MOST_ARGUMENTS} arguments")
        if len(self.lefts) != len(self.rights):
            raise LawError(f"law {self.name!r}: {len(self.lefts)} terms cannot equal {len(self.rights)}")
        bound = self._bind(self.lefts, self.rights)
        if self.both:
            self._bind(self.rights, self.lefts)
        for g in self.when:
            for value in g.args:
                if variable_key(value) not in bound:
                    raise LawError(f"law {self.name!r}: guard {g.sentence!r} is about {value}, which is not matched")
        refuse_law(self)

    def _bind(self, lefts: tuple[Term, ...], rights: tuple[Term, ...]) -> set[tuple[str, str]]:
        for lhs in lefts:
            if lhs.op in (VARIABLE, LITERAL):
                raise LawError(f"law {self.name!r}: the side {lhs} matches every tensor; start it with an operator")
            if any(isinstance(a, Computation) for t in walk(lhs) for a in t.attrs):
                raise LawError(
                    f"law {self.name!r}: the left side {lhs} holds a computed value; bind a variable instead"
                )
        bound = {name for lhs in lefts for name in names(lhs)}
        for rhs in rights:
            for missing in names(rhs):
                if missing not in bound:
                    by = ", ".join(map(str, lefts))
                    raise LawError(f"law {self.name!r}: the variable {missing[1]!r} of {rhs} is not bound by {by}")
        return bound

    @property
    def has_procedure(self) -> bool:
        """Is it a procedure that finds what it makes equal, and not a match of its sides?"""
        return self.chain is not None or self.slices is not None

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
        kinds = {numbers(d) for d in dtypes}
        coarse = Numbers.COARSE in kinds or (self._adds and BFLOAT16 in dtypes)
        if coarse and self.exactness > EXACT:
            return None
        claimed: Exactness | None = self.exactness
        if Numbers.COMPLEX in kinds:
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

    def __repr__(self) -> str:
        return cut(f"<law {self}>")

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
    "Computation",
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
    "distinct",
    "finite",
    "floating",
    "guard",
    "in_program",
    "is_constant",
    "names",
    "nonempty",
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
