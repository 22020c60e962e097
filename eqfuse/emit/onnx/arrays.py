"""How reductions, views, products, windows and updates are written in ONNX.

In: a node whose arguments are values of a `Body`. Out: the value of the node. See `elementwise.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import kind, lowest
from eqfuse.emit.onnx.body import BOOL, I64, TAKES, Body, Value, carried
from eqfuse.emit.onnx.elementwise import nan
from eqfuse.emit.onnx.table import row
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node
from eqfuse.ops.literal import Literal

Ints = Sequence[int]
Pads = Sequence[tuple[int, int]]
Range = tuple[int, int, int]

# ---- reductions


@row("sum", "prod")
def total(b: Body, n: Node, args: Sequence[Value], axes: Ints) -> Value:
    return _total(b, n.op, b.cast(args[0], n.dtype), n.args[0].shape, axes, n.shape)


def _total(
    b: Body, op: str, x: Value, shape: Sequence[int], axes: Sequence[int], result: Sequence[int]
) -> Value:
    """The sum or product of `x` over `axes`, in the shape `result`. onnxruntime adds up whole numbers as float64, but
    multiplies them, and their matrices, exactly."""
    if 0 in shape:
        return _full(b, 0 if op == "sum" else 1, x.dtype, result)
    if not axes:
        return b.uncast("Identity", x)
    if kind(x.dtype) == "f":
        return _reduced(b, "ReduceSum" if op == "sum" else "ReduceProd", x, axes, len(result) == len(shape))
    rows, count = _rows(b, x, shape, axes)
    if op == "sum":
        return _reshaped(b, b("MatMul", rows, b.constant(np.ones((count, 1)), x.dtype)), result)
    while count > 1:
        half = count // 2
        paired = b("Mul", _columns(b, rows, 0, half), _columns(b, rows, half, 2 * half))
        odd = count % 2
        rows = b.uncast("Concat", paired, _columns(b, rows, count - 1, count), axis=1) if odd else paired
        count = half + odd
    return _reshaped(b, rows, result)


def _rows(b: Body, x: Value, shape: Sequence[int], axes: Sequence[int]) -> tuple[Value, int]:
    """`x` as a matrix whose rows run over `axes`, and their length."""
    last = [len(shape) + a for a in axes]
    order = [i for i in range(len(shape)) if i not in last] + last
    count = math.prod(shape[a] for a in axes)
    return _reshaped(b, _transposed(b, x, order), (math.prod(shape) // count, count)), count


def _columns(b: Body, x: Value, start: int, stop: int) -> Value:
    return b.uncast("Slice", x, b.ints(start), b.ints(stop), b.ints(1), b.ints(1))


def _reduced(b: Body, op: str, x: Value, axes: Sequence[int], kept: bool = True) -> Value:
    carrier = carried(op, x.dtype)
    return b.cast(b.uncast(op, b.cast(x, carrier), b.ints(*axes), keepdims=int(kept)), x.dtype)


def _full(b: Body, value: Any, dtype: np.dtype, shape: Sequence[int]) -> Value:
    return b.uncast("Expand", b.constant(value, dtype), b.ints(*shape))


@row("max", "min")
def extreme(b: Body, n: Node, args: Sequence[Value], axes: Ints) -> Value:
    return _extreme(b, n.op == "max", args[0], n.args[0].shape, axes, n.shape)


def _extreme(
    b: Body, largest: bool, x: Value, shape: Sequence[int], axes: Sequence[int], result: Sequence[int]
) -> Value:
    """The extreme of `x` over `axes`, in the shape `result`. onnxruntime may pass over NaN, NumPy does not; of whole
    numbers of 64 bits it may compare the lower half."""
    op = "ReduceMax" if largest else "ReduceMin"
    if 0 in shape:
        return _full(b, 0, x.dtype, result)  # of no elements
    if not axes:
        return b.uncast("Identity", x)
    if carried(op, x.dtype) == I64:
        rows, _ = _rows(b, x, shape, axes)
        options = {"axis": 1, "largest": int(largest), "sorted": 1}
        best, _ = b.several("TopK", (b.cast(rows, I64), b.ints(1)), (I64, I64), **options)
        return _reshaped(b, b.cast(best, x.dtype), result)
    kept = len(result) == len(shape)
    made = _reduced(b, op, x, axes, kept)
    if kind(x.dtype) != "f":
        return made
    return b.where(_reduced(b, "ReduceMax", nan(b, x), axes, kept), b.constant(np.nan, x.dtype), made)


@row("any", "all")
def truth(b: Body, n: Node, args: Sequence[Value], axes: Ints) -> Value:
    x = b.cast(args[0], BOOL)
    if n.args[0].type.size == 0:
        return _full(b, n.op == "all", BOOL, n.shape)
    return _reduced(b, "ReduceMax" if n.op == "any" else "ReduceMin", x, axes) if axes else b.uncast("Identity", x)


@row("argmax", "argmin")
def place(b: Body, n: Node, args: Sequence[Value], axes: Ints) -> Value:
    (x,), (axis,) = args, axes
    op = "ArgMax" if n.op == "argmax" else "ArgMin"
    made = b(op, x, dtype=I64, axis=axis, keepdims=1)
    if kind(x.dtype) != "f":
        return made
    found = nan(b, x)
    first = b("ArgMax", found, dtype=I64, axis=axis, keepdims=1)
    return b.where(_reduced(b, "ReduceMax", found, (axis,)), first, made)


@row("cumsum")
def cumsum(b: Body, n: Node, args: Sequence[Value], axis: int) -> Value:
    carrier = carried("CumSum", n.dtype)
    x = b.cast(b.cast(args[0], n.dtype), carrier)
    return b.cast(b.uncast("CumSum", x, b.constant(axis, I64)), n.dtype)


@row("sort", "argsort")
def sort(b: Body, n: Node, args: Sequence[Value], axis: int, stable: bool) -> Value:
    """Least first, NaN last, equal values in their order."""
    (x,) = args
    count = n.args[0].shape[axis]
    carrier = carried("TopK", x.dtype)
    x = b.cast(x, carrier)

    def ordered(keys: Value) -> tuple[Value, Value]:
        options = {"axis": axis, "largest": 0, "sorted": 1}
        values, places = b.several("TopK", (keys, b.ints(count)), (keys.dtype, I64), **options)
        return values, places

    if kind(carrier) != "f":
        values, places = ordered(x)
    else:
        last = b.cast(nan(b, x), np.dtype(np.int32))
        _, by_value = ordered(b.where(b.cast(last, BOOL), b.constant(np.inf, carrier), x))
        _, by_nan = ordered(b.uncast("GatherElements", last, by_value, axis=axis))
        places = b.uncast("GatherElements", by_value, by_nan, axis=axis)
        values = b.uncast("GatherElements", x, places, axis=axis)
    return places if n.op == "argsort" else b.cast(values, n.dtype)


# ---- views and gathers


@row("transpose")
def transpose(b: Body, n: Node, args: Sequence[Value], axes: Ints) -> Value:
    return _transposed(b, args[0], axes)


def _transposed(b: Body, x: Value, order: Sequence[int]) -> Value:
    """`x` with its axes in that order."""
    return x if list(order) == sorted(order) else b.uncast("Transpose", x, perm=list(order))


@row("reshape")
def reshape(b: Body, n: Node, args: Sequence[Value], shape: Ints) -> Value:
    return _reshaped(b, args[0], shape)


def _reshaped(b: Body, x: Value, shape: Sequence[int]) -> Value:
    """`x` in `shape`."""
    return b.uncast("Reshape", x, b.ints(*shape), allowzero=1)


@row("broadcast_to")
def broadcast_to(b: Body, n: Node, args: Sequence[Value], shape: Ints) -> Value:
    return b.uncast("Expand", args[0], b.ints(*shape))


@row("slice")
def slice_(b: Body, n: Node, args: Sequence[Value], ranges: Sequence[Range]) -> Value:
    cuts = [
        (axis, *r) for axis, (r, e) in enumerate(zip(ranges, n.args[0].shape, strict=True)) if r != (0, e, 1)
    ]
    if not cuts:
        return b.uncast("Identity", args[0])
    axes, starts, stops, steps = zip(*cuts, strict=True)
    return b.uncast("Slice", args[0], b.ints(*starts), b.ints(*stops), b.ints(*axes), b.ints(*steps))


@row("flip")
def flip(b: Body, n: Node, args: Sequence[Value], axes: Ints) -> Value:
    starts, stops, steps = ([value] * len(axes) for value in (-1, -(1 << 62), -1))
    if not axes:
        return b.uncast("Identity", args[0])
    return b.uncast("Slice", args[0], b.ints(*starts), b.ints(*stops), b.ints(*axes), b.ints(*steps))


@row("sliding_window")
def sliding_window(b: Body, n: Node, args: Sequence[Value], windows: Sequence[tuple[int, int]]) -> Value:
    (x,), rank = args, n.args[0].type.rank
    extents, order = list(n.args[0].shape), list(range(rank))
    for axis, width in windows:
        at = rank + axis
        extents[at] -= width - 1
        x = _gathered(b, x, np.add.outer(np.arange(extents[at]), np.arange(width)), order.index(at))
        order.insert(order.index(at) + 1, len(order))
    return _transposed(b, x, [order.index(i) for i in range(len(order))])


def _gathered(b: Body, x: Value, places: np.ndarray, axis: int) -> Value:
    return b.uncast("Gather", x, b.constant(places, I64), axis=axis)


@row("take")
def take(b: Body, n: Node, args: Sequence[Value], axis: int) -> Value:
    return b.uncast("Gather", args[0], b.cast(args[1], I64), axis=axis)


@row("take_along_axis")
def take_along_axis(b: Body, n: Node, args: Sequence[Value], axis: int) -> Value:
    return b.uncast("GatherElements", args[0], b.cast(args[1], I64), axis=axis)


@row("concat")
def concat(b: Body, n: Node, args: Sequence[Value], axis: int) -> Value:
    return b.uncast("Concat", *args, axis=axis)


@row("pad")
def pad(b: Body, n: Node, args: Sequence[Value], widths: Sequence[tuple[int, int]]) -> Value:
    return _padded(b, args[0], widths, args[1]) if n.type.rank else b.uncast("Identity", args[0])


def _padded(b: Body, x: Value, widths: Sequence[tuple[int, int]], fill: Value) -> Value:
    carrier = carried("Pad", x.dtype)
    wanted = b.ints(*(before for before, _ in widths), *(after for _, after in widths))
    return b.cast(b.uncast("Pad", b.cast(x, carrier), wanted, b.cast(fill, carrier)), x.dtype)


# ---- products and windows


@row("matmul")
def matmul(b: Body, n: Node, args: Sequence[Value]) -> Value:
    return b("MatMul", *args) if n.args[0].shape[-1] else _full(b, 0, n.dtype, n.shape)


@row("det")
def det(b: Body, n: Node, args: Sequence[Value]) -> Value:
    return b("Det", *args)


@row("conv")
def conv(
    b: Body, n: Node, args: Sequence[Value], strides: Ints, padding: Pads, dilations: Ints, groups: int
) -> Value:
    x, w = args
    if n.dtype.name in ("float16", "float32"):
        pads = [before for before, _ in padding] + [after for _, after in padding]
        return b.uncast("Conv", x, w, strides=strides, pads=pads, dilations=dilations, group=groups)
    view = _windows(b, x, n.args[0].shape, n.args[1].shape[2:], strides, padding, dilations, 0)
    return _conv_by_products(b, n, view, w, groups)


def _conv_by_products(b: Body, n: Node, view: Value, w: Value, groups: int) -> Value:
    """What onnxruntime has no Conv for: one product per group, of windows and filters."""
    (batch, channels, *_), (filters, per_group, *window) = n.args[0].shape, n.args[1].shape
    k, positions = len(window), n.shape[2:]
    at = range(2, 2 + k)
    view = _transposed(b, view, [1, 0, *at, *range(2 + k, 2 + 2 * k)])
    terms = per_group * math.prod(window)
    # [groups, channels of one, batch and positions, window] -> [groups, batch and positions, terms]
    view = _reshaped(b, view, (groups, channels // groups, batch * math.prod(positions), math.prod(window)))
    view = _reshaped(
        b, _transposed(b, view, [0, 2, 1, 3]), (groups, batch * math.prod(positions), terms)
    )
    rows = _transposed(b, _reshaped(b, w, (groups, filters // groups, terms)), [0, 2, 1])
    made = _reshaped(b, b("MatMul", view, rows), (groups, batch, *positions, filters // groups))
    made = _transposed(b, made, [1, 0, 2 + k, *at])
    return _reshaped(b, made, n.shape)


def _windows(
    b: Body, x: Value, shape: Sequence[int], window: Sequence[int], strides: Sequence[int],
    padding: Pads, dilations: Sequence[int], fill: Any,
) -> Value:  # fmt: skip
    """[..., *positions, *window] of the windows over the trailing axes of padded `x`."""
    k, lead = len(window), len(shape) - len(window)
    if any(p != (0, 0) for p in padding):
        x = _padded(b, x, [(0, 0)] * lead + list(padding), b.constant(fill, x.dtype))
    for i in reversed(range(k)):
        room = shape[lead + i] + sum(padding[i]) - ((window[i] - 1) * dilations[i] + 1)
        starts = np.arange(0, room + 1, strides[i])
        x = _gathered(b, x, np.add.outer(starts, np.arange(window[i]) * dilations[i]), lead + i)
    axes = [*range(lead), *(lead + 2 * i for i in range(k)), *(lead + 2 * i + 1 for i in range(k))]
    return _transposed(b, x, axes)


@row("window_max")
def window_max(b: Body, n: Node, args: Sequence[Value], window: Ints, strides: Ints, padding: Pads) -> Value:
    """onnxruntime may pass over NaN, NumPy does not."""
    (x,) = args
    if not window:
        return b.uncast("Identity", x)
    if n.dtype.name not in TAKES["MaxPool"] or len(window) > 3:
        view = _windows(b, x, n.args[0].shape, window, strides, padding, (1,) * len(window), lowest(n.dtype))
        return _extreme(b, True, view, (*n.shape, *window), range(-len(window), 0), n.shape)
    made = _pooled(b, n, x, window, strides, padding)
    if kind(n.dtype) != "f":
        return made
    found = b.cast(_pooled(b, n, b.cast(nan(b, x), np.dtype(np.uint8)), window, strides, padding), BOOL)
    return b.where(found, b.constant(np.nan, n.dtype), made)


def _pooled(b: Body, n: Node, x: Value, window: Ints, strides: Ints, padding: Pads) -> Value:
    pads, shape = _images(n, padding)
    made = b.uncast("MaxPool", _reshaped(b, x, shape), kernel_shape=window, strides=strides, pads=pads)
    return _reshaped(b, made, n.shape)


def _images(n: Node, padding: Pads) -> tuple[list[int], tuple[int, ...]]:
    """ONNX's pads, and the operand's shape as images of one channel."""
    k = len(padding)
    pads = [before for before, _ in padding] + [after for _, after in padding]
    return pads, (math.prod(n.shape[:-k]), 1, *n.args[0].shape[-k:])


@row("window_sum")
def window_sum(b: Body, n: Node, args: Sequence[Value], window: Ints, strides: Ints, padding: Pads) -> Value:
    (x,) = args
    if not window:
        return b.uncast("Identity", x)
    if n.dtype.name not in TAKES["Conv"] or len(window) > 3:
        view = _windows(b, x, n.args[0].shape, window, strides, padding, (1,) * len(window), 0)
        return _total(b, "sum", view, (*n.shape, *window), range(-len(window), 0), n.shape)
    pads, shape = _images(n, padding)
    ones = b.constant(np.ones((1, 1, *window)), n.dtype)
    return _reshaped(b, b.uncast("Conv", _reshaped(b, x, shape), ones, strides=strides, pads=pads), n.shape)


# ---- updates


@row("slice_scatter")
def slice_scatter(b: Body, n: Node, args: Sequence[Value], slices: Sequence[Sequence[Range]]) -> Value:
    base, *values = args
    for value, ranges in zip(values, slices, strict=True):
        base = _written(b, base, value, n.shape, ranges, 0)
    return base if values else b.uncast("Identity", base)


def _written(
    b: Body, base: Value, value: Value, shape: Sequence[int], ranges: Sequence[Range], axis: int
) -> Value:
    """`base` with its slice by the `ranges` from `axis` on replaced, one axis after the other."""
    while axis < len(shape) and ranges[axis] == (0, shape[axis], 1):
        axis += 1
    if axis == len(shape):
        return value
    places = np.arange(*ranges[axis])
    inner = [len(places) if i == axis else e for i, e in enumerate(shape)]
    inside = _written(b, _gathered(b, base, places, axis), value, inner, ranges, axis + 1)
    order = [axis, *(i for i in range(len(shape)) if i != axis)]
    first = _transposed(b, base, order), _transposed(b, inside, order)
    made = b.uncast("ScatterND", first[0], b.constant(places[:, None], I64), first[1])
    return _transposed(b, made, [order.index(i) for i in range(len(shape))])


_REDUCTIONS = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}


@row("scatter")
def scatter(b: Body, n: Node, args: Sequence[Value], axis: int, mode: str) -> Value:
    x, indices, values = args
    if mode == "set" and not _distinct(n.args[1], n.shape[axis]):
        raise UnsupportedOp("ONNX leaves open which of several values lands in one place: the places must be constants")
    if mode != "set" and (mode not in _REDUCTIONS or (kind(n.dtype) == "f" and mode in ("maximum", "minimum"))):
        raise UnsupportedOp(f"ONNX's ScatterND has no {mode} that is NumPy's")
    if n.args[2].dtype != n.dtype:
        raise UnsupportedOp(f"the values are {n.args[2].dtype}, the array is {n.dtype}: cast them first")
    at, rank, more = n.type.rank + axis, n.type.rank, n.args[1].type.rank
    order = [at, *(i for i in range(rank) if i != at)]
    places = [*range(at, at + more), *(i for i in range(rank - 1 + more) if not at <= i < at + more)]
    carrier = x.dtype if mode == "set" else carried("ScatterND", x.dtype)
    made = b.uncast(
        "ScatterND",
        _transposed(b, b.cast(x, carrier), order),
        _reshaped(b, b.cast(indices, I64), (*n.args[1].shape, 1)),
        _transposed(b, b.cast(values, carrier), places),
        reduction="none" if mode == "set" else _REDUCTIONS[mode],
    )
    return b.cast(_transposed(b, made, [order.index(i) for i in range(rank)]), x.dtype)


def _distinct(indices: Node, extent: int) -> bool:
    """Are these for sure all different places?"""
    literal = indices.attrs[0] if indices.op == "const" else None
    if not isinstance(literal, Literal):
        return indices.type.size <= 1
    return len(np.unique(literal.array % max(extent, 1))) == literal.array.size
