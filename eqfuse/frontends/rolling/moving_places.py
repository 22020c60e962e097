"""Slices whose place in a carry moves from step to step, as what an index takes of it and writes to it.

In: the slices that steps take of a value of their own, or write to it, at an even distance. Out: the same in the one
step, at the index that it is given as a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.rolling.rows import Range, even, moving
from eqfuse.ir.graph import Node, const, node

RowOf = Callable[[Node], Node]  # an array whose row i is what step i reads → what stands for a row of it
Ranges = tuple[Range, ...]
NARROW_SLICE = 0.25


def slices_of_step(n: Node) -> Sequence[Ranges]:
    """The slices that `n` takes or writes."""
    slices: Sequence[Ranges] = n.attr("slices") if n.op == "slice_scatter" else [n.attr("ranges")]
    return slices


def evenly_moved(steps: Sequence[Node]) -> range:
    """The longest run of `steps` in which each of their slices moves by one distance, or not at all."""
    return min([even(ranges) for ranges in zip(*map(slices_of_step, steps), strict=True)], key=len)


def overlap_much(steps: Sequence[Node]) -> bool:
    """Is a slice that moves more than `NARROW_SLICE` of the axis along which it does?"""
    shape = steps[0].args[0].shape
    moved = [r for r in zip(*map(slices_of_step, steps), strict=True) if r[0] != r[1]]
    return any(width > NARROW_SLICE * shape[axis] for axis, _, width in map(moving, moved))


def in_one_step(steps: Sequence[Node], args: Sequence[Node], row: RowOf) -> Node:
    """What stands for `steps`, slices or updates of slices that move evenly, over `args`."""
    by_slice = [list(ranges) for ranges in zip(*map(slices_of_step, steps), strict=True)]
    if steps[0].op == "slice":
        return tidy.reshape(_taken(args[0], by_slice[0], row), steps[0].shape)
    base, *values = args
    for ranges, value in zip(by_slice, values, strict=True):
        moves = ranges[0] != ranges[1]
        base = _written(base, ranges, value, row) if moves else tidy.slice_scatter(base, [value], ranges[:1])
    return base


def _taken(base: Node, ranges: Sequence[Ranges], row: RowOf) -> Node:
    axis, _, _ = moving(ranges)
    still = [(0, base.shape[axis], 1) if i == axis else r for i, r in enumerate(ranges[0])]
    return node("take", (tidy.slice_(base, still), row(_indices(ranges, axis))), (axis - base.type.rank,))


def _written(base: Node, ranges: Sequence[Ranges], value: Node, row: RowOf) -> Node:
    """What the slice leaves as it was of the places along the axis that it moves on is written again."""
    axis, _, width = moving(ranges)
    last, index = axis - base.type.rank, row(_indices(ranges, axis))
    along = [(0, width, 1)] if width > 1 else []
    before = node("take", (base, index), (last,))
    inside = [*ranges[0][:axis], *along, *ranges[0][axis + 1 :]]
    value = tidy.reshape(value, tuple([len(range(*r)) for r in inside]))
    return node("scatter", (base, index, tidy.slice_scatter(before, [value], [tuple(inside)])), (last, "set"))


def _indices(ranges: Sequence[Ranges], axis: int) -> Node:
    """The places along `axis`, a row for each step; of one place its number."""
    numbers = np.array([range(*r[axis]) for r in ranges])
    return const(numbers[:, 0] if numbers.shape[1] == 1 else numbers)
