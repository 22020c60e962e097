"""How products, convolutions and windows are written in ONNX.

In: a node whose arguments are values of a `Builder`. Out: the value of the node. Rows of the table in `table.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import kind, lowest
from eqfuse.emit.onnx.body import TAKES, Builder, OnnxValue
from eqfuse.emit.onnx.elementwise import nan
from eqfuse.emit.onnx.reductions import extreme_of, total_of
from eqfuse.emit.onnx.table import Ints, Pads, writer_of
from eqfuse.emit.onnx.views import full, gathered, padded, reshaped, transposed
from eqfuse.ir.graph import Node
from eqfuse.ops.row import BOOL


@writer_of("matmul")
def matmul(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return b("MatMul", *args) if n.args[0].shape[-1] else full(b, 0, n.dtype, n.shape)


@writer_of("det")
def det(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return b("Det", *args)


@writer_of("conv")
def conv(
    b: Builder, n: Node, args: Sequence[OnnxValue], strides: Ints, padding: Pads, dilations: Ints, groups: int
) -> OnnxValue:  # fmt: skip
    x, w = args
    if n.dtype.name in ("float16", "float32"):
        pads = [before for before, _ in padding] + [after for _, after in padding]
        return b.uncast("Conv", x, w, strides=strides, pads=pads, dilations=dilations, group=groups)
    view = _windows(b, x, n.args[0].shape, n.args[1].shape[2:], strides, padding, dilations, 0)
    return _conv_by_products(b, n, view, w, groups)


def _conv_by_products(b: Builder, n: Node, view: OnnxValue, w: OnnxValue, groups: int) -> OnnxValue:
    """What onnxruntime has no Conv for: one product per group, of windows and filters."""
    (batch, channels, *_), (filters, per_group, *window) = n.args[0].shape, n.args[1].shape
    k, positions = len(window), n.shape[2:]
    axes = range(2, 2 + k)
    view = transposed(b, view, [1, 0, *axes, *range(2 + k, 2 + 2 * k)])
    terms = per_group * math.prod(window)
    # [groups, channels of one, batch and positions, window] -> [groups, batch and positions, terms]
    view = reshaped(b, view, (groups, channels // groups, batch * math.prod(positions), math.prod(window)))
    view = reshaped(b, transposed(b, view, [0, 2, 1, 3]), (groups, batch * math.prod(positions), terms))
    rows = transposed(b, reshaped(b, w, (groups, filters // groups, terms)), [0, 2, 1])
    products = reshaped(b, b("MatMul", view, rows), (groups, batch, *positions, filters // groups))
    products = transposed(b, products, [1, 0, 2 + k, *axes])
    return reshaped(b, products, n.shape)


def _windows(
    b: Builder, x: OnnxValue, shape: Sequence[int], window: Sequence[int], strides: Sequence[int],
    padding: Pads, dilations: Sequence[int], fill: Any,
) -> OnnxValue:  # fmt: skip
    """[..., *positions, *window] of the windows over the trailing axes of padded `x`."""
    k, lead = len(window), len(shape) - len(window)
    if any(p != (0, 0) for p in padding):
        x = padded(b, x, [(0, 0)] * lead + list(padding), b.constant(fill, x.dtype))
    for i in reversed(range(k)):
        room = shape[lead + i] + sum(padding[i]) - ((window[i] - 1) * dilations[i] + 1)
        starts = np.arange(0, room + 1, strides[i])
        x = gathered(b, x, np.add.outer(starts, np.arange(window[i]) * dilations[i]), lead + i)
    axes = [*range(lead), *(lead + 2 * i for i in range(k)), *(lead + 2 * i + 1 for i in range(k))]
    return transposed(b, x, axes)


@writer_of("window_max")
def window_max(b: Builder, n: Node, args: Sequence[OnnxValue], window: Ints, strides: Ints, padding: Pads) -> OnnxValue:
    """onnxruntime may pass over NaN, NumPy does not."""
    (x,) = args
    if not window:
        return b.uncast("Identity", x)
    if n.dtype.name not in TAKES["MaxPool"] or len(window) > 3:
        view = _windows(b, x, n.args[0].shape, window, strides, padding, (1,) * len(window), lowest(n.dtype))
        return extreme_of(b, True, view, (*n.shape, *window), range(-len(window), 0), n.shape)
    maxima = _pooled(b, n, x, window, strides, padding)
    if kind(n.dtype) != "f":
        return maxima
    nans = b.cast(_pooled(b, n, b.cast(nan(b, x), np.dtype(np.uint8)), window, strides, padding), BOOL)
    return b.where(nans, b.constant(np.nan, n.dtype), maxima)


def _pooled(b: Builder, n: Node, x: OnnxValue, window: Ints, strides: Ints, padding: Pads) -> OnnxValue:
    pads, shape = _images(n, padding)
    pooled = b.uncast("MaxPool", reshaped(b, x, shape), kernel_shape=window, strides=strides, pads=pads)
    return reshaped(b, pooled, n.shape)


def _images(n: Node, padding: Pads) -> tuple[list[int], tuple[int, ...]]:
    """ONNX's pads, and the operand's shape as images of one channel."""
    k = len(padding)
    pads = [before for before, _ in padding] + [after for _, after in padding]
    return pads, (math.prod(n.shape[:-k]), 1, *n.args[0].shape[-k:])


@writer_of("window_sum")
def window_sum(b: Builder, n: Node, args: Sequence[OnnxValue], window: Ints, strides: Ints, padding: Pads) -> OnnxValue:
    (x,) = args
    if not window:
        return b.uncast("Identity", x)
    if n.dtype.name not in TAKES["Conv"] or len(window) > 3:
        view = _windows(b, x, n.args[0].shape, window, strides, padding, (1,) * len(window), 0)
        return total_of(b, "sum", view, (*n.shape, *window), range(-len(window), 0), n.shape)
    pads, shape = _images(n, padding)
    ones = b.constant(np.ones((1, 1, *window)), n.dtype)
    return reshaped(b, b.uncast("Conv", reshaped(b, x, shape), ones, strides=strides, pads=pads), n.shape)
