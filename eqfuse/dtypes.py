"""What a tensor may hold: the dtypes, what kind of numbers each is, how exact it is.

In: a dtype. Out: facts about it. NumPy's own `kind` and `finfo` do not know bfloat16 and float8, which ml_dtypes adds.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from eqfuse.errors import DtypeError, TraceError

FLOAT16, BFLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
FLOAT8 = (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2))
ADDED = frozenset({BFLOAT16, *FLOAT8})
NARROW_FLOATS = ADDED | {FLOAT16}  # their sums are taken in float32
TENSORS = (
    *map(np.dtype, ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
    *map(np.dtype, ("float16", "float32", "float64")), BFLOAT16, *FLOAT8, *map(np.dtype, ("complex64", "complex128")),
)  # fmt: skip

_ONE = {dtype: dtype for dtype in TENSORS}


def supported(dtype: np.dtype, what: str) -> np.dtype:
    """The dtype of `TENSORS` that equals `dtype` (which may be long long, or bear metadata); TraceError for another."""
    canonical = _ONE.get(dtype)
    if canonical is not None:
        return canonical
    if not dtype.isnative and dtype.newbyteorder("=") in _ONE:
        raise TraceError(f"{what} has dtype {dtype}: convert it to native byte order with .astype first")
    raise TraceError(
        f"{what} has dtype {dtype}, which is not a tensor's: eqfuse knows {', '.join(d.name for d in TENSORS)}. "
        "Convert it with .astype, or pass it by static_argnames if it is not an array"
    )


def tensor_dtype(value: Any, what: str) -> np.dtype:
    """The tensor's dtype that a user means by `value`, a name such as "float32" or a class. DtypeError otherwise."""
    try:
        return supported(np.dtype(value), what)
    except (TypeError, ValueError, SyntaxError) as error:
        raise DtypeError(f"{what} has dtype {value!r}: {error}. Give one such as np.float32") from None


class Numbers(Enum):
    """Which laws of arithmetic may be about a dtype."""

    REAL = "real"
    COMPLEX = "complex"
    COARSE = "coarse"  # float8: a rounding loses up to an eighth, so only laws that keep every bit


def numbers(dtype: np.dtype) -> Numbers:
    if dtype.kind == "c":
        return Numbers.COMPLEX
    return Numbers.COARSE if dtype in FLOAT8 else Numbers.REAL


def kind(dtype: np.dtype) -> str:
    """NumPy's letter, with "f" for every floating dtype: b, i, u, f, c."""
    return "f" if dtype in ADDED else dtype.kind


def inexact(dtype: np.dtype) -> bool:
    """Does NumPy itself count `dtype` among its floating and complex dtypes? It does not count ml_dtypes'."""
    return issubclass(dtype.type, np.inexact)


@cache
def castable(dtype: np.dtype, to: np.dtype, casting: Any) -> bool:
    """Does NumPy cast `dtype` to `to` by the rule `casting`?"""
    return np.can_cast(dtype, to, casting)


@cache
def epsilon(dtype: np.dtype) -> float:
    """Distance from 1 to the next number of a floating or complex dtype."""
    return float(ml_dtypes.finfo(dtype).eps)


@cache
def lowest(dtype: np.dtype) -> Any:
    """The identity of max in `dtype`."""
    if dtype.kind == "b":
        return False
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    if dtype.kind == "c":  # ordered by the real part, then by the imaginary
        return dtype.type(complex(-np.inf, -np.inf))
    least = dtype.type(-np.inf)
    return least if least == least else ml_dtypes.finfo(dtype).min  # float8_e4m3fn has no infinity


def moved(function: Callable[..., np.ndarray], x: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
    """`function`, one of NumPy's stride tricks, of `x`: they do not know float8_e5m2."""
    if x.dtype not in ADDED:
        return function(x, *args, **kwargs)
    return function(x.view(f"u{x.itemsize}"), *args, **kwargs).view(x.dtype)


def real_parts(array: np.ndarray) -> np.ndarray:
    """A complex array as its real and imaginary parts along a new last axis; any other array as it is."""
    array = np.asarray(array)
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array
