"""Tiles of sliding windows: blocks of rows, each read with the rows around it that its windows reach.

In: a `Slide`, and the stage before it or the image in memory. Out: the lines that fill a padded scratch array with one
block. Used by `conv` and `window`.
"""

from __future__ import annotations

import math

import numpy as np

from eqfuse.emit.numpy.slide import Slide
from eqfuse.emit.numpy.source import Source
from eqfuse.emit.numpy.tiling import Panel, Tiling
from eqfuse.ir.graph import Node


def image_tile(source: Source, image: Node, panel: Panel, cut: Tiling, span: tuple[str, str]) -> str:
    """The expression of the tile of an `image` in memory."""
    name = source.name("a")
    source.line(f"{name} = {source.view(image)}")
    dims = panel.dims(image.shape)
    if dims != image.shape:
        source.line(f"{name} = {name}.reshape({dims})")
    index = [f"p{a}" if a in cut.loops else f"{span[0]}:{span[1]}" if a == cut.axis else ":" for a in range(len(dims))]
    return f"{name}[{', '.join(index)}]"


def row_bounds(slide: Slide) -> list[str]:
    """Lines for the rows ``low:high`` of the image that block ``i:j`` reads, the first one as if there were no edge."""
    stride, above, reach = slide.strides[0], slide.padding[0][0], slide.reach[0]
    return [
        f"start = i * {stride} - {above}",
        f"low = min(max(start, 0), {slide.extents[0]})",
        f"high = max(min((j - 1) * {stride} - {above} + {reach}, {slide.extents[0]}), low)",
    ]


def interior(slide: Slide, lead: int) -> str:
    """The index of a block's own rows and columns inside its padded array, after `lead` axes."""
    parts = [":"] * lead + ["low - start:high - start"]
    parts += [f"{b}:{b + n}" for n, (b, _) in zip(slide.extents[1:], slide.padding[1:], strict=True)]
    return ", ".join(parts)


def array(source: Source, name: str, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, int]:
    """A line that makes a scratch array in ``memory`` from `offset`, and the offset after it."""
    size = math.prod(shape) * dtype.itemsize
    line = f"{name} = memory[{offset}:{offset + size}].view({source.dtype(dtype)}).reshape({shape})"
    return line, offset + -(-size // 64) * 64
