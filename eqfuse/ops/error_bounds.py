"""What each operator makes of the errors of its arguments: one row per operator.

In: a `Operation`, an operator on arguments with their errors. Out: the error of its result before that is rounded, in
float64, element by element and to first order. `eqfuse.ir.running_errors` adds the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from eqfuse.dtypes import kind
from eqfuse.ops import TABLE
from eqfuse.ops.approximation import Approximation, Operation
from eqfuse.ops.row import Role

# their rules count the roundings; ldexp rounds only what becomes subnormal, which the limits of the dtype count
WITH_ROUNDING = frozenset(("sum", "prod", "matmul", "conv", "window_sum", "cumsum", "ldexp"))
SUM_OPERATORS = frozenset(("add", "subtract"))  # of subnormal numbers they are exact
PRODUCTS = frozenset(("multiply", "divide", "square", "power", "exp", "exp2"))


def error_bound(s: Operation) -> Any:
    """The error of the result, but for its own rounding."""
    return (RULES.get(s.node.op) or (_smooth if s.node.row.role is Role.ELEMENTWISE else _untouched))(s)


# functions of elements -----------------------------------------------------------------------------------------------


def _sum_of_errors(s: Operation) -> Any:
    return sum(a.error for a in s.args)


def _product_of(a: Approximation, b: Approximation) -> Any:
    return a.magnitude * b.error + b.magnitude * a.error + a.error * b.error


def _multiply(s: Operation) -> Any:
    return _product_of(*s.args)


def _square(s: Operation) -> Any:
    return _product_of(s.args[0], s.args[0])


def _quotient_of(a: Approximation, b: Approximation, quotient: np.ndarray) -> Any:
    near = (a.error + Approximation(quotient, a.error).magnitude * b.error) / (b.magnitude - b.error)
    exact = (a.error == 0) & (b.error == 0)
    return np.where(exact, 0.0, np.where(b.magnitude > b.error, near, np.inf))


def _divide(s: Operation) -> Any:
    a, b = s.args
    return _quotient_of(a, b, s.value)


def _reciprocal(s: Operation) -> Any:
    return _quotient_of(Approximation(np.ones((), s.value.dtype), np.zeros(())), s.args[0], s.value)


def _extreme(s: Operation) -> Any:
    """Of max and min: the error of the one that is chosen, where it is sure which."""
    a, b = s.args
    sure = np.abs(a.wide - b.wide) > a.error + b.error
    chosen = np.where(a.value == s.value, a.error, b.error)
    return np.where(sure, chosen, np.maximum(a.error, b.error))


def _where(s: Operation) -> Any:
    condition, a, b = s.args
    either = np.maximum(a.error, b.error) + np.abs(a.wide - b.wide)
    return np.where(condition.inexact, either, np.where(condition.value, a.error, b.error))


def _compared(s: Operation) -> Any:
    a, b = s.args
    reach = a.error + b.error
    return 1.0 * ((reach > 0) & ((np.abs(a.wide - b.wide) <= reach) | np.isinf(reach)))


def _logic(s: Operation) -> Any:
    """What depends on an uncertain truth value is uncertain."""
    return 1.0 * np.logical_or.reduce(np.broadcast_arrays(*(a.inexact for a in s.args)))


def _question(s: Operation) -> Any:
    """Of isnan and its like: sure, unless nothing is said."""
    return 1.0 * np.isinf(s.args[0].error)


def _steps(s: Operation) -> Any:
    """Of functions that ascend in steps: what they are at the ends."""
    (a,) = s.args
    ends = [s.call(a.wide + side * a.error) for side in (-1, 1)]
    return np.where(a.inexact, np.maximum(*(np.abs(end - s.call(a.wide)) for end in ends)), 0.0)


def _whole_quotient(s: Operation) -> tuple[np.ndarray, np.ndarray]:
    """The whole quotient, and how far it may be off."""
    a, b = s.args
    ends = [np.floor_divide(a.wide + i * a.error, b.wide + j * b.error) for i, j in product((-1, 1), repeat=2)]
    center = np.floor_divide(a.wide, b.wide)
    off = np.maximum.reduce([np.abs(end - center) for end in ends])
    off = np.where(b.inexact & (b.magnitude <= b.error), np.inf, off)
    return center, np.where(a.inexact | b.inexact, off, 0.0)


def _floor_divide(s: Operation) -> Any:
    return _whole_quotient(s)[1]


def _remainder(s: Operation) -> Any:
    a, b = s.args
    whole, off = _whole_quotient(s)
    near = a.error + np.where(b.inexact, np.abs(whole) * b.error, 0.0)
    return np.where(off > 0, b.magnitude + b.error, near)


def _any_sign(a: Approximation) -> np.ndarray:
    """Where the sign may be either: a zero may have any."""
    return a.magnitude <= a.error


def _copysign(s: Operation) -> Any:
    a, b = s.args
    return a.error + np.where(_any_sign(b), 2 * a.magnitude, 0.0)


def _signbit(s: Operation) -> Any:
    return 1.0 * _any_sign(s.args[0])


def _atan2(s: Operation) -> Any:
    y, x = s.args
    return np.where(_any_sign(y) & (x.wide <= x.error), 2 * math.pi, 0.0) + _smooth(s)


def _ldexp(s: Operation) -> Any:
    a, exponent = s.args
    return np.where(exponent.inexact, np.inf, np.ldexp(a.error, exponent.value))


def _cast(s: Operation) -> Any:
    (a,) = s.args
    if s.floating:
        return a.error
    if s.node.dtype.kind == "b":
        return 1.0 * (a.inexact & _any_sign(a))
    ends = [np.abs(np.trunc(a.wide + side * a.error) - s.value) for side in (-1, 1)]
    return np.where(a.inexact, np.maximum(*ends), 0.0)


def _smooth(s: Operation) -> Any:
    """Of any other function: its slope over the errors, or over steps that float64 can tell apart."""
    error: Any = 0.0
    for i, a in enumerate(s.args):
        if not a.inexact.any():
            continue
        if kind(a.value.dtype) not in "fc":
            error = error + np.where(a.inexact, np.inf, 0.0)
            continue
        directions = (1, -1, 1j, -1j) if a.value.dtype.kind == "c" else (1, -1)
        error = error + np.maximum.reduce([_moved_by(s, i, direction) for direction in directions])
    return error


def _moved_by(s: Operation, position: int, direction: complex) -> np.ndarray:
    """What an error of one argument comes to, on one side."""
    a = s.args[position]
    size = np.maximum(a.error, 2.0**-20 * a.magnitude)
    center, near, far = (_moved(s, position, direction * by) for by in (0.0, a.error, size))
    slope = np.abs(far - center) / np.where(size > 0, size, 1.0)
    change = np.fmax(np.fmax(np.abs(near - center), 2 * slope * a.error), 0.0)
    return np.where(np.isnan(near) & ~np.isnan(center) | np.isinf(a.error), np.inf, change)


def _wave(s: Operation) -> Any:
    """Of sine and cosine: no steeper than 1, no farther apart than 2."""
    (a,) = s.args
    return _smooth(s) if s.node.dtype.kind == "c" else np.where(np.isinf(a.error), np.inf, np.minimum(a.error, 2.0))


def _tan(s: Operation) -> Any:
    (a,) = s.args
    return np.where(np.abs(np.cos(a.wide)) <= 2 * a.error, np.inf, _smooth(s))


def _moved(s: Operation, position: int, by: Any) -> np.ndarray:
    """The function, in float64, with one argument moved."""
    values = [a.wide if kind(a.value.dtype) in "fc" else a.value for a in s.args]
    values[position] = values[position] + by
    return s.call(*values)


# what moves data, sums and products ----------------------------------------------------------------------------------


def _index_map(s: Operation) -> Any:
    """The errors move with the elements."""
    data = s.args[0].value.dtype
    if kind(data) not in "fcb" or any(a.inexact.any() for a in s.args if a.value.dtype != data):
        return _untouched(s)
    return np.abs(s.call(*(a.error if a.value.dtype == data else a.value for a in s.args)))


def _untouched(s: Operation) -> Any:
    """Of any other operator: the same for the same arguments, otherwise nothing is said."""
    return np.inf if any(a.inexact.any() for a in s.args) else 0.0


def _terms(s: Operation) -> int:
    """Of how many terms an element of the result is the sum or product, at most."""
    n = s.node
    if n.op == "matmul":
        return s.args[0].value.shape[-1]
    if n.op == "conv":
        return math.prod(s.args[1].value.shape[1:])
    if n.op == "window_sum":
        return math.prod(n.attr("window"))
    if n.op == "cumsum":
        return n.shape[n.attr("axis")]
    return s.args[0].value.size // s.value.size if s.value.size else 0


def _sum(s: Operation) -> Any:
    """Of sums in any order: every partial sum rounds, and must be in range."""
    if not s.floating:
        return _untouched(s)
    (a,) = s.args
    total = s.call(a.magnitude + a.error)
    error = s.call(a.error) + s.arithmetic.roundings(_terms(s)) * s.unit * total
    return np.where(total > s.largest, np.inf, error)


def _prod(s: Operation) -> Any:
    """Of products in any order: every partial product rounds, and must be in range."""
    if not s.floating:
        return _untouched(s)
    (a,) = s.args
    above = s.call(a.magnitude + a.error)
    most = s.call(np.maximum(a.magnitude, 1.0))
    fewest = s.call(np.where(a.value == 0, 1.0, np.minimum(a.magnitude, 1.0)))
    smallest = max(s.least, float(ml_dtypes.finfo(s.node.dtype).smallest_normal))
    error = above - s.call(a.magnitude) + _terms(s) * s.unit * above
    return np.where((most > s.largest) | (fewest < smallest), np.inf, error)


def _contraction(s: Operation) -> Any:
    """Of products and convolutions: every product and partial sum rounds, in any order."""
    if not s.floating:
        return _untouched(s)
    a, b = s.args
    total = s.call(a.magnitude + a.error, b.magnitude + b.error)
    grown = total - s.call(a.magnitude, b.magnitude) if a.inexact.any() or b.inexact.any() else 0.0
    error = np.abs(grown) + (s.arithmetic.roundings(_terms(s)) + 1) * s.unit * total + _terms(s) * _lost_in_product(s)
    return np.where(total > s.largest, np.inf, error)


def _lost_in_product(s: Operation) -> float:
    """What a product of two elements loses at most by being too small."""
    smallest = [float(a.magnitude[a.magnitude > 0].min(initial=np.inf)) for a in s.args]
    if math.prod(smallest) >= max(s.least, float(ml_dtypes.finfo(s.node.dtype).smallest_normal)):
        return 0.0
    return s.underflow


def _largest_error(s: Operation) -> Any:
    """Of max and min over axes, and of sorting: as far off as the element that is farthest off."""
    axes = s.node.attr("axis" if s.node.op == "sort" else "axes")
    return s.args[0].error.max(axis=axes, keepdims=True, initial=0.0)


def _window_max(s: Operation) -> Any:
    return np.maximum(s.call(s.args[0].error), 0.0)


def _any_or_all(s: Operation) -> Any:
    (a,) = s.args
    axes = s.node.attr("axes")
    decides = (a.value != 0) == (s.node.op == "any")
    decided = (decides & ~a.inexact).any(axis=axes, keepdims=True)
    return 1.0 * (a.inexact.any(axis=axes, keepdims=True) & ~decided)


def _place(s: Operation) -> Any:
    """Of argmax and argmin: sure, where nothing else comes near."""
    (a,) = s.args
    (axis,) = s.node.attr("axes")
    best, error = (np.take_along_axis(v, s.value, axis) for v in (a.wide, a.error))
    near = (np.abs(a.wide - best) <= a.error + error) & (a.inexact | (error > 0))
    unsure = (near.sum(axis=axis, keepdims=True) > 1) | np.isinf(a.error).any(axis=axis, keepdims=True)
    return np.where(unsure & (a.value.shape[axis] > 1), np.inf, 0.0)


_INDEX_MAPS = [op.name for op in TABLE.values() if op.role is Role.VIEW or op.maps]
_WHOLE = (
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "gcd",
    "lcm", "bitwise_count", "nextafter",
)  # fmt: skip

RULES: dict[str, Callable[[Operation], Any]] = {
    "add": _sum_of_errors, "subtract": _sum_of_errors, "multiply": _multiply, "square": _square, "divide": _divide,
    "reciprocal": _reciprocal, "negative": _sum_of_errors, "abs": _sum_of_errors, "conj": _sum_of_errors,
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), _extreme), "where": _where,
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), _compared),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), _logic),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), _question),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "sign"), _steps), **dict.fromkeys(_WHOLE, _untouched),
    "floor_divide": _floor_divide, "remainder": _remainder, "copysign": _copysign, "signbit": _signbit,
    "atan2": _atan2, "tan": _tan, "sin": _wave, "cos": _wave, "ldexp": _ldexp, "cast": _cast,
    "logaddexp": _sum_of_errors, "fmod": _remainder,
    **dict.fromkeys(("real", "imag", "complex"), _sum_of_errors), **dict.fromkeys(_INDEX_MAPS, _index_map),
    **dict.fromkeys(("sum", "window_sum", "cumsum"), _sum), "prod": _prod,
    **dict.fromkeys(("matmul", "conv"), _contraction),
    **dict.fromkeys(("max", "min", "sort"), _largest_error), "window_max": _window_max,
    **dict.fromkeys(("any", "all"), _any_or_all), **dict.fromkeys(("argmax", "argmin"), _place),
}  # fmt: skip
