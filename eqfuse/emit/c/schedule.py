"""How one fused body runs on a CPU as C, decided once: its loops, its passes over rows, how threads share its units.

In: a body of kind map, row or reduce, and a device. Out: `LoopsSchedule`, and its price. Next stop: `writer.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import bound, overlapped
from eqfuse.cost.price import Price
from eqfuse.cost.work import LINE, Work
from eqfuse.emit.c.branches import with_branches
from eqfuse.emit.c.calls import calls_schedule, tiles_schedule
from eqfuse.emit.c.cells import is_map
from eqfuse.emit.c.forms import Form, forms_of
from eqfuse.emit.c.loops import Loops, pushed, result_access, with_passes
from eqfuse.emit.c.nest import Access, Nest, nest_of
from eqfuse.emit.c.ops import QUICK_FUNCTIONS
from eqfuse.emit.c.passes import is_reduction, is_scan, scanned, stages
from eqfuse.emit.c.rates import bytes_of, joining_seconds, near_bytes, traffic_of, work_by_pass
from eqfuse.emit.c.splits import Split, of_scans, split_of
from eqfuse.emit.c.streaming import streamed_results
from eqfuse.emit.c.strips import with_strips
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops.types import Shape, TensorType

SHARED_FROM = 1e-5  # seconds of one thread, as priced: shorter kernels are not worth waking another
HANDED = 5e-6  # seconds until another thread is at work
CHUNK_SECONDS = 2e-5  # seconds of one thread that a chunk of units takes about
CHUNKS = 64  # of a kernel, at most
# Arrays that may lie across the vectors, so that a result of a map need not: these are copied by blocks, but its
# elements would be stored one by one. 16,384 x 64 float32, transposed and scaled: 3.3 ms so, and 0.4 across.
STORED_APART = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class CompiledSchedule(Schedule):
    """`chunk`: units that a thread takes at a time; `threads` share them. `seconds` of the kernel, and of its operators
    alone, `compute`; all of these are known when it is priced."""

    chunk: int = 1
    threads: int = 1
    seconds: float = 0.0
    compute: float = 0.0
    flops: int = 0

    @property
    def workspaces(self) -> list[TensorType]:
        """Arrays that it writes, and reads again."""
        raise NotImplementedError

    @property
    def overlays(self) -> Mapping[Node, frozenset[int]]:
        """By input, the results that may lie over it."""
        return {}

    @property
    def units(self) -> int:
        """What threads take: blocks, or iterations of the outer loops."""
        raise NotImplementedError

    @property
    def chunks(self) -> int:
        return -(-self.units // max(1, self.chunk))

    @property
    def sharing(self) -> str:
        """How threads share the units, as `explain()` says it."""
        return f"{self.chunks} chunks on {self.threads} threads" if self.threads > 1 else "one thread"

    @property
    def streamed_bytes(self) -> int:
        """Of the results that pass by the caches."""
        return 0

    @property
    def between(self) -> int:
        """The bytes of workspaces that each call writes, and reads again."""
        return sum(t.nbytes for t in self.workspaces)

    def price(self, device: Device, work: Work | None = None) -> Price:
        read, written = sum(self.reads) + self.between, sum(self.writes) + self.between
        if len(self.reads) + len(self.writes) > device.max_arguments:
            return Price(math.inf, read, written, self.flops, "memory")
        seconds = device.launch_seconds + self.seconds
        traffic = traffic_of(read, written, self.streamed_bytes)
        memory = (device if self.threads > 1 else device.single).memory_seconds(traffic, read + written)
        return Price(seconds, read, written, self.flops, bound(seconds, memory, self.compute))


@dataclass(frozen=True, eq=False, kw_only=True)
class LoopsSchedule(Loops, CompiledSchedule):
    """Loops over all elements."""

    chunks = CompiledSchedule.chunks  # loops inside another kernel have one

    @property
    def streamed_bytes(self) -> int:
        return sum(self.writes[j] for j in self.streamed)

    @property
    def may_spread(self) -> bool:
        """May its results have gaps between their elements? What asks whether arrays lie apart takes them for whole."""
        return not self.nest.reduced and not any(n.op in QUICK_FUNCTIONS for n in self.body.nodes)

    @property
    def is_by_rows(self) -> bool:
        return self.nest.is_of_short_rows and set(self.seams) <= {*self.nest.inside}

    def __str__(self) -> str:
        extents = " x ".join(f"{'reduced ' * dim.reduced}{dim.extent:,}" for dim in self.nest.dims)
        lines = [f"loops over {extents}, {self.sharing}"]
        passes = sum(bool(p.reductions) or self.writes_all(p) for p in self.passes)
        if passes > 1:
            lines.append(f"{passes} passes over a row, {self.held_bytes:,} bytes held between them")
        cells = math.prod(len(places) - 1 for places in self.seams.values())
        if cells > 1:
            lines.append(f"{cells} cells between seams, in {len(self.forms)} forms")
        if strips := [strip for form in self.forms for strip in form.strips]:
            ahead = "a row" if any(strip.rows for strip in strips) else f"{strips[0].length:,} elements"
            lines.append(f"what neighbours share is computed once, {ahead} at a time: {len(strips)} values")
        if branches := [branch for form in self.forms for branch in form.branches]:
            lines.append(f"computed where a choice asks for it: {', '.join(map(str, branches))}")
        if self.split is not None:
            lines.append(f"each row in {self.parts} parts, joined at last")
        if self.streamed:
            lines.append(f"results that pass by the caches: {len(self.streamed)}")
        return "\n".join(lines)


def loops_schedule(body: Graph, device: Device) -> Schedule:
    """The schedule of a fused body. UnsupportedOp where these loops do not run it."""
    if all(o.type.size == 0 for o in body.outputs):
        return Schedule((0,) * len(body.inputs), (0,) * len(body.outputs), 0)
    if len(body.computations) == 1 and any(is_map(n) or is_scan(n) or n.row.pieces for n in body.computations):
        return _alone(body, device)
    return _loops(body, device)


def _alone(body: Graph, device: Device) -> Schedule:
    """Of one operator that joins, updates, gathers or scans: loops, or what NumPy makes of it, which is not refused."""
    calls = tiles_schedule(body, device) if any(map(is_map, body.nodes)) else calls_schedule(body, device)
    try:
        loops = _loops(body, device)
    except UnsupportedOp:
        return calls
    return loops if loops.price(device).seconds < calls.price(device).seconds else calls


def spread_schedule(body: Graph, device: Device, strides: Sequence[Sequence[int]]) -> LoopsSchedule:
    """The schedule of a map whose results have gaps between their elements, which lie with these `strides`."""
    return _loops(body, device, strides)


def _loops(body: Graph, device: Device, strides: Sequence[Sequence[int]] = ()) -> LoopsSchedule:
    graph = pushed(body)
    space, axes = _space(graph)
    strides = strides or [()] * len(graph.outputs)
    written = tuple([result_access(o, space, axes, lie) for o, lie in zip(graph.outputs, strides, strict=True)])
    forms = forms_of(graph, space)
    split = _split(graph, space, axes, forms, written, device)
    nest, cascade = split.nest, split.cascade
    planned = with_passes(forms, nest, writes=cascade is None)
    planned = tuple([with_branches(each, nest, device) for form in planned for each in with_strips(form, nest)])
    seams = _seams(planned, nest)
    reads = bytes_of(body, nest, planned, device)
    writes = tuple([o.type.nbytes for o in body.outputs])
    passes, flops = work_by_pass(nest, planned, seams, device)
    if cascade is not None and split.dimension is not None:
        passes[-1] += joining_seconds(cascade, nest.dims[split.dimension].blocks, device)
    units = nest.elements if nest.is_line else nest.units
    streamed = streamed_results(graph, space, nest, planned, written, sum(reads), device)
    traffic = traffic_of(sum(reads), sum(writes), sum(writes[j] for j in streamed))
    stages = [(sum(passes), traffic)]
    if len(passes) > 1 and device.l1_bytes < near_bytes(nest, planned) <= device.l2_bytes // 2:
        first = traffic_of(sum(reads), 0)  # what comes in one pass lies near in the next, too far to come ahead of it
        stages = [(passes[0], first), *[(seconds, 0) for seconds in passes[1:-1]], (passes[-1], traffic - first)]
    threads = loops_shared(stages, sum(reads) + sum(writes), units, nest.is_line, device)
    return LoopsSchedule(
        reads, writes, 1 + (split.dimension is not None), body=graph, space=space, nest=nest, forms=planned,
        seams=seams, written=written, split=split.dimension, cascade=cascade, streamed=streamed, flops=flops, **threads,
    )  # fmt: skip


def _split(
    body: Graph, space: Shape, axes: tuple[int, ...], forms: Sequence[Form], written: Sequence[Access], device: Device
) -> Split:
    """The loops of `body`, and how its rows are split."""
    touched = forms[0].touched if axes else {n: read.access for n, read in forms[0].arrays.items()}
    sizes = [(a, forms[0].arrays[n].leaf.dtype.itemsize) for n, a in touched.items()]
    weight = 1 if axes else STORED_APART
    sizes += [(a, weight * o.dtype.itemsize) for a, o in zip(written, body.outputs, strict=True)]
    others = {read.access for form in forms for reads in form.reads for read in reads.values()}
    seams = {axis for form in forms for box in form.boxes for axis, n in enumerate(space) if box[axis] != (0, n)}
    nest = nest_of(space, axes, sizes, [*others], seams)
    if not axes:
        return Split(nest)
    stage, itemsize = stages(body), sum(size for _, size in sizes)
    if any(map(is_scan, body.nodes)):
        return Split(of_scans(nest, max(stage.values()) > 1, itemsize, device))
    return split_of(nest, body, space, stage, forms, itemsize, device)


def _seams(forms: Sequence[Form], nest: Nest) -> dict[int, tuple[int, ...]]:
    """Where cells begin along each dimension that has several, and where the last one ends."""
    seams = {}
    for d, dim in enumerate(nest.dims):
        places = {end for form in forms for box in form.boxes for end in box[dim.axes[0]]} if dim.axes else set()
        if len(places) > 2:
            step = dim.extent // max(places)
            seams[d] = tuple([step * place for place in sorted(places)])
    return seams


def loops_shared(
    stages: Sequence[tuple[float, int]], held: int, units: int, is_line: bool, device: Device
) -> dict[str, Any]:
    """How threads share the units so that they are done soonest. `stages`, `held`: as of `shared`."""
    alone = _one_by_one(stages, held, 1.0, device.single)
    turns = max(1, min(CHUNKS, int(alone / CHUNK_SECONDS)) // device.threads)
    chunks = max(1, min(turns * device.threads, int(4 * alone / CHUNK_SECONDS), units))
    chunk = -(-units // chunks)
    chunk = -(-chunk // LINE) * LINE if is_line else chunk
    share = _most_units(units, chunk, device.threads) / max(1, units)
    return _sooner(stages, held, share, chunk, units, device)


def _most_units(units: int, chunk: int, threads: int) -> int:
    """The units of the thread that has the most, where each takes the next chunk when it is done with one."""
    chunks = -(-units // max(1, chunk))
    missing = chunks * chunk - units  # from the last one, which a worker takes first
    return -(-chunks // threads) * chunk - missing * (chunks % threads == 1)


def shared(
    stages: Sequence[tuple[float, int]], held: int, units: int, device: Device, times: int = 1
) -> dict[str, Any]:
    """How threads share few units, which take turns, so many `times`. `stages`: seconds of one thread for what a unit
    computes in one loop after another, and the traffic that comes meanwhile, of all units; `held`: its bytes."""
    alone = sum(seconds for seconds, _ in stages)
    chunk = max(1, int(times * units * CHUNK_SECONDS / max(alone, 1e-9) + 0.5))
    chunks = -(-units // chunk)
    turns = -(-chunks // device.threads) * device.threads / chunks
    return _sooner(stages, held, turns / device.threads, chunk, units, device, times)


def _sooner(
    stages: Sequence[tuple[float, int]], held: int, share: float, chunk: int, units: int, device: Device, times: int = 1
) -> dict[str, Any]:
    """What is done sooner: one thread that does all, or all of them, each this `share`, chunk after chunk, so many
    `times`."""
    alone = sum(seconds for seconds, _ in stages)
    seconds = _one_by_one(stages, held, 1.0, device.single)
    together = HANDED * times + _one_by_one(stages, held, share, device)
    if device.threads == 1 or seconds < SHARED_FROM or together >= seconds or chunk >= units:
        return {"chunk": units, "threads": 1, "seconds": seconds, "compute": alone}
    return {"chunk": chunk, "threads": device.threads, "seconds": together, "compute": alone * share}


def _one_by_one(stages: Sequence[tuple[float, int]], held: int, share: float, device: Device) -> float:
    """Seconds of loops one after another: memory works while a loop computes, and not ahead for the next one."""
    traffic = sum(nbytes for _, nbytes in stages)
    memory = device.memory_seconds(traffic, held) / max(1, traffic)
    return sum(overlapped(memory * nbytes, seconds * share) for seconds, nbytes in stages)


def _space(body: Graph) -> tuple[Shape, tuple[int, ...]]:
    """The index space, and which axes of it are reduced or scanned, from its start."""
    spaces = {(n.args[0].shape, n.attr("axes")) for n in body.nodes if is_reduction(n)}
    spaces |= {(n.shape, (scanned(n),)) for n in body.nodes if is_scan(n)}
    if not spaces:
        shapes = {o.shape for o in body.outputs}
        if len(shapes) > 1:
            raise UnsupportedOp("a c map kernel writes results of one shape")
        return shapes.pop(), ()
    if len(spaces) != 1:
        raise UnsupportedOp("a c row or reduce kernel has reductions over one set of axes of one space")
    space, axes = spaces.pop()
    return space, tuple(len(space) + a for a in axes)
