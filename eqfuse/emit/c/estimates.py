"""What kernels of loops in C cost about, by their states: what the search goes by until it makes their schedules.

In: an operator, or a kernel's state, work and bytes. Out: `Work`, `Price`. Next stop: `eqfuse/cost/roofline.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import bound
from eqfuse.cost.price import Price
from eqfuse.cost.work import Work, element_work, touched
from eqfuse.emit.c.cells import KERNEL_CELLS
from eqfuse.emit.c.nest import SHORT_DIMENSION
from eqfuse.emit.c.product.estimate import product_seconds
from eqfuse.emit.c.product.tile import sums_dtype
from eqfuse.emit.c.rates import CELL, across, additions, far_load, not_full, traffic_of
from eqfuse.emit.c.schedule import loops_shared
from eqfuse.emit.c.streaming import exceeds_caches
from eqfuse.kinds.seams import pieces
from eqfuse.ops import Role, row
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType

if TYPE_CHECKING:
    from eqfuse.kinds.state import State


def operator_work(
    op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device, literal: Literal | None
) -> Work:
    """What one application of `op` costs in full vectors, all threads at work."""
    work = element_work(op, attrs, out, types, device, literal)
    if op == "matmul" and (dtype := sums_dtype(out.dtype)) is not None and out.size:
        return work._replace(seconds=product_seconds(out, types[0].shape[-1], dtype, device))
    role = row(op).role
    if role not in (Role.ELEMENTWISE, Role.REDUCTION, Role.GATHER):
        return work
    if role is Role.GATHER:  # as often as there are places
        out = types[1]
    times, base = additions(op, types[row(op).values_from].dtype, types[-1].size == 1)
    return work._replace(seconds=touched(op, attrs, out, types, work.flops) * times / device.scalar_rate(base))


def kernel_price(state: State, read: int, written: int, work: Work, device: Device, itemsize: int) -> Price:
    """What a kernel of `state` costs that does `work`, on values of `itemsize` bytes."""
    vector = _vector(state)
    compute = work.seconds * device.threads * _not_full(state, vector)
    turned = [a for a in state.runs if a != vector]
    load = across if state.template.pointwise else far_load
    compute += len(turned) * math.prod(state.space) * load(itemsize, device)
    if state.seams:
        cells = pieces(state.space, state.seams)
        if math.prod(map(len, cells)) > KERNEL_CELLS:
            return Price(math.inf, read, written, work.flops, "memory")
        compute += len(cells[vector]) * CELL * math.prod(state.space) / max(1, state.space[vector])
    traffic = traffic_of(read, written, written if exceeds_caches(read, written, device) else 0)
    shares = loops_shared([(compute, traffic)], read + written, math.prod(state.space), False, device)
    seconds = device.launch_seconds + shares["seconds"] + device.call_seconds * state.template.is_library
    memory = (device if shares["threads"] > 1 else device.single).memory_seconds(traffic, read + written)
    return Price(seconds, read, written, work.flops, bound(seconds, memory, shares["compute"]))


def _not_full(state: State, vector: int) -> float:
    """How many times as long its work takes as in full vectors, along the axis `vector`."""
    if state.products:  # of which tiles say how full they are
        return 1.0
    if not state.space or (state.template.pointwise and state.dense):
        return not_full(math.prod(state.space), SHORT_DIMENSION)
    along = pieces(state.space, state.seams)[vector] if state.seams else [state.space[vector]]
    return sum(n * not_full(n, SHORT_DIMENSION) for n in along) / max(1, state.space[vector])


def _vector(state: State) -> int:
    """The axis that loops of vectors run along: the last that is long enough, or else the last of several indices."""
    for least in (SHORT_DIMENSION, 2):
        for a in range(-1, -len(state.space) - 1, -1):
            if state.space[a] >= least:
                return a
    return -1


def has_schedule(state: State) -> bool:
    """Of elementwise work on arrays that lie as its result does, there is always one."""
    return state.template.pointwise and state.dense and not state.mapped


def is_near(state: State) -> bool:
    """Elementwise work on arrays that are not joined of pieces has one pass of loops without cells."""
    return state.template.pointwise and not state.mapped
