"""How a kernel joins values to the elements that indices name: the loops over values, and those that begin the result.

In: a body of kind scatter, and a device. Out: `ScatterSchedule`. Next stop: `writer.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import overlapped
from eqfuse.emit.c.calls import calls_schedule
from eqfuse.emit.c.forms import Form, forms_of
from eqfuse.emit.c.loops import pushed, with_passes
from eqfuse.emit.c.nest import Access, Nest, nest_of
from eqfuse.emit.c.rates import COLUMN, STEP, additions, bytes_of, work_of
from eqfuse.emit.c.scatter.histogram import counted
from eqfuse.emit.c.schedule import LoopsSchedule, loops_schedule, memory_seconds
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.ir.view_strides import contiguous
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops import row


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
    """The loops compute a place and a value for each element of their space, in the order of NumPy. `whole`: the body
    of the kernel; `begun`: the loops that write the array to be updated."""

    whole: Graph
    update: Update
    begun: LoopsSchedule

    @property
    def has_conflicts(self) -> bool:
        return self.nest.vector in _named(self.nest, self.update)

    def __str__(self) -> str:
        how = "one by one" if self.has_conflicts else "in vectors"
        return f"{super().__str__()}\nvalues joined {how} to elements named by indices"


def scatter_schedule(body: Graph, device: Device) -> Schedule:
    """The schedule of a body; of one operator alone, what NumPy makes of it, if that is cheaper."""
    alone = len([n for n in body.nodes if row(n.op).computes]) == 1
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
        values = weights[0] if weights else _filled(1, n.dtype, indices.shape)
        if values.dtype != n.dtype:
            values = node("cast", (values,), (n.dtype,))
        base = _filled(0, n.dtype, n.shape)
        return Update(base, indices, values, "add", Access(0, (0,)), 1, length, wraps=False)
    if n.op == "histogram":
        base, places, values = counted(n)
        return Update(base, places, values, "add", Access(0, (0,)), 1, n.attr("bins")[0], wraps=False)
    base, indices, values = n.args
    axis: int = n.attr("axis")
    mode: str = n.attr("mode")
    at, strides = len(n.shape) + axis, contiguous(n.shape)
    after = n.shape[at + 1 :]
    aligned = node("reshape", (indices,), ((*indices.shape, *[1] * len(after)),)) if after else indices
    places = aligned if aligned.shape == values.shape else node("broadcast_to", (aligned,), (values.shape,))
    target = Access(0, (*strides[:at], *[0] * len(indices.shape), *strides[at + 1 :]))
    return Update(base, places, values, mode, target, strides[at], n.shape[at], wraps=True)


def _filled(value: int, dtype: np.dtype, shape: tuple[int, ...]) -> Node:
    return node("broadcast_to", (const(np.array(value, dtype)),), (shape,))


def own_schedule(body: Graph, device: Device) -> ScatterSchedule:
    """The schedule of our own loops. UnsupportedOp where there are none."""
    (result,) = body.outputs
    update = update_of(result)
    if not result.type.size or not update.values.type.size:
        raise UnsupportedOp("a c kernel joins some values to some elements")
    begun = loops_schedule(Graph(body.inputs, (update.base,)), device.single)
    if not isinstance(begun, LoopsSchedule):
        raise UnsupportedOp("a c kernel reads the array that it updates as it lies")
    graph = pushed(Graph(body.inputs, (update.places, update.values)))
    nest, forms = _loops(graph, update)
    elements = bytes_of(graph, nest, forms, device)
    reads = tuple([one + other for one, other in zip(elements, begun.reads, strict=True)])
    writes = (result.type.nbytes,)
    compute, flops = work_of(nest, forms, {}, device)
    step = STEP if nest.vector in _named(nest, update) else COLUMN
    _, base = additions("add", result.dtype)
    compute += nest.elements * step * device.threads / device.scalar_rate(base) + begun.compute
    seconds = overlapped(memory_seconds(sum(reads) + sum(writes), device.single), compute)
    return ScatterSchedule(
        reads, writes, 1, body=graph, space=update.values.shape, nest=nest, forms=forms, written=(update.target,) * 2,
        chunk=nest.elements if nest.is_line else nest.units, threads=1, seconds=seconds, compute=compute,
        flops=flops + nest.elements, whole=body, update=update, begun=begun,
    )  # fmt: skip


def _loops(graph: Graph, update: Update) -> tuple[Nest, tuple[Form, ...]]:
    """Loops over all values. UnsupportedOp where they do not meet an element's values in the order of NumPy."""
    space = update.values.shape
    forms = forms_of(graph, space)
    if len(forms) > 1 or len(forms[0].boxes) > 1:
        raise UnsupportedOp("a c kernel scatters no arrays joined of pieces")
    sizes = [(a, forms[0].arrays[n].leaf.dtype.itemsize) for n, a in forms[0].touched.items()]
    nest = nest_of(space, (), [*sizes, (update.target, update.values.dtype.itemsize)], [update.target], set())
    found = with_passes(forms, nest)
    named = _named(nest, update)
    order = [d for d in (*nest.counted, *nest.inside, nest.vector) if d in named]
    if not nest.is_line and len(named) > 1 and order != named:
        raise UnsupportedOp("these loops would join values in another order than NumPy")
    return nest, found


def _named(nest: Nest, update: Update) -> list[int]:
    """The dimensions along which places alone say which element is updated."""
    return [d for d, dim in enumerate(nest.dims) if dim.step(update.target) == 0]
