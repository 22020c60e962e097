"""torch's operators that read or write at places given by data: embedding, gather, scatter, indices.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's indexing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.torch.table import aten, axis_from_front, insist


@aten("embedding")
def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    return lazy.take(weight, indices, 0)


@aten("embedding_dense_backward")
def embedding_dense_backward(
    grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    insist(not scale_grad_by_freq, "a gradient of rows that is divided by how often they occur")
    grad = grad_output
    if padding_idx >= 0:
        grad = lazy.where((indices != padding_idx)[..., None], grad, lift(np.zeros((), grad.dtype)))
    rows = lazy.zeros_like(grad, shape=(num_weights, grad.shape[-1]))
    np.add.at(rows, indices, grad)
    return rows


@aten("index_select")
def index_select(x: Any, dim: int, index: Any) -> Any:
    return lazy.take(x, index, axis_from_front(dim, x.ndim)) if x.ndim else x


@aten("gather")
def gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    insist(index.ndim == x.ndim, "a gather of another rank")
    return x[_places(x, dim, index)] if x.ndim else lazy.broadcast_to(x, index.shape)


def _places(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """Where each element of `index` points to: along `dim` to its number, along others to its own place."""
    places: list[Any] = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[axis_from_front(dim, x.ndim)] = index
    return tuple(places)


def _key(x: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    insist(all(i is None or kind(i.dtype) in "iu" for i in indices), "an index by a mask, whose number depends on data")
    return tuple(slice(None) if i is None else i for i in indices)


@aten("index.Tensor")
def index(x: Any, indices: Sequence[Any]) -> Any:
    return x[_key(x, indices)]


@aten("index_put")
def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    key, y = _key(x, indices), x.copy()
    if accumulate:
        np.add.at(y, key, values)
    else:
        y[key] = values
    return y


def _source(index: Any, src: Any, dtype: np.dtype) -> Any:
    """What is scattered: of an array, the part under `index`."""
    if isinstance(src, int | float | complex):
        return lazy.broadcast_to(lift(np.asarray(src).astype(dtype)), index.shape)
    return src[tuple(slice(n) for n in index.shape)]


@aten("scatter.src", "scatter.value")
def scatter(x: Any, dim: int, index: Any, src: Any) -> Any:
    insist(x.ndim > 0, "a scatter into a number")
    y = x.copy()
    y[_places(x, dim, index)] = _source(index, src, x.dtype)
    return y


@aten("scatter_add")
def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    insist(x.ndim > 0, "a scatter into a number")
    y = x.copy()
    np.add.at(y, _places(x, dim, index), _source(index, src, x.dtype))
    return y
