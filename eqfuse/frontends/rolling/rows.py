"""What alike steps read of one array: slices at an even distance, and constants, as rows of one array.

In: the slices of one array, or constants, that steps read, in order. Out: an array whose row i is what step i reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.ir.graph import Node, const, node

Range = tuple[int, int, int]


def stacked(constants: Sequence[Node]) -> Node:
    """The values of `constants`, of one type, in one array."""
    return const(np.stack([n.literal.array for n in constants]))


def joined_values(values: Sequence[Node]) -> Node:
    """`values`, of one type, in one array."""
    shape = values[0].shape
    return tidy.concat([tidy.reshape(n, (1, *shape)) for n in values], -1 - len(shape))


def even(ranges: Sequence[Sequence[Range]]) -> range:
    """The longest run of `ranges`, by axis, whose starts differ by one distance along one axis, or not at all."""
    starts = [np.array([start for start, _, _ in r]) for r in ranges]
    best = range(0)
    begun = 0
    for i in range(2, len(starts) + 1):
        if i == len(starts) or (starts[i] - starts[i - 1] != starts[begun + 1] - starts[begun]).any():
            best = max(best, range(begun, i), key=len)
            begun = i - 1
    distance = starts[best.start + 1] - starts[best.start] if len(best) > 1 else np.zeros(0)
    return best if np.count_nonzero(distance) <= 1 else range(0)


def evenly(ranges: Sequence[Sequence[Range]]) -> list[range]:
    """`ranges` in runs, from the first on: in each, starts differ by one distance."""
    starts = [tuple([start for start, _, _ in r]) for r in ranges]
    distances = [tuple(np.subtract(b, a)) for a, b in itertools.pairwise(starts)]
    runs, begun = [], 0
    for i in range(1, len(distances)):
        if distances[i] != distances[begun]:
            end = i if i == begun + 1 else i + 1  # of two, the second may begin what follows
            runs.append(range(begun, end))
            begun = end
    return [*runs, range(begun, len(ranges))]


def moving(ranges: Sequence[Sequence[Range]]) -> tuple[int, int, int]:
    """Of even `ranges`: the axis along which they move, how far, and how many places each takes there."""
    first, second = ranges[:2]
    axis = next(i for i, (r, s) in enumerate(zip(first, second, strict=True)) if r != s)
    return axis, second[axis][0] - first[axis][0], len(range(*first[axis]))


def rows_of_slices(slices: Sequence[Node]) -> Node | None:
    """The rows of `slices` at even distances, each as the slice is shaped; None where no view has them."""
    (base,), ranges = slices[0].args, [n.attr("ranges") for n in slices]
    axis, distance, width = moving(ranges)
    apart, ends = abs(distance), (ranges[0][axis], ranges[-1][axis])
    first, end = min(start for start, _, _ in ends), max(stop for _, stop, _ in ends)
    if ends[0][2] > 1:
        return None
    rows = tidy.slice_(
        base, [(first, end, apart if width == 1 else 1) if i == axis else r for i, r in enumerate(ranges[0])]
    )
    rank = base.type.rank
    if width in (1, apart):
        rows = tidy.reshape(rows, (*rows.shape[:axis], len(slices), width, *rows.shape[axis + 1 :]))
    else:
        rows = node("sliding_window", (rows,), (((axis - rank, width),),))
        rows = tidy.slice_(rows, [(0, n, apart if i == axis else 1) for i, n in enumerate(rows.shape)])
        rows = tidy.transpose(rows, (*range(axis + 1), rank, *range(axis + 1, rank)))
    if distance < 0:
        rows = tidy.flip(rows, [axis - rows.type.rank])
    return tidy.transpose(rows, (axis, *(i for i in range(rank + 1) if i != axis)))


def joined_rows(rows: Node, axis: int, backwards: bool = False) -> Node:
    """The rows one after another along `axis` of each."""
    if backwards:
        rows = tidy.flip(rows, [-rows.type.rank])
    count, *shape = rows.shape
    order = [i + 1 for i in range(len(shape))]
    moved = tidy.transpose(rows, [*order[:axis], 0, *order[axis:]])
    return tidy.reshape(moved, tuple([count * n if i == axis else n for i, n in enumerate(shape)]))
