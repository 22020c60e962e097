"""What was written to one block of memory, slice by slice, since its value was last made.

In: slices and values, in the order in which they were written. Out: the last that covers any of another slice. Used by
`storage`.
"""

from __future__ import annotations

import math

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.ir.graph import Node
from eqfuse.ops.types import Shape
from eqfuse.ops.updates import FEW_SLICES, MARKED_ELEMENTS, Ranges, apart, slices_of


class PendingWrites:
    """Writes to an array of `shape`: each a slice, and its value."""

    __slots__ = ("_shape", "_writes", "_last")

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._writes: list[tuple[Ranges, Node]] = []
        self._last: np.ndarray | None = None  # of many writes: the number of the last for each element, from 1 on

    def __bool__(self) -> bool:
        return bool(self._writes)

    def add(self, ranges: Ranges, value: Node) -> None:
        self._writes.append((ranges, value))
        self._mark()
        self._join_row()

    def clear(self) -> None:
        self._writes.clear()
        self._last = None

    def taken(self, base: Node) -> Node:
        """`base` with all of them, which are none then."""
        ranges, values = zip(*self._writes, strict=True)
        self.clear()
        return tidy.slice_scatter(base, values, ranges)

    def covering(self, wanted: Ranges) -> tuple[Ranges, Node] | None:
        """The last that covers any element of the slice `wanted`."""
        if self._last is not None:
            number = self._last[slices_of(wanted)].max(initial=0)
            return self._writes[number - 1] if number else None
        return next((write for write in reversed(self._writes) if not apart(write[0], wanted)), None)

    def _mark(self) -> None:
        if self._last is not None:
            self._last[slices_of(self._writes[-1][0])] = len(self._writes)
        elif len(self._writes) > FEW_SLICES and math.prod(self._shape) <= MARKED_ELEMENTS:
            self._last = np.zeros(self._shape, np.int32)
            for number, (ranges, _) in enumerate(self._writes, 1):
                self._last[slices_of(ranges)] = number

    def _join_row(self) -> None:
        """Let the last writes be one, if they were those of all elements of a row, one after another: it is then read
        as a row, and loops over rows are alike."""
        ranges, value = self._writes[-1]
        for axis, extent in enumerate(self._shape):
            if value.type.size == 1 < extent == ranges[axis][1] < math.prod(self._shape):
                last = self._writes[-extent:]
                before, after = ranges[:axis], ranges[axis + 1 :]
                if [places for places, _ in last] == [(*before, (i, i + 1, 1), *after) for i in range(extent)]:
                    row = tidy.concat([element for _, element in last], axis - len(ranges))
                    self._writes[-extent:] = [((*before, (0, extent, 1), *after), row)]
                    self._mark()
                    return
