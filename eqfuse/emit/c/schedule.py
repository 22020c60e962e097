"""How one fused body runs on a CPU as C, decided once: its loops, its passes over rows, how threads share its units.

In: a body of kind map, row or reduce, and a device. Out: `LoopsSchedule`, and its price. Next stop: `writer.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import bound, overlapped
from eqfuse.cost.price import Price
from eqfuse.cost.work import Work
from eqfuse.emit.c.nest import SHORT, Access, Nest, access, aligned, nest_of
from eqfuse.emit.c.ops import ctype
from eqfuse.emit.c.passes import Pass, is_load, is_reduction, passes_of, stages
from eqfuse.emit.c.rates import operator_seconds
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import TooOften, leaf_chain, push_views
from eqfuse.kinds.elements import bytes_read
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops.types import Shape, TensorType

SHARED_FROM = 2e-5  # seconds of one thread: shorter kernels are not worth waking another
HANDED = 5e-6  # seconds until another thread is at work
CHUNK = 2e-5  # seconds of one thread that a chunk of units takes about
CHUNKS = 64  # of a kernel, at most
LINE = 64  # bytes of a cache line
HELD = 256 << 10  # bytes of values of a unit that are kept between passes, at most
PARTS = 256  # of rows that are split among units, at most
PART = 1 << 14  # elements of a part at least
FEW_UNITS = 16  # fewer units than these are split, however many threads there are: sums do not depend on them


@dataclass(frozen=True, eq=False, kw_only=True)
class LoopsSchedule(Schedule):
    """`body`: what is computed, with views on leaves alone; `arrays`: where the elements of each leaf behind its views
    lie, and of each output. `split`: a reduced dimension of which units take blocks, whose results are joined at last.
    `chunk`: units that a thread takes at a time; `threads` share them."""

    body: Graph
    space: Shape
    nest: Nest
    passes: tuple[Pass, ...]
    arrays: dict[Node, Access]
    written: tuple[Access, ...]
    split: int | None
    chunk: int
    threads: int
    seconds: float
    compute: float
    flops: int
    device: Device

    @property
    def units(self) -> int:
        return self.nest.elements if self.nest.is_line else self.nest.units

    def _writes_all(self, p: Pass) -> bool:
        return any(self.body.outputs[j].shape == self.space for j in p.outputs)

    @property
    def chunks(self) -> int:
        return -(-self.units // max(1, self.chunk))

    @property
    def parts(self) -> int:
        """Into how many parts each row is split."""
        return 1 if self.split is None else self.nest.dims[self.split].blocks

    @property
    def reductions(self) -> list[Node]:
        return [n for p in self.passes for n in p.reductions]

    @property
    def workspaces(self) -> list[TensorType]:
        """The results of parts, by reduction."""
        if self.split is None:
            return []
        return [TensorType(partial_dtype(n), (self.parts, max(1, n.type.size))) for n in self.reductions]

    @cached_property
    def varying(self) -> dict[Node, frozenset[int]]:
        """The dimensions along which each value differs."""
        found: dict[Node, frozenset[int]] = {}
        for n in self.body.nodes:
            if n in self.arrays:
                found[n] = self.nest.varies(self.arrays[n])
            elif is_load(n):
                found[n] = frozenset()
            elif is_reduction(n):
                found[n] = frozenset(range(len(self.nest.dims))) - reduced_dims(self.nest)
            else:
                found[n] = frozenset[int]().union(*[found[a] for a in n.args])
        return found

    def price(self, device: Device, done: Work | None = None) -> Price:
        between = sum(t.nbytes for t in self.workspaces)
        read, written = sum(self.reads) + between, sum(self.writes) + between
        if len(self.reads) + len(self.writes) > device.max_arguments:
            return Price(math.inf, read, written, self.flops, "memory")
        seconds = device.launch_seconds + self.seconds
        memory = memory_seconds(read + written, device if self.threads > 1 else device.single)
        return Price(seconds, read, written, self.flops, bound(seconds, memory, self.compute))

    def __str__(self) -> str:
        shared = f"{self.chunks} chunks on {self.threads} threads" if self.threads > 1 else "one thread"
        extents = " x ".join(f"{'reduced ' * dim.reduced}{dim.extent:,}" for dim in self.nest.dims)
        lines = [f"loops over {extents}, {shared}"]
        passes = sum(bool(p.reductions) or self._writes_all(p) for p in self.passes)
        if passes > 1:
            held = sum(held_bytes(self.nest, n) for p in self.passes for n in p.held)
            lines.append(f"{passes} passes over a row, {held:,} bytes held between them")
        if self.split is not None:
            lines.append(f"each row in {self.parts} parts, joined at last")
        return "\n".join(lines)


def loops_schedule(body: Graph, device: Device) -> Schedule:
    """The schedule of a fused body. UnsupportedOp where these loops do not run it."""
    if all(o.type.size == 0 for o in body.outputs):
        return Schedule((0,) * len(body.inputs), (0,) * len(body.outputs), 0)
    try:
        pushed = push_views(body)
    except TooOften:
        raise UnsupportedOp("its views would repeat its work too often: store a result first") from None
    space, axes = _space(pushed)
    leaves = [n for n in pushed.nodes if is_load(n) and _is_array(n)]
    read = [n for n in _read(pushed) if n in leaves]
    arrays = {n: access(n, space) for n in read}
    written = tuple(_place(o, space, axes) for o in pushed.outputs)
    sizes = [(a, n.dtype.itemsize) for n, a in arrays.items()]
    sizes += [(a, o.dtype.itemsize) for a, o in zip(written, pushed.outputs, strict=True)]
    nest = nest_of(space, axes, sizes)
    if nest.by_columns and max(stages(pushed).values()) > 1:
        nest = _narrowed(nest, sum(size for _, size in sizes), device)
    nest, split = _split(nest, pushed, space)
    return _scheduled(body, pushed, space, nest, split, arrays, written, device)


def _scheduled(
    body: Graph, pushed: Graph, space: Shape, nest: Nest, split: int | None, arrays: dict[Node, Access],
    written: tuple[Access, ...], device: Device,
) -> LoopsSchedule:  # fmt: skip
    made = LoopsSchedule(
        reads=(), writes=tuple(o.type.nbytes for o in body.outputs), calls=1 + (split is not None), body=pushed,
        space=space, nest=nest, passes=(), arrays=arrays, written=written, split=split, chunk=1, threads=1,
        seconds=0.0, compute=0.0, flops=0, device=device,
    )  # fmt: skip
    inner = frozenset({nest.vector}) | reduced_dims(nest)
    differs = made.varying

    def full(n: Node) -> bool:
        return bool(differs[n] & reduced_dims(nest)) and bool(differs[n] & inner)

    passes = passes_of(pushed, full, True)
    if sum(held_bytes(nest, n) for p in passes for n in p.held) > HELD:
        passes = passes_of(pushed, full, False)
    made = replace(made, passes=passes)
    reads = _bytes_read(body, made)
    compute, flops = _work(made, device)
    return _shared(replace(made, reads=reads, flops=flops), compute, device)


def _shared(made: LoopsSchedule, compute: float, device: Device) -> LoopsSchedule:
    """`made` on the threads that make it fastest. `compute`: seconds of one thread."""
    traffic = sum(made.reads) + sum(made.writes)
    alone = overlapped(memory_seconds(traffic, device.single), compute)
    shared = compute / device.threads
    together = HANDED + overlapped(memory_seconds(traffic, device), shared)
    chunks = max(1, min(CHUNKS, int(alone / CHUNK), made.units))
    chunk = -(-made.units // chunks)
    if made.nest.is_line:
        chunk = -(-chunk // LINE) * LINE
    if device.threads == 1 or alone < SHARED_FROM or together >= alone or chunk >= made.units:
        return replace(made, chunk=made.units, threads=1, seconds=alone, compute=compute)
    return replace(made, chunk=chunk, threads=device.threads, seconds=together, compute=shared)


def memory_seconds(traffic: int, device: Device) -> float:
    """What it takes to move the bytes of a kernel: between it and the one that reads its results lie those of both."""
    return traffic / device.bandwidth(2 * traffic)


def reduced_dims(nest: Nest) -> frozenset[int]:
    return frozenset(d for d, dim in enumerate(nest.dims) if dim.reduced)


def held_bytes(nest: Nest, n: Node) -> int:
    """Bytes of a value that is kept for every element of a unit."""
    return held_elements(nest) * max(4, n.dtype.itemsize)


def held_elements(nest: Nest) -> int:
    loops = {*nest.inside, nest.vector}
    return max(1, math.prod(nest.dims[d].block for d in loops))


def partial_dtype(n: Node) -> np.dtype:
    """The dtype of the result of a part of reduction `n`, unrounded."""
    return np.dtype(np.float32) if ctype(n.dtype).computed == "float" else n.dtype


def _is_array(n: Node) -> bool:
    """Is it an array, or a view of one, and no number of the program?"""
    leaf, _ = leaf_chain(n)
    return not (leaf.op == "const" and leaf.type.size == 1)


def _read(body: Graph) -> list[Node]:
    """The leaves, behind their views, that are read."""
    readers = [n for n in body.nodes if not is_load(n)]
    return [a for a in dict.fromkeys([*(a for n in readers for a in n.args), *body.outputs]) if is_load(a)]


def _space(body: Graph) -> tuple[Shape, tuple[int, ...]]:
    """The index space, and which axes of it are reduced, from its start."""
    reductions = [n for n in body.nodes if is_reduction(n)]
    if not reductions:
        shapes = {o.shape for o in body.outputs}
        if len(shapes) > 1:
            raise UnsupportedOp("a c map kernel writes results of one shape")
        return shapes.pop(), ()
    found = {(n.args[0].shape, n.attr("axes")) for n in reductions}
    if len(found) != 1:
        raise UnsupportedOp("a c row or reduce kernel has reductions over one set of axes of one space")
    space, axes = found.pop()
    return space, tuple(len(space) + a for a in axes)


def _place(output: Node, space: Shape, axes: Sequence[int]) -> Access:
    shape = tuple(1 if a in axes else n for a, n in enumerate(space))
    if output.shape not in (space, shape):
        raise UnsupportedOp(f"a c kernel over {space} writes results of that shape or of {shape}")
    return aligned(0, contiguous(output.shape), output.shape, space)


def _narrowed(nest: Nest, itemsize: int, device: Device) -> Nest:
    """The nest with as few columns to a unit as let its elements, of `itemsize` bytes in all arrays together, stay near
    from pass to pass; none narrower than a few cache lines."""
    rows = math.prod(nest.dims[d].extent for d in nest.inside)
    most = min(device.l2_bytes // (2 * itemsize * rows), HELD // (8 * rows))
    block = max(LINE, min(nest.runs.block, most // LINE * LINE))
    dims = [replace(x, block=min(x.extent, block)) if d == nest.vector else x for d, x in enumerate(nest.dims)]
    return replace(nest, dims=tuple(dims))


def _split(nest: Nest, body: Graph, space: Shape) -> tuple[Nest, int | None]:
    """The nest with rows in parts, where there are few long ones and one pass; the same for any number of threads."""
    reduced = [d for d, dim in enumerate(nest.dims) if dim.reduced]
    stage = stages(body)
    last = all(stage[o] == 1 and o.shape != space for o in body.outputs)
    if not reduced or nest.units >= FEW_UNITS or max(stage.values()) > 1 or not last:
        return nest, None
    d = max(reduced, key=lambda at: nest.dims[at].extent)
    dim = nest.dims[d]
    parts = min(PARTS, nest.elements // (PART * nest.units), dim.extent)
    block = -(-dim.extent // max(1, parts))
    if d == nest.vector:
        block = -(-block // LINE) * LINE
    if block >= dim.extent:
        return nest, None
    return replace(nest, dims=(*nest.dims[:d], replace(dim, block=block), *nest.dims[d + 1 :])), d


def _bytes_read(body: Graph, made: LoopsSchedule) -> tuple[int, ...]:
    """Bytes of each input: once where what a unit reads stays near from pass to pass, else once a pass."""
    once = bytes_read(body, body.outputs)
    loops = {*made.nest.inside, made.nest.vector}
    near = 0
    for n, found in made.arrays.items():
        along = made.nest.varies(found) & loops
        near += math.prod(made.nest.dims[d].block for d in along) * n.dtype.itemsize if along else 0
    if near <= made.device.l2_bytes // 2:
        return once
    times = dict.fromkeys(body.inputs, 0)
    for p in made.passes:
        for i in {leaf_chain(n)[0] for n in p.nodes if n in made.arrays}:
            if i in times:
                times[i] += 1
    return tuple(nbytes * max(1, times[i]) for i, nbytes in zip(body.inputs, once, strict=True))


def _work(made: LoopsSchedule, device: Device) -> tuple[float, int]:
    """Seconds of one thread to compute all passes, and operations."""
    seconds, flops = 0.0, 0
    nest, varying = made.nest, made.varying

    def runs(n: Node) -> int:
        dims = varying[n.args[0]] if is_reduction(n) else varying[n]
        inner = nest.vector in dims
        often = dims | (frozenset(nest.inside) if inner else frozenset())
        return math.prod(nest.dims[d].extent for d in often)

    for p in made.passes:
        for n in (*p.nodes, *p.reductions):
            if not is_load(n):
                count = runs(n)
                flops += count
                seconds += count * operator_seconds(n, device)
            elif n in made.arrays:
                step = nest.steps(made.arrays[n])[nest.vector]
                if abs(step) > 1:
                    seconds += runs(n) * device.element_seconds("transpose", _turned(n)) * device.threads
    if nest.runs.extent < SHORT:  # vectors that are not full
        seconds *= SHORT / max(1, nest.runs.extent)
    return seconds, flops


def _turned(n: Node) -> str:
    return {2: "float16", 4: "float32"}.get(n.dtype.itemsize, "float64")

