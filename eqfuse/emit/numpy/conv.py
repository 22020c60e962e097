"""Convolution as matrix products: a block of rows is unrolled into columns, multiplied, and worked on while in cache.

In: a contract body around one `conv`. Out: `Source`. The unrolled block lives in scratch memory.
With unit strides each row of the unrolled block is one long run of the padded image (its width then includes padding).
"""

from __future__ import annotations

import math
from functools import partial

from numpy.lib.stride_tricks import as_strided

from eqfuse.cost.device import Device
from eqfuse.dtypes import moved
from eqfuse.emit.numpy.halo import Slide, after, array, before, inner, row_bounds, single_axes
from eqfuse.emit.numpy.source import Source
from eqfuse.emit.numpy.tile import Stage, tile_indices
from eqfuse.emit.numpy.tiling import Cut
from eqfuse.ir.graph import Graph, Node

FEW_COLUMNS = 256  # a product with fewer columns than this is slow


def conv_kernel(body: Graph, conv: Node, device: Device) -> Source:
    """The kernel of `body`, in blocks of rows of the results of `conv`."""
    image, weight = conv.args
    strides, padding, dilations, groups = conv.attrs
    slide = Slide(image, weight.shape[2:], strides, padding, dilations)  # type: ignore[arg-type]
    source = Source(body)
    plan = _Unroll(slide, conv, groups, device)  # type: ignore[arg-type]
    source.names |= {"as_strided": partial(moved, as_strided), "max": max}
    source.line(f"w = ({source.view(weight)}).reshape({(groups, plan.filters, plan.depth)})")
    cut = plan.cut
    reads = Cut(cut.loops, 2, slide.rows_read(cut.block), cut.blocks, cut.count)
    first = before(source, slide, single_axes(image.shape, (0, 2)), reads, ("low", "high"), "inside")
    last = after(source, conv, single_axes(conv.shape, (0, 2)), cut, "g")
    made, nbytes = plan.arrays(source)
    shorter: list[str] = []
    if isinstance(first, Stage):
        arrays, shorter, nbytes = first.scratch(nbytes, "high - low", ragged=True)
        made += arrays
    arrays, last_shorter, nbytes = last.scratch(nbytes, "j - i")
    source.line("def tiles(numbers):")
    source.block([f"memory = scratch({nbytes})", *made, *arrays], 2)
    source.line("for number in numbers:", 2)
    source.block([*tile_indices(last.panel, cut), *row_bounds(slide), *shorter, *last_shorter, *plan.clear()], 3)
    source.line(f"inside = padded[{inner(slide, 1)}]", 3)
    if isinstance(first, Stage):
        first.write(3)
    else:
        source.line(f"copyto(inside, {first})", 3)
    source.block(plan.multiply(), 3)
    last.write(3)
    source.share(cut.count, device.threads, True, nbytes)
    last.second_copies()
    return source


class _Unroll:
    """Sizes and lines of the unrolled block and its product."""

    def __init__(self, slide: Slide, conv: Node, groups: int, device: Device) -> None:
        self.slide, self.dtype = slide, conv.dtype
        self.channels, self.groups = slide.image.shape[1], groups
        self.filters = conv.shape[1] // groups
        self.depth = self.channels // groups * math.prod(slide.window)
        self.flat = all(s == 1 for s in slide.strides)
        self.out = conv.shape[2:]
        self.width = math.prod(slide.padded[1:] if self.flat else self.out[1:])  # columns per row of results
        fits = device.tile_bytes // (self.dtype.itemsize * max(self.width * self.depth * groups, 1))
        rows = max(1, fits, math.ceil(FEW_COLUMNS / max(self.width, 1)))
        blocks = math.ceil(self.out[0] / min(rows, self.out[0]))
        images = conv.shape[0]
        if images * blocks < 2 * device.threads:
            blocks = min(self.out[0], math.ceil(2 * device.threads / images))
        self.rows = math.ceil(self.out[0] / blocks)
        blocks = math.ceil(self.out[0] / self.rows)
        self.cut = Cut((0,), 2, self.rows, blocks, images * blocks)

    def arrays(self, source: Source) -> tuple[list[str], int]:
        slide, item = self.slide, self.dtype.itemsize
        # one more row than is read: the last run of a flat block ends in it
        padded = (self.channels, slide.rows_read(self.rows) + 1, *slide.padded[1:])
        steps = [item * math.prod(padded[a + 1 :]) for a in range(len(padded))]
        taps = [s * d for s, d in zip(steps[1:], slide.dilations, strict=True)]
        at = (self.rows * self.width,) if self.flat else (self.rows, *self.out[1:])
        moves = [item] if self.flat else [s * d for s, d in zip(steps[1:], slide.strides, strict=True)]
        shape = (self.channels, *slide.window, *at)
        line, offset = array(source, "padded", 0, padded, self.dtype)
        lines = [line, "padded[...] = 0"]
        lines.append(f"windows = as_strided(padded, {shape}, {(steps[0], *taps, *moves)})")
        line, offset = array(source, "unrolled", offset, shape, self.dtype)
        lines.append(line)
        lines.append(f"columns = unrolled.reshape({(self.groups, self.depth, self.rows * self.width)})")
        line, offset = array(
            source, "products", offset, (self.groups, self.filters, self.rows * self.width), self.dtype
        )
        lines.append(line)
        width = slide.padded[1:] if self.flat else self.out[1:]
        crop = ", ".join([":", ":", *(f":{n}" for n in self.out[1:])])
        lines.append(f"grid = products.reshape({(self.groups * self.filters, self.rows, *width)})[{crop}]")
        return lines, offset

    def clear(self) -> list[str]:
        """Rows of padding above and below become zeros."""
        read = self.slide.rows_read(self.rows)
        return [
            "padded[:, :low - start] = 0",
            f"padded[:, high - start:{read}] = 0",
        ]

    def multiply(self) -> list[str]:
        return [
            "copyto(unrolled, windows)",
            "matmul(w, columns, products)",
            "g = grid[:, :j - i]",
        ]
