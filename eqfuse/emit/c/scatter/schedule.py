"""How a kernel joins values to the elements that indices name: the loops over values, and those that begin the result.

In: a body of kind scatter, and a device. Out: `ScatterSchedule`. Next stop: `writer.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import overlapped
from eqfuse.cost.work import LINE
from eqfuse.emit.c.calls import calls_schedule
from eqfuse.emit.c.forms import Form, forms_of
from eqfuse.emit.c.loops import pushed, with_passes
from eqfuse.emit.c.nest import Access, Nest, nest_of
from eqfuse.emit.c.rates import COLUMN, SCAN_STEP, additions, bytes_of, traffic_of, work_of
from eqfuse.emit.c.scatter.histogram import counting
from eqfuse.emit.c.schedule import HANDED, SHARED_FROM, LoopsSchedule, loops_schedule, loops_shared
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, const, in_dtype, node, topological
from eqfuse.ir.view_strides import contiguous
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops.types import TensorType

SCATTER_PARTS = 16  # of the values, at most, each joined to elements of its own
VALUES_OF_A_PART = 1 << 14  # values of a part, at least
FOR_ELEMENT = 8, 32  # values of a part for each element that is begun and joined, at least: one by one, in vectors
MODE_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}  # modes, as reductions


@dataclass(frozen=True)
class Update:
    """`values` are joined by `mode` to the elements of `base` at `places`, of which there are `extent`, `stride`
    elements apart; both have a value for each element of one space, of which `target` says where the others of an
    element's indices lead. `wraps`: places count from either end."""

    base: Node
    places: Node
    values: Node
    mode: str
    target: Access
    stride: int
    extent: int
    wraps: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ScatterSchedule(LoopsSchedule):
    """The loops compute a place and a value of each of the `updates` for each element of their space, in the order of
    NumPy. `whole`: the body of the kernel; `begun`: the loops that write each array to be updated; `in_parts`: chunks
    join their values to arrays of their own, which are joined to those at last."""

    whole: Graph
    updates: tuple[Update, ...]
    begun: tuple[LoopsSchedule, ...]
    in_parts: bool

    @property
    def has_conflicts(self) -> bool:
        return any(self.nest.vector in _named(self.nest, update) for update in self.updates)

    @property
    def overlays(self) -> Mapping[Node, frozenset[int]]:
        return {}

    @property
    def workspaces(self) -> list[TensorType]:
        """What each part joins."""
        return [TensorType(o.dtype, (self.chunks, o.type.size)) for o in self.whole.outputs if self.in_parts]

    def __str__(self) -> str:
        how = "one by one" if self.has_conflicts else "in vectors"
        parts = f", in {self.chunks} parts, which are joined at last" * self.in_parts
        return f"{super().__str__()}\nvalues joined {how} to elements named by indices{parts}"


def scatter_schedule(body: Graph, device: Device) -> Schedule:
    """The schedule of a body; of one operator alone, what NumPy makes of it, if that is cheaper."""
    alone = len(body.computations) == 1
    try:
        own = own_schedule(body, device)
    except UnsupportedOp:
        if alone:
            return calls_schedule(body, device)
        raise
    calls = calls_schedule(body, device) if alone else None
    return calls if calls is not None and calls.price(device).seconds < own.price(device).seconds else own


def update_of(n: Node) -> Update:
    """What the operator `n` joins, and where."""
    if n.op == "bincount":
        indices, *weights = n.args
        length: int = n.attr("length")
        values = in_dtype(weights[0] if weights else _filled(1, n.dtype, indices.shape), n.dtype)
        base = _filled(0, n.dtype, n.shape)
        return Update(base, indices, values, "add", Access(0, (0,)), 1, length, wraps=False)
    if n.op == "histogram":
        base, places, values = counting(n)
        return Update(base, places, values, "add", Access(0, (0,)), 1, math.prod(n.attr("bins")), wraps=False)
    base, indices, values = n.args
    axis: int = n.attr("axis")
    mode: str = n.attr("mode")
    position, strides = len(n.shape) + axis, contiguous(n.shape)
    after = n.shape[position + 1 :]
    aligned = node("reshape", (indices,), ((*indices.shape, *[1] * len(after)),)) if after else indices
    places = aligned if aligned.shape == values.shape else node("broadcast_to", (aligned,), (values.shape,))
    target = Access(0, (*strides[:position], *[0] * len(indices.shape), *strides[position + 1 :]))
    return Update(base, places, values, mode, target, strides[position], n.shape[position], wraps=True)


def _filled(value: int, dtype: np.dtype, shape: tuple[int, ...]) -> Node:
    return node("broadcast_to", (const(np.array(value, dtype)),), (shape,))


def own_schedule(body: Graph, device: Device) -> ScatterSchedule:
    """The schedule of our own loops. UnsupportedOp where there are none."""
    updates = tuple([update_of(result) for result in body.outputs])
    space = updates[0].values.shape
    if not all(o.type.size for o in body.outputs) or not updates[0].values.type.size:
        raise UnsupportedOp("a c kernel joins some values to some elements")
    if any(update.values.shape != space for update in updates):
        raise UnsupportedOp("a c kernel that updates several arrays has as many values for each")
    begun = tuple([_begun(body, update, device) for update in updates])
    graph = pushed(Graph(body.inputs, tuple([n for update in updates for n in (update.places, update.values)])))
    nest, forms = _loops(graph, updates)
    elements = [bytes_of(graph, nest, forms, device), *[each.reads for each in begun]]
    reads = tuple([sum(each) for each in zip(*elements, strict=True)])
    writes = tuple([o.type.nbytes for o in body.outputs])
    compute, flops = work_of(nest, forms, {}, device)
    compute += sum([_joining(nest, update, device) for update in updates]) + sum([each.compute for each in begun])
    return ScatterSchedule(
        reads, writes, 1, body=graph, space=space, nest=nest, forms=forms,
        written=tuple([update.target for update in updates for _ in range(2)]), flops=flops + nest.elements,
        whole=body, updates=updates, begun=begun, **_shared(nest, updates, sum(reads), sum(writes), compute, device),
    )  # fmt: skip


def _begun(body: Graph, update: Update, device: Device) -> LoopsSchedule:
    """The loops that write what is updated."""
    begun = loops_schedule(Graph(body.inputs, (update.base,)), device.single)
    if not isinstance(begun, LoopsSchedule):
        raise UnsupportedOp("a c kernel reads the array that it updates as it lies")
    read = [n for n in topological((update.base,)) if n.op == "input" and not n.is_constant_leaf]
    if len(body.outputs) > 1 and read:
        raise UnsupportedOp("a c kernel that updates several arrays makes them of constants: others may lie in place")
    return begun


def _joining(nest: Nest, update: Update, device: Device) -> float:
    """Seconds of one thread to join all values to their elements."""
    step = SCAN_STEP if nest.vector in _named(nest, update) else COLUMN
    _, base = additions("add", update.base.dtype)
    return nest.elements * step * device.threads / device.scalar_rate(base)


def _shared(
    nest: Nest, updates: Sequence[Update], read: int, written: int, compute: float, device: Device
) -> dict[str, Any]:
    """How threads share the values. Units that join to elements of their own are shared as those of a map. Others are
    cut into parts where there are many values to an element, the same for any number of threads."""
    units = nest.elements if nest.is_line else nest.units
    traffic, held = traffic_of(read, written), read + written
    alone = overlapped(device.single.memory_seconds(traffic, held), compute)
    whole = {"chunk": units, "threads": 1, "seconds": alone, "compute": compute, "in_parts": False}
    if not nest.is_line and all(set(nest.counted).isdisjoint(_named(nest, update)) for update in updates):
        return {**loops_shared([(compute, traffic)], held, units, False, device), "in_parts": False}
    fewest = FOR_ELEMENT[all(nest.vector not in _named(nest, update) for update in updates)]
    most = max([update.base.type.size for update in updates])
    parts = min(SCATTER_PARTS, nest.elements // VALUES_OF_A_PART, nest.elements // (fewest * most), units)
    if parts < 2 or not all(map(_joins_in_parts, updates)):
        return whole
    chunk = -(-units // parts)
    chunk = -(-chunk // LINE) * LINE if nest.is_line else chunk
    parts = -(-units // chunk)
    adding = 2 * parts * sum([u.base.type.size * COLUMN / device.scalar_rate(u.base.dtype.name) for u in updates])
    in_parts = {**whole, "chunk": chunk, "in_parts": True, "compute": compute + adding, "seconds": alone + adding}
    each = compute * -(-parts // device.threads) / parts
    together = HANDED + overlapped(device.memory_seconds(traffic, held), each) + adding
    if device.threads == 1 or alone < SHARED_FROM or together >= alone:
        return in_parts
    return {**in_parts, "threads": device.threads, "compute": each + adding, "seconds": together}


def _joins_in_parts(update: Update) -> bool:
    """May values be joined in another order, as exactly?"""
    dtype = update.base.dtype
    return update.mode in MODE_REDUCTIONS and (dtype.kind in "iu" or dtype in (np.float32, np.float64))


def _loops(graph: Graph, updates: Sequence[Update]) -> tuple[Nest, tuple[Form, ...]]:
    """Loops over all values. UnsupportedOp where they do not meet an element's values in the order of NumPy."""
    space = updates[0].values.shape
    forms = forms_of(graph, space)
    if len(forms) > 1 or len(forms[0].boxes) > 1:
        raise UnsupportedOp("a c kernel scatters no arrays joined of pieces")
    sizes = [(a, forms[0].arrays[n].leaf.dtype.itemsize) for n, a in forms[0].touched.items()]
    sizes += [(update.target, update.values.dtype.itemsize) for update in updates]
    nest = nest_of(space, (), sizes, [update.target for update in updates], set())
    planned = with_passes(forms, nest)
    for named in [_named(nest, update) for update in updates]:
        order = [d for d in (*nest.counted, *nest.inside, nest.vector) if d in named]
        if not nest.is_line and len(named) > 1 and order != named:
            raise UnsupportedOp("these loops would join values in another order than NumPy")
    return nest, planned


def _named(nest: Nest, update: Update) -> list[int]:
    """The dimensions along which places alone say which element is updated."""
    return [d for d, dim in enumerate(nest.dims) if dim.step(update.target) == 0]
