"""Decides how NumPy runs the body of a kernel: the template, the tiles, and what each of them does.

In: a body and a `Device`. Out: its `NumpySchedule`. Shapes decide, never a clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.work import LINE
from eqfuse.dtypes import ADDED
from eqfuse.emit.numpy.branches import branches_of
from eqfuse.emit.numpy.cascades import Parts, in_parts, of_whole_rows
from eqfuse.emit.numpy.cost.figures import MICRO
from eqfuse.emit.numpy.cost.tiles import product_rows
from eqfuse.emit.numpy.gathers import aside, may_cut, parts_last_axis, share_read, shares
from eqfuse.emit.numpy.library import library_calls
from eqfuse.emit.numpy.ops import JOINS, WINDOWED
from eqfuse.emit.numpy.replacement import Replacement, replacement, slice_strides
from eqfuse.emit.numpy.schedule import (
    BlockCopies,
    BlockedConvolution,
    BlockedWindows,
    CascadeOfParts,
    LibraryCall,
    NumpySchedule,
    OneStage,
    ReplacedSlices,
    ResultsOfRows,
    TiledReduction,
    Tiles,
    WholeArrays,
)
from eqfuse.emit.numpy.slide import PoolingBlocks, UnrolledBlocks, single_axes
from eqfuse.emit.numpy.spans import seams, spans
from eqfuse.emit.numpy.stage import Stage
from eqfuse.emit.numpy.statements import behind_views, statements
from eqfuse.emit.numpy.temporaries import unreshaped
from eqfuse.emit.numpy.tiling import (
    Panel,
    Tiling,
    alive,
    grain,
    is_lone_reduction,
    is_of_pairs,
    panel_of,
    tile_elements,
    tiling_for,
    whole_seconds,
    worth_tiling,
)
from eqfuse.emit.numpy.traffic import leaves_read, line_bytes
from eqfuse.emit.numpy.transpose_copy import blocks_behind, run_axis
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.ir.views import TooManyCopies, computes, push_views
from eqfuse.kinds.total import Totals, totals_of
from eqfuse.ops import Role
from eqfuse.ops.types import Shape
from eqfuse.ops.updates import Ranges

PARTS_PER_THREAD = 4  # at most, so that a slow part delays little
AFTER = "windowed value"  # stands for the node itself in the graph of what follows it


def fused(body: Graph, device: Device) -> NumpySchedule:
    """The schedule of a body with fused work: tiles where they pay, else whole arrays."""
    by_maps = [n.row.role in (Role.PIECES, Role.GATHER) for n in body.computations]
    if by_maps == [True] and {*body.outputs} == {*body.computations}:
        return single(body, device)
    try:
        updates = replacement(body)
        if updates is not None:
            return _replaced(body, updates, device)
        pushed = push_views(body)
    except TooManyCopies:
        return whole_arrays(body, device)
    whole = _for_whole_arrays(body, pushed, device)
    tiled = worth_tiling(pushed, whole_seconds(whole, device), device)
    if not tiled or not all(o.type.size for o in body.outputs):
        return whole_arrays(whole, device)
    if not body.computations:
        return _copies(pushed, device)
    return _tiled(pushed, device)


def single(body: Graph, device: Device) -> NumpySchedule:
    """The schedule of a body with one operator at most, which nothing is fused with."""
    nodes = body.computations
    if not nodes or any(n.op in WINDOWED for n in nodes):
        return fused(body, device)
    on_arrays = nodes[0].row.role in (Role.ELEMENTWISE, Role.REDUCTION) or nodes[0].op == "matmul"
    if len(nodes) == 1 and on_arrays:
        return whole_arrays(body, device)
    calls = library_calls(body)
    return LibraryCall(**_traffic(body, share_read(nodes[0])), calls=calls, body=body, calls_once=calls)


def _traffic(body: Graph, parts: Mapping[Node, float] | None = None) -> dict[str, Any]:
    reads, moved = line_bytes(body, (1, LINE), parts)
    return {"reads": reads, "writes": tuple(o.type.nbytes for o in body.outputs), "gaps": sum(moved) - sum(reads)}


def whole_arrays(body: Graph, device: Device | None = None) -> WholeArrays:
    """The schedule of any body of operators that NumPy applies to whole arrays; without a device, all are computed."""
    calls, traffic = _whole_calls(body, body, True), _traffic(body, shares(body))
    elements = max((o.type.size for o in body.outputs), default=0)
    branches = branches_of(body, elements, device) if device else ()
    return WholeArrays(**traffic, calls=calls, body=body, calls_once=calls, branches=branches)


def _whole_calls(body: Graph, rest: Graph, inline: bool, written: Iterable[Node] = ()) -> int:
    """NumPy calls that compute `rest` of `body` on whole arrays and fill its outputs; `written` are filled already."""
    kept, placed = [behind_views(o) for o in body.outputs], [*written, *(o for o in rest.outputs if computes(o))]
    calls = sum(s.calls for s in statements(rest.computations, placed, kept, inline).values())
    return calls + len(rest.outputs) - len({*placed} & {*rest.outputs})


def _for_whole_arrays(body: Graph, pushed: Graph, device: Device) -> Graph:
    """Of `body` and itself with views `pushed`, which may repeat work, what NumPy computes faster on whole arrays."""
    if len(pushed.computations) <= len(body.computations):
        return pushed
    return min(pushed, body, key=lambda graph: whole_seconds(graph, device))


def _copies(body: Graph, device: Device) -> BlockCopies:
    """Arrays that are copied across the axes they lie along, on all threads."""
    bases = [unreshaped(o) for o in body.outputs]
    tiles = [blocks_behind(b) if run_axis(b) is not None else 0 for b in bases]
    calls = sum(tiles) + tiles.count(0)
    return BlockCopies(
        **_traffic(body), calls=calls, body=body, threads=device.threads, tiles=sum(tiles), calls_per_tile=1,
        calls_once=tiles.count(0),
    )  # fmt: skip


def _tiled(body: Graph, device: Device) -> NumpySchedule:
    for n in body.operators:
        if n.op == "conv":
            return _convolution(body, n, device)
        if n.row.role is Role.WINDOW:
            return _windows(body, n, device)
    totals = totals_of(body)
    if totals is not None:
        return _with_totals(body, totals, device)
    if parts_last_axis(body):
        return whole_arrays(body, device)
    panel = panel_of(body)
    products = body.of_role(Role.CONTRACTION)
    besides = aside(body)
    values = [n for n in body.nodes if n.row.role is not Role.LEAF and n not in besides]
    whole = [a for a, w in enumerate(panel.whole) if w]
    depth = max((n.args[0].shape[-1] for n in products), default=0)  # the rows of a left operand pass the cache too
    row_elements = max(depth, *(math.prod(panel.dims(n.shape)[a] for a in whole) for n in values))
    target = tile_elements(body, device)
    parts = in_parts(body, target) if row_elements > target and not products else None
    if parts is not None and isinstance(tiles := _tiled(parts.body, device), Tiles):
        return _of_rows(CascadeOfParts, body, parts, tiles, device)
    reductions = reductions_last(body)
    if reductions and not products and _cut_along_reduced(panel, target, device.threads, is_lone_reduction(body)):
        axis = panel.whole.index(True)
        if spans(body, panel, axis) is None or not may_cut(body, panel, [axis]):
            return whole_arrays(body, device)
        return _reduction(body, reductions, panel, target, device.threads)
    gathers = body.of_role(Role.GATHER)
    if panel.short_rows() and not products and not gathers and not seams(body, panel):
        panel = panel.flip()
    fewest = 0
    if products:
        fewest = MICRO[0] if is_of_pairs(body) else product_rows(row_elements, depth)
    chosen = tiling_for(panel, row_elements, target, device.threads, fewest, grain(body))
    if chosen is None or chosen.count == 1 or not may_cut(body, panel, [chosen.axis, *chosen.loops]):
        return whole_arrays(body, device)
    if spans(body, panel, chosen.axis, chosen.loops) is None:
        return whole_arrays(body, device)
    branches = branches_of(body, math.prod(chosen.tile(panel)), device)
    stage = Stage(body, panel, chosen, branches=branches)
    tiles = Tiles(**_traffic(body, shares(body)), **_shared(body, stage, device.threads), stage=stage)
    results = None if panel.flipped or products else of_whole_rows(body)
    if results is None:
        return tiles
    apart = _of_rows(ResultsOfRows, body, results, tiles, device)
    return min(tiles, apart, key=lambda schedule: schedule.price(device).seconds)


def _shared(body: Graph, stage: Stage, threads: int, more: int = 0, once: int = 0) -> dict[str, Any]:
    """What `NumpySchedule` says of tiles of `stage` that make `more` calls each beside its own, and `once` for all."""
    each, once = stage.calls + more, stage.calls_once + once
    tiles = stage.cut.count
    return {
        "body": body, "threads": threads, "tiles": tiles, "tile": stage.cut.tile(stage.panel),
        "calls_per_tile": each, "calls_once": once, "calls": each * tiles + once, "alive": alive(body),
    }  # fmt: skip


def _convolution(body: Graph, conv: Node, device: Device) -> BlockedConvolution:
    blocks = UnrolledBlocks(conv, device)
    image, stand_in = blocks.slide.image, input_node(AFTER, conv.type)
    before = None
    if computes(image):
        graph = Graph(body.inputs, (image,))
        before = Stage(graph, single_axes(image.shape, (0, 2)), blocks.reads, written={image: "inside"})
    rest = Graph(body.inputs, substitute(body.outputs, {conv: stand_in}))
    after = Stage(rest, single_axes(conv.shape, (0, 2)), blocks.cut, incoming=(stand_in,))
    parts = _rows_read(image, blocks.slide.rows_of_blocks(blocks.cut, conv.shape[2]) / image.shape[2])
    more = (before.calls if before else 1) + 4  # two clear the padding, one unrolls, one multiplies
    once = before.calls_once if before else 0
    return BlockedConvolution(
        **_traffic(body, parts), **_shared(body, after, device.threads, more, once), conv=conv, blocks=blocks,
        image=single_axes(image.shape, (0, 2)), before=before, after=after, incoming={stand_in: "g"},
    )  # fmt: skip


def _windows(body: Graph, n: Node, device: Device) -> BlockedWindows:
    blocks = PoolingBlocks(body, n, device)
    image, stand_in = blocks.slide.image, input_node(AFTER, n.type)
    before = None
    if computes(image):
        graph = Graph(body.inputs, (image,))
        before = Stage(graph, blocks.panel(image.shape), blocks.reads, written={image: "inside"})
    rest = Graph(body.inputs, substitute(body.outputs, {n: stand_in}))
    after = Stage(rest, blocks.panel(n.shape), blocks.cut, incoming=(stand_in,))
    stored = blocks.is_padded or before is not None
    parts = _rows_read(image, blocks.rows_read(n, stored) / max(blocks.slide.extents[0], 1), -len(blocks.slide.window))
    more = sum(max(1, k - 1) for k in blocks.slide.window) + 2 * (stored and blocks.by_rows)
    more += before.calls if before else stored
    once = before.calls_once if before else 0
    return BlockedWindows(
        **_traffic(body, parts), **_shared(body, after, device.threads, more, once), window=n, blocks=blocks,
        before=before, after=after, incoming={stand_in: "g"}, is_stored=stored,
    )  # fmt: skip


def _rows_read(image: Node, share: float, axis: int = -2) -> dict[Node, float]:
    """The share that is read of each leaf of the `image`, of whose rows, along `axis`, that `share` is."""
    leaves = leaves_read(Graph((), (image,)))
    return {a: share for a in leaves if len(a.shape) >= -axis and a.shape[axis] > 1}


def reductions_last(body: Graph) -> list[Node] | None:
    """The reductions of a body in which nothing of full size depends on one; None for any other body. What does not
    depend on one may be a result too.

    And None where cutting would show: NumPy rounds a sum of bfloat16 or float8 after every element, from first to last.
    """
    reductions = body.of_role(Role.REDUCTION)
    if not reductions or any(n.op not in JOINS or n.dtype in ADDED for n in reductions):
        return None
    after: set[Node] = set()
    for n in body.nodes:
        if n in reductions:
            if any(a in after for a in n.args):
                return None
            after.add(n)
        elif any(a in after for a in n.args):
            if n.shape != reductions[0].shape:
                return None
            after.add(n)
    space = reductions[0].args[0].shape
    return reductions if all(o in after or (computes(o) and o.shape == space) for o in body.outputs) else None


def _replaced(body: Graph, updates: Replacement, device: Device) -> ReplacedSlices:
    """Slices replaced: the largest values in tiles, if these pay."""
    largest = updates.largest
    stage = _placed(Graph(body.inputs, tuple(largest)), largest, body.outputs[0].shape, device) if largest else None
    tiled = largest if stage else {}
    once = len(updates.unwritten) + sum(step.calls(stage is None) for step in updates.steps(tiled))
    shared: dict[str, Any] = {"body": updates.body, "calls": once, "calls_once": once}
    if stage:
        shared = _shared(updates.body, stage, device.threads, once=once)
    read = Graph(updates.body.inputs, (*updates.body.outputs, *[n for _, n in updates.unwritten]))
    traffic = _traffic(read)
    traffic |= {"reads": traffic["reads"][: len(body.inputs)], "writes": (body.outputs[0].type.nbytes,)}
    return ReplacedSlices(**traffic, **shared, kernel_body=body, replacement=updates, stage=stage, tiled=tiled)


def _placed(body: Graph, places: Mapping[Node, Ranges], whole: Shape, device: Device) -> Stage | None:
    """The stage that computes the results of `body` into slices of an array of shape `whole`, if tiles pay."""
    if not worth_tiling(body, whole_seconds(body, device), device):
        return None
    panel = panel_of(body, {n: slice_strides(place, whole) for n, place in places.items()})
    chosen = tiling_for(panel, 1, tile_elements(body, device), device.threads, 0, grain(body))
    if chosen is None or chosen.count == 1 or not may_cut(body, panel, [chosen.axis, *chosen.loops]):
        return None
    if spans(body, panel, chosen.axis, chosen.loops) is None:
        return None
    return Stage(body, panel, chosen, written={n: f"y{k}" for k, n in enumerate(places)}, gaps=True)


def _with_totals(body: Graph, totals: Totals, device: Device) -> NumpySchedule:
    """The schedule of its rows, with totals in what follows the tiles; whole arrays where none is in tiles."""
    rows = _tiled(totals.rows, device)
    if isinstance(rows, Tiles):
        computed = {o: stand for o, stand in totals.stands.items() if computes(o)}  # others are copied after the tiles
        read = {stand: o for o, stand in totals.stands.items() if o not in computed}
        rest = Graph(body.inputs, substitute(totals.rest.outputs, read))
        parts = Parts(Graph(body.inputs, tuple(computed)), rest, tuple(computed.values()))
        return _of_rows(ResultsOfRows, body, parts, rows, device)
    if isinstance(rows, ResultsOfRows):
        parts = replace(rows.parts, rest=_followed(body, rows.parts.rest, totals))
        return _of_rows(type(rows), body, parts, rows, device)
    if isinstance(rows, TiledReduction):
        rest, written = _followed(body, rows.rest, totals), rows.written.values()
        before = _whole_calls(totals.rows, rows.rest, False, written)
        more = _whole_calls(body, rest, False, written) - before
        once, calls = rows.calls_once + more, rows.calls + more
        return replace(rows, **_traffic(body, shares(body)), body=body, rest=rest, calls_once=once, calls=calls)
    return whole_arrays(body, device)


def _followed(body: Graph, rest: Graph, totals: Totals) -> Graph:
    """What follows the tiles of rows, `rest`, and their totals."""
    results = dict(zip(totals.stands.values(), rest.outputs, strict=True))
    return Graph(body.inputs, substitute(totals.rest.outputs, results))


def _of_rows(
    template: type[ResultsOfRows], body: Graph, parts: Parts, tiles: OneStage, device: Device
) -> ResultsOfRows:
    """The body by rows, or parts of them, which are rows of `tiles`, and what follows all of these."""
    names = {o: f"y{k}" for k, o in enumerate(parts.body.outputs)}
    stage = Stage(parts.body, tiles.stage.panel, tiles.stage.cut, written=names)
    results = zip(parts.body.outputs, parts.stands, strict=True)
    written = [stand for o, stand in results if o in body.outputs]
    shared = _shared(body, stage, device.threads, once=_whole_calls(body, parts.rest, False, written))
    return template(**_traffic(body, shares(body)), **shared, stage=stage, parts=parts)


def _cut_along_reduced(panel: Panel, target: int, threads: int, alone: bool) -> bool:
    """Would tiles of the other axes be too few, or narrow columns of a tall array, or too large for a cache?"""
    others = math.prod(panel.extents[a] for a in panel.cuttable())
    axis = panel.whole.index(True)
    along, outer, tile = panel.extents[axis], math.prod(panel.extents[:axis]), math.prod(panel.extents[axis:])
    if outer >= PARTS_PER_THREAD * threads and (alone or tile <= target):
        return False
    if along < 8 * threads or others > target // 2:
        return False
    return not panel.whole[-1] or others < 4 * threads


def _reduction(body: Graph, reductions: list[Node], panel: Panel, target: int, threads: int) -> TiledReduction:
    """The body cut along the first reduced axis."""
    axis = panel.whole.index(True)
    extent = panel.extents[axis]
    block = max(1, min(extent, target // max(1, math.prod(panel.extents) // extent)))
    block = min(extent, -(-block // grain(body)) * grain(body))
    parts = min(PARTS_PER_THREAD * threads, math.ceil(extent / block))
    parts = min(extent, -(-parts // threads) * threads)  # no thread waits for another that has one part more
    chunk = math.ceil(extent / parts)
    parts, block = math.ceil(extent / chunk), min(block, chunk)
    panel = replace(panel, whole=tuple(a != axis for a in range(len(panel.whole))))
    full = [o for o in dict.fromkeys(body.outputs) if o not in reductions and o.shape == reductions[0].args[0].shape]
    names = {n: f"z{k}" for k, n in enumerate(reductions)} | {o: f"y{k}" for k, o in enumerate(full)}
    graph = Graph(body.inputs, (*reductions, *full))
    stage = Stage(graph, panel, Tiling((), axis, block, parts, parts), written=names)
    joined = {n: input_node(f"reduced {k}", n.type) for k, n in enumerate(reductions)}
    written = {o: input_node(f"written {k}", o.type) for k, o in enumerate(full)}
    rest = Graph(body.inputs, substitute(body.outputs, joined | written))
    once = stage.calls_once + len(reductions) + _whole_calls(body, rest, False, written.values())
    each = stage.calls + len(reductions)
    tiles = sum(math.ceil(min(chunk, extent - start) / block) for start in range(0, extent, chunk))
    return TiledReduction(
        **_traffic(body, shares(body)), body=body, threads=threads, tiles=tiles, tile=stage.cut.tile(panel),
        calls_per_tile=each, calls_once=once, calls=each * tiles + once, alive=alive(body), stage=stage, chunk=chunk,
        written=written, joined=joined, rest=rest,
    )  # fmt: skip
