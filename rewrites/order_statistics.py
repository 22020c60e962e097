"""Laws of order statistics: medians and quantiles along one axis, of sorted values.

In: nothing. Out: `LAWS`. NumPy's own take tens of calls, and some time for every row; to sort short rows takes less,
and what follows the sort is arithmetic that fuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.ops.row import INT64
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.law import REASSOCIATES, Law, Term, apply, attrs, computed, guard, is_constant, tensors
from eqfuse.rewrites.language.words import floor, isnan, less, logical_or, minimum, where

x, q = tensors("x q")
(p,) = attrs("p")

Axes = tuple[int, ...]
WEIGHT = np.dtype(np.float64)


def _axis(p: Axes) -> int | None:
    return p[0] if len(p) == 1 else None


def _element(t: TensorType, p: Axes, place: Callable[[int], int]) -> tuple | None:
    """The slice of one element of every row: `place` says which of how many."""
    if len(p) != 1 or not t.extent(p[0]):
        return None
    i = place(t.extent(p[0]))
    return tuple([(i, i + 1, 1) if axis == t.rank + p[0] else (0, n, 1) for axis, n in enumerate(t.shape)])


def _last_place(t: TensorType, p: Axes) -> int | None:
    return t.extent(p[0]) - 1 if len(p) == 1 else None


def _extent(t: TensorType, p: Axes) -> int | None:
    return t.extent(p[0]) if len(p) == 1 else None


def _axis_first(t: TensorType, p: Axes) -> Axes | None:
    return (t.rank + p[0], *[axis for axis in range(t.rank) if axis != t.rank + p[0]]) if len(p) == 1 else None


def _results(t: TensorType, u: TensorType, p: Axes) -> Axes | None:
    """The shape of the quantiles `u` of `t`."""
    return (*u.shape, *[1 if axis - t.rank in p else n for axis, n in enumerate(t.shape)])


def _result_dtype(t: TensorType, u: TensorType) -> np.dtype:
    """A single quantile is as weak as a Python number."""
    return t.dtype if u.rank == 0 else WEIGHT


def _vector(u: TensorType) -> Axes:
    return (u.size,)


def _weights(u: TensorType, t: TensorType) -> Axes:
    """The shape of a weight for each quantile, before the axes of rows."""
    return (u.size, *[1] * (t.rank - 1))


def _is_real(t: TensorType) -> bool:
    return t.dtype in (np.float32, np.float64)


a_float = guard("x is float32 or float64", _is_real, x)
exact_places = guard("q is float64", lambda q: q.dtype == WEIGHT, q)  # NumPy takes elements at integers as they are
ordered: Any = apply("sort", x, attrs=(computed(_axis, p), False))


def element(place: Callable[[int], int]) -> Any:
    """Of sorted rows, the element at the `place` of how many."""
    return ordered.slice(computed(lambda t, p: _element(t, p, place), x, p))


LAST = element(lambda n: n - 1)
MIDDLE = element(lambda n: (n - 1) // 2) + element(lambda n: n // 2)


def or_nan(value: Any, last: Any) -> Term:
    """NumPy's answer for rows that hold a NaN, which is sorted behind all numbers."""
    return where(isnan(last), last, value)


def _by_sorting(op: str, share: Any) -> Law:
    """Linear interpolation, as NumPy writes it, between the two elements next to each quantile, a `share` of all. One
    that is out of range is beyond the last place, which is an error when it is taken."""
    last = computed(_last_place, x, p)
    place: Any = share.reshape(computed(_vector, q)) * last
    below = where(logical_or(less(place, 0.0), less(last, place)), computed(_extent, x, p), floor(place))
    weight: Any = (place - below).reshape(computed(_weights, q, x))

    def taken(places: Any) -> Any:
        picked = apply("take", ordered, places.cast(INT64), attrs=(computed(_axis, p),))
        return picked.transpose(computed(_axis_first, x, p))

    def as_result(value: Any) -> Any:
        return value.cast(computed(_result_dtype, x, q))

    low, high = taken(below), taken(minimum(below + 1.0, last))
    rise = as_result(high - low)
    after, before = as_result(low) + rise * as_result(weight), as_result(high) - rise * as_result(1.0 - weight)
    value: Any = where(less(weight, 0.5), after, before)
    right = or_nan(value.reshape(computed(_results, x, q, p)), as_result(LAST))
    return Law(f"{op}_by_sorting", apply(op, x, q, attrs=(p, "linear")), right,
        (a_float, exact_places, is_constant(q)), REASSOCIATES)  # fmt: skip


LAWS = [
    Law("median_by_sorting", apply("median", x, attrs=(p,)),
        or_nan(MIDDLE / 2.0, LAST), (a_float,), REASSOCIATES),
    _by_sorting("quantile", q),
    _by_sorting("percentile", q / 100.0),
]  # fmt: skip
