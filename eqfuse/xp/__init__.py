"""`ef.xp`: the Array API standard's namespace (2024.12), for NumPy arrays and, inside a traced function, traced arrays.

In: calls of code written for `xp`. Out: what NumPy gives; for traced arrays, what the front-ends' tables record.
Names are NumPy's own wherever NumPy follows the standard; the functions written out here are where it does not.
"""

# Creation functions call NumPy when they are called, so that a trace sees them.

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

# isort: off
from numpy import (  # noqa: F401  the namespace is its names
    # constants and data types
    e, inf, nan, newaxis, pi, bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64,
    complex64, complex128, can_cast, isdtype, result_type,
    # creation
    empty_like, full_like, meshgrid, ones_like, tril, triu, zeros_like,
    # elementwise
    abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_invert, bitwise_left_shift,
    bitwise_or, bitwise_right_shift, bitwise_xor, ceil, conj, copysign, cos, cosh, divide, equal, exp, expm1, floor,
    floor_divide, greater, greater_equal, hypot, imag, isfinite, isinf, isnan, less, less_equal, log, log10, log1p,
    log2, logaddexp, logical_and, logical_not, logical_or, logical_xor, maximum, minimum, multiply, negative,
    nextafter, not_equal, positive, pow, real, reciprocal, remainder, round, sign, signbit, sin, sinh, sqrt, square,
    subtract, tan, tanh, trunc,
    # searching, sets, statistics
    argmax, argmin, nonzero, searchsorted, where, unique_all, unique_counts, unique_inverse, unique_values,
    cumulative_prod, cumulative_sum, max, mean, min, prod, std, sum, var, all, any,
    # indexing, manipulation
    take, broadcast_arrays, broadcast_to, concat, flip, moveaxis, permute_dims, repeat, reshape, roll, squeeze, stack,
    tile, unstack,
    # linear algebra
    matmul, matrix_transpose, tensordot, vecdot,
)  # fmt: skip
# isort: on

from eqfuse.xp import fft, linalg  # noqa: F401

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
__array_api_version__ = API_VERSIONS[-1]


class __array_namespace_info__(np.__array_namespace_info__):  # type: ignore[misc]
    """The standard's questions about a namespace. A traced array's shapes never depend on data."""

    def capabilities(self) -> Any:
        return {**super().capabilities(), "boolean indexing": False, "data-dependent shapes": False}


# ---- creation


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None) -> Any:
    return np.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> Any:
    return np.from_dlpack(x, device=device, copy=copy)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return np.zeros(shape, dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return np.ones(shape, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return np.empty(shape, dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return np.full(shape, fill_value, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    return np.eye(n_rows, n_cols, k, dtype=dtype or np.float64, device=device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    if stop is None:
        start, stop = 0, start
    return np.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: builtins.bool = True
) -> Any:
    return np.linspace(start, stop, num, endpoint, dtype=dtype, device=device)


# ---- data types


def astype(x: Any, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Any:
    return np.astype(x, dtype, copy=copy, device=device)


def finfo(type: Any, /) -> np.finfo:
    return np.finfo(getattr(type, "dtype", type) if not isinstance(type, builtins.type) else type)


def iinfo(type: Any, /) -> np.iinfo:
    return np.iinfo(getattr(type, "dtype", type) if not isinstance(type, builtins.type) else type)


# ---- where NumPy's own function has other defaults or fewer keywords than the standard's


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:  # noqa: F811
    """The result has the dtype of `x`; Python integers beyond its range are no bound."""
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        min = None if type(min) is int and min <= limits.min else min
        max = None if type(max) is int and max >= limits.max else max
    return np.astype(np.clip(x, min, max), x.dtype) if min is not None or max is not None else np.copy(x)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    count = np.count_nonzero(x, axis=axis, keepdims=keepdims)
    return np.intp(count) if isinstance(count, int) else count


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    ends = {name: end for name, end in (("prepend", prepend), ("append", append)) if end is not None}
    return np.diff(x, n, axis, **ends)


def expand_dims(x: Any, /, *, axis: int = 0) -> Any:
    return np.expand_dims(x, axis)


def sort(x: Any, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Any:
    kind: Any = "stable" if stable else None
    if descending:  # reversed before and after, equal values keep their order
        return np.flip(np.sort(np.flip(x, axis), axis, kind), axis)
    return np.sort(x, axis, kind)


def argsort(x: Any, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Any:
    kind: Any = "stable" if stable else None
    if descending:
        return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind), axis)
    return np.argsort(x, axis, kind)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    return np.take_along_axis(x, indices, axis)
