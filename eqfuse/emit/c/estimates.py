"""What kernels of loops in C cost about, by their states: what the search goes by until it makes their schedules.

In: an operator, or a kernel's state, work and bytes. Out: `Work`, `Price`. Next stop: `eqfuse/cost/roofline.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import bound
from eqfuse.cost.price import Price
from eqfuse.cost.work import Work, element_work, touched
from eqfuse.emit.c.nest import SHORT
from eqfuse.emit.c.rates import CELL, additions, not_full
from eqfuse.emit.c.schedule import loops_shared, memory_seconds
from eqfuse.ops import Role, row
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType

CELLS = 3  # along a loop of vectors, where arrays are joined: those of what is rolled to either side

if TYPE_CHECKING:
    from eqfuse.kinds.state import State


def operator_work(
    op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device, literal: Literal | None
) -> Work:
    """What one application of `op` costs in full vectors, all threads at work."""
    done = element_work(op, attrs, out, types, device, literal)
    if row(op).role not in (Role.ELEMENTWISE, Role.REDUCTION, Role.GATHER):
        return done
    times, base = additions(op, out.dtype if op == "where" else types[0].dtype, types[-1].size == 1)
    return replace(done, seconds=touched(op, attrs, out, types, done.flops) * times / device.scalar_rate(base))


def kernel_price(state: State, read: int, written: int, done: Work, device: Device) -> Price:
    """What a kernel of `state` costs that does `done`."""
    long = [n for n in state.space if n >= SHORT] or state.space[-1:] or [1]
    vector = math.prod(state.space) if state.template.pointwise and state.dense else long[-1]
    compute = done.seconds * device.threads * not_full(vector)
    if state.mapped:
        compute += CELLS * CELL * math.prod(state.space) / max(1, vector)
    found = loops_shared(read + written, compute, math.prod(state.space), False, device)
    seconds = device.launch_seconds + found["seconds"]
    memory = memory_seconds(read + written, device if found["threads"] > 1 else device.single)
    return Price(seconds, read, written, done.flops, bound(seconds, memory, found["compute"]))


def has_schedule(state: State) -> bool:
    """Of elementwise work on arrays that lie as its result does, there is always one."""
    return state.template.pointwise and state.dense and not state.mapped


def is_near(state: State) -> bool:
    """Elementwise work on arrays that are not joined of pieces has one pass of loops without cells."""
    return state.template.pointwise and not state.mapped
