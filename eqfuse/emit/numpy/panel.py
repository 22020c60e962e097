"""The panel template: every operator of a body on one tile after another, tiles shared among threads.

In: the schedule of a map, row, reduce, contract (matrix product) or back_to_back body. Out: `Source`.
"""

from __future__ import annotations

from eqfuse.emit.numpy.schedule import Tiles
from eqfuse.emit.numpy.source import Source
from eqfuse.emit.numpy.tile import StageText
from eqfuse.emit.numpy.tiling import tile_indices


def panel_kernel(schedule: Tiles) -> Source:
    """The whole kernel: arrays behind their views, values that all tiles share, then the tiles."""
    source = Source(schedule.body)
    text = StageText(source, schedule.stage)
    share_tiles(source, text, schedule.threads)
    text.second_copies()
    source.writes_gaps = text.writes_gaps
    return source


def share_tiles(source: Source, text: StageText, threads: int) -> None:
    """The function of the tiles of one stage, and the call that shares them out."""
    stage = text.stage
    arrays, shorter, nbytes = text.scratch(0)
    source.line("def tiles(numbers):")
    if arrays:
        source.block([f"memory = scratch({nbytes})", *arrays], 2)
    if shorter:
        source.line("size = 0", 2)
    source.line("for number in numbers:", 2)
    source.block(tile_indices(stage.panel, stage.cut), 3)
    if shorter:
        source.line("if j - i != size:", 3)
        source.block(["size = j - i", *shorter], 4)
    text.write(3)
    source.share(stage.cut.count, threads, stage.multiplies, nbytes)
