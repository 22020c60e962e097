"""Convolution as matrix products: a block of rows is unrolled into columns, multiplied, and worked on while in cache.

In: the schedule of a contract body around one `conv`. Out: `Source`. The unrolled block lives in scratch memory.
With unit strides each row of the unrolled block is one long run of the padded image (its width then includes padding).
"""

from __future__ import annotations

import math
from functools import partial

from numpy.lib.stride_tricks import as_strided

from eqfuse.dtypes import moved
from eqfuse.emit.numpy.halo import array, image_tile, interior, row_bounds
from eqfuse.emit.numpy.schedule import BlockedConvolution
from eqfuse.emit.numpy.slide import UnrolledBlocks
from eqfuse.emit.numpy.source import Source
from eqfuse.emit.numpy.tile import StageText
from eqfuse.emit.numpy.tiling import tile_indices


def conv_kernel(schedule: BlockedConvolution) -> Source:
    """The kernel, in blocks of rows of the results of the convolution."""
    unrolled, cut = schedule.blocks, schedule.blocks.cut
    slide, weight = unrolled.slide, schedule.conv.args[1]
    source = Source(schedule.body)
    source.names |= {"as_strided": partial(moved, as_strided), "max": max}
    source.line(f"w = ({source.view(weight)}).reshape({(unrolled.groups, unrolled.filters, unrolled.depth)})")
    first: StageText | str
    if schedule.before is not None:
        first = StageText(source, schedule.before, "p", ("low", "high"))
    else:
        first = image_tile(source, slide.image, schedule.image, unrolled.reads, ("low", "high"))
    last = StageText(source, schedule.after, incoming=schedule.incoming)
    buffers, nbytes = _arrays(source, unrolled)
    shorter: list[str] = []
    if isinstance(first, StageText):
        arrays, shorter, nbytes = first.scratch(nbytes, "high - low", ragged=True)
        buffers += arrays
    arrays, last_shorter, nbytes = last.scratch(nbytes, "j - i")
    source.line("def tiles(numbers):")
    source.block([f"memory = scratch({nbytes})", *buffers, *arrays], 2)
    source.line("for number in numbers:", 2)
    source.block([*tile_indices(last.panel, cut), *row_bounds(slide), *shorter, *last_shorter, *_clear(unrolled)], 3)
    source.line(f"inside = padded[{interior(slide, 1)}]", 3)
    if isinstance(first, StageText):
        first.write(3)
    else:
        source.line(f"copyto(inside, {first})", 3)
    source.block(_multiply(), 3)
    last.write(3)
    source.share(cut.count, schedule.threads, True, nbytes)
    last.second_copies()
    return source


def _arrays(source: Source, u: UnrolledBlocks) -> tuple[list[str], int]:
    slide, item = u.slide, u.dtype.itemsize
    # one more row than is read: the last run of a flat block ends in it
    padded = (u.channels, slide.rows_read(u.rows) + 1, *slide.padded[1:])
    steps = [item * math.prod(padded[a + 1 :]) for a in range(len(padded))]
    taps = [s * d for s, d in zip(steps[1:], slide.dilations, strict=True)]
    extents = (u.rows * u.width,) if u.flat else (u.rows, *u.out[1:])
    moves = [item] if u.flat else [s * d for s, d in zip(steps[1:], slide.strides, strict=True)]
    shape = (u.channels, *slide.window, *extents)
    line, offset = array(source, "padded", 0, padded, u.dtype)
    lines = [line, "padded[...] = 0"]
    lines.append(f"windows = as_strided(padded, {shape}, {(steps[0], *taps, *moves)})")
    line, offset = array(source, "unrolled", offset, shape, u.dtype)
    lines.append(line)
    lines.append(f"columns = unrolled.reshape({(u.groups, u.depth, u.rows * u.width)})")
    line, offset = array(source, "products", offset, (u.groups, u.filters, u.rows * u.width), u.dtype)
    lines.append(line)
    width = slide.padded[1:] if u.flat else u.out[1:]
    crop = ", ".join([":", ":", *(f":{n}" for n in u.out[1:])])
    lines.append(f"grid = products.reshape({(u.groups * u.filters, u.rows, *width)})[{crop}]")
    return lines, offset


def _clear(u: UnrolledBlocks) -> list[str]:
    """Rows of padding above and below become zeros."""
    read = u.slide.rows_read(u.rows)
    return [
        "padded[:, :low - start] = 0",
        f"padded[:, high - start:{read}] = 0",
    ]


def _multiply() -> list[str]:
    return [
        "copyto(unrolled, windows)",
        "matmul(w, columns, products)",
        "g = grid[:, :j - i]",
    ]
