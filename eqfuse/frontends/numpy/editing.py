"""NumPy's functions that insert, delete, pick and tile parts of an array, at places known while tracing.

In: array-function calls on tracers. Out: gathers, slices and joined pieces.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.errors import BoundsError, ShapeError
from eqfuse.frontends.numpy.manipulation import broadcast_to, concatenate, moveaxis, split
from eqfuse.frontends.numpy.promotion import as_dtype, lift
from eqfuse.frontends.numpy.reductions import negative_axes
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.accepted import constant_of

_MASK = "use np.where(mask, x, fill), or multiply by the mask before a reduction"


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Tracer:
    x, along = _along(arr, axis)
    n = x.shape[along]
    places = obj if isinstance(obj, slice) else constant_of(obj, "the place given to np.delete", _MASK)
    if isinstance(places, np.ndarray):
        if places.dtype.kind == "b" and places.shape != (n,):
            raise ShapeError(f"np.delete: a mask must have the axis' shape ({n},), not {places.shape}")
        places = places.astype(np.intp) if places.size == 0 and not isinstance(obj, np.ndarray) else places
    keep = np.ones(n, bool)
    try:
        keep[places] = False
    except IndexError as error:
        raise BoundsError(f"np.delete: {error}") from None
    return lazy.take(x, np.flatnonzero(keep), along)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tracer:
    x, along = _along(arr, axis)
    n = x.shape[along]
    places = _inserted(obj, n)
    new = wrap(as_dtype(values, x.dtype))
    if places.size == 1:
        (place,) = places.ravel().tolist()
        new = new.reshape((1,) * (x.ndim - new.ndim) + new.shape)
        if places.ndim == 0:
            new = moveaxis(new, 0, along)
        count = new.shape[along]
        before, after = (slice(None),) * along + (slice(place),), (slice(None),) * along + (slice(place, None),)
        return concatenate((x[before], _spread(new, x, along, count), x[after]), along)
    places = places.copy()
    count = len(places)
    order = places.argsort(kind="stable")
    places[order] += np.arange(count)
    source = np.empty(n + count, np.intp)
    old = np.ones(n + count, bool)
    old[places] = False
    source[old], source[places] = np.arange(n), np.arange(n, n + count)
    return lazy.take(concatenate((x, _spread(new, x, along, count)), along), source, along)


def _inserted(obj: Any, n: int) -> np.ndarray:
    """The places that `obj` names in an axis of extent `n`, counted from its start."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(n), dtype=np.intp)
    places = constant_of(obj, "the place given to np.insert")
    if places.ndim > 1:
        raise ShapeError(f"np.insert: the places must be a number or have one axis, not {places.ndim}")
    if places.dtype.kind == "b":
        places = np.flatnonzero(places)
    if places.size == 0:
        places = places.astype(np.intp)
    if places.dtype.kind not in "iu" or ((places < -n) | (places > n)).any():
        raise BoundsError(f"np.insert: places must be integers within an axis of extent {n}, not {places.tolist()}")
    return np.where(places < 0, places + n, places)


def _spread(new: Tracer, x: Tracer, along: int, count: int) -> Tracer:
    return broadcast_to(new, (*x.shape[:along], count, *x.shape[along + 1 :]))


def _along(arr: Any, axis: int | None) -> tuple[Tracer, int]:
    """The array and the axis from the left; without an axis, the array in one row."""
    x = lift(arr)
    if axis is None:
        return x.reshape(-1), 0
    (along,) = negative_axes(operator.index(axis), x.ndim)
    return x, along + x.ndim


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Tracer:
    x = lift(a).reshape(-1)
    shape = (new_shape,) if isinstance(new_shape, (int, np.integer)) else tuple(map(operator.index, new_shape))
    if any(n < 0 for n in shape):
        raise ShapeError(f"np.resize: no extent of {shape} can be negative")
    size = math.prod(shape)
    if x.size == 0 or size == 0:
        return lazy.zeros_like(x, shape=shape)
    rows = -(-size // x.size)
    return broadcast_to(x, (rows, x.size)).reshape(-1)[:size].reshape(shape).copy()


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Tracer]:
    if lift(ary).ndim < 3:
        raise ShapeError("np.dsplit takes arrays of rank 3 or more")
    return split(ary, indices_or_sections, 2)


@implements(np.block)
def block(arrays: Any) -> Tracer:
    depth = _depth(arrays)
    leaves: list[Any] = []
    _leaves(arrays, leaves)
    rank = max(depth, *(np.ndim(leaf) for leaf in leaves), 0)

    def joined(part: Any, level: int) -> Tracer:
        if level < depth:
            return concatenate([joined(p, level + 1) for p in part], level - depth)
        x = lift(part)
        return x.reshape((1,) * (rank - x.ndim) + x.shape)

    return joined(arrays, 0).copy()


def _depth(part: Any) -> int:
    if isinstance(part, tuple):
        raise ShapeError("np.block takes nested lists, not tuples")
    if not isinstance(part, list):
        return 0
    depths = {_depth(p) for p in part}
    if len(depths) != 1:
        raise ShapeError("np.block: lists must not be empty, and all must nest equally deep")
    return depths.pop() + 1


def _leaves(part: Any, leaves: list[Any]) -> None:
    for p in part if isinstance(part, list) else ():
        _leaves(p, leaves)
    if not isinstance(part, list):
        leaves.append(part)


# ---- a function over every row


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tracer:
    """One call of the function for each row, as NumPy makes them."""
    x, along = _along(arr, axis)
    rows = moveaxis(x, along, -1)
    shape = rows.shape[:-1]
    if math.prod(shape) == 0:
        raise ShapeError(f"np.apply_along_axis: shape {x.shape} has no rows to call the function on")
    results = [lift(func1d(rows[place], *args, **kwargs)) for place in np.ndindex(shape)]
    whole = lazy.stack([row.astype(results[0].dtype) for row in results])
    rank = results[0].ndim
    whole = whole.reshape((*shape, *results[0].shape))
    return moveaxis(whole, range(len(shape), len(shape) + rank), range(along, along + rank))


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tracer:
    x = lift(a)
    rank = x.ndim
    for axis in axes if isinstance(axes, Sequence | np.ndarray) else (axes,):
        along = axis + rank if axis < 0 else axis
        reduced = lift(func(x, along))
        x = reduced if reduced.ndim == x.ndim else lazy.expand_dims(reduced, along)
        if x.ndim != rank:
            raise ShapeError("np.apply_over_axes: the function must keep the rank, or drop the axis it is given")
    return x
