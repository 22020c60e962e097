"""Rows of the index maps: views, which NumPy gives without moving data, arrays joined of pieces, and gathers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqfuse.dtypes import moved
from eqfuse.ops import index_map
from eqfuse.ops.index_map import IndexMap
from eqfuse.ops.row import INT64, Op, PriceClass, Role, Rounding, Types, need, no_flops
from eqfuse.ops.types import Shape, TensorType


def extents_of(ranges: Iterable[tuple[int, int, int]]) -> Shape:
    """How many elements each of `ranges`, (start, stop, step), has."""
    return tuple([len(range(*r)) for r in ranges])


def _transpose(types: Types, attrs: tuple) -> TensorType:
    (t,), (axes,) = types, attrs
    need(sorted(axes) == list(range(t.rank)), "transpose", types, "{} is not a permutation of its axes", axes)
    return TensorType(t.dtype, tuple(t.shape[a] for a in axes))


def _reshape(types: Types, attrs: tuple) -> TensorType:
    (t,), (shape,) = types, attrs
    fits = math.prod(shape) == t.size and min(shape, default=0) >= 0
    need(fits, "reshape", types, "{} elements do not fill shape {}", t.size, shape)
    return TensorType(t.dtype, shape)


def _broadcast_to(types: Types, attrs: tuple) -> TensorType:
    (t,), (shape,) = types, attrs
    fits = len(shape) >= t.rank and min(shape, default=0) >= 0
    fits = fits and all(n in (1, m) for n, m in zip(t.shape[::-1], shape[::-1], strict=False))
    need(fits, "broadcast_to", types, "it does not broadcast to {}", shape)
    return TensorType(t.dtype, shape)


def _slice(types: Types, attrs: tuple) -> TensorType:
    """attrs: (start, stop, step) per axis, with 0 <= start <= stop <= extent and step > 0."""
    (t,), (ranges,) = types, attrs
    need(len(ranges) == t.rank, "slice", types, "{} ranges for rank {}", len(ranges), t.rank)
    for (start, stop, step), n in zip(ranges, t.shape, strict=True):
        inside = 0 <= start <= stop <= n and step > 0
        need(inside, "slice", types, "range {}:{}:{} leaves extent {}", start, stop, step, n)
    return TensorType(t.dtype, extents_of(ranges))


def _flip(types: Types, attrs: tuple) -> TensorType:
    (t,), (axes,) = types, attrs
    need(all(-t.rank <= a < 0 for a in axes), "flip", types, "axes {} are not all in -{}..-1", axes, t.rank)
    return t


def _sliding_window(types: Types, attrs: tuple) -> TensorType:
    """attrs: (axis, extent) of every window; positions stay where the axes are, windows come last, in order."""
    (t,), (windows,) = types, attrs
    extents = list(t.shape)
    for axis, n in windows:
        need(-t.rank <= axis < 0, "sliding_window", types, f"axis {axis} is not in -{t.rank}..-1")
        extents[axis] -= n - 1
        need(n >= 0 and extents[axis] > 0, "sliding_window", types, f"a window of {n} along axis {axis} does not fit")
    return TensorType(t.dtype, (*extents, *(n for _, n in windows)))


def _agree_except(axis: int, a: TensorType, b: TensorType) -> bool:
    return all(m == n for i, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)) if i - a.rank != axis)


def _concat(types: Types, attrs: tuple) -> TensorType:
    (axis,) = attrs
    first = types[0]
    need(-first.rank <= axis < 0, "concat", types, f"axis {axis} is not in -{first.rank}..-1")
    for t in types:
        same = t.rank == first.rank and t.dtype == first.dtype and _agree_except(axis, t, first)
        need(same, "concat", types, f"dtypes, ranks and extents other than along axis {axis} must agree")
    total = sum(t.shape[axis] for t in types)
    return TensorType(first.dtype, tuple(total if i - first.rank == axis else n for i, n in enumerate(first.shape)))


def _pad(types: Types, attrs: tuple) -> TensorType:
    """Arguments: the tensor and a scalar of its dtype; attrs: (before, after) per axis."""
    (t, value), (widths,) = types, attrs
    scalar = value.shape == () and value.dtype == t.dtype
    need(scalar, "pad", types, "the fill value must be a scalar of the same dtype")
    need(len(widths) == t.rank and all(w >= 0 for p in widths for w in p), "pad", types, "bad widths {}", widths)
    return TensorType(t.dtype, tuple(n + before + after for n, (before, after) in zip(t.shape, widths, strict=True)))


def _take(types: Types, attrs: tuple) -> TensorType:
    """x.take(indices, axis): the axis is replaced by the indices' shape. Negative indices count from the end."""
    (t, indices), (axis,) = types, attrs
    need(indices.dtype.kind in "iu", "take", types, "indices must be integers")
    need(-t.rank <= axis < 0, "take", types, "axis {} is not in -{}..-1", axis, t.rank)
    position = t.rank + axis
    return TensorType(t.dtype, t.shape[:position] + indices.shape + t.shape[position + 1 :])


def _take_along_axis(types: Types, attrs: tuple) -> TensorType:
    (t, indices), (axis,) = types, attrs
    fit = indices.dtype.kind in "iu" and indices.rank == t.rank
    need(fit, "take_along_axis", types, "the indices must be integers, of equal rank")
    same = _agree_except(axis, t, indices)
    need(same, "take_along_axis", types, f"extents other than along axis {axis} must agree")
    return TensorType(t.dtype, indices.shape)


def _do_sliding_window(x: np.ndarray, windows: tuple) -> np.ndarray:
    return moved(sliding_window_view, x, tuple(n for _, n in windows), tuple(axis for axis, _ in windows))


def _do_slice(x: np.ndarray, ranges: tuple) -> np.ndarray:
    taken: Any = (..., *[slice(*r) for r in ranges])  # an array, of a number too, and where `x` is
    sliced: np.ndarray = x[taken]
    return sliced


def _do_concat(*arrays_then_axis: object) -> np.ndarray:
    *arrays, axis = arrays_then_axis
    return np.concatenate(arrays, axis=axis)  # type: ignore[call-overload]


def _do_pad(x: np.ndarray, value: np.ndarray, widths: tuple) -> np.ndarray:
    return np.pad(x, widths, constant_values=value) if x.ndim else x


def _row(
    name: str, role: Role, arity: int | None, attrs: tuple[str, ...], rule: Any, meaning: Any, price: PriceClass,
    **facts: Any,
) -> Op:  # fmt: skip
    return Op(name, role, arity, attrs, rule, meaning, no_flops, price, Rounding.NEVER, **facts)


def _view(
    name: str, attr: str, rule: object, meaning: object, places: Callable[[Shape, tuple], IndexMap | None],
    price: PriceClass = PriceClass.FREE, **facts: Any,
) -> Op:  # fmt: skip
    return _row(name, Role.VIEW, 1, (attr,), rule, meaning, price, index_map=lru_cache(maxsize=4096)(places), **facts)


ROWS = [
    _view("transpose", "axes", _transpose, np.transpose, index_map.transpose_map, PriceClass.TRANSPOSE),
    _view("reshape", "shape", _reshape, np.reshape, index_map.reshape_map),
    _view("broadcast_to", "shape", _broadcast_to, np.broadcast_to, index_map.broadcast_map, repeats=True),
    _view("slice", "ranges", _slice, _do_slice, index_map.slice_map, partial=True),
    _view("flip", "axes", _flip, np.flip, index_map.flip_map),
    _view("sliding_window", "windows", _sliding_window, _do_sliding_window, index_map.window_map,
          partial=True, repeats=True),
    _row("take", Role.GATHER, 2, ("axis",), _take, np.take, PriceClass.ONE_BY_ONE, own_dtypes=(None, INT64)),
    _row("take_along_axis", Role.GATHER, 2, ("axis",), _take_along_axis, np.take_along_axis, PriceClass.ONE_BY_ONE,
         own_dtypes=(None, INT64), by_element=True),
    _row("concat", Role.PIECES, None, ("axis",), _concat, _do_concat, PriceClass.SIMPLE,
         pieces=lru_cache(maxsize=4096)(index_map.concat_pieces)),
    _row("pad", Role.PIECES, 2, ("widths",), _pad, _do_pad, PriceClass.SIMPLE,
         pieces=lru_cache(maxsize=4096)(index_map.pad_pieces)),
]  # fmt: skip
