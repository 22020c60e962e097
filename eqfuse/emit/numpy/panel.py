"""The panel template: every operator of a body on one tile after another, tiles shared among threads.

In: a body of kind map, row, reduce, contract (matrix product) or back_to_back, its `Panel` and `Cut`. Out: `Source`.
"""

from __future__ import annotations

from eqfuse.emit.numpy.source import Source
from eqfuse.emit.numpy.tile import Stage, tile_indices
from eqfuse.emit.numpy.tiling import Cut, Panel
from eqfuse.ir.graph import Graph


def panel_kernel(body: Graph, panel: Panel, cut: Cut, threads: int, gaps: bool) -> Source:
    """The whole kernel: arrays behind their views, values that all tiles share, then the tiles."""
    source = Source(body)
    stage = Stage(source, body, panel, cut, gaps=gaps)
    made, shorter, nbytes = stage.scratch(0)
    source.line("def tiles(numbers):")
    if made:
        source.block([f"memory = scratch({nbytes})", *made], 2)
    if shorter:
        source.line("size = 0", 2)
    source.line("for number in numbers:", 2)
    source.block(tile_indices(panel, cut), 3)
    if shorter:
        source.line("if j - i != size:", 3)
        source.block(["size = j - i", *shorter], 4)
    stage.write(3)
    source.share(cut.count, threads, stage.multiplies, nbytes)
    stage.second_copies()
    source.writes_gaps = stage.writes_gaps
    return source
