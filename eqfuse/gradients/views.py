"""Derivatives of the index maps: views, arrays joined of pieces, and gathers. All of them are linear."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import (
    Expr,
    cast,
    constant_number,
    filled,
    for_sums,
    reshape,
    sum_of,
    sum_over,
    summed_to,
    transpose,
    where,
)
from eqfuse.gradients.row import DerivativeRow, joint, zero_derivative
from eqfuse.ir.graph import Node, const, node
from eqfuse.ops.types import Shape, TensorType


def scattered(ct: Expr, shape: Shape, ranges: tuple) -> Expr:
    """An array of zeros of `shape` with `ct` at the slice `ranges`: padded, where the slice has no steps."""
    if all(step == 1 for _, _, step in ranges):
        widths = [(start, n - stop) for (start, stop, _), n in zip(ranges, shape, strict=True)]
        return Expr(tidy.pad(ct.node, const(0, ct.dtype), widths))
    base = filled(0, TensorType(ct.dtype, shape))
    return Expr(tidy.slice_scatter(base.node, [ct.node], [ranges]))


def slice_node(ct: Expr, ranges: tuple) -> Expr:
    return Expr(tidy.slice_(ct.node, ranges))


def _slice_of_parts(ct: Expr, ranges: tuple) -> Expr | None:
    """As `slice_node`; of cotangents of parts, which are padded and added up, the part's own. None where it has none:
    what is zero wherever it goes is not computed, though it may meet infinity there."""
    terms = [Expr(a) for a in ct.node.args] if ct.node.op == "add" else []
    if any(t.node.op in ("pad", "add") and t.shape == ct.shape for t in terms):
        slices = [part for t in terms if (part := _slice_of_parts(t, ranges)) is not None]
        return sum_of(slices) if slices else None
    part = slice_node(ct, ranges)
    return None if ct.node.op == "pad" and constant_number(part) == 0 else part


def _untransposed(n: Node, ct: Expr) -> Expr:
    axes = n.attr("axes")
    return transpose(ct, [axes.index(a) for a in range(len(axes))])


def _unbroadcast(n: Node, ct: Expr) -> Expr:
    return summed_to(ct, n.args[0].shape)


def _from_windows(n: Node, ct: Expr) -> Expr:
    """What each element is in each of its windows, added up: offset by offset, one window axis after another."""
    windows = n.attr("windows")
    rank = n.args[0].type.rank
    for left in range(len(windows), 0, -1):
        axis, extent = windows[left - 1]
        position = rank + axis  # the axes of positions come first
        parts = []
        for offset in range(extent):
            ranges = [(0, m, 1) for m in ct.shape]
            ranges[-1] = (offset, offset + 1, 1)
            piece = reshape(slice_node(ct, tuple(ranges)), ct.shape[:-1])
            widths = [(0, 0)] * piece.rank
            widths[position] = (offset, extent - 1 - offset)
            parts.append(Expr(tidy.pad(piece.node, const(0, ct.dtype), widths)))
        ct = sum_of(parts)
    return ct


# ---- several pieces


def _piece(n: Node, position: int, ct: Expr) -> Expr | None:
    axis = n.attr("axis")
    ends = list(accumulate(a.shape[axis] for a in n.args))
    ranges = [(0, m, 1) for m in n.shape]
    ranges[axis] = (ends[position] - n.args[position].shape[axis], ends[position], 1)
    return _slice_of_parts(ct, tuple(ranges))


def _inside(n: Node, ct: Expr) -> Expr:
    pairs = zip(n.args[0].shape, n.attr("widths"), strict=True)
    return slice_node(ct, tuple((before, before + extent, 1) for extent, (before, _) in pairs))


def _border(n: Node, ct: Expr) -> Expr:
    inner = tuple((before, before + m, 1) for m, (before, _) in zip(n.args[0].shape, n.attr("widths"), strict=True))
    around = tidy.slice_scatter(ct.node, [filled(0, TensorType(ct.dtype, n.args[0].shape)).node], [inner])
    return reshape(sum_over(Expr(around), range(-ct.rank, 0)), ())


# ---- gathers


def added(shape: Shape, indices: Node, values: Expr, axis: int) -> Expr:
    """An array of zeros of `shape`, with `values` added where `take` along `axis` found them."""
    wide = for_sums(values)
    base = filled(0, TensorType(wide.dtype, shape))
    return cast(Expr(node("scatter", (base.node, indices, wide.node), (axis, "add"))), values.dtype)


def _untaken(n: Node, ct: Expr) -> Expr:
    return added(n.args[0].shape, n.args[1], ct, n.attr("axis"))


def _untaken_along(n: Node, ct: Expr) -> Expr:
    return added_along(n.args[0].shape, n.args[1], ct, n.attr("axis"))


def added_along(shape: Shape, indices: Node, values: Expr, axis: int) -> Expr:
    """As `added`, of what `take_along_axis` found: by comparison where that is one element for each row, else by the
    places of a flat array."""
    if indices.shape[axis] == 1:
        extent = shape[axis]
        numbers = np.arange(extent).reshape((extent,) + (1,) * (-axis - 1))
        return where(from_start(indices, extent).equals(Expr(const(numbers))), values, 0)
    places = flat_places(shape, indices, axis)
    flat = added((TensorType(values.dtype, shape).size,), places.node, reshape(values, places.shape), -1)
    return reshape(flat, shape)


def from_start(indices: Node, extent: int) -> Expr:
    """`indices` into an axis, none of which counts from its end."""
    chosen = cast(Expr(indices), np.dtype(np.int64))
    return where(chosen < 0, chosen + extent, chosen)


def flat_places(shape: Shape, indices: Node, axis: int) -> Expr:
    """Where the elements that `indices` choose along `axis` are in the flat array, as a vector."""
    chosen = from_start(indices, shape[axis])
    strides = np.cumprod((1, *shape[:0:-1]))[::-1]
    places = chosen * int(strides[axis])
    position = len(shape) + axis
    for a, n in enumerate(indices.shape):
        if a != position and n > 1:
            steps = np.arange(n, dtype=np.int64).reshape((n,) + (1,) * (len(shape) - 1 - a)) * int(strides[a])
            places = places + Expr(const(steps))
    return reshape(places, (indices.type.size,))


ROWS: dict[str, DerivativeRow] = {
    "transpose": joint({0: _untransposed}),
    "reshape": joint({0: lambda n, ct: reshape(ct, n.args[0].shape)}),
    "broadcast_to": joint({0: _unbroadcast}),
    "slice": joint({0: lambda n, ct: scattered(ct, n.args[0].shape, n.attr("ranges"))}),
    "flip": joint({0: lambda n, ct: Expr(tidy.flip(ct.node, n.attr("axes")))}),
    "sliding_window": joint({0: _from_windows}),
    "concat": joint(_piece),
    "pad": joint({0: _inside, 1: _border}),
    "take": joint({0: _untaken}, (0,)),
    "take_along_axis": joint({0: _untaken_along}, (0,)),
    "bitcast": zero_derivative(),
}
