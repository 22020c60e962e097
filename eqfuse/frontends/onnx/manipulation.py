"""ONNX operators that move data without looking at it: shapes, views, joins, paddings, and arrays made from nothing.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.errors import EqfuseError, ShapeError
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.table import axis_of, dtype_of, ints, one, one_of, operator, value

# ---- made from nothing


@operator("Constant")
def constant_value(
    *,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None,
    value_int: int | None = None,
    value_ints: tuple[int, ...] | None = None,
) -> Any:
    for numbers, dtype in ((value_float, np.float32), (value_floats, np.float32), (value_int, np.int64)):
        if numbers is not None:
            return np.asarray(numbers, dtype)
    if value is None and value_ints is None:
        raise EqfuseError("it has no value")
    return value if value is not None else np.asarray(value_ints, np.int64)


@operator("ConstantOfShape")
def constant_of_shape(shape: Any, *, value: np.ndarray | None = None) -> Any:
    fill = np.zeros(1, np.float32) if value is None else value
    if fill.size != 1:
        raise ShapeError(f"its value has {fill.size} elements instead of one")
    return lazy.broadcast_to(lift(fill.reshape(())), ints(shape, "the shape"))


@operator("Shape")
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return np.array(x.shape[start:end], np.int64)


@operator("Size")
def size(x: Any) -> Any:
    return np.array(x.size, np.int64)


@operator("Range")
def range_(start: Any, limit: Any, delta: Any, *, stash_type: int = 1) -> Any:
    first, last, step = (value(x, "a bound of the range").reshape(()) for x in (start, limit, delta))
    count = _count(first, last, step)
    if count is None:
        raise ShapeError(f"a range from {first} to {last} in steps of {step} has no length")
    wide = first.dtype if first.dtype.itemsize > 2 or first.dtype.kind in "iu" else np.dtype(np.float32)
    return (first.astype(wide) + np.arange(count).astype(wide) * step.astype(wide)).astype(first.dtype)


def _count(first: np.ndarray, last: np.ndarray, step: np.ndarray) -> int | None:
    """Of the numbers of a range; None where there is none. Of integers it is exact."""
    if first.dtype.kind in "iu":
        return max(0, -((int(first) - int(last)) // int(step))) if step else None
    steps = (last.astype(np.float64) - first.astype(np.float64)) / step.astype(np.float64)
    return max(0, math.ceil(steps)) if np.isfinite(steps) else None


@operator("EyeLike")
def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    rows, columns = x.shape
    return np.eye(rows, columns, k, x.dtype if dtype is None else dtype_of(dtype))


# ---- the same elements in another shape


@operator("Reshape", since=5)
def reshape(x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    wanted = ints(shape, "the shape")
    return x.reshape(wanted if allowzero else _with_copies(wanted, x.shape))


def _with_copies(wanted: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """`wanted`, a 0 in it as the extent of that axis of `shape`."""
    if 0 in wanted[len(shape) :]:
        raise ShapeError(f"the 0 in the shape {wanted} takes over the extent of an axis that {shape} does not have")
    return tuple(shape[a] if n == 0 else n for a, n in enumerate(wanted))


@operator("Reshape")
def reshape_by_attribute(x: Any, *, shape: tuple[int, ...]) -> Any:
    return x.reshape(_with_copies(shape, x.shape))


@operator("Flatten")
def flatten(x: Any, *, axis: int = 1) -> Any:
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Squeeze")
def squeeze(x: Any, axes_input: Any = None, *, axes: tuple[int, ...] | None = None) -> Any:
    axes = ints(axes_input, "axes") if axes_input is not None else axes
    return lazy.squeeze(x, axes)


@operator("Unsqueeze")
def unsqueeze(x: Any, axes_input: Any = None, *, axes: tuple[int, ...] = ()) -> Any:
    return lazy.expand_dims(x, ints(axes_input, "axes") if axes_input is not None else axes)


@operator("Transpose")
def transpose(x: Any, *, perm: tuple[int, ...] | None = None) -> Any:
    return lazy.transpose(x, perm)


@operator("Expand")
def expand(x: Any, shape: Any) -> Any:
    return lazy.broadcast_to(x, np.broadcast_shapes(x.shape, ints(shape, "the shape")))


@operator("Tile", since=6)
def tile(x: Any, repeats: Any) -> Any:
    return lazy.tile(x, ints(repeats, "repeats"))


@operator("DepthToSpace")
def depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    k = blocksize
    if one_of(mode, ("DCR", "CRD"), "mode") == "DCR":
        parts = x.reshape(n, k, k, c // k**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // k**2, k, k, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // k**2, h * k, w * k)


@operator("SpaceToDepth")
def space_to_depth(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    k = blocksize
    parts = x.reshape(n, c, h // k, k, w // k, k)
    order = (0, 3, 5, 1, 2, 4) if one_of(mode, ("DCR", "CRD"), "mode") == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.transpose(order).reshape(n, c * k**2, h // k, w // k)


# ---- parts and joins


@operator("Slice", since=10)
def slice_(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    first, last = ints(starts, "starts"), ints(ends, "ends")
    along = tuple(range(len(first))) if axes is None else ints(axes, "axes")
    step = (1,) * len(first) if steps is None else ints(steps, "steps")
    return _sliced(x, first, last, along, step)


@operator("Slice")
def slice_by_attributes(
    x: Any, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Any:
    return _sliced(x, starts, ends, tuple(range(len(starts))) if axes is None else axes, (1,) * len(starts))


def _sliced(x: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> Any:
    key = [slice(None)] * x.ndim
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = x.shape[axis]
        begin, end, step = slice(max(first, -n), last, step).indices(n)
        key[axis] = slice(begin, None if end < 0 else end, step)
    return x[tuple(key)]


@operator("Split")
def split(
    x: Any, split_input: Any = None, *, axis: int = 0, split: tuple[int, ...] = (), num_outputs: int | None = None,
    outputs: int = 1,
) -> Any:  # fmt: skip
    sizes = ints(split_input, "the split") if split_input is not None else split
    if not sizes:
        count = num_outputs or outputs
        each = -(-x.shape[axis] // count)
        sizes = tuple(min(each, x.shape[axis] - i * each) for i in range(count))
    if len(sizes) != outputs:
        raise ShapeError(f"it has {len(sizes)} parts, and {outputs} outputs")
    return split_parts(x, sizes, axis)


def split_parts(x: Any, sizes: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    """`x` in parts of `sizes` along an axis. ShapeError where they are not all of it."""
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise ShapeError(f"the parts {sizes} do not make up the extent {x.shape[axis]} of axis {axis}")
    return tuple(lazy.split(x, np.cumsum(sizes)[:-1].tolist(), axis)) if sizes else ()


@operator("Concat")
def concat(*xs: Any, axis: int = 1) -> Any:
    return lazy.concatenate(xs, axis)


@operator("CenterCropPad")
def center_crop_pad(x: Any, shape: Any, *, axes: tuple[int, ...] | None = None) -> Any:
    along = tuple(range(x.ndim)) if axes is None else tuple(axis_of(a, x.ndim) for a in axes)
    key, widths = [slice(None)] * x.ndim, [(0, 0)] * x.ndim
    for axis, n in zip(along, ints(shape, "the shape"), strict=True):
        have = x.shape[axis]
        if n < have:
            first = (have - n) // 2
            key[axis] = slice(first, first + n)
        else:
            widths[axis] = ((n - have) // 2, n - have - (n - have) // 2)
    return lazy.pad(x[tuple(key)], widths)


_MODES = ("constant", "reflect", "edge", "wrap")


@operator("Pad", since=11)
def pad(x: Any, pads: Any, fill: Any = None, axes: Any = None, *, mode: str = "constant") -> Any:
    along = tuple(range(x.ndim)) if axes is None else ints(axes, "axes")
    return _padded(x, ints(pads, "pads"), along, mode, 0 if fill is None else fill.reshape(()))


@operator("Pad", since=2)
def pad_by_attributes(x: Any, *, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Any:
    return _padded(x, pads, tuple(range(x.ndim)), mode, value)


def _padded(x: Any, pads: tuple[int, ...], axes: tuple[int, ...], mode: str, fill: Any) -> Any:
    """Negative widths take elements away: before others are added, which repeat what is left; constants, which repeat
    nothing, may be taken away too."""
    one_of(mode, _MODES, "mode")
    if len(pads) != 2 * len(axes):
        raise ShapeError(f"pads has {len(pads)} numbers instead of {2 * len(axes)}, two for each axis")
    widths = [(0, 0)] * x.ndim
    for place, axis in enumerate(axes):
        widths[axis] = (pads[place], pads[place + len(axes)])
    if any(n + a + b < 0 for n, (a, b) in zip(x.shape, widths, strict=True)):
        raise ShapeError(f"pads takes more elements away than {x.shape} has")
    added = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "constant":
        return _shortened(lazy.pad(x, added, constant_values=fill), widths)
    return lazy.pad(_shortened(x, widths), added, mode)


def _shortened(x: Any, widths: Sequence[tuple[int, int]]) -> Any:
    """`x` without the elements that negative widths take away."""
    return x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, x.shape, strict=True))]


@operator("Trilu")
def trilu(x: Any, k: Any = None, *, upper: int = 1) -> Any:
    diagonal = 0 if k is None else one(k, "k")
    return lazy.triu(x, diagonal) if upper else lazy.tril(x, diagonal)
