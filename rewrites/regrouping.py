"""Laws of reshapes that merge or split whole axes: work on elements does not see them, where it broadcasts alike.

In: nothing. Out: `LAWS`. Such reshapes move outwards, as in `layout`, where they meet and cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqfuse.ops import row
from eqfuse.ops.types import Shape, TensorType
from eqfuse.rewrites.language.law import EXACT, REASSOCIATES, Law, Term, apply, attrs, guard, tensors
from eqfuse.rewrites.language.views import axis_groups
from eqfuse.rewrites.layout import MOVED_OPERATORS, of_complex

x, y = tensors("x y")
s, t = attrs("s t")



def _meets_alike(x: TensorType, s: Shape, y: TensorType, t: Shape) -> bool:
    """Does each element of `y` reshaped to `t` meet the elements of `x` reshaped to `s` that it meets anyway?"""
    if y.rank > x.rank or len(t) > len(s) or 0 in (*x.shape, *y.shape):
        return False
    small, other = (1,) * (x.rank - y.rank) + y.shape, (1,) * (len(s) - len(t)) + t
    if any(n not in (1, m) for n, m in zip((*small, *other), (*x.shape, *s), strict=True)):
        return False
    return all(
        _spread(small, x.shape, mine) == _spread(other, s, theirs) is not None
        for mine, theirs in axis_groups(x.shape, s) or ()
    )


def _spread(shape: Shape, full: Shape, axes: list[int]) -> bool | None:
    """Is `shape` 1 along all of `axes` (True), or as long as `full` (False)? None where it is each along some."""
    kinds = {shape[a] == 1 for a in axes}
    return None if len(kinds) > 1 else kinds == {True}


def _laws(op: str) -> list[Law]:
    exactness = REASSOCIATES if op == "power" else EXACT  # as in `layout`
    alike = guard("y meets x alike, reshaped or not", _meets_alike, x, s, y, t)

    def law(side: str, g: Callable[[Any, Any], Term]) -> Law:
        return Law(f"regrouping_out_of_{op}{side}", g(x.reshape(s), y.reshape(t)), g(x, y).reshape(s),
                   (alike,), exactness)  # fmt: skip

    left = law("", lambda a, b: apply(op, a, b))
    return [left] if row(op).commutes else [left, law("_right", lambda a, b: apply(op, b, a))]


LAWS = [of_complex(law) for op in MOVED_OPERATORS for law in _laws(op)]
