"""Pooling: windows reduced one axis at a time over shifted slices, with the work before and after it in the same tile.

In: a window body. Out: `Source`. Small images are taken several at a time; large ones in blocks of rows.
"""

from __future__ import annotations

import math

from eqfuse.cost.device import Device
from eqfuse.emit.numpy.halo import Slide, after, array, before, inner, row_bounds
from eqfuse.emit.numpy.source import Source
from eqfuse.emit.numpy.temporaries import BUFFER
from eqfuse.emit.numpy.tile import Stage, tile_indices
from eqfuse.emit.numpy.tiling import Cut, Panel, lead_groups, tile_elements
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops.windows import lowest


def window_kernel(body: Graph, n: Node, device: Device) -> Source:
    """The kernel of `body`, around the one window reduction `n`."""
    window, strides, padding = n.attrs
    slide = Slide(n.args[0], window, strides, padding, (1,) * len(window))  # type: ignore[arg-type]
    source = Source(body)
    source.names |= {"max": max, "fill": lowest(n.dtype) if n.op == "window_max" else n.dtype.type(0)}
    k, rank = len(slide.window), len(n.shape)
    leads = lead_groups(body, n, rank - k)
    lead, rows = len(leads), n.shape[rank - k]
    target = tile_elements(body, device)
    image = math.prod(slide.padded)
    extents = [math.prod(n.shape[a] for a in group) for group in leads]
    by_rows = not leads or image > target
    if by_rows:
        per_row = math.prod(slide.padded[1:]) * slide.strides[0]
        block = max(1, min(rows, target // per_row))
        if math.prod(extents) * math.ceil(rows / block) < 2 * device.threads:
            block = math.ceil(rows / (2 * device.threads))
        axis, extent = lead, rows
    else:
        axis, extent = lead - 1, extents[-1]
        block = max(1, min(extent, target // max(image, 1)))
        if math.prod(extents[:-1]) * math.ceil(extent / block) < 2 * device.threads:
            block = math.ceil(extent / (2 * device.threads))
    loops = tuple(range(axis))
    blocks = math.ceil(extent / block)
    cut = Cut(loops, axis, block, blocks, math.prod(extents[: len(loops)]) * blocks)
    height = slide.rows_read(block) if by_rows else slide.padded[0]
    reads = Cut(loops, axis, height if by_rows else block, blocks, cut.count)
    span = ("low", "high") if by_rows else ("i", "j")
    front = () if by_rows else (block,)  # axes of a tile before those of the window

    def panel(shape: tuple[int, ...]) -> Panel:
        groups = (*leads, *((a,) for a in range(rank - k, rank)))
        whole = tuple(i > axis for i in range(lead + k))
        return Panel(rank, groups, tuple(math.prod(shape[a] for a in g) for g in groups), whole)

    padded = any(p != (0, 0) for p in slide.padding)
    first = before(source, slide, panel(slide.image.shape), reads, span, "inside")
    last = after(source, n, panel(n.shape), cut, "g")
    made: list[str] = []
    shorter: list[str] = []
    start, nbytes = "inside", 0
    stored = padded or isinstance(first, Stage)
    if stored:
        line, nbytes = array(source, "padded", 0, (*front, height, *slide.padded[1:]), n.dtype)
        made += [line, "padded[...] = fill"]
        start = "padded"
    size = "high - low" if by_rows else "j - i"
    if isinstance(first, Stage):
        arrays, lines, nbytes = first.scratch(nbytes, size, ragged=True)
        made, shorter = made + arrays, shorter + lines
    steps, arrays, nbytes = _reduce(source, n, slide, front, (block if by_rows else n.shape[rank - k]), start, nbytes)
    made += arrays
    arrays, lines, nbytes = last.scratch(nbytes, "j - i")
    made, shorter = made + arrays, shorter + lines
    source.line("def tiles(numbers):")
    if nbytes:
        source.block([f"memory = scratch({nbytes})", *made], 2)
    source.line("for number in numbers:", 2)
    source.block([*tile_indices(last.panel, cut), *(row_bounds(slide) if by_rows else ()), *shorter], 3)
    if stored and by_rows:
        source.block(["padded[:low - start] = fill", f"padded[high - start:{height}] = fill"], 3)
    if stored:
        source.line(f"inside = padded[{_inside(slide, by_rows)}]", 3)
    if isinstance(first, Stage):
        first.write(3)
    else:
        source.line(f"copyto(inside, {first})" if stored else f"inside = {first}", 3)
    source.block(steps, 3)
    last.write(3)
    source.share(cut.count, device.threads, False, nbytes)
    last.second_copies()
    source.passes(3 * BUFFER * n.dtype.itemsize)  # the shifted slices have gaps
    return source


def _inside(slide: Slide, by_rows: bool) -> str:
    if by_rows:
        return inner(slide, 0)
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
    made: list[str] = []
    source_name = start
    for a, (k, stride) in enumerate(zip(slide.window, slide.strides, strict=True)):
        width[a] = done[a]
        target = f"h{a}"
        line, nbytes = array(source, f"w{target}", nbytes, (*front, *width), n.dtype)
        made.append(line)
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
    return lines, made, nbytes
