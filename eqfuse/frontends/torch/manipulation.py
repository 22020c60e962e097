"""torch's operators that move data without looking at it: shapes, views, joins, paddings, and arrays made from nothing.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import Tracer, lazy
from eqfuse.frontends.torch.table import aten, axis_from_front, insist

Ints = Sequence[int]

# ---- made from nothing


@aten("scalar_tensor")
def scalar_tensor(s: Any, *, dtype: Any = None, result: np.dtype) -> Any:
    return lift(np.asarray(s).astype(result))


@aten("full")
def full(size: Ints, fill_value: Any, *, dtype: Any = None, result: np.dtype) -> Any:
    return lazy.broadcast_to(lift(np.asarray(fill_value).astype(result)), tuple(size))


@aten("empty.memory_format")
def empty(size: Ints, *, dtype: Any = None, result: np.dtype) -> Any:
    return full(size, 0, result=result)


@aten("full_like")
def full_like(x: Any, fill_value: Any, *, dtype: Any = None, result: np.dtype) -> Any:
    return full(x.shape, fill_value, result=result)


@aten("arange.start_step")
def arange(start: Any, end: Any, step: Any = 1, *, dtype: Any = None, result: np.dtype) -> Any:
    whole = all(isinstance(n, int) for n in (start, end, step))
    insist(whole or kind(result) == "f", "a range of integers between numbers that are none")
    if whole:
        count = max(0, -((start - end) // step))
    else:
        count = max(0, math.ceil((end - start) / step))
    return lift((start + np.arange(count) * step).astype(result))


@aten("prims.iota")
def iota(length: int, *, start: int, step: int, dtype: Any, result: np.dtype) -> Any:
    return lift((start + np.arange(length) * step).astype(result))


# ---- the same elements in another shape


@aten("view", is_view=True)
def view(x: Any, size: Ints) -> Any:
    return x.reshape(tuple(size))


@aten("permute", is_view=True)
def permute(x: Any, dims: Ints) -> Any:
    return lazy.transpose(x, [axis_from_front(a, x.ndim) for a in dims])


@aten("unsqueeze", is_view=True)
def unsqueeze(x: Any, dim: int) -> Any:
    return lazy.expand_dims(x, dim)


@aten("squeeze.dims", is_view=True)
def squeeze(x: Any, dim: Ints) -> Any:
    axes = {axis_from_front(a, x.ndim) for a in dim}
    return x.reshape(tuple(n for a, n in enumerate(x.shape) if a not in axes or n != 1))


@aten("expand", is_view=True)
def expand(x: Any, size: Ints, *, implicit: bool = False) -> Any:
    new = len(size) - x.ndim
    return lazy.broadcast_to(x, tuple(x.shape[a - new] if n == -1 else n for a, n in enumerate(size)))


@aten("repeat")
def repeat(x: Any, repeats: Ints) -> Any:
    return lazy.tile(x, tuple(repeats))


@aten("flip")
def flip(x: Any, dims: Ints) -> Any:
    return lazy.flip(x, tuple(axis_from_front(a, x.ndim) for a in dims)) if x.ndim and dims else x


# ---- parts and joins


def _bounded_slice(n: int, start: int | None, end: int | None, step: int) -> slice:
    """torch's slice of an axis of `n` elements, within its bounds."""
    return slice(*slice(start, end, step).indices(n))


@aten("slice.Tensor", is_view=True)
def slice_(x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    along = axis_from_front(dim, x.ndim)
    return x[(slice(None),) * along + (_bounded_slice(x.shape[along], start, end, step),)]


@aten("select.int", is_view=True)
def select(x: Any, dim: int, index: int) -> Any:
    return x[(slice(None),) * axis_from_front(dim, x.ndim) + (index,)]


@aten("slice_scatter")
def slice_scatter(
    x: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    along, y = axis_from_front(dim, x.ndim), x.copy()
    y[(slice(None),) * along + (_bounded_slice(x.shape[along], start, end, step),)] = src
    return y


@aten("copy")
def copy(x: Any, src: Any, non_blocking: bool = False) -> Any:
    return lazy.broadcast_to(src, x.shape)


@aten("split_with_sizes")
def split_with_sizes(x: Any, split_sizes: Ints, dim: int = 0) -> Any:
    return tuple(lazy.split(x, np.cumsum(split_sizes)[:-1].tolist(), axis_from_front(dim, x.ndim)))


@aten("cat")
def cat(tensors: Sequence[Tracer], dim: int = 0, *, result: np.dtype) -> Any:
    """Empty tensors with one axis join any others."""
    rank = max(x.ndim for x in tensors)
    parts = [x.astype(result) for x in tensors if x.ndim == rank]
    return parts[0] if len(parts) == 1 else lazy.concatenate(parts, axis_from_front(dim, rank))


@aten("constant_pad_nd")
def constant_pad_nd(x: Any, pad: Ints, value: Any = 0) -> Any:
    """Negative widths take elements away. Pairs count from the last axis."""
    widths = [(0, 0)] * x.ndim
    for i in range(len(pad) // 2):
        widths[x.ndim - 1 - i] = (pad[2 * i], pad[2 * i + 1])
    kept = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, x.shape, strict=True))
    number = lift(np.asarray(value).astype(x.dtype))
    return lazy.pad(x[kept], [(max(a, 0), max(b, 0)) for a, b in widths], constant_values=number)


@aten("diagonal")
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return lazy.diagonal(x, offset, dim1, dim2)


