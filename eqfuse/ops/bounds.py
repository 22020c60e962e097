"""Bounds of what is computed in a dtype: rounded outwards to few numbers, or the whole range where it would wrap.

In: bounds of the exact value. Out: a `Fact`. `eqfuse/ops/ranges.py` has the rule of each operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import ml_dtypes
import numpy as np

from eqfuse.dtypes import kind
from eqfuse.ops.facts import INFINITY, Fact, of_dtype, sort_key
from eqfuse.ops.types import TensorType


@cache
def _limits(dtype: np.dtype) -> tuple[float, float]:
    """The smallest normal and the largest number of a floating dtype."""
    info = ml_dtypes.finfo(dtype)
    return float(info.smallest_normal), float(info.max)


def _down(value: float, dtype: np.dtype) -> float:
    """A number at most `value` that every floating dtype has (three significant bits), within the range of `dtype`.

    So few numbers also bound how often the bounds of a value that depends on itself can move.
    """
    if value == 0 or math.isinf(value):
        return value
    tiny, most = _limits(dtype)
    if abs(value) < tiny:
        return 0.0 if value > 0 else -tiny
    mantissa, exponent = math.frexp(max(-most, min(most, value)))
    bound = number(lambda: math.ldexp(math.floor(mantissa * 8), exponent - 3), -INFINITY)  # no sum of three bits less
    return -INFINITY if bound < -most or value < -most else bound


def _floor(value: int) -> int:
    """The three highest bits of `value`, rounded down."""
    rest = max(0, value.bit_length() - 3)
    return value >> rest << rest


def rounded_between(lower: float, upper: float, out: TensorType, nan: bool, zero: bool = True) -> Fact:
    """A result computed in `out`'s dtype whose exact value lies in [lower, upper]."""
    if kind(out.dtype) != "f":
        whole = of_dtype(out.dtype)
        if out.dtype.kind == "b" or not (whole.lower <= lower and upper <= whole.upper):
            return whole  # it wraps around
        return Fact(max(whole.lower, _floor(int(lower))), min(whole.upper, -_floor(-int(upper))), False, zero)
    lower = -INFINITY if lower != lower else _down(lower, out.dtype)
    upper = INFINITY if upper != upper else -_down(-upper, out.dtype)
    return Fact(lower, upper, nan, zero)


def hull(values: Sequence[float], out: TensorType, nan: bool) -> Fact:
    return rounded_between(min(values, key=sort_key), max(values, key=sort_key), out, nan)


def times(x: float, y: float) -> float:
    """x * y, where 0 * inf (a NaN, noted apart) counts as the zero between."""
    if x == 0 or y == 0:
        return math.copysign(0.0, math.copysign(1.0, x) * math.copysign(1.0, y))
    return number(lambda: x * y, math.copysign(INFINITY, x) * math.copysign(1.0, y))


def number(compute: Callable[[], float], overflown: float) -> float:
    try:
        return compute()
    except OverflowError:
        return overflown
