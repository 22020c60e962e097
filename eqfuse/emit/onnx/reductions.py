"""How reductions, scans and sorts are written in ONNX.

In: a node whose arguments are values of a `Builder`. Out: the value of the node. Rows of the table in `table.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.emit.onnx.body import I64, Builder, OnnxValue, computed_in
from eqfuse.emit.onnx.elementwise import nan
from eqfuse.emit.onnx.table import Ints, writer_of
from eqfuse.emit.onnx.views import full, reshaped, transposed
from eqfuse.ir.graph import Node
from eqfuse.ops.row import BOOL


@writer_of("sum", "prod")
def sum_or_product(b: Builder, n: Node, args: Sequence[OnnxValue], axes: Ints) -> OnnxValue:
    return total_of(b, n.op, b.cast(args[0], n.dtype), n.args[0].shape, axes, n.shape)


def total_of(
    b: Builder, op: str, x: OnnxValue, shape: Sequence[int], axes: Sequence[int], result: Sequence[int]
) -> OnnxValue:
    """The sum or product of `x` over `axes`, in the shape `result`. onnxruntime adds up whole numbers as float64, but
    multiplies them, and their matrices, exactly."""
    if 0 in shape:
        return full(b, 0 if op == "sum" else 1, x.dtype, result)
    if not axes:
        return b.uncast("Identity", x)
    if kind(x.dtype) == "f":
        return _reduced(b, "ReduceSum" if op == "sum" else "ReduceProd", x, axes, len(result) == len(shape))
    rows, count = _rows(b, x, shape, axes)
    if op == "sum":
        return reshaped(b, b("MatMul", rows, b.constant(np.ones((count, 1)), x.dtype)), result)
    while count > 1:
        half = count // 2
        paired = b("Mul", _columns(b, rows, 0, half), _columns(b, rows, half, 2 * half))
        odd = count % 2
        rows = b.uncast("Concat", paired, _columns(b, rows, count - 1, count), axis=1) if odd else paired
        count = half + odd
    return reshaped(b, rows, result)


def _rows(b: Builder, x: OnnxValue, shape: Sequence[int], axes: Sequence[int]) -> tuple[OnnxValue, int]:
    """`x` as a matrix whose rows run over `axes`, and their length."""
    last = [len(shape) + a for a in axes]
    order = [i for i in range(len(shape)) if i not in last] + last
    count = math.prod(shape[a] for a in axes)
    return reshaped(b, transposed(b, x, order), (math.prod(shape) // count, count)), count


def _columns(b: Builder, x: OnnxValue, start: int, stop: int) -> OnnxValue:
    return b.uncast("Slice", x, b.ints(start), b.ints(stop), b.ints(1), b.ints(1))


def _reduced(b: Builder, op: str, x: OnnxValue, axes: Sequence[int], kept: bool = True) -> OnnxValue:
    wider = computed_in(op, x.dtype)
    return b.cast(b.uncast(op, b.cast(x, wider), b.ints(*axes), keepdims=int(kept)), x.dtype)


@writer_of("max", "min")
def extreme(b: Builder, n: Node, args: Sequence[OnnxValue], axes: Ints) -> OnnxValue:
    return extreme_of(b, n.op == "max", args[0], n.args[0].shape, axes, n.shape)


def extreme_of(
    b: Builder, largest: bool, x: OnnxValue, shape: Sequence[int], axes: Sequence[int], result: Sequence[int]
) -> OnnxValue:
    """The extreme of `x` over `axes`, in the shape `result`. onnxruntime may pass over NaN, NumPy does not; of whole
    numbers of 64 bits it may compare the lower half."""
    op = "ReduceMax" if largest else "ReduceMin"
    if 0 in shape:
        return full(b, 0, x.dtype, result)  # of no elements
    if not axes:
        return b.uncast("Identity", x)
    if computed_in(op, x.dtype) == I64:
        rows, _ = _rows(b, x, shape, axes)
        options = {"axis": 1, "largest": int(largest), "sorted": 1}
        best, _ = b.several("TopK", (b.cast(rows, I64), b.ints(1)), (I64, I64), **options)
        return reshaped(b, b.cast(best, x.dtype), result)
    kept = len(result) == len(shape)
    value = _reduced(b, op, x, axes, kept)
    if kind(x.dtype) != "f":
        return value
    return b.where(_reduced(b, "ReduceMax", nan(b, x), axes, kept), b.constant(np.nan, x.dtype), value)


@writer_of("any", "all")
def truth(b: Builder, n: Node, args: Sequence[OnnxValue], axes: Ints) -> OnnxValue:
    x = b.cast(args[0], BOOL)
    if n.args[0].type.size == 0:
        return full(b, n.op == "all", BOOL, n.shape)
    return _reduced(b, "ReduceMax" if n.op == "any" else "ReduceMin", x, axes) if axes else b.uncast("Identity", x)


@writer_of("argmax", "argmin")
def place_of_extreme(b: Builder, n: Node, args: Sequence[OnnxValue], axes: Ints) -> OnnxValue:
    (x,), (axis,) = args, axes
    op = "ArgMax" if n.op == "argmax" else "ArgMin"
    position = b(op, x, dtype=I64, axis=axis, keepdims=1)
    if kind(x.dtype) != "f":
        return position
    nans = nan(b, x)
    first = b("ArgMax", nans, dtype=I64, axis=axis, keepdims=1)
    return b.where(_reduced(b, "ReduceMax", nans, (axis,)), first, position)


@writer_of("cumsum")
def cumsum(b: Builder, n: Node, args: Sequence[OnnxValue], axis: int) -> OnnxValue:
    wider = computed_in("CumSum", n.dtype)
    x = b.cast(b.cast(args[0], n.dtype), wider)
    return b.cast(b.uncast("CumSum", x, b.constant(axis, I64)), n.dtype)


@writer_of("sort", "argsort")
def sort(b: Builder, n: Node, args: Sequence[OnnxValue], axis: int, stable: bool) -> OnnxValue:
    """Least first, NaN last, equal values in their order."""
    (x,) = args
    count = n.args[0].shape[axis]
    wider = computed_in("TopK", x.dtype)
    x = b.cast(x, wider)

    def ordered(keys: OnnxValue) -> tuple[OnnxValue, OnnxValue]:
        options = {"axis": axis, "largest": 0, "sorted": 1}
        values, places = b.several("TopK", (keys, b.ints(count)), (keys.dtype, I64), **options)
        return values, places

    if kind(wider) != "f":
        values, places = ordered(x)
    else:
        last = b.cast(nan(b, x), np.dtype(np.int32))
        _, by_value = ordered(b.where(b.cast(last, BOOL), b.constant(np.inf, wider), x))
        _, by_nan = ordered(b.uncast("GatherElements", last, by_value, axis=axis))
        places = b.uncast("GatherElements", by_value, by_nan, axis=axis)
        values = b.uncast("GatherElements", x, places, axis=axis)
    return places if n.op == "argsort" else b.cast(values, n.dtype)
