"""ONNX operators that read or write at places given by data: gather, scatter, one-hot, selections.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's indexing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.errors import ShapeError
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.table import axis_of, need_shape, one, one_of, operator, value


@operator("Gather")
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return lazy.take(x, indices, axis)


@operator("GatherElements")
def gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    along = axis_of(axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ShapeError(f"the indices have rank {indices.ndim}, the data rank {x.ndim}")
    kept = tuple(slice(None) if a == along else slice(n) for a, n in enumerate(indices.shape))
    return lazy.take_along_axis(x[kept], indices, along)


@operator("GatherND")
def gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    rest = indices.ndim - 1 - batch_dims
    if indices.shape[:batch_dims] != x.shape[:batch_dims]:
        raise ShapeError(f"the first {batch_dims} extents of the indices {indices.shape} are not those of {x.shape}")
    batch = [
        np.arange(n).reshape((-1,) + (1,) * (batch_dims - 1 - a + rest)) for a, n in enumerate(x.shape[:batch_dims])
    ]
    return x[(*batch, *(indices[..., i] for i in range(indices.shape[-1])))]


_AT = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scattered(x: Any, places: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    one_of(reduction, ("none", *_AT), "reduction")
    y = x.copy()
    if reduction == "none":
        y[places] = updates
    else:
        _AT[reduction].at(y, places, updates)
    return y


@operator("ScatterElements", "Scatter")
def scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    need_shape(updates, indices.shape, "what is scattered")
    places: list[Any] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    places[axis] = indices
    return _scattered(x, tuple(places), updates, reduction)


@operator("ScatterND")
def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    need_shape(updates, indices.shape[:-1] + x.shape[indices.shape[-1] :], "what is scattered")
    return _scattered(x, tuple(indices[..., i] for i in range(indices.shape[-1])), updates, reduction)


@operator("TensorScatter")
def tensor_scatter(cache: Any, update: Any, start: Any = None, *, axis: int = -2, mode: str = "linear") -> Any:
    """`update` written into `cache` along `axis`, from a place of each batch on; "circular" goes round."""
    along = axis_of(axis, cache.ndim)
    begin = np.zeros(cache.shape[0], np.int64) if start is None else start
    places: list[Any] = list(np.ogrid[tuple(slice(n) for n in update.shape)])
    places[along] = lift(places[along]) + lift(begin).reshape((-1,) + (1,) * (cache.ndim - 1))
    if one_of(mode, ("linear", "circular"), "mode") == "circular":
        places[along] = places[along] % cache.shape[along]
    return _scattered(cache, tuple(places), update, "none")


@operator("OneHot")
def one_hot(indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    n = int(one(depth, "the depth"))
    along = axis_of(axis, indices.ndim + 1)
    places = np.arange(n).reshape((-1,) + (1,) * (indices.ndim - along))
    wrapped = lazy.mod(indices.astype(np.int64), n)
    inside = lazy.logical_and(indices >= -n, indices < n)
    hot = lazy.logical_and(lazy.expand_dims(wrapped, along) == places, lazy.expand_dims(inside, along))
    return lazy.where(hot, values[1], values[0])


@operator("Compress")
def compress(x: Any, condition: Any, *, axis: int | None = None) -> Any:
    (places,) = np.nonzero(value(condition, "the condition"))
    return lazy.take(x.reshape(-1) if axis is None else x, lift(places), 0 if axis is None else axis)


@operator("ReverseSequence")
def reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    n = x.shape[time_axis]
    need_shape(lengths, (x.shape[batch_axis],), "sequence_lens")
    steps = np.arange(n).reshape((-1,) + (1,) * (1 - time_axis)) if batch_axis > time_axis else np.arange(n)
    ends = lengths.reshape((1, -1) if batch_axis > time_axis else (-1, 1))
    order = lazy.where(steps < ends, ends - 1 - steps, steps)
    return lazy.take_along_axis(x, order.reshape(order.shape + (1,) * (x.ndim - 2)), time_axis)


