"""The law book: families of laws that are data, and the choice among them.

In: what a user asks for (`laws=`, `numerics=`). Out: laws in book order. Next stop: `eqfuse.egraph.saturate`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from eqfuse.errors import LawError, OptionError
from eqfuse.rewrites import (
    activations,
    algebra,
    blocks,
    casts,
    contractions,
    exponentials,
    gathers,
    grouping,
    joins,
    lattice,
    layout,
    logic,
    networks,
    order_statistics,
    pooling,
    quantisation,
    ranges,
    reductions,
    regrouping,
    rounding,
    softmax,
    trigonometry,
    updates,
)
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Attr,
    Exactness,
    Guard,
    Law,
    Term,
    apply,
    ascending,
    at_least,
    at_most,
    attrs,
    between,
    bounded,
    computed,
    defined,
    finite,
    floating,
    guard,
    in_program,
    is_constant,
    nonnegative,
    nonpositive,
    nonzero,
    positive,
    restated,
    symmetric,
    tensors,
    varies,
)
from eqfuse.rewrites.procedures import chains, short_axes

_BOOK: dict[str, list[Law]] = {
    "algebra": algebra.LAWS,
    "chains": chains.LAWS,
    "exponentials": exponentials.LAWS,
    "trigonometry": trigonometry.LAWS,
    "activations": activations.LAWS,
    "rounding": rounding.LAWS,
    "lattice": lattice.LAWS,
    "logic": logic.LAWS,
    "ranges": ranges.LAWS,
    "casts": casts.LAWS,
    "reductions": reductions.LAWS,
    "short_axes": short_axes.LAWS,
    "contractions": contractions.LAWS,
    "layout": layout.LAWS,
    "regrouping": regrouping.LAWS,
    "joins": joins.LAWS,
    "updates": updates.LAWS,
    "gathers": gathers.LAWS,
    "order_statistics": order_statistics.LAWS,
    "networks": networks.LAWS + pooling.LAWS,
    "softmax": softmax.LAWS,
    "quantisation": quantisation.LAWS,
    "blocks": blocks.LAWS,
    "distribution": algebra.DISTRIBUTION,
    "grouping": grouping.LAWS,
    "expansion": contractions.EXPANSION + networks.EXPANSION,
}
FAMILIES: dict[str, tuple[Law, ...]] = {
    family: tuple(restated(law, family=family) for law in laws) for family, laws in _BOOK.items()
}
OPT_IN = frozenset({"distribution", "expansion", "grouping"})  # may grow without end, or seldom pay: only by name

_CLASSES = {"strict": EXACT, "reassociate": REASSOCIATES, "approximate": APPROXIMATE}


@cache
def book() -> tuple[Law, ...]:
    """Every law of every family, opt-in families included."""
    return tuple(law for family in FAMILIES.values() for law in family)


def laws_named(laws: Any) -> tuple[Law, ...]:
    """The laws that `laws` names: "all", "none", a family, a law's name, a `Law`, or a list of these.

    A `Law` of the user's own takes the place of the book's law of that name.
    """
    if not isinstance(laws, list | tuple):
        return _named(laws)
    chosen: dict[str, Law] = {}
    for item in laws:
        for law in _named(item):
            old = chosen.setdefault(law.name, law)
            if old is not law and not old.family and not law.family:
                raise LawError(f"two laws are named {law.name!r}; rename one")
            chosen[law.name] = law if not law.family else old
    return tuple(chosen.values())


def _named(item: Any) -> tuple[Law, ...]:
    if isinstance(item, Law):
        return (item,)
    if isinstance(item, str):
        return _by_name(item)
    raise _unknown(item)


@cache
def _by_name(item: str) -> tuple[Law, ...]:
    if item == "none":
        return ()
    if item == "all":
        return tuple(law for name, family in FAMILIES.items() if name not in OPT_IN for law in family)
    if item in FAMILIES:
        return FAMILIES[item]
    by_name = [law for law in book() if law.name == item]
    if by_name:
        return tuple(by_name)
    raise _unknown(item)


def _unknown(item: object) -> LawError:
    families = ", ".join(FAMILIES)
    return LawError(f"no law or family is named {item!r}; families: {families}; 'all' and 'none' are sets")


def numerics_named(numerics: Any) -> str:
    """`numerics`, where it names numerics; else OptionError."""
    if not isinstance(numerics, str) or numerics not in _CLASSES:
        raise OptionError(f"numerics is {numerics!r}; choose one of {', '.join(_CLASSES)}")
    return numerics


def admitted(laws: tuple[Law, ...], numerics: str) -> tuple[Law, ...]:
    """Those of `laws` that `numerics` ("strict", "reassociate", "approximate") allows."""
    return _admitted(laws, _CLASSES[numerics_named(numerics)])


@lru_cache(maxsize=64)
def _admitted(laws: tuple[Law, ...], strictest: Exactness) -> tuple[Law, ...]:
    return tuple(_within(law, strictest) for law in laws if law.exactness <= strictest)


@lru_cache(maxsize=8192)
def _within(law: Law, strictest: Exactness) -> Law:
    """`law` without what it says about numbers of which it is looser than `strictest`."""
    looser = any(claim is not None and claim > strictest for claim in (law.complex, law.float16))
    return restated(law, admitted=strictest) if looser else law


__all__ = [
    "APPROXIMATE",
    "EXACT",
    "FAMILIES",
    "OPT_IN",
    "REASSOCIATES",
    "Attr",
    "Exactness",
    "Guard",
    "Law",
    "Term",
    "admitted",
    "apply",
    "ascending",
    "attrs",
    "between",
    "nonpositive",
    "defined",
    "at_most",
    "at_least",
    "book",
    "bounded",
    "computed",
    "finite",
    "floating",
    "in_program",
    "guard",
    "is_constant",
    "nonnegative",
    "nonzero",
    "positive",
    "laws_named",
    "symmetric",
    "tensors",
    "varies",
]
