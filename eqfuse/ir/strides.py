"""How traced arrays lie in memory. What NumPy does by the layout of an array is asked of NumPy, on arrays without data.

In: the strides of arguments, and NumPy's functions. Out: `MemoryLayout`, outlines of views. Used by `storage`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eqfuse.errors import ShapeError
from eqfuse.ir.view_strides import contiguous
from eqfuse.machine.device_arrays import byte_strides
from eqfuse.ops import row
from eqfuse.ops.types import Shape, TensorType

Strides = tuple[int, ...] | None  # in bytes; None: C order. Those of axes of extent 1 are 0
ViewStep = tuple[str, Any]  # a view operator and its one attribute; "squeeze": a reshape by axes of extent 1 alone;
# "flat": one that NumPy writes through in every memory order


class MemoryLayout(NamedTuple):
    """How an array's memory is laid out, and the `arguments` whose own layout this follows from, by place."""

    strides: Strides
    arguments: frozenset[int] = frozenset()


IN_ORDER = MemoryLayout(None)
_TURNING = frozenset(("transpose", "sliding_window", "broadcast_to", "flat"))  # a later axis may have a longer stride


def memory_order(order: str | None, letters: str = "CFAK", default: str = "C") -> str:
    """The letter of a memory order, which NumPy takes in both cases; None means a function's own."""
    letter = default if order is None else str(order).upper()
    if letter not in tuple(letters):
        raise ShapeError(f"the memory order is one of {', '.join(map(repr, letters))}, not {order!r}")
    return letter


def strides_of(array: Any) -> Strides:
    """The strides of an array with data, here or on a device."""
    if isinstance(array, (np.ndarray, np.generic)):
        strides = None if array.flags.c_contiguous else array.strides
    else:
        strides = byte_strides(array)
    return strides and tuple(s if n > 1 else 0 for n, s in zip(array.shape, strides, strict=True))


def in_columns(shape: Shape, itemsize: int) -> Strides:
    """The strides of a new array in Fortran order."""
    return None if len(_long(shape)) < 2 else _packed(shape, range(len(shape)), itemsize)


def is_line(shape: Shape) -> bool:
    """Can a new array of this shape lie in one way alone?"""
    return len(_long(shape)) < 2 or 0 in shape


def view_outline(type: TensorType, strides: Strides, steps: Sequence[ViewStep]) -> np.ndarray | None:
    """The view `steps` of memory that lies so, as an array without data. None where no such view is known."""
    itemsize = type.dtype.itemsize
    steps_in_bytes = [n * itemsize for n in contiguous(type.shape)] if strides is None else strides
    return view_of(as_strided(np.empty(1, type.dtype), type.shape, steps_in_bytes), steps)


def view_of(array: np.ndarray, steps: Sequence[ViewStep]) -> np.ndarray | None:
    """The view `steps` of an array. None where NumPy would have to copy."""
    for op, attr in steps:
        if op in ("reshape", "squeeze", "flat"):
            view = reshaped_view(array, attr)
        elif op == "take":
            view = _picked(array, attr)
        else:
            view = row(op).meaning(array, *(() if op in ("real", "imag") else (attr,)))
        if view is None:
            return None
        array = view
    return array


def reshaped_view(array: np.ndarray, shape: Shape) -> np.ndarray | None:
    """`array` in another shape; None where NumPy would have to copy."""
    try:
        return np.reshape(array, shape, copy=False)
    except ValueError:
        return None


def always_view(shape: Shape, wanted: Shape) -> bool:
    """Is a reshape a view however the array lies in memory?"""
    before, after = ([n for n in extents if n != 1] for extents in (shape, wanted))
    return before == after or len(before) < 2


def changes_nothing(op: str, attr: tuple, shape: Shape) -> bool:
    """Is the view step `op` of an array of `shape` that array?"""
    if op == "flip":
        return all(shape[axis] <= 1 for axis in attr)
    if op == "slice":
        return attr == tuple([(0, n, 1) for n in shape])
    return attr == (tuple(range(len(shape))) if op == "transpose" else shape)


def _picked(array: np.ndarray, pick: tuple) -> np.ndarray:
    """What scalars select from an array without data, all of whose elements are alike."""
    order, position, merged, _ = pick
    kept = [*order[:position], *order[position + len(order) - len(merged) + 1 :]]
    return as_strided(array, [array.shape[axis] for axis in kept], [array.strides[axis] for axis in kept])


def runs_in_order(steps: Sequence[ViewStep]) -> bool:
    """Has no axis of the view `steps` of memory in C order a longer stride than an axis before it?"""
    return all(op not in _TURNING for op, _ in steps)


def copy_strides(array: np.ndarray, order: str, dtype: np.dtype) -> Strides:
    """The strides of a copy of `array`, of another dtype, in the memory `order` "C", "F", "A" or "K"."""
    return like_small(of_small(np.copy, (array, order), {}), TensorType(dtype, array.shape))


def of_small(function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """What `function` makes of small arrays that lie like those in its arguments."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*(_small_of(a) for a in args), **{k: _small_of(v) for k, v in kwargs.items()})


def like_small(result: Any, type: TensorType) -> Strides:
    """The strides of a new array of this type that lies like `result`, one without gaps. ValueError where none can."""
    shape = type.shape
    if result.ndim != len(shape) or [n == 1 for n in result.shape] != [n == 1 for n in shape]:
        raise ValueError(f"an array of shape {shape} does not lie like one of shape {result.shape}")
    order = sorted(_long(shape), key=lambda axis: abs(result.strides[axis]))
    packed = _packed(result.shape, order, result.itemsize)
    if result.size and any(result.strides[axis] != packed[axis] for axis in order):
        raise ValueError("the small array has gaps, or elements that share memory")
    return None if order[::-1] == sorted(order) else _packed(shape, order, type.dtype.itemsize)


def _long(shape: Shape) -> list[int]:
    return [axis for axis, n in enumerate(shape) if n != 1]


def _packed(shape: Shape, order: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides of an array without gaps; the axes in `order`, those of the shortest stride first."""
    strides, step = [0] * len(shape), itemsize
    for axis in order:
        if shape[axis] > 1:
            strides[axis] = step
            step *= shape[axis]
    return tuple(strides)


def _small_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return small_like(value)
    return type(value)(map(_small_of, value)) if type(value) in (list, tuple) else value


def small_like(array: np.ndarray) -> np.ndarray:
    """An array of ones, of extents up to 3, that lies like `array`: what NumPy makes of them lies alike too."""
    most = 3 if array.ndim <= 6 else 2
    shape = tuple(min(n, most) for n in array.shape)
    strides, stride, after = [0] * array.ndim, 0, array.itemsize  # the stride before, and the next one without a gap
    before, dense = 0, array.itemsize  # the same of `array`
    for size, axis in sorted((abs(array.strides[a]), a) for a in _long(array.shape) if array.strides[a]):
        if size != before:  # or two axes go along the same elements
            stride = after if size == dense else 2 * after
        strides[axis] = stride if array.strides[axis] > 0 else -stride
        before, dense, after = size, size * array.shape[axis], stride * shape[axis]
    first = sum(-s * (n - 1) for s, n in zip(strides, shape, strict=True) if s < 0)
    length = first + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True) if s > 0) + array.itemsize
    data = np.ones(length // array.itemsize, array.dtype)
    return as_strided(data[first // array.itemsize :], shape, strides)


def read_order(array: np.ndarray) -> list[int]:
    """The axes of `array` as NumPy's memory order "K" goes through its elements, the last one fastest."""
    walk = np.nditer(small_like(array), ["multi_index"], order="K")
    places = [walk.multi_index for _ in walk]
    first = [next((i for i, place in enumerate(axis) if place != axis[0]), 0) for axis in zip(*places, strict=True)]
    return sorted(range(len(first)), key=lambda axis: -first[axis])
