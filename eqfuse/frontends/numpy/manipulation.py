"""NumPy's functions that only move elements: reshaping, reordering, joining, splitting, repeating.

In: array-function calls on tracers. Out: tracers; those that NumPy gives as views share their base's storage.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eqfuse.errors import ShapeError
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.promotion import common, lift
from eqfuse.frontends.numpy.reductions import is_sequence, negative_axes, one_axis
from eqfuse.frontends.numpy.registry import implements, of_arrays
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.accepted import constant_of
from eqfuse.ir.strides import memory_order


@of_arrays
@implements(np.reshape)
def reshape(a: Any, /, shape: Any, order: str | None = "C", *, copy: bool | None = None) -> Tracer:
    x = lift(a)
    wanted = tuple(map(operator.index, shape)) if is_sequence(shape) else (operator.index(shape),)
    if wanted.count(-1) > 1:
        raise ShapeError(f"reshape to {wanted}: only one extent can be -1")
    if -1 in wanted:
        rest = -math.prod(wanted)
        if rest == 0 or x.size % rest:
            raise ShapeError(f"cannot reshape {x.size} elements, shape {x.shape}, into {wanted}")
        wanted = tuple(x.size // rest if n == -1 else n for n in wanted)
    if math.prod(wanted) != x.size or any(n < 0 for n in wanted):
        raise ShapeError(f"cannot reshape {x.size} elements, shape {x.shape}, into {wanted}")
    order = memory_order(order, "CFA")
    if order == "A":
        order = "F" if _in_columns(x) else "C"
    reshaped = _reshaped(x.copy() if copy else x, wanted, order)
    if copy is False:
        if not reshaped.is_of([x]):
            raise ShapeError("Unable to avoid creating a copy while reshaping.")
        x.lying()
    return reshaped


def _reshaped(x: Tracer, shape: tuple[int, ...], order: str) -> Tracer:
    if order == "C":
        return x.viewed(("reshape", shape))
    return x.in_columns().viewed(("reshape", shape[::-1])).in_columns()


def _in_columns(x: Tracer) -> bool:
    """Does `x` lie in Fortran order, and not in C order too?"""
    return x.ndim > 1 and not x.scalar and bool(x.lying().flags.fnc)


@implements(np.ravel)
def ravel(a: Any, order: str | None = "C") -> Tracer:
    x = lift(a)
    order = memory_order(order)
    if order == "A":
        order = "F" if _in_columns(x) else "C"
    return x.in_read_order().raveled() if order == "K" else x.raveled(order)


@of_arrays
@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Tracer:
    x = lift(a)
    axes = range(x.ndim)[::-1] if axes is None else axes
    order = tuple(n + x.ndim for n in negative_axes(tuple(axes) if is_sequence(axes) else (axes,), x.ndim))
    if len(order) != x.ndim:
        raise ShapeError(f"transpose of rank {x.ndim} by {len(order)} axes")
    return x.viewed(("transpose", order))


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Tracer:
    x = lift(x)
    if x.ndim < 2:
        raise ShapeError(f"the matrix transpose needs two axes, the shape is {x.shape}")
    return swapaxes(x, -1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Tracer:
    x = lift(a)
    order = list(range(x.ndim))
    (i,), (j,) = negative_axes(axis1, x.ndim), negative_axes(axis2, x.ndim)
    order[i], order[j] = order[j], order[i]
    return transpose(x, order)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Tracer:
    x = lift(a)
    stand_in = as_strided(np.empty(1), (1,) * x.ndim, range(x.ndim))  # the strides then name the axes
    return transpose(x, np.moveaxis(stand_in, source, destination).strides)


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Tracer:
    x = lift(a)
    stand_in = as_strided(np.empty(1), (1,) * x.ndim, range(x.ndim))
    return transpose(x, np.rollaxis(stand_in, axis, start).strides)


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Tracer:
    x = lift(a)
    if x.ndim == 0 and axis in (0, -1):
        return x
    gone = (
        [i for i, n in enumerate(x.shape) if n == 1]
        if axis is None
        else [i + x.ndim for i in negative_axes(axis, x.ndim)]
    )
    if any(x.shape[i] != 1 for i in gone):
        raise ShapeError(f"cannot squeeze axis {axis} of shape {x.shape}: only axes of extent 1 can go")
    return x.viewed(("reshape", tuple(n for i, n in enumerate(x.shape) if i not in gone)))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Tracer:
    x = lift(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = x.ndim + len(axes)
    new = [i + rank for i in negative_axes(tuple(axes), rank)]
    rest = iter(x.shape)
    return x.viewed(("reshape", tuple(1 if i in new else next(rest) for i in range(rank))))


@implements(np.atleast_1d)
def atleast_1d(*arrays: Any) -> Any:
    results = tuple(x if x.ndim else x.reshape(1) for x in map(lift, arrays))
    return results if len(results) != 1 else results[0]


@implements(np.atleast_2d)
def atleast_2d(*arrays: Any) -> Any:
    results = tuple(x if x.ndim >= 2 else x.reshape(1, -1) for x in map(lift, arrays))
    return results if len(results) != 1 else results[0]


@implements(np.atleast_3d)
def atleast_3d(*arrays: Any) -> Any:
    results = tuple(
        x if x.ndim >= 3 else x.reshape((1, -1, 1) if x.ndim < 2 else (*x.shape, 1)) for x in map(lift, arrays)
    )
    return results if len(results) != 1 else results[0]


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tracer:
    x = lift(array)
    extents = tuple(map(operator.index, shape)) if is_sequence(shape) else (operator.index(shape),)
    return x.viewed(("broadcast_to", extents), access=Rights.READ_ONLY)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tracer, ...]:
    arrays = [lift(a) for a in args]
    shape = broadcast_shape(arrays)
    whole = (wrap(x.node, Rights.WRITABLE) if x.scalar else x for x in arrays)
    return tuple(x if x.shape == shape else broadcast_to(x, shape) for x in whole)


def broadcast_shape(arrays: Sequence[Tracer]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(x.shape for x in arrays))
    except ValueError as error:
        raise ShapeError(f"{error}; align shapes from the right") from None


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Tracer:
    x = lift(m)
    flipped = x.viewed(("flip", negative_axes(axis, x.ndim)))
    return flipped if x.ndim else wrap(x.node)


@implements(np.fliplr)
def fliplr(m: Any) -> Tracer:
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Any) -> Tracer:
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tracer:
    x = lift(m)
    if len(set(negative_axes(tuple(axes), x.ndim))) != 2:
        raise ShapeError(f"np.rot90 turns two different axes, not {axes}")
    if k % 4 >= 2:
        x = flip(x, tuple(axes))
    return swapaxes(flip(x, axes[1]), *axes) if k % 2 else x


# ---- joining and splitting


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tracer:
    parts = [lift(a) for a in arrays]
    if not parts:
        raise ShapeError("np.concatenate needs at least one array")
    if axis is None:
        parts, axis = [x.reshape(-1) for x in parts], 0
    (along,) = negative_axes(axis, parts[0].ndim)
    nodes = common(parts) if dtype is None else [x.astype(dtype, casting=casting).node for x in parts]
    return wrap(tidy.concat(nodes, along))


@implements(np.stack)
def stack(arrays: Any, axis: int = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    parts = [lift(a) for a in arrays]
    if len({x.shape for x in parts}) != 1:
        raise ShapeError(f"np.stack needs arrays of one shape, not {[x.shape for x in parts]}")
    return concatenate([expand_dims(x, axis) for x in parts], axis, dtype=dtype, casting=casting)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    return concatenate([atleast_2d(x) for x in tup], 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tracer:
    parts = [atleast_1d(x) for x in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup: Any) -> Tracer:
    return concatenate([atleast_3d(x) for x in tup], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Tracer:
    return concatenate([x.reshape(-1, 1) if x.ndim < 2 else x for x in map(lift, tup)], 1)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Tracer:
    return concatenate((arr, values), axis)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tracer]:
    x = lift(ary)
    (along,) = negative_axes(axis, x.ndim)
    n = x.shape[along]
    if np.ndim(indices_or_sections):
        bounds = [0, *map(operator.index, indices_or_sections), n]
    else:
        sections = operator.index(indices_or_sections)
        if sections <= 0:
            raise ShapeError(f"the number of sections must be positive, not {sections}")
        bounds = np.cumsum([0, *(len(range(i, n, sections)) for i in range(sections))]).tolist()
    before = (slice(None),) * (x.ndim + along)
    return [x[(*before, slice(start, stop))] for start, stop in pairwise(bounds)]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tracer]:
    x = lift(ary)
    (along,) = negative_axes(axis, x.ndim)
    parts = array_split(x, indices_or_sections, axis)
    if not np.ndim(indices_or_sections) and x.shape[along] % len(parts):
        raise ShapeError(f"np.split: extent {x.shape[along]} does not divide into {len(parts)} equal parts")
    return parts


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Tracer]:
    return split(ary, indices_or_sections, 1 if lift(ary).ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Tracer]:
    if lift(ary).ndim < 2:
        raise ShapeError("np.vsplit takes arrays of rank 2 or more")
    return split(ary, indices_or_sections, 0)


@implements(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tracer, ...]:
    return tuple(moveaxis(x, axis, 0))


# ---- repeating and shifting


@implements(np.tile)
def tile(A: Any, reps: Any) -> Tracer:
    x = lift(A)
    counts = tuple(map(operator.index, reps)) if np.ndim(reps) else (operator.index(reps),)
    counts = (1,) * (x.ndim - len(counts)) + counts
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    if any(c < 0 for c in counts):
        raise ShapeError(f"np.tile: no count of {counts} can be negative")
    spread = x.reshape([n for extent in shape for n in (1, extent)])
    spread = broadcast_to(spread, [n for pair in zip(counts, shape, strict=True) for n in pair])
    return spread.reshape([c * n for c, n in zip(counts, shape, strict=True)]).copy()


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tracer:
    x, along = one_axis(lift(a), axis)
    counts = constant_of(repeats, "the count given to np.repeat")
    position = x.ndim + along
    if counts.dtype.kind not in "biu" or (counts < 0).any():
        raise ShapeError("np.repeat: counts must be integers, and not negative")
    if counts.size == 1:
        count = int(counts.item())
        spread = broadcast_to(expand_dims(x, position + 1), (*x.shape[: position + 1], count, *x.shape[position + 1 :]))
        return spread.reshape((*x.shape[:position], x.shape[position] * count, *x.shape[position + 1 :])).copy()
    if counts.shape != (x.shape[position],):
        raise ShapeError(f"np.repeat: counts of shape {counts.shape} do not fit the extent {x.shape[position]}")
    return lazy.take(x, np.repeat(np.arange(x.shape[position]), counts), along)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Tracer:
    x = lift(a)
    if axis is None:
        by = constant_of(shift, "the shift given to np.roll", "gather with (np.arange(n) - shift) % n")
        if x.ndim == 2 and by.size == 1:
            return _rolled_rows(x, int(by))
        return roll(x.reshape(-1), shift, 0).reshape(x.shape)
    if x.ndim == 0:
        raise ShapeError("np.roll of a 0-d array: it has no axis to shift along")
    moves = constant_of(shift, "the shift given to np.roll", "gather with (np.arange(n) - shift) % n")
    pairs = np.broadcast(moves, axis)
    if pairs.ndim > 1:
        raise ShapeError("np.roll: shift and axis must be numbers or have one axis")
    for by, along in pairs:
        (k,) = negative_axes(along, x.ndim)
        n = x.shape[k]
        if n and int(by) % n:
            before = (slice(None),) * (x.ndim + k)
            cut = n - int(by) % n
            x = concatenate((x[(*before, slice(cut, n))], x[(*before, slice(0, cut))]), k)
    return x.copy()


def _rolled_rows(x: Tracer, by: int) -> Tracer:
    """The rows of `x`, one after the other, shifted by so many elements: what leaves a row enters the next one."""
    rows, columns = divmod(by, x.shape[1] or 1)
    if not columns:
        return roll(x, rows, 0)
    stay = x.shape[1] - columns
    return concatenate((roll(x[:, stay:], rows + 1, 0), roll(x[:, :stay], rows, 0)), 1)


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tracer:
    return diagonal_view(a, offset, axis1, axis2).viewed(access=Rights.READ_ONLY)


def diagonal_view(a: Any, offset: int, axis1: int, axis2: int) -> Tracer:
    """The two axes merged into one, and a slice of it with the step of a diagonal."""
    x = moveaxis(a, (axis1, axis2), (-2, -1))
    m, n = x.shape[-2:]
    length = max(0, min(m + min(offset, 0), n - max(offset, 0)))
    start = offset if offset >= 0 else -offset * n
    chosen = tidy.canonical_range(range(start, start + length * (n + 1), n + 1))
    whole = tuple((0, extent, 1) for extent in x.shape[:-2])
    merged = ("flat", (*x.shape[:-2], m * n))  # a step that is a view in every memory order
    return x.viewed(merged, ("slice", (*whole, chosen)))


@implements(np.copy)
def copy(a: Any, order: str | None = "K", subok: bool = False) -> Tracer:
    x = lift(a)
    return wrap(x.node, Rights.WRITABLE) if x.scalar else x.copy(memory_order(order, default="K"))


@implements(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: None = None) -> Tracer:
    return lift(x).astype(dtype, copy=copy)
