"""NumPy's indexing, and assignment to what it selects: slices, integers, new axes, integer arrays and masks.

In: an index of a tracer. Out: views for basic indices, take for integer arrays; writes into the tracer's memory.
"""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any

import numpy as np

from eqfuse.errors import BoundsError, DtypeError, ShapeError, TraceError
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.constant_indices import picked
from eqfuse.frontends.numpy.laid_out import laid_as
from eqfuse.frontends.numpy.manipulation import broadcast_to, transpose
from eqfuse.frontends.numpy.number import Number, computed_number, number_kind
from eqfuse.frontends.numpy.promotion import castable, elementwise, fitted, lift, storable, with_dtype
from eqfuse.frontends.numpy.reductions import negative_axes, one_axis
from eqfuse.frontends.numpy.registry import TRACED_METHODS, implements, of_arrays
from eqfuse.frontends.numpy.selection import Selection, assigned
from eqfuse.frontends.numpy.storage import Rights, ViewStep
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.graph import Node, node
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.types import Shape, TensorType


@of_arrays
def index(x: Tracer, key: Any) -> Tracer | Selection:
    """``x[key]``: the basic part as views first, then one take for the integer arrays; a traced mask selects."""
    parts = _parts(key)
    traced = [p for p in parts if isinstance(p, Tracer)]
    if len(traced) == 1 and _is_mask(traced[0]) and (not traced[0].ndim or traced[0].constant_value() is None):
        view, place, mask = _masked(x, parts)
        if place == 0:
            return Selection(wrap(view.node), mask)
    view, arrays = _viewed(x, parts)
    array = any(part is Ellipsis for part in parts)  # the result is one, even of rank 0
    if arrays:
        elements = _gather(view, arrays)
        if array:
            elements.as_array()
        return elements
    scalar = view.ndim == 0 and not array
    if view.ndim == 0 and x.ndim == 0 and not scalar:
        return wrap(x.node, Rights.WRITABLE) if x.scalar else view  # scalar[...] is a new array
    return wrap(view.node) if scalar else view


@of_arrays
def assign_items(x: Tracer, key: Any, value: Any) -> None:
    """``x[key] = value``."""
    parts = _parts(key)
    traced = [p for p in parts if isinstance(p, Tracer)]
    if len(traced) == 1 and _is_mask(traced[0]):
        view, place, mask = _masked(x, parts)
        rest = view.ndim - place - mask.ndim
        if isinstance(value, Selection):
            view.assign(assigned(view, mask, value))
            return
        if lift(value).ndim <= rest:
            spread = mask.reshape(mask.shape + (1,) * rest)
            view.assign(elementwise("where", spread, wrap(fitted(value, view.tensor_type)), view))
            return
    view, arrays = _viewed(x, parts)
    if not arrays:
        view.assign(storable(value, x.dtype))
        return  # where indices say, NumPy makes an array of a scalar first
    _scatter(view, arrays, storable(value, x.dtype) if isinstance(value, (list, tuple)) else value, "set")


def apply_at(ufunc: str, x: Tracer, key: Any, value: Any) -> None:
    """``ufunc.at(x, key, value)``: unbuffered, so that an element indexed twice changes twice."""
    view, arrays = _viewed(x, _parts(key))
    if arrays:
        _scatter(view, arrays, value, ufunc)
    else:
        view.become(elementwise(ufunc, view, lift(value)), "unsafe")


def _parts(key: Any) -> list[Any]:
    """The parts of a key: None, Ellipsis, slices, ints, and arrays (integers or masks) as tracers."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if part is None or part is Ellipsis or isinstance(part, slice):
            parts.append(part)
        elif isinstance(part, Tracer):
            parts.append(_array_part(part))
        elif number_kind(part) is int:
            parts.append(part)
        elif isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            parts.append(int(part))
        else:
            parts.append(_array_part(part))
    return parts


def _viewed(x: Tracer, parts: list[Any]) -> tuple[Tracer, list[tuple[int, Tracer]]]:
    """As `_basic`, with masks as the integer arrays they stand for."""
    if any(map(_is_mask, parts)):
        _basic(x, _expanded(x, parts)[0])  # which compares the shapes of masks
        parts = [p for part in parts for p in _without_masks(part)]
    whole, apart = _expanded(x, parts)
    view, arrays = _basic(x, [lift(part) if apart and type(part) is int else part for part in whole])
    if apart:
        view, arrays = _gathered_first(view, arrays)
    if not arrays or view.scalar or any(not i.scalar for _, i in arrays):
        return view, arrays
    return _picked(view, arrays), []


def _picked(view: Tracer, scalars: list[tuple[int, Tracer]]) -> Tracer:
    """The view that scalars select, as integers do."""
    order, place, shape, flat = _selected(view, scalars)
    return view.sliced((*shape[:place], *shape[place + 1 :]), [("take", (tuple(order), place, shape, flat.node))])


def _masked(x: Tracer, parts: list[Any]) -> tuple[Tracer, int, Tracer]:
    """The view that all but the one mask among `parts` take, the axis that the mask starts at, and the mask."""
    whole, apart = _expanded(x, parts)
    view, arrays = _basic(x, whole)
    if apart:
        view, arrays = _gathered_first(view, arrays)
    ((place, mask),) = ((axis, part) for axis, part in arrays if _is_mask(part))
    numbers = [(axis, part) for axis, part in arrays if part is not mask]
    if not numbers:
        return view, place, mask
    return _picked(view, numbers), place - sum(axis < place for axis, _ in numbers), mask


def _is_mask(part: Any) -> bool:
    return isinstance(part, Tracer) and part.dtype.kind == "b"


def _array_part(part: Any) -> Any:
    array = lift(np.zeros(0, np.intp) if isinstance(part, (list, tuple)) and len(part) == 0 else part)
    if array.dtype.kind not in "iub":
        raise BoundsError(f"arrays used as indices must be integers, not {array.dtype}")
    value = array.constant_value() if array.ndim == 0 and array.dtype.kind != "b" else None
    return array if value is None else int(value)


def _without_masks(part: Any) -> list[Any]:
    """A mask as the integer arrays that NumPy takes it for, which must be known."""
    if not _is_mask(part):
        return [part]
    value = part.constant_value()
    if value is None:
        raise TraceError(
            "indexing with a traced boolean mask: the result's shape would depend on data. "
            "Use np.where(mask, x, fill), multiply by the mask before a reduction, or assign one value: x[mask] = 0"
        )
    if not value.ndim:
        raise TraceError("indexing with a mask of rank 0, which adds an axis: write np.where(mask, new, x)")
    return [lift(i) for i in np.nonzero(value)]


def _expanded(x: Tracer, parts: list[Any]) -> tuple[list[Any], bool]:
    """`parts` with one entry per axis of `x` (a mask stands for as many axes as it has), None for new axes; and whether
    something stands between the integers and arrays that gather: the gathered axes then come first."""
    covered, dots = 0, []
    for i, part in enumerate(parts):
        if part is Ellipsis:
            dots.append(i)
        elif part is not None:
            covered += part.ndim if _is_mask(part) else 1
    if covered > x.ndim or len(dots) > 1:
        raise BoundsError(f"too many indices: {covered} for an array of shape {x.shape}")
    place = dots[0] if dots else len(parts)
    whole = [*parts[:place], *[_ALL] * (x.ndim - covered), *parts[place + 1 :]]
    if Tracer not in map(type, parts):
        return whole, False
    gathering = (int, Number, Tracer)
    places = [i for i, part in enumerate(parts) if type(part) in gathering]  # dots part them even if they are none
    return whole, places != list(range(places[0], places[-1] + 1))


def _gathered_first(view: Tracer, arrays: list[tuple[int, Tracer]]) -> tuple[Tracer, list[tuple[int, Tracer]]]:
    """The view with the axes first that `arrays` index, and the places they then have."""
    order: list[int] = []
    moved = []
    for axis, part in arrays:
        moved.append((len(order), part))
        order += range(axis, axis + (part.ndim if _is_mask(part) else 1))
    return transpose(view, [*order, *(axis for axis in range(view.ndim) if axis not in order)]), moved


_ALL = slice(None)


def _basic(x: Tracer, parts: list[Any]) -> tuple[Tracer, list[tuple[int, Tracer]]]:
    """The view of `x` that the slices, ints and new axes among `parts` take, and the arrays with their places in it."""
    ranges: list[tuple[int, int, int]] = []
    flipped: list[int] = []
    kept: list[int] = []  # extents of the ranges
    shape: list[int] = []
    arrays: list[tuple[int, Tracer]] = []
    whole = x.shape
    for part in parts:
        axis = len(ranges)
        if part is None:
            shape.append(1)
        elif isinstance(part, Number):
            place = computed_number("within", part, attr=whole[axis])
            arrays.append((len(shape), wrap(with_dtype(place, np.dtype(np.intp)))))
            ranges.append((0, whole[axis], 1))
            kept.append(whole[axis])
            shape.append(whole[axis])
        elif isinstance(part, Tracer):
            arrays.append((len(shape), part))
            width = part.ndim if part.dtype.kind == "b" else 1
            extents = whole[axis : axis + width]
            if part.dtype.kind == "b" and part.shape != extents:
                raise BoundsError(f"a mask of shape {part.shape} does not fit the axes of extent {extents} it indexes")
            ranges += [(0, n, 1) for n in extents]
            kept += extents
            shape += extents
        elif part is _ALL:
            ranges.append((0, whole[axis], 1))
            kept.append(whole[axis])
            shape.append(whole[axis])
        elif isinstance(part, slice):
            r = range(*_bounds(part).indices(whole[axis]))
            if r.step < 0:
                flipped.append(axis - x.ndim)
                r = r[::-1]
            ranges.append(tidy.canonical_range(r))
            kept.append(len(r))
            shape.append(len(r))
        else:
            position, extent = part, whole[axis]
            if not -extent <= position < extent:
                raise BoundsError(f"index {position} is out of bounds for axis {axis} with extent {extent}")
            ranges.append((position % extent, position % extent + 1, 1))
            kept.append(1)
    steps: list[ViewStep] = [("slice", tuple(ranges))] if ranges != [(0, n, 1) for n in whole] else []
    if [axis for axis in flipped if kept[axis] > 1]:
        steps.append(("flip", tuple(flipped)))
    if shape != kept:
        steps.append(("squeeze", tuple(shape)))
    return x.sliced(tuple(shape), steps), arrays


def _bounds(part: slice) -> slice:
    bounds = [part.start, part.stop, part.step]
    if Tracer not in map(type, bounds):
        return part
    for i, bound in enumerate(bounds):
        if isinstance(bound, Tracer):
            value = bound.constant_value()
            if value is None:
                raise TraceError("a slice bound is a traced value: the result's shape would depend on data. "
                                 "Name the argument in static_argnames, or use np.where with a mask")  # fmt: skip
            bounds[i] = operator.index(value)
    return slice(*bounds)


def _gather(x: Tracer, arrays: list[tuple[int, Tracer]]) -> Tracer:
    """Integer arrays along the axes they stand at, broadcast together as NumPy does."""
    order, place, shape, flat = _selected(x, arrays)
    taken = _one_of_each_row(x, arrays) or tidy.take(x.node, (order, place, shape, flat.node))
    elements = wrap(taken, Rights.WRITABLE if flat.ndim else None)
    return laid_as(_taken_first, (x, [axis for axis, _ in arrays], [indices for _, indices in arrays]), elements)


def _one_of_each_row(x: Tracer, arrays: list[tuple[int, Tracer]]) -> Node | None:
    """``x[np.arange(len(x)), columns]`` of a matrix, in which rows stay apart."""
    if x.ndim != 2 or len(arrays) != 2:
        return None
    (_, rows), (_, columns) = arrays
    index = rows.constant_value()
    if index is None or columns.shape != index.shape or not np.array_equal(index, np.arange(x.shape[0])):
        return None
    return tidy.one_of_each_row(x.node, _checked(columns, x.shape[1]).node)


def _taken_first(x: np.ndarray, axes: list[int], indices: list[np.ndarray]) -> np.ndarray:
    """Of small arrays: the first element along each of `axes`, as often as `indices` says."""
    places = dict(zip(axes, (np.multiply(i, 0, dtype=np.intp, casting="unsafe") for i in indices), strict=True))
    return x[tuple(places.get(axis, _ALL) for axis in range(x.ndim))]


def _scatter(x: Tracer, arrays: list[tuple[int, Tracer]], value: Any, mode: str) -> None:
    """Write `value` to what `_gather` reads; `mode`: "set", or the ufunc that joins it with what is there."""
    order, place, shape, flat = _selected(x, arrays)
    selected = TensorType(x.dtype, (*shape[:place], *flat.shape, *shape[place + 1 :]))
    values = fitted(value, selected) if mode == "set" else _joined(mode, value, selected)
    x.assign(wrap(tidy.scatter(x.node, (order, place, shape, flat.node), values, mode), Rights.WRITABLE))


_EXACT = frozenset(("add", "subtract", "multiply", "maximum", "minimum"))


def _joined(mode: str, value: Any, selected: TensorType) -> Node:
    """`value` as ``mode.at`` joins it with elements of type `selected`: NumPy computes in the dtype that holds both,
    and casts back whatever there is. Of `_EXACT` that is the same in the elements' dtype where it holds the values."""
    values, dtype = lift(value), selected.dtype
    if castable(values.dtype, dtype, "safe") or (mode in _EXACT and _held(values.constant_value(), dtype)):
        return fitted(values, selected)
    return fitted(values, TensorType(values.dtype, selected.shape))


def _held(values: np.ndarray | None, dtype: np.dtype) -> bool:
    """Are `values` known numbers of `dtype`, which stays whole among them where it is whole?"""
    if values is None or dtype.kind == "b":
        return False
    if dtype.kind in "iu" and np.result_type(values.dtype, dtype).kind not in "iu":
        return False
    with np.errstate(all="ignore"):
        cast = values.astype(dtype)
        return bool(((cast == values) & (cast.astype(values.dtype) == values)).all())


def _selected(x: Tracer, arrays: list[tuple[int, Tracer]]) -> tuple[list[int], int, Shape, Tracer]:
    """How integer arrays select from `x`: the order of axes that brings theirs together, where those stand then, the
    shape with these merged into one, and the indices into that one."""
    try:
        together = np.broadcast_shapes(*(indices.shape for _, indices in arrays))
    except ValueError as error:
        raise BoundsError(f"the arrays used as indices do not fit together: {error}") from None
    axes = [axis for axis, _ in arrays]
    place = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    extents = [x.shape[axis] for axis in axes]
    order = [*rest[:place], *axes, *rest[place:]]
    others = [x.shape[axis] for axis in rest]
    shape = (*others[:place], math.prod(extents), *others[place:])
    if len(arrays) == 1:
        return order, place, shape, _checked(arrays[0][1], extents[0])
    flat: Any = 0
    inside: Tracer | None = None
    for (_, indices), extent in zip(arrays, extents, strict=True):
        value = _checked(indices, extent).constant_value()
        if value is None:
            i = indices.astype(np.intp)
            within = (i >= -extent) & (i < extent)
            inside = within if inside is None else inside & within
            flat = flat * extent + elementwise("where", i < 0, i + extent, i)
        else:
            value = value.astype(np.intp)
            flat = flat * extent + (value % extent if value.min(initial=0) < 0 else value)
    if inside is not None:
        flat = elementwise("where", inside, flat, shape[place])  # out of bounds along one axis stays out of bounds
    return order, place, shape, broadcast_to(flat, together)


def _checked(indices: Tracer, extent: int) -> Tracer:
    """`indices`; ShapeError when they are known and leave `extent`."""
    value = indices.constant_value()
    if value is not None and value.size and not (-extent <= value.min() and value.max() < extent):
        outside = value.min() if value.min() < -extent else value.max()
        raise BoundsError(f"index {outside} is out of bounds for extent {extent}")
    return indices


@implements(np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Tracer:
    (x, along), positions = one_axis(lift(a), axis), lift(indices)
    extent = x.shape[along]
    if positions.dtype.kind not in "iu":
        raise DtypeError(f"np.take needs integer indices, not {positions.dtype}")
    if mode == "wrap":
        positions = positions % extent
    elif mode == "clip":
        positions = lazy.clip(positions, 0, extent - 1)
    elif mode != "raise":
        raise ShapeError(f"np.take: mode must be raise, wrap or clip, not {mode!r}")
    places = _checked(positions, extent).node
    constant = places.literal.array % max(extent, 1) if places.op == "const" and places.type.rank == 1 else None
    pieces = None if constant is None else picked(x.node, constant, along)
    return wrap(node("take", (x.node, places), (along,)) if pieces is None else pieces)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tracer:
    x, places = lift(arr), lift(indices)
    if axis is None:
        x, axis = x.reshape(-1), 0
    if places.ndim != x.ndim:
        shapes = f"indices of shape {places.shape} and array of shape {x.shape}"
        raise ShapeError(f"np.take_along_axis: {shapes} differ in rank")
    (along,) = negative_axes(axis, x.ndim)
    rest_of_x = tuple(1 if i - x.ndim == along else n for i, n in enumerate(x.shape))
    rest = np.broadcast_shapes(rest_of_x, tuple(1 if i - x.ndim == along else n for i, n in enumerate(places.shape)))

    def fitted(t: Tracer) -> Tracer:
        return broadcast_to(t, tuple(t.shape[i] if i - x.ndim == along else n for i, n in enumerate(rest)))

    return wrap(node("take_along_axis", (fitted(x).node, fitted(_checked(places, x.shape[along])).node), (along,)))


for _name, _ufunc in UFUNCS.items():
    if _ufunc.nin == 2:
        TRACED_METHODS[_ufunc, "at"] = partial(apply_at, _name)
