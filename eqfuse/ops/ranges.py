"""What each operator makes of what is known of its arguments' values: one row per operator that keeps or makes a range.

In: the arguments' facts and types, the attributes, the result's type. Out: the result's `Fact`. An operator without a
row gives what its dtype alone says. Rows bound what NumPy computes, not what it approximates: a sum may overflow to an
infinity, exp underflows to 0, and a bound that a rounding may pass is moved outwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from eqfuse.dtypes import FLOAT8, epsilon, kind
from eqfuse.ops import TABLE, row
from eqfuse.ops.bounds import hull, number, rounded_between, times
from eqfuse.ops.facts import INFINITY, SMALLEST, Fact, of_array, of_dtype, sort_key
from eqfuse.ops.row import Role, Types
from eqfuse.ops.types import TensorType

Facts = Sequence[Fact]
RangeRule = Callable[[Facts, Types, TensorType, tuple], Fact]

_SLACK = 2.0**-8  # no library's exp, log or tanh is off by more than this part of its result


def range_of(op: str, attrs: tuple, types: Types, facts: Facts) -> Fact:
    """What is known of ``op(*arguments, *attrs)``."""
    if op == "square" and types[0].dtype.kind == "b":  # NumPy squares no truth values: twice one is that one
        return of_dtype(types[0].dtype).meet(facts[0])
    out = row(op).type(types, attrs)
    rule = RANGES.get(op)
    if out.dtype.kind == "c" and op not in ("const", "transpose"):
        rule = None
    facts = [of_dtype(t.dtype).meet(f) for f, t in zip(facts, types, strict=True)]  # at first it may be less than that
    fact = of_dtype(out.dtype) if rule is None else rule(facts, types, out, attrs)
    if out.dtype in FLOAT8:
        fact = replace(fact, nan=True)  # float8_e4m3fn has no infinity and overflows to NaN
    if row(op).role is Role.ELEMENTWISE and out.rank >= 2 and out.shape[-1] == out.shape[-2]:
        symmetric = all(f.symmetric or t.extent(-1) == t.extent(-2) == 1 for f, t in zip(facts, types, strict=True))
        fact = replace(fact, symmetric=symmetric)
    return fact


def exchanges(axes: tuple[int, ...]) -> bool:
    """Does a transpose by `axes` exchange the last two axes, and no others?"""
    n = len(axes)
    return n >= 2 and axes == (*range(n - 2), n - 1, n - 2)


# arithmetic -------------------------------------------------------------------------------------------------------


def _add(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    a, b = facts
    opposite = (a.upper == INFINITY and b.lower == -INFINITY) or (a.lower == -INFINITY and b.upper == INFINITY)
    return rounded_between(a.lower + b.lower, a.upper + b.upper, out, a.nan or b.nan or opposite)


def _negated(a: Fact) -> Fact:
    return Fact(-a.upper, -a.lower, a.nan, a.zero)


def _negative(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    a = _negated(facts[0])
    return a if kind(out.dtype) == "f" else rounded_between(a.lower, a.upper, out, False, a.zero)


def _subtract(facts: Facts, types: Types, out: TensorType, attrs: tuple) -> Fact:
    a, b = facts
    return _add((a, _negated(b)), types, out, attrs)


def _product(a: Fact, b: Fact, out: TensorType) -> Fact:
    corners = [times(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    undefined = (a.zero and b.infinite) or (b.zero and a.infinite)
    return hull(corners, out, a.nan or b.nan or undefined)


def _multiply(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    return _product(facts[0], facts[1], out)


def _quotient(x: float, y: float) -> list[float]:
    """x / y; where that is undefined (a NaN, noted apart), the ends of what numbers near x and y give."""
    sign = math.copysign(1.0, x) * math.copysign(1.0, y)
    if (x == 0 and y == 0) or (math.isinf(x) and math.isinf(y)):
        return [sign * 0.0, sign * INFINITY]
    return [sign * INFINITY if y == 0 else number(lambda: x / y, sign * INFINITY)]


def _divide(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    a, b = facts
    nan = a.nan or b.nan or (a.zero and b.zero) or (a.infinite and b.infinite)
    one_sign = sort_key(b.lower) >= (0, 1) or sort_key(b.upper) <= (0, -1)
    corners = [q for x in (a.lower, a.upper) for y in (b.lower, b.upper) for q in _quotient(x, y)]
    return hull(corners, out, nan) if one_sign else Fact(nan=nan)


def _reciprocal(facts: Facts, types: Types, out: TensorType, attrs: tuple) -> Fact:
    if kind(out.dtype) != "f":
        return of_dtype(out.dtype)
    return _divide((Fact(1.0, 1.0, False), *facts), types, out, attrs)


def _magnitude(a: Fact) -> Fact:
    least = 0.0 if a.lower <= 0 <= a.upper else min(abs(a.lower), abs(a.upper))
    return Fact(least, max(abs(a.lower), abs(a.upper)), a.nan, a.zero)


def _abs(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    a = _magnitude(facts[0])
    return a if kind(out.dtype) == "f" else rounded_between(a.lower, a.upper, out, False, a.zero)


def _square(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    a = _magnitude(facts[0])
    return hull([times(a.lower, a.lower), times(a.upper, a.upper)], out, a.nan)


def _fmod(facts: Facts, types: Types, out: TensorType, attrs: tuple) -> Fact:
    """Of the dividend's sign, and no larger than it. Whole numbers by 0 give 0."""
    a, b = facts
    size = min(_magnitude(a).upper, _magnitude(b).upper)
    lower, upper = (-size if sort_key(a.lower) < (0, 1) else 0.0), (size if sort_key(a.upper) >= (0, 1) else -0.0)
    return rounded_between(lower, upper, out, a.nan or b.nan or a.infinite or b.zero)


def _power(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    a, b = facts
    even = b.lower == b.upper and b.lower % 2 == 0
    if kind(out.dtype) == "f" and (even or sort_key(a.lower) >= (0, 1)):
        return Fact(0.0, INFINITY, a.nan or b.nan)
    return of_dtype(out.dtype)


# choices ----------------------------------------------------------------------------------------------------------


def _larger(x: float, y: float) -> float:
    """The lower bound of a maximum: of zeros NumPy gives any."""
    largest = max(x, y, key=sort_key)
    return -0.0 if largest == 0 and sort_key(min(x, y, key=sort_key)) < (0, 1) else largest


def _same_kind(lower: float, upper: float, out: TensorType, nan: bool, zero: bool) -> Fact:
    """Bounds that are elements of an array of `out`'s dtype."""
    return Fact(lower, upper, nan, zero) if kind(out.dtype) == "f" else Fact(int(lower), int(upper), False, zero)


def _maximum(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    a, b = facts
    upper = max(a.upper, b.upper, key=sort_key)
    return _same_kind(_larger(a.lower, b.lower), upper, out, a.nan or b.nan, a.zero or b.zero)


def _minimum(facts: Facts, types: Types, out: TensorType, attrs: tuple) -> Fact:
    a, b = facts
    upper = -_larger(-a.upper, -b.upper)
    return _same_kind(min(a.lower, b.lower, key=sort_key), upper, out, a.nan or b.nan, a.zero or b.zero)


def _passing_nan(rule: RangeRule) -> RangeRule:
    """`rule` for fmax and fmin, which give the other argument where one is NaN."""

    def call(facts: Facts, types: Types, out: TensorType, attrs: tuple) -> Fact:
        a, b = facts
        fact = rule(facts, types, out, attrs)
        if a.nan:
            fact = fact.join(b)
        if b.nan:
            fact = fact.join(a)
        return Fact(fact.lower, fact.upper, a.nan and b.nan, fact.zero)

    return call


def _where(facts: Facts, _types: Types, _out: TensorType, _attrs: tuple) -> Fact:
    return facts[1].join(facts[2])


def _any_of(facts: Facts, _types: Types, _out: TensorType, _attrs: tuple) -> Fact:
    return reduce(Fact.join, facts)


def _element(facts: Facts, _types: Types, _out: TensorType, _attrs: tuple) -> Fact:
    """Every element of the result is one of the first argument's."""
    a = facts[0]
    return Fact(a.lower, a.upper, a.nan, a.zero)


def _window_max(facts: Facts, types: Types, out: TensorType, attrs: tuple) -> Fact:
    """Windows over nothing hold padding alone, which is as small as the dtype has it."""
    return _element(facts, types, out, attrs) if types[0].size else of_dtype(out.dtype)


def _transpose(facts: Facts, types: Types, out: TensorType, attrs: tuple) -> Fact:
    (axes,) = attrs
    return facts[0] if exchanges(axes) else _element(facts, types, out, attrs)


def _cast(facts: Facts, types: Types, out: TensorType, _attrs: tuple) -> Fact:
    (a,), source = facts, types[0].dtype
    whole = of_dtype(out.dtype)
    if source.kind == "c":
        return whole
    if out.dtype.kind == "b":
        return Fact(0 if a.zero else 1, 1, False)
    if kind(out.dtype) == "f":
        outer = rounded_between(a.lower, a.upper, out, a.nan)
        lower = float(a.lower) if _has(out.dtype, a.lower) else outer.lower
        upper = float(a.upper) if _has(out.dtype, a.upper) else outer.upper
        return Fact(lower, upper, outer.nan)
    if a.nan or not (whole.lower <= a.lower and a.upper <= whole.upper):
        return whole
    return Fact(math.trunc(a.lower), math.trunc(a.upper), False)


def _has(dtype: np.dtype, value: float) -> bool:
    with np.errstate(over="ignore"):
        return float(dtype.type(float(value))) == value


# functions --------------------------------------------------------------------------------------------------------


def _monotone(
    function: Callable[[float], float],
    least: float = -INFINITY,
    most: float = INFINITY,
    start: float = -INFINITY,
) -> RangeRule:
    """A function that ascends from `least` to `most` from `start` on, and is NaN below."""

    def clamped(value: float) -> float:
        if value <= start:
            return least
        return most if value == INFINITY else min(most, max(least, number(lambda: float(function(value)), most)))

    def rule(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
        (a,) = facts
        lower, upper = clamped(a.lower), clamped(a.upper)
        if lower and math.isfinite(lower):
            lower = max(least, lower - abs(lower) * _SLACK)
        if upper and math.isfinite(upper):
            upper = min(most, upper + abs(upper) * _SLACK)
        nan = a.nan or a.lower < start
        return rounded_between(lower, upper, out, nan)

    return rule


def _always(lower: float, upper: float, at_infinity: bool = False) -> RangeRule:
    """`at_infinity`: an infinity gives NaN."""

    def rule(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
        nan = any(f.nan or (at_infinity and f.infinite) for f in facts)
        return rounded_between(lower, upper, out, nan)

    return rule


def _sqrt(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    (a,) = facts
    lower = -0.0 if a.lower < 0 else math.sqrt(a.lower)
    return rounded_between(lower, math.sqrt(max(a.upper, 0.0)), out, a.nan or a.lower < 0, a.zero)


def _sign(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
    (a,) = facts
    lower = -1 if a.lower < 0 else 1 if a.lower > 0 else min(0.0, a.lower, key=sort_key)
    upper = 1 if a.upper > 0 else -1 if a.upper < 0 else 0.0
    return _same_kind(lower, upper, out, a.nan, a.zero)


def _rounding(function: Callable[[float], Any]) -> RangeRule:
    def rule(facts: Facts, _types: Types, out: TensorType, _attrs: tuple) -> Fact:
        (a,) = facts
        lower, upper = (float(function(np.float64(v))) for v in (a.lower, a.upper))
        return rounded_between(lower, upper, out, a.nan) if kind(out.dtype) == "f" else a

    return rule


# sums -------------------------------------------------------------------------------------------------------------


def _total(a: Fact, n: int, out: TensorType) -> Fact:
    """The sum of `n` such elements, in any order, each partial sum rounded. It may begin with +0."""
    if n == 0:
        return _ZERO
    if kind(out.dtype) != "f":
        return rounded_between(n * a.lower, n * a.upper, out, False)
    growth = 1 if n == 1 else 4 * n if n * epsilon(out.dtype) < 1 else INFINITY
    lower = a.lower if a.lower >= 0 else growth * a.lower  # no partial sum of positive numbers is below one of them
    upper = a.upper if a.upper < 0 else growth * a.upper if a.upper else 0.0
    fact = rounded_between(lower, upper, out, a.nan)
    opposite = n > 1 and fact.lower == -INFINITY and fact.upper == INFINITY
    return Fact(fact.lower, fact.upper, fact.nan or opposite)


def _count(types: Types, out: TensorType) -> int:
    return types[0].size // out.size if out.size else 0


def _sum(facts: Facts, types: Types, out: TensorType, _attrs: tuple) -> Fact:
    return _total(facts[0], _count(types, out), out)


def _prod(facts: Facts, types: Types, out: TensorType, _attrs: tuple) -> Fact:
    """In any order. Products of some elements may vanish where those of others overflow."""
    a = facts[0]
    if kind(out.dtype) != "f" or sort_key(a.lower) < (0, 1):
        return of_dtype(out.dtype)
    bounded = a.upper <= 1 and _count(types, out) > 0
    return Fact(0.0, 1.0 if bounded else INFINITY, a.nan or (a.lower < 1 < a.upper))


def _running_sum(facts: Facts, types: Types, out: TensorType, _attrs: tuple) -> Fact:
    return _total(facts[0], types[0].size, out).join(_total(facts[0], 1, out))


def _matmul(facts: Facts, types: Types, out: TensorType, _attrs: tuple) -> Fact:
    return _total(_product(facts[0], facts[1], out), types[0].shape[-1], out)


def _conv(facts: Facts, types: Types, out: TensorType, _attrs: tuple) -> Fact:
    padded = facts[0].join(_ZERO)
    return _total(_product(padded, facts[1], out), math.prod(types[1].shape[1:]), out)


def _window_sum(facts: Facts, _types: Types, out: TensorType, attrs: tuple) -> Fact:
    window, _strides, _padding = attrs
    return _total(facts[0].join(_ZERO), math.prod(window), out)


_ZERO = Fact(0.0, 0.0, False)


def _index(_facts: Facts, types: Types, out: TensorType, _attrs: tuple) -> Fact:
    return Fact(0, max(0, types[0].size - 1), False)


def _const(_facts: Facts, _types: Types, _out: TensorType, attrs: tuple) -> Fact:
    (literal,) = attrs
    return of_array(literal.array)


_INDEX_MAPS = [op.name for op in TABLE.values() if op.role in (Role.VIEW, Role.GATHER)]

RANGES: dict[str, RangeRule] = {
    "const": _const,
    "add": _add, "subtract": _subtract, "multiply": _multiply, "divide": _divide, "negative": _negative,
    "abs": _abs, "square": _square, "reciprocal": _reciprocal, "power": _power, "sqrt": _sqrt, "sign": _sign,
    "maximum": _maximum, "minimum": _minimum, "fmax": _passing_nan(_maximum), "fmin": _passing_nan(_minimum),
    "where": _where, "cast": _cast, "fmod": _fmod,
    "floor": _rounding(np.floor), "ceil": _rounding(np.ceil), "trunc": _rounding(np.trunc), "round": _rounding(np.rint),
    "exp": _monotone(lambda v: math.exp(v) or SMALLEST, 0.0), "exp2": _monotone(lambda v: 2.0**v or SMALLEST, 0.0),
    "expm1": _monotone(math.expm1, -1.0),
    "log": _monotone(math.log, start=0.0), "log2": _monotone(math.log2, start=0.0),
    "log10": _monotone(math.log10, start=0.0), "log1p": _monotone(math.log1p, start=-1.0),
    "tanh": _monotone(math.tanh, -1.0, 1.0), "erf": _monotone(math.erf, -1.0, 1.0), "erfc": _always(0.0, 2.0),
    "atan": _monotone(math.atan, -1.75, 1.75), "asinh": _monotone(math.asinh), "cbrt": _monotone(math.cbrt),
    "sin": _always(-1.0, 1.0, at_infinity=True), "cos": _always(-1.0, 1.0, at_infinity=True),
    "cosh": _always(0.875, INFINITY), "hypot": _always(0.0, INFINITY), "log_expit": _always(-INFINITY, 0.0),
    **dict.fromkeys((*_INDEX_MAPS, "max", "min", "sort", "partition"), _element), "transpose": _transpose,
    "concat": _any_of, "pad": _any_of, "window_max": _window_max,
    "sum": _sum, "prod": _prod, "cumsum": _running_sum, "matmul": _matmul, "conv": _conv, "window_sum": _window_sum,
    "argmax": _index, "argmin": _index, "argsort": _index,
}  # fmt: skip
