"""numpy.linalg's norms of vectors and of matrices, composed of reductions and singular values.

In: array-function calls on tracers. Out: tracers.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from eqfuse.dtypes import inexact
from eqfuse.errors import ShapeError
from eqfuse.frontends.numpy import manipulation, reductions
from eqfuse.frontends.numpy.linalg import svd
from eqfuse.frontends.numpy.promotion import elementwise, lift
from eqfuse.frontends.numpy.reductions import negative_axes, squared
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, lazy
from eqfuse.ops.linalg import real_dtype


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tracer:
    x = lift(x)
    if not inexact(x.dtype):
        x = x.astype(np.float64)
    if axis is None and (ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1)):
        flat = squared(x.reshape(-1))
        return elementwise("sqrt", reductions.sum(flat)).reshape((1,) * x.ndim if keepdims else ())
    if axis is not None and not isinstance(axis, tuple):
        axis = (operator.index(axis),)
    axes = negative_axes(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise ShapeError(f"np.linalg.norm: Improper number of dimensions to norm: {len(axes)}")
    return _matrix_norm(x, ord, axes, keepdims)


def _finished(kept: Tracer, axes: tuple[int, ...], keepdims: bool) -> Tracer:
    return reductions.finish(kept.node, axes, keepdims)


def _vector_norm(x: Tracer, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Tracer:
    if isinstance(ord, str):
        raise ShapeError(f"np.linalg.norm: Invalid norm order {ord!r} for vectors")
    if ord in (math.inf, -math.inf):
        extreme = _largest if ord > 0 else reductions.min
        return extreme(abs(x), axes, keepdims=keepdims)
    if ord == 0:
        return reductions.sum((x != 0).astype(real_dtype(x.dtype)), axes, keepdims=keepdims)
    if ord == 1:
        return reductions.sum(abs(x), axes, keepdims=keepdims)
    if ord is None or ord == 2:
        return _finished(elementwise("sqrt", reductions.sum(squared(x), axes, keepdims=True)), axes, keepdims)
    total = reductions.sum(elementwise("power", abs(x), ord), axes, keepdims=True)
    return _finished(elementwise("power", total, lift(1 / ord).astype(total.dtype)), axes, keepdims)


def _matrix_norm(x: Tracer, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Tracer:
    rows, columns = axes
    if rows == columns:
        raise ShapeError("np.linalg.norm: Duplicate axes given.")
    if ord in (None, "f", "fro"):
        return _finished(elementwise("sqrt", reductions.sum(squared(x), axes, keepdims=True)), axes, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
        lengths = reductions.sum(abs(x), first, keepdims=True)
        norms = _largest(lengths, second, keepdims=True) if ord > 0 else reductions.min(lengths, second, keepdims=True)
        return _finished(norms, axes, keepdims)
    fold: Any = {2: reductions.max, -2: reductions.min, "nuc": reductions.sum}.get(ord)
    if fold is None:
        raise ShapeError(f"np.linalg.norm: Invalid norm order {ord!r} for matrices")
    norms = fold(svd(manipulation.moveaxis(x, (rows, columns), (-2, -1)), compute_uv=False), -1)
    return norms.reshape([1 if i - x.ndim in axes else n for i, n in enumerate(x.shape)]) if keepdims else norms


def _largest(lengths: Tracer, axis: Any, *, keepdims: bool) -> Tracer:
    return reductions.max(lengths, axis, keepdims=keepdims, initial=0 if lengths.size == 0 else None)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tracer:
    return norm(x, ord, (-2, -1), keepdims)


@implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tracer:
    x = lift(x)
    rank = x.ndim
    if axis is None:
        gone = negative_axes(None, rank)
        flat = norm(x.reshape(-1), ord, 0)
    else:
        gone = negative_axes(tuple(axis) if isinstance(axis, (tuple, list)) else axis, rank)
        kept = [i for i in range(rank) if i - rank not in gone]
        moved = lazy.transpose(x, [i + rank for i in gone] + kept)
        flat = norm(moved.reshape((math.prod(x.shape[i] for i in gone), *(x.shape[i] for i in kept))), ord, 0)
    return flat.reshape([1 if i - rank in gone else n for i, n in enumerate(x.shape)]) if keepdims else flat
