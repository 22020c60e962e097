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
from eqfuse.frontends.torch.table import axes_of, axis_of, need, operator, product, wide

Axes = Sequence[int] | int | None


@operator("sum.dim_IntList")
def sum_(x: Any, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None, result: np.dtype) -> Any:
    return lazy.sum(x.astype(wide(result)), axes_of(dim, x.ndim), keepdims=keepdim, dtype=wide(result))


@operator("mean", "mean.dim")
def mean(x: Any, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None, result: np.dtype) -> Any:
    return lazy.mean(x.astype(wide(result)), axes_of(dim, x.ndim), keepdims=keepdim)


@operator("prod")
def prod(x: Any, *, dtype: Any = None, result: np.dtype) -> Any:
    return lazy.prod(x.astype(wide(result)), axes_of(None, x.ndim), dtype=wide(result))


@operator("prod.dim_int")
def prod_along(x: Any, dim: int, keepdim: bool = False, *, dtype: Any = None, result: np.dtype) -> Any:
    return lazy.prod(x.astype(wide(result)), axes_of(dim, x.ndim), keepdims=keepdim, dtype=wide(result))


def _extreme(name: str) -> Callable[..., Any]:
    def row(x: Any, dim: Axes = (), keepdim: bool = False) -> Any:
        return getattr(lazy, name)(x, axes_of(dim, x.ndim), keepdims=keepdim)

    return row


operator("amax", "max")(_extreme("max"))
operator("amin", "min")(_extreme("min"))


def _extreme_with_place(name: str) -> Callable[..., Any]:
    def row(x: Any, dim: int, keepdim: bool = False) -> Any:
        if not x.ndim:
            return x, lazy.zeros_like(x, dtype=np.int64)
        largest = getattr(lazy, name)(x, axis_of(dim, x.ndim), keepdims=keepdim)
        return largest, getattr(lazy, f"arg{name}")(x, axis_of(dim, x.ndim), keepdims=keepdim)

    return row


operator("max.dim")(_extreme_with_place("max"))
operator("min.dim")(_extreme_with_place("min"))


def _place(name: str) -> Callable[..., Any]:
    def row(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if not x.ndim:
            return lazy.zeros_like(x, dtype=np.int64)
        place = getattr(lazy, name)(x if dim is not None else x.reshape(-1), 0 if dim is None else dim)
        if not keepdim:
            return place
        return place.reshape((1,) * x.ndim) if dim is None else lazy.expand_dims(place, axis_of(dim, x.ndim))

    return row


operator("argmax")(_place("argmax"))
operator("argmin")(_place("argmin"))


@operator("any", "any.dim", "any.dims")
def any_(x: Any, dim: Axes = None, keepdim: bool = False) -> Any:
    return lazy.any(x != 0, axes_of(dim, x.ndim), keepdims=keepdim)



@operator("var.correction")
def var(x: Any, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    return var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


@operator("var_mean.correction")
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
        return getattr(lazy, name)(x.astype(wide(result)), axis_of(dim, x.ndim), dtype=wide(result))

    return row


operator("cumsum")(_running("cumsum"))
operator("cumprod")(_running("cumprod"))


@operator("sort")
def sort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return sort_stable(x, stable=True, dim=dim, descending=descending)


@operator("sort.stable")
def sort_stable(x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    if not x.ndim:
        return x, lazy.zeros_like(x, dtype=np.int64)
    along = axis_of(dim, x.ndim)
    if descending:  # a stable sort of the flipped array puts the last of equal values first
        order = x.shape[along] - 1 - lazy.flip(lazy.argsort(lazy.flip(x, along), along, kind="stable"), along)
    else:
        order = lazy.argsort(x, along, kind="stable")
    return lazy.take_along_axis(x, order, along), order


@operator("topk")
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, order = sort_stable(x, stable=True, dim=dim, descending=largest)
    if not x.ndim:
        return values, order
    first = (slice(None),) * axis_of(dim, x.ndim) + (slice(k),)
    return values[first], order[first]


@operator("_softmax")
def softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    x = x.astype(wide(x.dtype))
    if not x.size:
        return x
    return f.softmax_in_steps(x, dim) if x.ndim else lazy.ones_like(x)


@operator("_log_softmax")
def log_softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    x = x.astype(wide(x.dtype))
    if not x.size:
        return x
    return f.log_softmax(x, dim) if x.ndim else lazy.zeros_like(x)


# ---- products


@operator("mm", "bmm")
def matmul(a: Any, b: Any) -> Any:
    return product(a, b)


@operator("addmm", "addmv")
def add_product(c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    y = product(a, b)
    need(kind(y.dtype) in "fc" or (alpha == 1 and beta in (0, 1)), "integers with factors")
    y = y if alpha == 1 else y * alpha
    if not beta:
        return y  # as BLAS has it, whatever c holds
    return y + (c.astype(y.dtype) if beta == 1 else c.astype(y.dtype) * beta)
