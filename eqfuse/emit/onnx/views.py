"""How views, gathers, joins and padding are written in ONNX.

In: a node whose arguments are values of a `Builder`. Out: the value of the node. Rows of the table in `table.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.emit.onnx.body import I64, Builder, OnnxValue, computed_in
from eqfuse.emit.onnx.table import Ints, Range, writer_of
from eqfuse.ir.graph import Node


@writer_of("transpose")
def transpose(b: Builder, n: Node, args: Sequence[OnnxValue], axes: Ints) -> OnnxValue:
    return transposed(b, args[0], axes)


def transposed(b: Builder, x: OnnxValue, order: Sequence[int]) -> OnnxValue:
    """`x` with its axes in that order."""
    return x if list(order) == sorted(order) else b.uncast("Transpose", x, perm=list(order))


@writer_of("reshape")
def reshape(b: Builder, n: Node, args: Sequence[OnnxValue], shape: Ints) -> OnnxValue:
    return reshaped(b, args[0], shape)


def reshaped(b: Builder, x: OnnxValue, shape: Sequence[int]) -> OnnxValue:
    """`x` in `shape`."""
    return b.uncast("Reshape", x, b.ints(*shape), allowzero=1)


@writer_of("broadcast_to")
def broadcast_to(b: Builder, n: Node, args: Sequence[OnnxValue], shape: Ints) -> OnnxValue:
    return b.uncast("Expand", args[0], b.ints(*shape))


@writer_of("slice")
def slice_(b: Builder, n: Node, args: Sequence[OnnxValue], ranges: Sequence[Range]) -> OnnxValue:
    cuts = [(axis, *r) for axis, (r, e) in enumerate(zip(ranges, n.args[0].shape, strict=True)) if r != (0, e, 1)]
    if not cuts:
        return b.uncast("Identity", args[0])
    axes, starts, stops, steps = zip(*cuts, strict=True)
    return b.uncast("Slice", args[0], b.ints(*starts), b.ints(*stops), b.ints(*axes), b.ints(*steps))


@writer_of("flip")
def flip(b: Builder, n: Node, args: Sequence[OnnxValue], axes: Ints) -> OnnxValue:
    starts, stops, steps = ([value] * len(axes) for value in (-1, -(1 << 62), -1))
    if not axes:
        return b.uncast("Identity", args[0])
    return b.uncast("Slice", args[0], b.ints(*starts), b.ints(*stops), b.ints(*axes), b.ints(*steps))


@writer_of("sliding_window")
def sliding_window(b: Builder, n: Node, args: Sequence[OnnxValue], windows: Sequence[tuple[int, int]]) -> OnnxValue:
    (x,), rank = args, n.args[0].type.rank
    extents, order = list(n.args[0].shape), list(range(rank))
    for axis, width in windows:
        position = rank + axis
        extents[position] -= width - 1
        x = gathered(b, x, np.add.outer(np.arange(extents[position]), np.arange(width)), order.index(position))
        order.insert(order.index(position) + 1, len(order))
    return transposed(b, x, [order.index(i) for i in range(len(order))])


def gathered(b: Builder, x: OnnxValue, places: np.ndarray, axis: int) -> OnnxValue:
    return b.uncast("Gather", x, b.constant(places, I64), axis=axis)


@writer_of("take")
def take(b: Builder, n: Node, args: Sequence[OnnxValue], axis: int) -> OnnxValue:
    return b.uncast("Gather", args[0], b.cast(args[1], I64), axis=axis)


@writer_of("take_along_axis")
def take_along_axis(b: Builder, n: Node, args: Sequence[OnnxValue], axis: int) -> OnnxValue:
    return b.uncast("GatherElements", args[0], b.cast(args[1], I64), axis=axis)


@writer_of("concat")
def concat(b: Builder, n: Node, args: Sequence[OnnxValue], axis: int) -> OnnxValue:
    return b.uncast("Concat", *args, axis=axis)


@writer_of("pad")
def pad(b: Builder, n: Node, args: Sequence[OnnxValue], widths: Sequence[tuple[int, int]]) -> OnnxValue:
    return padded(b, args[0], widths, args[1]) if n.type.rank else b.uncast("Identity", args[0])


def padded(b: Builder, x: OnnxValue, widths: Sequence[tuple[int, int]], fill: OnnxValue) -> OnnxValue:
    wider = computed_in("Pad", x.dtype)
    wanted = b.ints(*(before for before, _ in widths), *(after for _, after in widths))
    return b.cast(b.uncast("Pad", b.cast(x, wider), wanted, b.cast(fill, wider)), x.dtype)


def full(b: Builder, value: Any, dtype: np.dtype, shape: Sequence[int]) -> OnnxValue:
    return b.uncast("Expand", b.constant(value, dtype), b.ints(*shape))
