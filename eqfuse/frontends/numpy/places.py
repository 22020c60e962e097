"""NumPy's functions that make or convert indices, and those that answer by shapes and dtypes alone.

In: array-function calls on tracers. Out: tracers of indices; plain arrays where the shape decides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends.numpy.manipulation import broadcast_arrays
from eqfuse.frontends.numpy.promotion import elementwise, lift
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, lazy
from eqfuse.ir.accepted import constant_of


@implements(np.ix_)
def ix_(*args: Any) -> tuple[Tracer, ...]:
    indices = []
    for i, arg in enumerate(args):
        x = arg if isinstance(arg, Tracer) else np.asarray(arg)
        if x.ndim != 1:
            raise ShapeError(f"np.ix_ takes rank 1, the shape is {x.shape}")
        if x.dtype.kind == "b":
            x = np.flatnonzero(constant_of(x, "a mask given to np.ix_"))
        elif x.size == 0 and not isinstance(arg, (Tracer, np.ndarray)):
            x = x.astype(np.intp)
        indices.append(lift(x).reshape([-1 if j == i else 1 for j in range(len(args))]))
    return tuple(indices)


def _as_triangle(make: Callable[..., Any]) -> Callable[..., Any]:
    def indices_from(arr: Any, k: int = 0) -> Any:
        shape = lift(arr).shape
        if len(shape) != 2:
            raise ShapeError(f"the array must have rank 2, its shape is {shape}")
        return make(shape[0], k=k, m=shape[1])

    return indices_from


implements(np.tril_indices_from)(_as_triangle(np.tril_indices))
implements(np.triu_indices_from)(_as_triangle(np.triu_indices))


@implements(np.diag_indices_from)
def diag_indices_from(arr: Any) -> tuple[np.ndarray, ...]:
    shape = lift(arr).shape
    if len(shape) < 2 or len(set(shape)) != 1:
        raise ShapeError(f"np.diag_indices_from needs two axes or more of one extent, the shape is {shape}")
    return np.diag_indices(shape[0], len(shape))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Tracer:
    return lazy.diag(lift(v).reshape(-1), k)


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Tracer:
    extents = [operator.index(n) for n in (dims if np.ndim(dims) else (dims,))]
    modes = [mode] * len(extents) if isinstance(mode, str) else list(mode)
    places = broadcast_arrays(*(_integers(i, "np.ravel_multi_index") for i in multi_index))
    if not len(places) == len(extents) == len(modes):
        raise ShapeError(f"np.ravel_multi_index: {len(places)} indices for {len(extents)} extents, {len(modes)} modes")
    strides = np.cumprod([1, *(extents if order == "F" else extents[::-1])][:-1], dtype=np.intp)
    flat: Any = 0
    for place, n, how, stride in zip(places, extents, modes, strides if order == "F" else strides[::-1], strict=True):
        flat = flat + _within(place, n, how) * stride
    return flat


def _integers(value: Any, what: str) -> Tracer:
    x = lift(value)
    if x.dtype.kind not in "biu":
        raise ShapeError(f"{what} takes integers, not {x.dtype}")
    return x.astype(np.intp)


def _within(places: Tracer, n: int, mode: str) -> Tracer:
    """`places` in 0..n-1. In mode ``raise`` by a gather, which refuses other places."""
    if mode == "wrap":
        return places % n
    if mode == "clip":
        return lazy.clip(places, 0, n - 1)
    if mode != "raise":
        raise ShapeError(f"mode must be raise, wrap or clip, not {mode!r}")
    return lazy.take(lift(np.arange(n)), elementwise("where", places < 0, n, places))


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    extents = [operator.index(n) for n in (shape if np.ndim(shape) else (shape,))]
    size = int(np.prod(extents, dtype=np.intp))
    rest = _within(_integers(indices, "np.unravel_index"), size, "raise")
    coordinates = []
    for n in extents if order == "F" else extents[::-1]:
        coordinates.append(rest % n)
        rest = rest // n
    return tuple(coordinates if order == "F" else coordinates[::-1])


# ---- asking


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    return np.common_type(*(np.empty(0, lift(a).dtype) for a in arrays))


@implements(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> np.dtype:
    if a.ndim:
        return a.dtype
    raise TraceError("np.min_scalar_type of a traced number would depend on its value; use .dtype")


@implements(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    if einsum_call:
        raise UnsupportedOp("np.einsum_path with einsum_call=True is NumPy's own; leave it out")
    stand_ins = (np.broadcast_to(0, o.shape) if isinstance(o, Tracer) else o for o in operands)
    return np.einsum_path(*stand_ins, optimize=optimize)
