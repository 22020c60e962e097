"""Guards of laws that let constants meet: what is computed when the program is built must not lose what a call needs.

In: tensors known at build time. Out: guards. The values of an array that is known are not (a plan serves layers that
are alike but for their weights); those of a scalar are. In float32 and the like the product of two numbers of the safe
range is normal; in float16 it need not be, so there both must be known.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from eqfuse.dtypes import kind
from eqfuse.rewrites.law import FLOAT16, Guard, Term, judged

ALIKE = 8.0  # how many times as large one constant may be as another of its sign


def normal_product(a: Term, b: Term) -> Guard:
    """The guard that the product of two constants does not overflow, nor become subnormal."""
    return judged(f"{a} * {b} is normal", _normal_product, a, b)


def normal_quotient(a: Term, b: Term) -> Guard:
    """The guard that the quotient of two constants does not overflow, nor become subnormal."""
    return judged(f"{a} / {b} is normal", _normal_quotient, a, b)


def normal_reciprocal(a: Term) -> Guard:
    """The guard that the reciprocal of a constant does not overflow, nor become subnormal."""
    return judged(f"1 / {a} is normal", _normal_reciprocal, a)


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
