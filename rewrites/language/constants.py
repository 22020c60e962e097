"""Guards of laws that let constants meet: what is computed when the program is built must not lose what a call needs.

In: tensors known at build time. Out: guards. The values of an array that is known are not (a plan serves layers that
are alike but for their weights); those of a number are. In float32 and the like the product of two numbers of the safe
range is normal; in float16 it need not be, so there both must be known.

Numbers meet only where nothing is rounded: ``x * 9 / 5`` and ``x / 49`` are whole where they can be, which programs
that round down or compare lean on, and the rounded ``x * 1.8`` is not. Nor can constants wander then, each a little off
the one before.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from eqfuse.dtypes import FLOAT16, kind
from eqfuse.rewrites.language.guards import Guard, judged
from eqfuse.rewrites.language.term import Term

ALIKE = 8.0  # how many times as large one constant may be as another of its sign


def exact_product(a: Term, b: Term) -> Guard:
    """The guard that the product of two constants is normal and, where they are numbers, not rounded."""
    return judged(f"{a} * {b} is normal and exact", _exact_product, a, b)


def exact_quotient(a: Term, b: Term) -> Guard:
    """The guard that two constants are numbers whose quotient is normal and not rounded."""
    return judged(f"{a} / {b} is normal and exact", _exact_quotient, a, b)


def exact_reciprocal(a: Term) -> Guard:
    """The guard that a constant is a number whose reciprocal is normal and not rounded: a power of two."""
    return judged(f"1 / {a} is normal and exact", _exact_reciprocal, a)


def alike(a: Term, b: Term) -> Guard:
    """The guard that two constants have one sign, and `a` is not much larger than `b`: added to what cancels `a`, it
    leaves `b`, which their sum has not rounded away."""
    return judged(f"{a} has the sign of {b} and is not much larger", _alike, a, b)


def sum_remains(a: Term, b: Term) -> Guard:
    """The guard that two constants do not cancel each other: what is added and taken away again is there to round."""
    return judged(f"{a} + {b} does not cancel", lambda dtype, a, b: _remains(dtype, a, b, 1), a, b)


def difference_remains(a: Term, b: Term) -> Guard:
    """The guard that two constants do not cancel each other when one is subtracted."""
    return judged(f"{a} - {b} does not cancel", lambda dtype, a, b: _remains(dtype, a, b, -1), a, b)


def _exact_product(dtype: np.dtype, a: Any, b: Any) -> Any:
    many = ~(_one(a) & _one(b))
    return _normal_product(dtype, a, b) & (many | _exact(dtype, operator.mul, a.lower, b.lower))


def _exact_quotient(dtype: np.dtype, a: Any, b: Any) -> Any:
    one = _one(a) & _one(b)
    return _normal_quotient(dtype, a, b) & one & _exact(dtype, operator.truediv, a.lower, b.lower)


def _exact_reciprocal(dtype: np.dtype, a: Any) -> Any:
    return _normal_reciprocal(dtype, a) & _one(a) & _exact(dtype, operator.truediv, 1.0, a.lower)


def _exact(dtype: np.dtype, op: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Is what arithmetic makes of two real numbers a number of that dtype? Quotients of integers are floats, of 16 bits
    or more; products of integers wrap, but are not rounded."""
    if kind(dtype) == "c" or (kind(dtype) != "f" and op is operator.mul):
        return op is operator.mul
    narrow = dtype if kind(dtype) == "f" else FLOAT16
    a, b = np.broadcast_arrays(np.float64(a), np.float64(b))
    with np.errstate(all="ignore"):
        result = np.asarray(op(a, b))
        exact = np.asarray(np.isfinite(result) & np.isfinite(b) & (result.astype(narrow).astype(np.float64) == result))
        factor, product = (a, result) if op is operator.mul else (result, a)
        short = exact & _short(factor) & _short(b)
        exact[short] = (factor * b == product)[short]
    candidates = zip(*(v[exact & ~short].tolist() for v in (a, b, result)), strict=True)
    exact[exact & ~short] = [op(Fraction(x), Fraction(y)) == z for x, y, z in candidates]
    return exact


def _short(a: np.ndarray) -> np.ndarray:
    """Where numbers have so few digits that float64, which may round others, holds the product of two."""
    return a.astype(np.float32) == a


def is_number_of(dtype: np.dtype, wanted: Fraction) -> bool:
    """Is it a number of that dtype? OverflowError where it is larger than any float."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(nearest := float(dtype.type(float(wanted))))) and Fraction(nearest) == wanted


def _normal_product(dtype: np.dtype, a: Any, b: Any) -> Any:
    return _normal(dtype, a.smallest * b.smallest, a.largest * b.largest, _one(a) & _one(b))


def _normal_quotient(dtype: np.dtype, a: Any, b: Any) -> Any:
    return _normal(dtype, a.smallest * _inverse(b.largest), a.largest * _inverse(b.smallest), _one(a) & _one(b))


def _normal_reciprocal(dtype: np.dtype, a: Any) -> Any:
    return _normal(dtype, _inverse(a.largest), _inverse(a.smallest), _one(a))


def _normal(dtype: np.dtype, smallest: Any, largest: Any, one: Any) -> Any:
    """Are all numbers of these magnitudes normal? `one`: there is only one."""
    if kind(dtype) not in "fc":
        return True
    info = ml_dtypes.finfo(dtype)
    normal = (smallest >= float(info.smallest_normal)) & (largest <= float(info.max))
    return normal if dtype == FLOAT16 else normal | ~one


def _one(a: Any) -> Any:
    return np.asarray(a.lower == a.upper)


def _inverse(magnitude: Any) -> Any:
    with np.errstate(divide="ignore"):
        return 1 / np.float64(magnitude)


def _alike(dtype: np.dtype, a: Any, b: Any) -> Any:
    if kind(dtype) not in "fc":
        return True
    positive = (a.lower >= 0) & (a.upper <= ALIKE * b.lower)
    negative = (a.upper <= 0) & (a.lower >= ALIKE * b.upper)
    return (positive | negative) & (a.largest + b.largest <= float(ml_dtypes.finfo(dtype).max))


def _remains(dtype: np.dtype, a: Any, b: Any, sign: int) -> Any:
    if kind(dtype) not in "fc":
        return True
    total, large = abs(a.upper + sign * b.upper), np.maximum(a.largest, b.largest)
    return ~(_one(a) & _one(b)) | (total * ALIKE >= large)
