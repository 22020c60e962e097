"""Windows that slide over an image: what a block of results reads, and how convolutions and poolings are cut.

In: a body around one convolution or pooling. Out: `Slide`, and the `UnrolledBlocks` or `PoolingBlocks` of a kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.numpy.tiling import Panel, Tiling, lead_groups, tile_elements
from eqfuse.ir.graph import Graph, Node

FEW_COLUMNS = 256  # a product with fewer columns than this is slow
WASTED = 2  # columns that are computed for each one of a result, at most: large windows on padded rows waste more


@dataclass(frozen=True)
class Slide:
    """How windows slide over the trailing axes of `image`: per axis the extent, stride, padding before and dilation."""

    image: Node
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        return tuple((k - 1) * d + 1 for k, d in zip(self.window, self.dilations, strict=True))

    @property
    def extents(self) -> tuple[int, ...]:
        return self.image.shape[-len(self.window) :]

    @property
    def padded(self) -> tuple[int, ...]:
        return tuple(n + before + after for n, (before, after) in zip(self.extents, self.padding, strict=True))

    def rows_read(self, rows: int) -> int:
        """How many (padded) rows `rows` rows of results need."""
        return (rows - 1) * self.strides[0] + self.reach[0]

    def rows_of_blocks(self, cut: Tiling, rows: int) -> int:
        """How many rows of the image the blocks of `rows` rows of results read, padding aside."""
        read: set[int] = set()
        for first in range(0, rows, cut.block):
            low = first * self.strides[0] - self.padding[0][0]
            high = (min(first + cut.block, rows) - 1) * self.strides[0] - self.padding[0][0] + self.reach[0]
            read.update(range(max(low, 0), min(high, self.extents[0])))
        return len(read)


def single_axes(shape: tuple[int, ...], cuttable: tuple[int, ...]) -> Panel:
    """A panel whose axes are those of `shape`, none merged."""
    groups = tuple((a,) for a in range(len(shape)))
    return Panel(len(shape), groups, shape, tuple(a not in cuttable for a in range(len(shape))))


class UnrolledBlocks:
    """Sizes of the blocks of a convolution: rows of results, unrolled into columns, and their product."""

    def __init__(self, conv: Node, device: Device) -> None:
        image, weight = conv.args
        strides, padding, dilations, groups = conv.attrs
        self.slide = slide = Slide(image, weight.shape[2:], strides, padding, dilations)  # type: ignore[arg-type]
        self.dtype: np.dtype = conv.dtype
        self.channels, self.groups = image.shape[1], int(groups)  # type: ignore[call-overload]
        self.filters = conv.shape[1] // self.groups
        self.depth = self.channels // self.groups * math.prod(slide.window)
        self.out = conv.shape[2:]
        width, padded = math.prod(self.out[1:]), math.prod(slide.padded[1:])
        self.flat = all(s == 1 for s in slide.strides) and padded <= WASTED * width
        self.width = padded if self.flat else width  # columns per row of results
        fits = device.tile_bytes // (self.dtype.itemsize * max(self.width * self.depth * self.groups, 1))
        rows = max(1, fits, math.ceil(FEW_COLUMNS / max(self.width, 1)))
        blocks = math.ceil(self.out[0] / min(rows, self.out[0]))
        images = conv.shape[0]
        if images * blocks < 2 * device.threads:
            blocks = min(self.out[0], math.ceil(2 * device.threads / images))
        self.rows = math.ceil(self.out[0] / blocks)
        blocks = math.ceil(self.out[0] / self.rows)
        self.cut = Tiling((0,), 2, self.rows, blocks, images * blocks)
        self.reads = Tiling((0,), 2, slide.rows_read(self.rows), blocks, self.cut.count)


class PoolingBlocks:
    """Blocks of a pooling: several small images at a time, or blocks of rows of a large one."""

    def __init__(self, body: Graph, n: Node, device: Device) -> None:
        window, strides, padding = map(n.attr, ("window", "strides", "padding"))
        self.slide = slide = Slide(n.args[0], window, strides, padding, (1,) * len(window))
        self.leads = lead_groups(body, n, len(n.shape) - len(slide.window))
        lead, rows = len(self.leads), n.shape[-len(slide.window)]
        target, image = tile_elements(body, device), math.prod(slide.padded)
        extents = [math.prod(n.shape[a] for a in group) for group in self.leads]
        self.by_rows = not self.leads or image > target
        if self.by_rows:
            axis, extent, size = lead, rows, math.prod(slide.padded[1:]) * slide.strides[0]
        else:
            axis, extent, size = lead - 1, extents[-1], max(image, 1)
        block = max(1, min(extent, target // size))
        others = math.prod(extents[:axis])
        if others * math.ceil(extent / block) < 2 * device.threads:
            block = math.ceil(extent / (2 * device.threads))
        blocks = math.ceil(extent / block)
        self.block, self.axis = block, axis
        self.cut = Tiling(tuple(range(axis)), axis, block, blocks, others * blocks)
        self.height = slide.rows_read(block) if self.by_rows else slide.padded[0]
        reads = self.height if self.by_rows else block
        self.reads = Tiling(self.cut.loops, axis, reads, blocks, self.cut.count)
        self.front = () if self.by_rows else (block,)  # axes of a tile before those of the window
        self.rows = block if self.by_rows else rows
        self.is_padded = any(p != (0, 0) for p in slide.padding)

    def rows_read(self, n: Node, stored: bool) -> int:
        """How many rows of the image are read; where it is not `stored`, those under a window alone."""
        rows = n.shape[-len(self.slide.window)]
        if not stored:
            return len({i * self.slide.strides[0] + q for i in range(rows) for q in range(self.slide.window[0])})
        return self.slide.rows_of_blocks(self.cut, rows) if self.by_rows else self.slide.extents[0]

    def panel(self, shape: tuple[int, ...]) -> Panel:
        rank, k = len(shape), len(self.slide.window)
        groups = (*self.leads, *((a,) for a in range(rank - k, rank)))
        whole = tuple(i > self.axis for i in range(len(groups)))
        return Panel(rank, groups, tuple(math.prod(shape[a] for a in g) for g in groups), whole)
