"""Redundant laws: what others derive is found, and what they do not, or only less exactly, is kept."""

from __future__ import annotations

from typing import Any

import pytest

from eqfuse.benches.redundant_laws import derivable, redundant
from eqfuse.rewrites import APPROXIMATE, EXACT, REASSOCIATES, Law, apply, laws_named, tensors
from eqfuse.rewrites.language.words import logical_not, logical_or

x, y = tensors("x y")
BOOK = laws_named("all")


def law(lhs: Any, rhs: Any, exactness: Any = EXACT) -> Law:
    return Law("asked_about", lhs, rhs, exactness=exactness)


@pytest.mark.slow
@pytest.mark.parametrize("derived", [
    law(y + x, x + y),
    law(logical_or(x > y, apply("equal", x, y)), x >= y),
], ids=str)  # fmt: skip
def test_what_other_laws_make_in_a_few_rounds_is_redundant(derived: Law) -> None:
    assert derivable(derived, BOOK)


@pytest.mark.parametrize("own", [law(x * y, x + y), law(logical_not(x < y), x * y)], ids=str)
def test_what_no_other_law_makes_is_not(own: Law) -> None:
    assert not derivable(own, BOOK)


@pytest.mark.slow
def test_a_law_is_not_redundant_by_laws_that_are_less_exact() -> None:
    assert derivable(law(apply("equal", x - y, 0.0), apply("equal", x, y), REASSOCIATES), BOOK)
    assert not derivable(law(apply("equal", x - y, 0.0), apply("equal", x, y)), BOOK)


def test_of_two_laws_that_derive_each_other_one_goes() -> None:
    twins = [Law(name, y * x, x * y, exactness=EXACT) for name in ("one", "other")]
    assert list(redundant(twins, twins)) == twins[:1]


def test_a_law_that_makes_parts_is_not_redundant_by_one_that_joins_them() -> None:
    parts, whole = apply("log", x) + apply("log", y), apply("log", x * y)
    joins = Law("joins", parts, whole, exactness=APPROXIMATE)
    assert derivable(law(parts, whole, APPROXIMATE), [joins])
    assert not derivable(law(whole, parts, APPROXIMATE), [joins])


def test_what_the_book_says_of_less_it_says_once() -> None:
    of_less = [law for law in BOOK if law.name in ("less_of_negatives", "transpose_out_of_less")]
    assert len(of_less) == 2 and not list(redundant(BOOK, of_less))
