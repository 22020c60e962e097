"""torch's reductions, scans, sorting and products.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions and `eqfuse.functions`. Sums of 16-bit
floats are in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.dtypes import kind
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.torch.table import aten, axes_of, axis_from_front, insist, wide, wide_product

Axes = Sequence[int] | int | None


@aten("sum.dim_IntList")
def sum_(x: Any, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None, result: np.dtype) -> Any:
    return lazy.sum(x.astype(wide(result)), axes_of(dim, x.ndim), keepdims=keepdim, dtype=wide(result))


@aten("mean", "mean.dim")
def mean(x: Any, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None, result: np.dtype) -> Any:
    return lazy.mean(x.astype(wide(result)), axes_of(dim, x.ndim), keepdims=keepdim)


@aten("prod")
def prod(x: Any, *, dtype: Any = None, result: np.dtype) -> Any:
    return lazy.prod(x.astype(wide(result)), axes_of(None, x.ndim), dtype=wide(result))


@aten("prod.dim_int")
def prod_along(x: Any, dim: int, keepdim: bool = False, *, dtype: Any = None, result: np.dtype) -> Any:
    return lazy.prod(x.astype(wide(result)), axes_of(dim, x.ndim), keepdims=keepdim, dtype=wide(result))


def _extreme(name: str) -> Callable[..., Any]:
    def row(x: Any, dim: Axes = (), keepdim: bool = False) -> Any:
        return getattr(lazy, name)(x, axes_of(dim, x.ndim), keepdims=keepdim)

    return row


aten("amax", "max")(_extreme("max"))
aten("amin", "min")(_extreme("min"))


def _extreme_with_place(name: str) -> Callable[..., Any]:
    def row(x: Any, dim: int, keepdim: bool = False) -> Any:
        if not x.ndim:
            return x, lazy.zeros_like(x, dtype=np.int64)
        largest = getattr(lazy, name)(x, axis_from_front(dim, x.ndim), keepdims=keepdim)
        return largest, getattr(lazy, f"arg{name}")(x, axis_from_front(dim, x.ndim), keepdims=keepdim)

    return row


aten("max.dim")(_extreme_with_place("max"))
aten("min.dim")(_extreme_with_place("min"))


def _place(name: str) -> Callable[..., Any]:
    def row(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if not x.ndim:
            return lazy.zeros_like(x, dtype=np.int64)
        place = getattr(lazy, name)(x if dim is not None else x.reshape(-1), 0 if dim is None else dim)
        if not keepdim:
            return place
        return place.reshape((1,) * x.ndim) if dim is None else lazy.expand_dims(place, axis_from_front(dim, x.ndim))

    return row


aten("argmax")(_place("argmax"))
aten("argmin")(_place("argmin"))


@aten("any", "any.dim", "any.dims")
def any_(x: Any, dim: Axes = None, keepdim: bool = False) -> Any:
    return lazy.any(x != 0, axes_of(dim, x.ndim), keepdims=keepdim)



@aten("var.correction")
def var(x: Any, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    return var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


@aten("var_mean.correction")
def var_mean(x: Any, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    axes = axes_of(dim, x.ndim)
    x = x.astype(wide(x.dtype))
    n = math.prod(x.shape[a] for a in axes)
    degrees = max(n - (1 if correction is None else correction), 0)
    centre = lazy.mean(x, axes, keepdims=True)
    apart = x - centre
    square = apart * apart if kind(x.dtype) == "f" else (apart * np.conjugate(apart)).real
    spread = lazy.sum(square, axes, keepdims=keepdim) / lift(np.asarray(degrees, square.dtype))
    return spread, centre if keepdim else centre.reshape(spread.shape)


def _running(name: str) -> Callable[..., Any]:
    def row(x: Any, dim: int, *, dtype: Any = None, result: np.dtype) -> Any:
        if not x.ndim:
            return x.astype(result)
        return getattr(lazy, name)(x.astype(wide(result)), axis_from_front(dim, x.ndim), dtype=wide(result))

    return row


aten("cumsum")(_running("cumsum"))
aten("cumprod")(_running("cumprod"))


@aten("sort")
def sort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return sort_stable(x, stable=True, dim=dim, descending=descending)


@aten("sort.stable")
def sort_stable(x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    if not x.ndim:
        return x, lazy.zeros_like(x, dtype=np.int64)
    along = axis_from_front(dim, x.ndim)
    if descending:  # a stable sort of the flipped array puts the last of equal values first
        order = x.shape[along] - 1 - lazy.flip(lazy.argsort(lazy.flip(x, along), along, kind="stable"), along)
    else:
        order = lazy.argsort(x, along, kind="stable")
    return lazy.take_along_axis(x, order, along), order


@aten("topk")
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, order = sort_stable(x, stable=True, dim=dim, descending=largest)
    if not x.ndim:
        return values, order
    first = (slice(None),) * axis_from_front(dim, x.ndim) + (slice(k),)
    return values[first], order[first]


@aten("_softmax")
def softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    x = x.astype(wide(x.dtype))
    if not x.size:
        return x
    return f.softmax_in_steps(x, dim) if x.ndim else lazy.ones_like(x)


@aten("_log_softmax")
def log_softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    x = x.astype(wide(x.dtype))
    if not x.size:
        return x
    return f.log_softmax(x, dim) if x.ndim else lazy.zeros_like(x)


# ---- products


@aten("mm", "bmm")
def matmul(a: Any, b: Any) -> Any:
    return wide_product(a, b)


@aten("addmm", "addmv")
def add_product(c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    y = wide_product(a, b)
    insist(kind(y.dtype) in "fc" or (alpha == 1 and beta in (0, 1)), "integers with factors")
    y = y if alpha == 1 else y * alpha
    if not beta:
        return y  # as BLAS has it, whatever c holds
    return y + (c.astype(y.dtype) if beta == 1 else c.astype(y.dtype) * beta)
