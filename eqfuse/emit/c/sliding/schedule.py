"""The schedule of a kernel with windows: blocks of rows of results, what of the image each copies or computes first.

In: a body of kind window, a device. Out: `WindowsSchedule`. Next stop: `writer.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from eqfuse.cost.device import Device
from eqfuse.emit.c.loops import Loops
from eqfuse.emit.c.nest import SHORT_DIMENSION
from eqfuse.emit.c.rates import additions, traffic_of, work_of
from eqfuse.emit.c.schedule import CompiledSchedule, shared
from eqfuse.emit.c.sliding.parts import Windows, loops_over_blocks, windows_of
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph
from eqfuse.kinds.elements import bytes_read
from eqfuse.ops.types import TensorType

RESULT_COLUMNS = 4096  # columns of results of a unit, at most
BUFFER_BYTES = 64 << 10  # bytes of the buffers of a unit, where a row of windows needs no more
MOST_BUFFER_BYTES = 512 << 10  # and at most: they lie on the stack
UNIT_ADDITIONS, ROW_ADDITIONS = 1000, 100  # additions that it takes to begin a unit, and a row of its results
NO_NEIGHBOUR = 3  # additions that it takes to read an element which is no neighbour of the last


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowsSchedule(CompiledSchedule):
    """A unit is a block of `rows` x `columns` results. `before`: what computes or copies what it reads of the image,
    None where that is read in place; `rest`: what follows."""

    body: Graph
    windows: Windows
    rows: int
    columns: int
    before: Loops | None
    rest: Loops

    @property
    def workspaces(self) -> list[TensorType]:
        return []

    @property
    def units(self) -> int:
        high, wide = self.windows.rest.space[-2:]
        return math.prod(self.windows.outer) * -(-high // self.rows) * -(-wide // self.columns)

    @property
    def planes(self) -> int:
        """Of the image, that a unit reads of."""
        return math.prod(axis.window for axis in self.windows.above)

    @property
    def read_rows(self) -> int:
        return min(self.windows.axes[-2].extent, self.windows.axes[-2].read_by(self.rows))

    @property
    def read_columns(self) -> int:
        return min(self.windows.axes[-1].extent, self.windows.axes[-1].read_by(self.columns))

    @property
    def line(self) -> int:
        """Elements of a row of the image under the windows of a row of results, padding too."""
        return self.windows.axes[-1].read_by(self.columns)

    @property
    def image_elements(self) -> int:
        return self.planes * self.read_rows * self.read_columns if self.before else 0

    @property
    def nbytes(self) -> int:
        """Of the buffers of a unit."""
        return max(4, self.windows.window.dtype.itemsize) * (self.image_elements + self.rows * self.columns + self.line)

    def __str__(self) -> str:
        first = "computes what it reads of the image" if self.before else "reads the image in place"
        return "\n".join([
            f"windows of {' x '.join(str(axis.window) for axis in self.windows.axes)}, {self.sharing}",
            f"{self.units} blocks of {self.rows} x {self.columns} results, each {first}",
            f"{self.nbytes:,} bytes of buffers in each thread",
        ])  # fmt: skip


def windows_schedule(body: Graph, device: Device) -> WindowsSchedule:
    """UnsupportedOp where we have no form of the body."""
    windows = windows_of(body)
    high, wide = windows.rest.space[-2:]
    schedule = schedule_in_blocks(body, windows, high, min(wide, RESULT_COLUMNS))
    while schedule.rows > 1 and schedule.nbytes > BUFFER_BYTES:
        schedule = schedule_in_blocks(body, windows, -(-schedule.rows // 2), schedule.columns)
    if schedule.nbytes > MOST_BUFFER_BYTES:
        raise UnsupportedOp("what a row of windows holds exceeds the cache")
    return _priced(schedule, device)


def schedule_in_blocks(body: Graph, windows: Windows, rows: int, columns: int) -> WindowsSchedule:
    """Units of so many rows and columns, without a price."""
    before = None
    if windows.in_place is None:  # in blocks of what a unit reads, wherever that begins and ends
        high, wide = windows.image.space[-2:]
        before = loops_over_blocks(windows.image, max(1, high - 1), max(1, wide - 1), False)
    return WindowsSchedule(
        bytes_read(body, body.outputs), tuple(o.type.nbytes for o in body.outputs), 1, body=body, windows=windows,
        rows=rows, columns=columns, before=before, rest=loops_over_blocks(windows.rest, rows, columns, True),
    )  # fmt: skip


def times_computed(s: WindowsSchedule) -> float:
    """How often an element of the image is computed."""
    above = math.prod(axis.all_read(1) / axis.extent for axis in s.windows.above)
    rows, columns = s.windows.axes[-2:]
    return above * rows.all_read(s.rows) / rows.extent * columns.all_read(s.columns) / columns.extent


def units_work(s: WindowsSchedule, device: Device) -> tuple[float, int]:
    """Seconds of one thread, and operations."""
    windows, outer = s.windows, math.prod(s.windows.outer)
    rows, columns = windows.axes[-2:]
    high, wide = windows.rest.space[-2:]
    times, base = additions("maximum", windows.window.dtype)
    down = outer * high * s.planes * rows.window * columns.all_read(s.columns)
    across = outer * high * wide * columns.window
    across *= NO_NEIGHBOUR if columns.stride > 1 else 1
    short = max(1.0, SHORT_DIMENSION / s.columns)
    steps = (down + across) * short + UNIT_ADDITIONS * s.units + ROW_ADDITIONS * outer * high
    seconds = steps * times * device.threads / device.scalar_rate(base)
    flops = (outer * high) * (s.planes * rows.window * columns.extent + wide * columns.window)
    for loops, often in ((s.before, times_computed(s)), (s.rest, 1.0)):
        if loops is not None:
            more, count = work_of(loops.nest, loops.forms, loops.seams, device)
            copied = loops.nest.elements * device.threads / device.scalar_rate(base)
            seconds, flops = seconds + often * (more + copied), flops + round(often * count)
    return seconds, flops


def _priced(s: WindowsSchedule, device: Device) -> WindowsSchedule:
    alone, flops = units_work(s, device)
    read, written = sum(s.reads), sum(s.writes)
    stages = [(alone, traffic_of(read, written))]
    return replace(s, flops=flops, **shared(stages, read + written, s.units, device))
