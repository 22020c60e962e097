"""Tiles of sliding windows: blocks of rows, each read with the rows around it that its windows reach.

In: the node that slides a window, on its leaves or on elementwise work. Out: the stages before and after it, and the
lines that fill a padded scratch array with one block of its argument. Used by `conv.py` and `window.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eqfuse.emit.numpy.source import Source
from eqfuse.emit.numpy.tile import Stage
from eqfuse.emit.numpy.tiling import Cut, Panel
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.ir.views import computes

AFTER = "windowed value"  # stands for the node itself in the graph of what follows it


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


def single_axes(shape: tuple[int, ...], cuttable: tuple[int, ...]) -> Panel:
    """A panel whose axes are those of `shape`, none merged."""
    groups = tuple((a,) for a in range(len(shape)))
    return Panel(len(shape), groups, shape, tuple(a not in cuttable for a in range(len(shape))))


def before(source: Source, slide: Slide, panel: Panel, cut: Cut, span: tuple[str, str], target: str) -> Stage | str:
    """The stage that computes a block of the image into `target`; or, for an image in memory, its tile's expression."""
    if computes(slide.image):
        graph = Graph(source.body.inputs, (slide.image,))
        return Stage(source, graph, panel, cut, "p", span, written={slide.image: target})
    name = source.name("a")
    source.line(f"{name} = {source.view(slide.image)}")
    dims = panel.dims(slide.image.shape)
    if dims != slide.image.shape:
        source.line(f"{name} = {name}.reshape({dims})")
    index = [f"p{a}" if a in cut.loops else f"{span[0]}:{span[1]}" if a == cut.axis else ":" for a in range(len(dims))]
    return f"{name}[{', '.join(index)}]"


def after(source: Source, n: Node, panel: Panel, cut: Cut, tile: str) -> Stage:
    """The stage that follows `n`, whose tile is named `tile`, and writes the outputs."""
    stand_in = input_node(AFTER, n.type)
    graph = Graph(source.body.inputs, substitute(source.body.outputs, {n: stand_in}))
    return Stage(source, graph, panel, cut, given={stand_in: tile})


def row_bounds(slide: Slide) -> list[str]:
    """Lines for the rows ``low:high`` of the image that block ``i:j`` reads, the first one as if there were no edge."""
    stride, above, reach = slide.strides[0], slide.padding[0][0], slide.reach[0]
    return [
        f"start = i * {stride} - {above}",
        f"low = min(max(start, 0), {slide.extents[0]})",
        f"high = max(min((j - 1) * {stride} - {above} + {reach}, {slide.extents[0]}), low)",
    ]


def inner(slide: Slide, lead: int) -> str:
    """The index of a block's own rows and columns inside its padded array, after `lead` axes."""
    parts = [":"] * lead + ["low - start:high - start"]
    parts += [f"{b}:{b + n}" for n, (b, _) in zip(slide.extents[1:], slide.padding[1:], strict=True)]
    return ", ".join(parts)


def array(source: Source, name: str, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> tuple[str, int]:
    """A line that makes a scratch array in ``memory`` from `offset`, and the offset after it."""
    size = math.prod(shape) * dtype.itemsize
    line = f"{name} = memory[{offset}:{offset + size}].view({source.dtype(dtype)}).reshape({shape})"
    return line, offset + -(-size // 64) * 64
