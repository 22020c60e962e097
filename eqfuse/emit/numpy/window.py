"""Pooling: windows reduced one axis at a time over shifted slices, with the work before and after it in the same tile.

In: the schedule of a window body. Out: `Source`.
"""

from __future__ import annotations

from eqfuse.emit.numpy.halo import array, image_tile, interior, row_bounds
from eqfuse.emit.numpy.schedule import BlockedWindows
from eqfuse.emit.numpy.slide import Slide
from eqfuse.emit.numpy.source import Source
from eqfuse.emit.numpy.temporaries import NUMPY_BUFFER
from eqfuse.emit.numpy.tile import StageText
from eqfuse.emit.numpy.tiling import tile_indices
from eqfuse.ir.graph import Node
from eqfuse.ops.windows import lowest


def window_kernel(schedule: BlockedWindows) -> Source:
    """The kernel around one window reduction."""
    n, pooled = schedule.window, schedule.blocks
    slide, by_rows, stored = pooled.slide, pooled.by_rows, schedule.is_stored
    source = Source(schedule.body)
    source.names |= {"max": max, "fill": lowest(n.dtype) if n.op == "window_max" else n.dtype.type(0)}
    span = ("low", "high") if by_rows else ("i", "j")
    first: StageText | str
    if schedule.before is not None:
        first = StageText(source, schedule.before, "p", span)
    else:
        first = image_tile(source, slide.image, pooled.panel(slide.image.shape), pooled.reads, span)
    last = StageText(source, schedule.after, incoming=schedule.incoming)
    buffers: list[str] = []
    shorter: list[str] = []
    start, nbytes = "inside", 0
    if stored:
        line, nbytes = array(source, "padded", 0, (*pooled.front, pooled.height, *slide.padded[1:]), n.dtype)
        buffers += [line, "padded[...] = fill"]
        start = "padded"
    size = "high - low" if by_rows else "j - i"
    if isinstance(first, StageText):
        arrays, lines, nbytes = first.scratch(nbytes, size, ragged=True)
        buffers, shorter = buffers + arrays, shorter + lines
    steps, arrays, nbytes = _reduce(source, n, slide, pooled.front, pooled.rows, start, nbytes)
    buffers += arrays
    arrays, lines, nbytes = last.scratch(nbytes, "j - i")
    buffers, shorter = buffers + arrays, shorter + lines
    source.line("def tiles(numbers):")
    if nbytes:
        source.block([f"memory = scratch({nbytes})", *buffers], 2)
    source.line("for number in numbers:", 2)
    source.block([*tile_indices(last.panel, pooled.cut), *(row_bounds(slide) if by_rows else ()), *shorter], 3)
    if stored and by_rows:
        source.block(["padded[:low - start] = fill", f"padded[high - start:{pooled.height}] = fill"], 3)
    if stored:
        source.line(f"inside = padded[{_inside(slide, by_rows)}]", 3)
    if isinstance(first, StageText):
        first.write(3)
    else:
        source.line(f"copyto(inside, {first})" if stored else f"inside = {first}", 3)
    source.block(steps, 3)
    last.write(3)
    source.share(pooled.cut.count, schedule.threads, False, nbytes)
    last.second_copies()
    source.note_statement_bytes(3 * NUMPY_BUFFER * n.dtype.itemsize)  # the shifted slices have gaps
    return source


def _inside(slide: Slide, by_rows: bool) -> str:
    if by_rows:
        return interior(slide, 0)
    parts = [f"{b}:{b + n}" for n, (b, _) in zip(slide.extents, slide.padding, strict=True)]
    return ", ".join([":j - i", *parts])


def _reduce(
    source: Source, n: Node, slide: Slide, front: tuple[int, ...], rows: int, start: str, nbytes: int
) -> tuple[list[str], list[str], int]:
    """Lines that reduce the block `start` to ``g``, and the scratch arrays they need."""
    join = "maximum" if n.op == "window_max" else "add"
    out = "out=" if join == "maximum" else ""
    done = (rows, *n.shape[len(n.shape) - len(slide.window) + 1 :])
    width = list(slide.padded)
    width[0] = slide.rows_read(rows)
    lines: list[str] = []
    arrays: list[str] = []
    source_name = start
    for a, (k, stride) in enumerate(zip(slide.window, slide.strides, strict=True)):
        width[a] = done[a]
        target = f"h{a}"
        line, nbytes = array(source, f"w{target}", nbytes, (*front, *width), n.dtype)
        arrays.append(line)
        lines.append(f"{target} = w{target}[:j - i]")
        count = "(j - i)" if a == 0 and not front else str(done[a])
        lead = [":j - i"] * len(front) if a == 0 and front else [":"] * len(front)

        stops = [f"{q}:{q} + ({count} - 1) * {stride} + 1:{stride}" for q in range(k)]
        shifted = [f"{source_name}[{', '.join([*lead, *[':'] * a, stop])}]" for stop in stops]
        if k == 1:
            lines.append(f"copyto({target}, {shifted[0]})")
        else:
            lines.append(f"{join}({shifted[0]}, {shifted[1]}, {out}{target})")
        lines += [f"{join}({target}, {shifted[q]}, {out}{target})" for q in range(2, k)]
        source_name = target
    lines.append(f"g = {source_name}")
    return lines, arrays, nbytes
