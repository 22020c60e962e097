"""How convolutions are cut: blocks of rows, columns and filters that are units of work, tiles of sums in registers.

In: `Convolution`, a device. Out: `ConvolutionBlocks`. Next stop: `schedule.py`, which prices them. The order in which
terms are added depends on extents alone, never on blocks or threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from eqfuse.cost.device import Device
from eqfuse.emit.c.convolution.parts import Convolution
from eqfuse.emit.c.device import vector_bytes
from eqfuse.emit.c.nest import stride_of
from eqfuse.emit.c.product.blocks import LEVEL_2_SHARE, STACK_BYTES, TERM_BYTES, UNIT_ROWS
from eqfuse.emit.c.product.tile import CALLED, RegisterTile, tile_forms
from eqfuse.errors import UnsupportedOp

# columns of a unit, at most: fewer only where the buffers of so many are too large
COLUMNS_OF_UNITS = (1024, 512, 256, 128, 64)
CUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # into how many blocks rows are cut
UNIT_PARTS = (1, 2, 4, 8)  # and filters
COPY_OF_ELEMENT = 0.5  # cycles that it takes to copy an element of the image, or to compute one of the results
COPY_OF_ROW = 10  # and to begin a row of them
UNIT_CYCLES = 150  # cycles to begin a unit


@dataclass(frozen=True)
class ConvolutionBlocks:
    """A unit computes `rows` x `columns` places of windows of `filters`, for `results` rows of what is pooled of these,
    or else of themselves; `pitch`: elements from row to row of a copy of
    the image, and of sums; `width`: of sums of one filter; `channels` are copied at a time. `tiles`: of the rows of
    filters, and of those that are left."""

    results: int
    rows: int
    columns: int
    filters: int
    channels: int
    pitch: int
    width: int
    high: int
    tiles: tuple[RegisterTile, ...]

    @property
    def lines(self) -> int:
        """Places of windows of a unit, with those between its rows that are no results."""
        return (self.rows - 1) * self.pitch + self.columns

    @property
    def deep(self) -> int:
        """Filters that are multiplied by one part of the image before the next part is read."""
        return -(-UNIT_ROWS // self.tiles[0].rows) * self.tiles[0].rows

    @property
    def across(self) -> int:
        """Tiles beside each other."""
        return -(-self.lines // self.tiles[0].columns)

    def copied(self, c: Convolution) -> int:
        """Elements of the copy of one plane of the image."""
        return len(c.phases) * self.high * self.pitch

    def image_elements(self, c: Convolution) -> int:
        return self.channels * c.planes * self.copied(c) + self.tiles[0].columns

    def elements(self, c: Convolution) -> int:
        """Of the buffers of a unit."""
        return self.image_elements(c) + self.filters * self.width


def convolution_blocks(c: Convolution, device: Device) -> ConvolutionBlocks:
    """Those that take the fewest cycles. UnsupportedOp where the buffers of one row are too large."""
    limit = min(STACK_BYTES, int(LEVEL_2_SHARE * device.l2_bytes)) // c.dtype.itemsize
    for most in COLUMNS_OF_UNITS[:1] if c.windows else COLUMNS_OF_UNITS:
        choices = [blocks for blocks in _cuts(c, most) if blocks.elements(c) <= limit]
        if choices:
            return min(choices, key=lambda blocks: _together(c, blocks, device))
    raise UnsupportedOp("what a row of windows holds exceeds the cache")


def convolution_units(c: Convolution, b: ConvolutionBlocks) -> int:
    *above, high, wide = c.blocked
    blocks = -(-high // b.results) * -(-wide // b.columns) * -(-c.filters_of_group // b.filters)
    return c.conv.shape[0] * c.groups * math.prod(above) * blocks


def _cuts(c: Convolution, most: int) -> Iterator[ConvolutionBlocks]:
    """Those of `most` columns."""
    size = c.dtype.itemsize
    *_, high, wide = c.blocked
    down, across = c.shifts
    columns = wide if c.windows else -(-wide // -(-wide // most))
    channels = max(1, min(c.channels, TERM_BYTES // size // c.window))
    channels = -(-c.channels // -(-c.channels // channels))
    for results in dict.fromkeys(-(-high // cut) for cut in CUTS):
        rows = min(c.axes[-2].places, c.windows.axes[-2].read_by(results)) if c.windows else results
        pitch = columns + across
        for filters in [c.filters_of_group // part for part in UNIT_PARTS if c.filters_of_group % part == 0]:
            tiles = tiles_for(filters, (rows - 1) * pitch + columns, vector_bytes(), size)
            lines = -(-((rows - 1) * pitch + columns) // tiles[0].columns) * tiles[0].columns
            stride = stride_of(lines, size)
            yield ConvolutionBlocks(results, rows, columns, filters, channels, pitch, stride, rows + down, tiles)


@lru_cache(maxsize=4096)
def tiles_for(filters: int, places: int, vector_bytes: int, itemsize: int) -> tuple[RegisterTile, ...]:
    """The tile by which sums take the fewest cycles, and one of as many vectors for the filters that it leaves."""
    lanes = vector_bytes // itemsize
    while lanes > max(4, places):
        lanes //= 2
    most = -(-places // lanes)
    tilings = [
        tuple(RegisterTile(rows, wide, lanes, taps=True) for rows in (high, filters % high) if rows)
        for high, wide in tile_forms(filters, vector_bytes)
        if wide <= most
    ]
    return min(tilings, key=lambda tiles: (cycles(tiles, filters, places), -tiles[0].rows * tiles[0].columns))


def cycles(tiles: tuple[RegisterTile, ...], filters: int, places: int) -> float:
    """Of one term of the sums of all filters."""
    whole = filters // tiles[0].rows * tiles[0].cycles
    return -(-places // tiles[0].columns) * (whole + sum(t.cycles for t in tiles[1:]))


def tile_cycles(c: Convolution, b: ConvolutionBlocks) -> float:
    """Cycles of the tiles of a unit."""
    calls = b.across * -(-b.filters // b.tiles[0].rows) * -(-c.channels // b.channels)
    ending = sum(t.ending for t in b.tiles[:1])
    return cycles(b.tiles, b.filters, b.lines) * c.terms + calls * (CALLED + ending)


def around(c: Convolution, b: ConvolutionBlocks) -> float:
    """Cycles to copy what a unit reads of the image, and to compute what follows its sums, at least."""
    rows = c.channels * c.planes * len(c.phases) * b.high
    results = b.filters * b.rows
    return (rows * (b.pitch + COPY_OF_ROW) + results * (b.columns + COPY_OF_ROW)) * COPY_OF_ELEMENT + UNIT_CYCLES


def _together(c: Convolution, b: ConvolutionBlocks, device: Device) -> float:
    """Cycles until the threads have done all units."""
    turns = -(-convolution_units(c, b) // device.threads)
    return turns * (tile_cycles(c, b) + around(c, b))
