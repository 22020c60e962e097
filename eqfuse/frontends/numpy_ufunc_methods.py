"""The methods of NumPy's ufuncs: reduce, accumulate, reduceat and outer.

In: ufunc method calls on tracers. Out: tracers. What has a reduction or scan of its own uses it; other associative
ufuncs halve their operand until one element is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError
from eqfuse.frontends.numpy_layout import concatenate, expand_dims, moveaxis
from eqfuse.frontends.numpy_reductions import finish, negative_axes
from eqfuse.frontends.promotion import lift
from eqfuse.frontends.registry import METHODS, title
from eqfuse.tracer import Tracer, lazy

_REDUCTIONS = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
    np.logical_and: np.all, np.logical_or: np.any,
}  # fmt: skip
_SCANS = {np.add: np.cumsum, np.multiply: np.cumprod}
_ASSOCIATIVE = (
    np.maximum, np.minimum, np.fmax, np.fmin, np.gcd, np.lcm, np.bitwise_and, np.bitwise_or, np.bitwise_xor,
    np.logical_and, np.logical_or, np.logical_xor, np.hypot, np.logaddexp, np.logaddexp2,
)  # fmt: skip


def _reduce(function: Any) -> Callable[..., Tracer]:
    def reduce(array: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False,
               **given: Any) -> Tracer:  # fmt: skip
        if dtype is not None and function in (np.sum, np.prod):
            given["dtype"] = dtype
        result = function(array, axis=axis, keepdims=keepdims, **given)
        return result if dtype is None else result.astype(dtype)

    return reduce


def _halving(ufunc: np.ufunc) -> Callable[..., Tracer]:
    def reduce(array: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False,
               initial: Any = None) -> Tracer:  # fmt: skip
        x = _accumulating(ufunc, lift(array), dtype)
        axes = () if x.ndim == 0 and axis in (0, -1) else negative_axes(axis, x.ndim)
        first = moveaxis(x, axes, range(len(axes)))
        n = math.prod(first.shape[: len(axes)])
        whole = first.reshape((n, *first.shape[len(axes) :]))
        odd = [] if initial is None else [initial]
        if n == 0 and initial is None:
            if ufunc.identity is None:
                raise ShapeError(f"{title(ufunc)}.reduce of no elements: it has no identity; give initial=")
            odd = [ufunc.identity]
        while n > 1:
            odd += [whole[-1]] if n % 2 else []
            n //= 2
            whole = ufunc(whole[:n], whole[n : 2 * n])
        result = whole[0] if n else lazy.full_like(whole, odd.pop(), x.dtype, shape=whole.shape[1:])
        for value in odd:
            result = ufunc(result, value)
        kept = result.reshape([1 if i - x.ndim in axes else m for i, m in enumerate(x.shape)])
        return finish(kept.astype(x.dtype).node, axes, keepdims)

    return reduce


def _accumulating(ufunc: np.ufunc, x: Tracer, dtype: Any) -> Tracer:
    """`x` in the dtype that `ufunc` reduces in."""
    chosen = {} if dtype is None else {"signature": (None, None, np.dtype(dtype))}
    try:
        loop = ufunc.resolve_dtypes((x.dtype, x.dtype, None), reduction=True, **chosen)
    except TypeError as error:
        raise ShapeError(f"{title(ufunc)} cannot reduce {x.dtype}: {error}") from None
    return x.astype(loop[2])


def _scan(function: Any) -> Callable[..., Tracer]:
    def accumulate(array: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Tracer:
        x = lift(array)
        if x.ndim == 0:
            raise ShapeError("accumulate of a 0-d array: it has no axis to run along")
        return function(x, axis=axis, dtype=dtype)

    return accumulate


def _doubling(ufunc: np.ufunc) -> Callable[..., Tracer]:
    def accumulate(array: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Tracer:
        x = lift(array)
        if x.ndim == 0:
            raise ShapeError("accumulate of a 0-d array: it has no axis to run along")
        x = moveaxis(_accumulating(ufunc, x, dtype), axis, 0)
        reach = 1
        while reach < len(x):
            x = concatenate((x[:reach], ufunc(x[:-reach], x[reach:])), 0)
            reach *= 2
        return moveaxis(x, 0, axis)

    return accumulate


def _reduceat(ufunc: np.ufunc) -> Callable[..., Tracer]:
    reduce = METHODS[ufunc, "reduce"]

    def reduceat(array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Tracer:
        x = moveaxis(array, axis, 0)
        starts = [at.__index__() for at in indices]
        for at in starts:
            if not 0 <= at < len(x):
                raise ShapeError(f"{title(ufunc)}.reduceat: index {at} is out of bounds for extent {len(x)}")
        ends = [*starts[1:], len(x)]
        pieces = [
            reduce(x[start : end if start < end else start + 1], dtype=dtype)
            for start, end in zip(starts, ends, strict=True)
        ]
        return moveaxis(concatenate([expand_dims(piece, 0) for piece in pieces]), 0, axis)

    return reduceat


def _outer(ufunc: np.ufunc) -> Callable[..., Any]:
    def outer(a: Any, b: Any, **chosen: Any) -> Any:
        a, b = lift(a), lift(b)
        return ufunc(a.reshape(a.shape + (1,) * b.ndim), b, **chosen)

    return outer


for _ufunc in _ASSOCIATIVE:
    METHODS[_ufunc, "reduce"] = _halving(_ufunc)
    METHODS[_ufunc, "accumulate"] = _doubling(_ufunc)
for _ufunc, _function in _REDUCTIONS.items():
    METHODS[_ufunc, "reduce"] = _reduce(_function)
for _ufunc, _function in _SCANS.items():
    METHODS[_ufunc, "accumulate"] = _scan(_function)
for _ufunc, _method in tuple(METHODS):
    if _method == "reduce":
        METHODS[_ufunc, "reduceat"] = _reduceat(_ufunc)
for _ufunc in vars(np).values():
    if isinstance(_ufunc, np.ufunc) and _ufunc.nin == 2 and _ufunc.signature is None:
        METHODS[_ufunc, "outer"] = _outer(_ufunc)
