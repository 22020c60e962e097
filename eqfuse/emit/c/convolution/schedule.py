"""The schedule of a convolution of our own in C, with the work before and after it.

In: a body of kind contract around one convolution, a device. Out: `ConvolutionSchedule`. Next stop: `writer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from eqfuse.cost.device import Device
from eqfuse.emit.c.convolution.blocks import (
    ConvolutionBlocks,
    around,
    convolution_blocks,
    convolution_units,
    tile_cycles,
)
from eqfuse.emit.c.convolution.parts import Convolution, convolution_of, loops_over_filters, loops_over_rows
from eqfuse.emit.c.device import vector_bytes
from eqfuse.emit.c.loops import Loops, result_access
from eqfuse.emit.c.product.schedule import tile_rate
from eqfuse.emit.c.rates import traffic_of, work_of
from eqfuse.emit.c.schedule import CompiledSchedule, shared
from eqfuse.emit.c.sliding.schedule import WindowsSchedule, schedule_in_blocks, units_work
from eqfuse.ir.graph import Graph
from eqfuse.kinds.elements import bytes_read
from eqfuse.ops.types import TensorType


@dataclass(frozen=True, eq=False, kw_only=True)
class ConvolutionSchedule(CompiledSchedule):
    """`copies`: what computes each phase of the image, None where it is padding; `filters`: what copies them, None
    where they are read in place; `rest`: what follows, or `pooling`, with what comes before and after it."""

    body: Graph
    convolution: Convolution
    blocks: ConvolutionBlocks
    copies: tuple[Loops | None, ...]
    filters: Loops | None
    rest: Loops | None
    pooling: WindowsSchedule | None

    @property
    def workspaces(self) -> list[TensorType]:
        """The copy of the filters."""
        return [TensorType(self.convolution.dtype, self.convolution.filters.space)] if self.filters else []

    @property
    def units(self) -> int:
        return convolution_units(self.convolution, self.blocks)

    @property
    def nbytes(self) -> int:
        """Of the buffers of a unit."""
        pooled = self.pooling.nbytes if self.pooling else 0
        return self.blocks.elements(self.convolution) * self.convolution.dtype.itemsize + pooled

    def __str__(self) -> str:
        b, (tile, *_) = self.blocks, self.blocks.tiles
        pooled = f", for {b.results} rows of what is pooled of them" if self.pooling else ""
        return "\n".join([
            f"{self.units} blocks of {b.filters} filters at {b.rows} x {b.columns} places{pooled}, {self.sharing}",
            f"tiles of {tile.rows} filters x {tile.columns} places; copies {b.channels} channels of the image at a "
            f"time, in {len(self.copies)} phases; reads filters {'as copied before' if self.filters else 'in place'}",
            f"{self.nbytes:,} bytes of buffers in each thread",
        ])  # fmt: skip


def convolution_schedule(body: Graph, device: Device) -> ConvolutionSchedule:
    c = convolution_of(body)
    blocks = convolution_blocks(c, device)
    # in blocks of what a unit reads, wherever that begins and ends
    extents = [(max(1, p.rows.count - 1), max(1, p.columns.count - 1)) for p in c.phases]
    copies = [loops_over_rows(c, p.part, *most) if p.part else None for p, most in zip(c.phases, extents, strict=True)]
    rest = pooling = None
    if c.windows is None:
        written = [result_access(o, c.rest.space, ()) for o in c.rest.body.outputs]
        rest = loops_over_rows(c, c.rest, blocks.rows, blocks.columns, written)
    else:
        pooling = schedule_in_blocks(body, c.windows, blocks.results, c.windows.axes[-1].places)
    schedule = ConvolutionSchedule(
        bytes_read(body, body.outputs), tuple(o.type.nbytes for o in body.outputs), 1, body=body, convolution=c,
        blocks=blocks, copies=tuple(copies), filters=None if c.in_place else loops_over_filters(c.filters),
        rest=rest, pooling=pooling,
    )  # fmt: skip
    return _priced(schedule, device)


def _around(s: ConvolutionSchedule, device: Device) -> Iterator[tuple[float, int]]:
    """Seconds of one thread, and operations, of all that is computed beside the sums."""
    c, b = s.convolution, s.blocks
    cycle = 2 * vector_bytes() // c.dtype.itemsize / tile_rate(c.dtype, device)
    yield s.units * around(c, b) * cycle, 0
    down, across = c.axes[-2:]
    blocks = -(-c.filters_of_group // b.filters) * -(-c.blocked[-2] // b.results)
    again = blocks * down.read_by(b.rows) / down.read_by(down.places)
    again *= across.all_read(b.columns) / max(1, across.all_read(across.places))
    for loops, times in [*((x, again) for x in s.copies), (s.filters, 1.0), (s.rest, 1.0)]:
        if loops is not None:
            seconds, flops = work_of(loops.nest, loops.forms, loops.seams, device)
            yield times * seconds, round(times * flops)
    if s.pooling is not None:
        yield units_work(s.pooling, device)


def _streamed(s: ConvolutionSchedule, device: Device) -> float:
    """Seconds of one thread to wait for filters, once for each unit."""
    c, b = s.convolution, s.blocks
    nbytes = c.conv.args[1].type.size * c.dtype.itemsize
    if nbytes <= device.l2_bytes:
        return 0.0
    return s.units * b.filters * c.terms * c.dtype.itemsize / 2 / device.single.bandwidth(nbytes)


def _priced(s: ConvolutionSchedule, device: Device) -> ConvolutionSchedule:
    c, costs = s.convolution, [*_around(s, device)]
    cycle = 2 * vector_bytes() // c.dtype.itemsize / tile_rate(c.dtype, device)
    alone = s.units * tile_cycles(c, s.blocks) * cycle + _streamed(s, device) + sum(seconds for seconds, _ in costs)
    flops = 2 * c.conv.type.size * c.terms + sum(n for _, n in costs)
    traffic = traffic_of(sum(s.reads), sum(s.writes)) + 2 * s.between
    held = sum(s.reads) + sum(s.writes) + 2 * s.between
    return replace(s, flops=flops, **shared([(alone, traffic)], held, s.units, device))
