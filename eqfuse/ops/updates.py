"""Rows of what arrays are as memory: some of their elements replaced, or their bits read in another dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.index_map import Piece, Ranges
from eqfuse.ops.row import INT64, Op, PriceClass, Role, Rounding, Types, need, no_flops
from eqfuse.ops.types import Shape, TensorType
from eqfuse.ops.views import extents_of

MODES = ("set", *(name for name, ufunc in UFUNCS.items() if ufunc.nin == 2))

_SHORT_RUN = 8  # elements that are copied in the time that it takes to begin a run of neighbours
_MOST_BOXES = 16  # that are kept apart; beyond, all of the array
FEW_SLICES = 16  # that are compared one by one
MARKED_ELEMENTS = 1 << 20  # elements of arrays in which more of them are marked


def apart(a: Ranges, b: Ranges) -> bool:
    """Do two slices of an array share no element, for sure?"""
    return any(
        stop <= other or end <= start or (start - other) % math.gcd(step, stride)
        for (start, stop, step), (other, end, stride) in zip(a, b, strict=True)
    )


def whole_of(shape: Shape) -> Ranges:
    """The slice that is all of an array of `shape`."""
    return tuple([(0, extent, 1) for extent in shape])


def slices_of(ranges: Ranges) -> tuple[slice, ...]:
    """The index by which NumPy takes a slice."""
    return tuple([slice(*r) for r in ranges])


def meeting(shape: Shape, slices: Sequence[Ranges]) -> Sequence[bool]:
    """Of each of `slices` of an array of `shape`: may it share an element with one before it?"""
    if len(slices) <= FEW_SLICES or math.prod(shape) > MARKED_ELEMENTS:
        return [not all(apart(ranges, before) for before in slices[:i]) for i, ranges in enumerate(slices)]
    marks, meets = np.zeros(shape, np.bool_), []
    for ranges in slices:
        marked = marks[slices_of(ranges)]
        meets.append(bool(marked.any()))
        marked[...] = True
    return meets


def slice_runs(ranges: Ranges, shape: Shape) -> int:
    """The loops of constant step in which the slice `ranges` of an array of `shape` is read or written."""
    extents = [len(range(*r)) for r in ranges]
    run, goes_on = 1, True
    for extent, whole in zip(reversed(extents), reversed(shape), strict=True):
        if extent > 1 and not goes_on:
            break
        run *= extent
        goes_on = run == 1 or extent == whole
    return math.prod(extents) // run if run else 0


@lru_cache(maxsize=4096)
def is_narrow(slices: tuple[Ranges, ...], shape: Shape) -> bool:
    """Does it take longer to begin the runs of `slices` of an array of `shape` than to copy all of it?"""
    return sum(slice_runs(ranges, shape) for ranges in slices) * _SHORT_RUN > math.prod(shape)


@lru_cache(maxsize=4096)
def uncovered(shape: Shape, slices: tuple[Ranges, ...]) -> tuple[Ranges, ...]:
    """Slices that hold what `slices` leave of an array: no more than that where these have no steps, or fill one
    another's gaps, and leave few boxes, which are not narrow."""
    whole = tuple([(0, extent, 1) for extent in shape])
    boxes = tuple(left_of(whole, slices))
    return (whole,) if is_narrow(boxes, shape) else boxes


def left_of(whole: Ranges, slices: Sequence[Ranges]) -> list[Ranges]:
    """As `uncovered`, of the slice `whole` of an array, which has no steps."""
    boxes = [whole]
    for cut in _filled(slices):
        if all(step == 1 for _, _, step in cut):
            boxes = [part for box in boxes for part in _without(box, cut)]
        if len(boxes) > _MOST_BOXES:
            return [whole]
    return boxes


def _filled(slices: Sequence[Ranges]) -> list[Ranges]:
    """`slices`, those that differ along one axis alone, and together leave no gaps there, as one."""
    cuts: list[Ranges] = []
    alike: dict[tuple[int, Ranges], list[tuple[int, int, int]]] = {}
    for cut in slices:
        steps = [axis for axis, (_, _, step) in enumerate(cut) if step > 1]
        if len(steps) == 1:
            (axis,) = steps
            alike.setdefault((axis, (*cut[:axis], (0, 0, cut[axis][2]), *cut[axis + 1 :])), []).append(cut[axis])
        else:
            cuts.append(cut)
    for (axis, others), ranges in alike.items():
        indices = sorted({i for each in ranges for i in range(*each)})
        if indices and indices[-1] - indices[0] + 1 == len(indices):
            cuts.append((*others[:axis], (indices[0], indices[-1] + 1, 1), *others[axis + 1 :]))
    return cuts


def _without(box: Ranges, cut: Ranges) -> list[Ranges]:
    """What remains of `box` without `cut`: at most two slabs per axis."""
    met = [(max(a, c), min(b, d)) for (a, b, _), (c, d, _) in zip(box, cut, strict=True)]
    if any(start >= stop for start, stop in met):
        return [box]
    parts = []
    for axis, ((start, stop, _), (first, last)) in enumerate(zip(box, met, strict=True)):
        around = [(a, b, 1) for a, b in met[:axis]], box[axis + 1 :]
        parts += [(*around[0], (a, b, 1), *around[1]) for a, b in ((start, first), (last, stop)) if a < b]
    return parts


def _slice_scatter(types: Types, attrs: tuple) -> TensorType:
    """Arguments: the array and one value per slice; attrs: for each value (start, stop, step) per axis."""
    (base, *values), (slices,) = types, attrs
    need(len(values) == len(slices), "slice_scatter", types, f"{len(slices)} slices for {len(values)} values")
    for value, ranges in zip(values, slices, strict=True):
        need(len(ranges) == base.rank, "slice_scatter", types, f"{len(ranges)} ranges for rank {base.rank}")
        inside = all(
            0 <= start <= stop <= n and step > 0 for (start, stop, step), n in zip(ranges, base.shape, strict=True)
        )
        need(inside, "slice_scatter", types, f"{ranges} leaves the array")
        fits = value.dtype == base.dtype and value.shape == extents_of(ranges)
        need(fits, "slice_scatter", types, f"a value of {value} does not fill {ranges}")
    return base


@lru_cache(maxsize=4096)
def _slice_pieces(shapes: tuple[Shape, ...], attrs: tuple) -> tuple[Piece, ...]:
    (slices,) = attrs
    places = (tuple([(0, extent, 1) for extent in shapes[0]]), *slices)
    covered = (True, *reversed(meeting(shapes[0], slices[::-1])))
    stepless = [all(step == 1 for _, _, step in r) for r in places]
    pieces = [
        Piece(i, r, left_of(r, slices[i:]) if covered[i] and stepless[i] else [r]) for i, r in enumerate(places)
    ]
    return tuple(reversed(pieces))


def do_slice_scatter(base: Any, *values_then_slices: Any) -> Any:
    *values, slices = values_then_slices
    out = base.copy(order="C")
    for value, ranges in zip(values, slices, strict=True):
        out[slices_of(ranges)] = value
    return out


def _scatter(types: Types, attrs: tuple) -> TensorType:
    """x, integer indices, values; ``out = x.copy(); out[..., indices, ...] = values`` along `axis`, or ``mode.at``."""
    need(len(types) == 3, "scatter", types, "it takes an array, indices and values")
    (x, indices, values), (axis, mode) = types, attrs
    need(indices.dtype.kind in "iu", "scatter", types, "indices must be integers")
    need(-x.rank <= axis < 0, "scatter", types, f"axis {axis} is not in -{x.rank}..-1")
    need(mode in MODES, "scatter", types, f"there is no mode {mode!r}")
    position = x.rank + axis
    fits = values.shape == x.shape[:position] + indices.shape + x.shape[position + 1 :]
    need(fits and (values.dtype == x.dtype or mode != "set"), "scatter", types, "the values do not fit the indices")
    return x


def do_scatter(x: np.ndarray, indices: np.ndarray, values: np.ndarray, axis: int, mode: str) -> np.ndarray:
    out = x.copy(order="C")
    where: Any = (*[slice(None)] * (x.ndim + axis), indices)
    if mode == "set":
        out[where] = values
    else:
        UFUNCS[mode].at(out, where, values)
    return out


def _scatter_work(types: Types, _out: TensorType, attrs: tuple) -> int:
    _axis, mode = attrs
    return 0 if mode == "set" else types[2].size


def _bitcast(types: Types, attrs: tuple) -> TensorType:
    (t,), (dtype,) = types, attrs
    need(t.dtype.itemsize == dtype.itemsize, "bitcast", types, f"{dtype} is not as wide")
    return TensorType(dtype, t.shape)


def do_bitcast(x: Any, dtype: np.dtype) -> Any:
    """The same bits, read as numbers of `dtype`."""
    return x.view(dtype)


ROWS = [
    Op("bitcast", Role.LIBRARY, 1, ("dtype",), _bitcast, do_bitcast, no_flops, PriceClass.SIMPLE, Rounding.NEVER,
       reads_bits=True),
    Op("slice_scatter", Role.UPDATE, None, ("slices",), _slice_scatter, do_slice_scatter, no_flops, PriceClass.SIMPLE,
       Rounding.NEVER, pieces=_slice_pieces),
    Op("scatter", Role.UPDATE, 3, ("axis", "mode"), _scatter, do_scatter, _scatter_work, PriceClass.ONE_BY_ONE,
       own_dtypes=(None, INT64)),
]  # fmt: skip
