"""How one fused body runs on a CPU as C, decided once: its loops, its passes over rows, how threads share its units.

In: a body of kind map, row or reduce, and a device. Out: `LoopsSchedule`, and its price. Next stop: `writer.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import bound, overlapped
from eqfuse.cost.price import Price
from eqfuse.cost.work import LINE, Work
from eqfuse.emit.c.calls import calls_schedule, tiles_schedule
from eqfuse.emit.c.cells import is_map
from eqfuse.emit.c.forms import Form, forms_of
from eqfuse.emit.c.loops import HELD, Loops, place_of, pushed, with_passes
from eqfuse.emit.c.nest import Access, Nest, nest_of
from eqfuse.emit.c.ops import PLACES
from eqfuse.emit.c.passes import is_load, is_reduction, is_scan, scanned, stages
from eqfuse.emit.c.rates import bytes_of, work_of
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops import row
from eqfuse.ops.types import Shape, TensorType

SHARED_FROM = 2e-5  # seconds of one thread: shorter kernels are not worth waking another
HANDED = 5e-6  # seconds until another thread is at work
CHUNK = 2e-5  # seconds of one thread that a chunk of units takes about
CHUNKS = 64  # of a kernel, at most
WIDE = 2048  # columns of a unit of few rows: memory is read line after line
PARTS = 64  # of rows that are split among units, at most
PART = 1 << 14  # elements of a part at least
FEW_UNITS = 16  # fewer units than these are split, however many threads there are: sums do not depend on them


@dataclass(frozen=True, eq=False, kw_only=True)
class CompiledSchedule(Schedule):
    """`chunk`: units that a thread takes at a time; `threads` share them. `seconds` of the kernel, and of its operators
    alone, `compute`."""

    chunk: int
    threads: int
    seconds: float
    compute: float
    flops: int

    @property
    def workspaces(self) -> list[TensorType]:
        """Arrays that it writes, and reads again."""
        raise NotImplementedError

    def price(self, device: Device, done: Work | None = None) -> Price:
        between = sum(t.nbytes for t in self.workspaces)
        read, written = sum(self.reads) + between, sum(self.writes) + between
        if len(self.reads) + len(self.writes) > device.max_arguments:
            return Price(math.inf, read, written, self.flops, "memory")
        seconds = device.launch_seconds + self.seconds
        memory = memory_seconds(read + written, device if self.threads > 1 else device.single)
        return Price(seconds, read, written, self.flops, bound(seconds, memory, self.compute))


@dataclass(frozen=True, eq=False, kw_only=True)
class LoopsSchedule(Loops, CompiledSchedule):
    """Loops over all elements."""

    @property
    def chunks(self) -> int:
        return -(-self.units // max(1, self.chunk))

    @property
    def is_by_rows(self) -> bool:
        return self.nest.is_of_short_rows and set(self.seams) <= {*self.nest.inside}

    def __str__(self) -> str:
        shared = f"{self.chunks} chunks on {self.threads} threads" if self.threads > 1 else "one thread"
        extents = " x ".join(f"{'reduced ' * dim.reduced}{dim.extent:,}" for dim in self.nest.dims)
        lines = [f"loops over {extents}, {shared}"]
        passes = sum(bool(p.reductions) or self.writes_all(p) for p in self.passes)
        if passes > 1:
            lines.append(f"{passes} passes over a row, {self.held_bytes:,} bytes held between them")
        cells = math.prod(len(places) - 1 for places in self.seams.values())
        if cells > 1:
            lines.append(f"{cells} cells between seams, in {len(self.forms)} forms")
        if self.split is not None:
            lines.append(f"each row in {self.parts} parts, joined at last")
        return "\n".join(lines)


def loops_schedule(body: Graph, device: Device) -> Schedule:
    """The schedule of a fused body. UnsupportedOp where these loops do not run it."""
    if all(o.type.size == 0 for o in body.outputs):
        return Schedule((0,) * len(body.inputs), (0,) * len(body.outputs), 0)
    operators = [n for n in body.nodes if row(n.op).computes]
    if len(operators) == 1 and (is_map(operators[0]) or is_scan(operators[0])):
        return _alone(body, device)
    return _loops(body, device)


def _alone(body: Graph, device: Device) -> Schedule:
    """Of one operator that joins, gathers or scans: loops, or what NumPy makes of it, which is never refused."""
    calls = calls_schedule(body, device) if any(map(is_scan, body.nodes)) else tiles_schedule(body, device)
    try:
        loops = _loops(body, device)
    except UnsupportedOp:
        return calls
    return loops if loops.price(device).seconds < calls.price(device).seconds else calls


def _loops(body: Graph, device: Device) -> LoopsSchedule:
    graph = pushed(body)
    space, axes = _space(graph)
    written = tuple([place_of(o, space, axes) for o in graph.outputs])
    forms = forms_of(graph, space)
    nest, split = _nest(graph, space, axes, forms, written, device)
    found = with_passes(forms, nest)
    seams = _seams(found, nest)
    reads = bytes_of(body, nest, found, device)
    writes = tuple([o.type.nbytes for o in body.outputs])
    compute, flops = work_of(nest, found, seams, device)
    units = nest.elements if nest.is_line else nest.units
    threads = loops_shared(sum(reads) + sum(writes), compute, units, nest.is_line, device)
    return LoopsSchedule(
        reads, writes, 1 + (split is not None), body=graph, space=space, nest=nest, forms=found, seams=seams,
        written=written, split=split, flops=flops, **threads,
    )  # fmt: skip


def _nest(
    body: Graph, space: Shape, axes: tuple[int, ...], forms: Sequence[Form], written: Sequence[Access], device: Device
) -> tuple[Nest, int | None]:
    """The loops of `body`, and the dimension of which units take blocks."""
    touched = forms[0].touched if axes else {n: read.access for n, read in forms[0].arrays.items()}
    sizes = [(a, forms[0].arrays[n].leaf.dtype.itemsize) for n, a in touched.items()]
    sizes += [(a, o.dtype.itemsize) for a, o in zip(written, body.outputs, strict=True)]
    others = {read.access for form in forms for reads in form.reads for read in reads.values()}
    seams = {axis for form in forms for box in form.boxes for axis, n in enumerate(space) if box[axis] != (0, n)}
    nest = nest_of(space, axes, sizes, [*others], seams)
    if not axes:
        return nest, None
    stage = stages(body)
    if any(map(is_scan, body.nodes)):
        return _of_scans(nest, max(stage.values()) > 1, sum(size for _, size in sizes), device), None
    if nest.by_columns and max(stage.values()) > 1:
        nest = _narrowed(nest, sum(size for _, size in sizes), device)
    return _split(nest, body, space, stage)


def _seams(forms: Sequence[Form], nest: Nest) -> dict[int, tuple[int, ...]]:
    """Where cells begin along each dimension that has several, and where the last one ends."""
    found = {}
    for d, dim in enumerate(nest.dims):
        places = {end for form in forms for box in form.boxes for end in box[dim.axes[0]]} if dim.axes else set()
        if len(places) > 2:
            step = dim.extent // max(places)
            found[d] = tuple([step * place for place in sorted(places)])
    return found


def loops_shared(traffic: int, compute: float, units: int, is_line: bool, device: Device) -> dict[str, Any]:
    """How threads share the units so that they are done soonest. `compute`: seconds of one thread."""
    alone = overlapped(memory_seconds(traffic, device.single), compute)
    together = HANDED + overlapped(memory_seconds(traffic, device), compute / device.threads)
    chunk = -(-units // max(1, min(CHUNKS, int(alone / CHUNK), units)))
    if is_line:
        chunk = -(-chunk // LINE) * LINE
    if device.threads == 1 or alone < SHARED_FROM or together >= alone or chunk >= units:
        return {"chunk": units, "threads": 1, "seconds": alone, "compute": compute}
    return {"chunk": chunk, "threads": device.threads, "seconds": together, "compute": compute / device.threads}


def shared(alone: float, traffic: int, units: int, device: Device) -> dict[str, Any]:
    """How threads share few units, which take turns. `alone`: seconds of one thread for what they compute."""
    chunk = max(1, int(units * CHUNK / max(alone, 1e-9) + 0.5))
    chunks = -(-units // chunk)
    turns = -(-chunks // device.threads) * device.threads / chunks
    compute = alone * turns / device.threads
    together = HANDED + overlapped(memory_seconds(traffic, device), compute)
    seconds = overlapped(memory_seconds(traffic, device.single), alone)
    if device.threads == 1 or seconds < SHARED_FROM or together >= seconds or chunks == 1:
        return {"chunk": units, "threads": 1, "seconds": seconds, "compute": alone}
    return {"chunk": chunk, "threads": device.threads, "seconds": together, "compute": compute}


def memory_seconds(traffic: int, device: Device) -> float:
    """What it takes to move the bytes of a kernel: between it and the one that reads its results lie those of both."""
    return traffic / device.bandwidth(2 * traffic)


def _space(body: Graph) -> tuple[Shape, tuple[int, ...]]:
    """The index space, and which axes of it are reduced or scanned, from its start."""
    found = {(n.args[0].shape, n.attr("axes")) for n in body.nodes if is_reduction(n)}
    found |= {(n.shape, (scanned(n),)) for n in body.nodes if is_scan(n)}
    if not found:
        shapes = {o.shape for o in body.outputs}
        if len(shapes) > 1:
            raise UnsupportedOp("a c map kernel writes results of one shape")
        return shapes.pop(), ()
    if len(found) != 1:
        raise UnsupportedOp("a c row or reduce kernel has reductions over one set of axes of one space")
    space, axes = found.pop()
    return space, tuple(len(space) + a for a in axes)


def _maps_after(body: Graph) -> bool:
    """Is what is made of the results of reductions joined of pieces, or gathered?"""
    met: set[Node] = set()
    stack = [o for o in body.outputs if not is_reduction(o)]
    while stack:
        n = stack.pop()
        if n not in met and not is_load(n):
            met.add(n)
            stack += [a for a in n.args if not is_reduction(a)]
    return any(map(is_map, met))


def _narrowed(nest: Nest, itemsize: int, device: Device) -> Nest:
    """The nest with as few columns to a unit as let its elements, of `itemsize` bytes in all arrays together, stay near
    from pass to pass; none narrower than a few cache lines."""
    rows = max(1, math.prod(nest.dims[d].extent for d in nest.inside))
    most = min(device.l2_bytes // (2 * itemsize * rows), HELD // (8 * rows))
    return _of_width(nest, max(LINE, min(nest.runs.block, most // LINE * LINE)))


def _of_scans(nest: Nest, again: bool, itemsize: int, device: Device) -> Nest:
    """The nest in as many units as threads share well, where columns are scanned; `again`: in several passes."""
    if not nest.by_columns:
        return nest
    if again:
        nest = _narrowed(nest, itemsize, device)
    units = nest.units // nest.runs.blocks
    return _of_width(nest, max(LINE, min(nest.runs.block, nest.runs.extent * units // FEW_UNITS // LINE * LINE)))


def _of_width(nest: Nest, block: int) -> Nest:
    """The nest with `block` columns to a unit."""
    dims = [replace(x, block=min(x.extent, block)) if d == nest.vector else x for d, x in enumerate(nest.dims)]
    return replace(nest, dims=tuple(dims))


def _split(nest: Nest, body: Graph, space: Shape, stage: dict[Node, int]) -> tuple[Nest, int | None]:
    """The nest with rows in parts, where there are few long ones and one pass; the same for any number of threads."""
    reduced = [d for d, dim in enumerate(nest.dims) if dim.reduced]
    last = all(stage[o] == 1 and o.shape != space for o in body.outputs)
    whole = any(n.op in PLACES for n in body.nodes) or _maps_after(body)
    if not reduced or nest.units >= FEW_UNITS or max(stage.values()) > 1 or not last or whole:
        return nest, None
    given = nest
    if nest.by_columns:
        nest = _of_width(nest, WIDE)
    d = max(reduced, key=lambda at: nest.dims[at].extent)
    dim = nest.dims[d]
    parts = min(PARTS, nest.elements // (PART * nest.units), dim.extent)
    block = -(-dim.extent // max(1, parts))
    if d == nest.vector:
        block = -(-block // LINE) * LINE
    if block >= dim.extent:
        return given, None
    return replace(nest, dims=(*nest.dims[:d], replace(dim, block=block), *nest.dims[d + 1 :])), d
