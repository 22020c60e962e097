"""Price: the roofline of whole kernels.

In: what a kernel body is (its kind's `State`), does (`Work`) and moves, on a `Device`. Out: `Price`, seconds and bytes.
    seconds = launch + max(bytes / bandwidth of the level they fit in, sum of elements x seconds per element)
plus a twentieth of the smaller, which does not quite hide under the larger. After Williams, Waterman, Patterson,
"Roofline" (CACM 2009), with one rate per function: an exp is not an add. A kind that knows more may price its kernels
otherwise. Next stop: `eqfuse/kinds/`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eqfuse.hardware import Device
from eqfuse.ir import TensorType
from eqfuse.ops import Role, row
from eqfuse.plan import Price

if TYPE_CHECKING:
    from eqfuse.kinds.state import State

OVERLAP = 0.95  # gpu_performance_model.cc: exec = compute + memory - 0.95 min(compute, memory)
LINE = 64  # bytes of a cache line
LIVE = 4  # arrays over the kernel's space of which a tile keeps its part in cache


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic of one operator: flops, seconds at full rate, calls (operators that touch data), operand elements."""

    flops: int
    seconds: float
    calls: int


_NOTHING = Work(0, 0.0, 0)


def work(op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device) -> Work:
    """What one application of `op` costs to compute, all threads at work."""
    described = row(op)
    if described.role in (Role.LEAF, Role.VIEW):
        return _NOTHING
    flops = described.flops(types, out, attrs)
    dtype = types[0].dtype.name if op != "where" else out.dtype.name
    if described.role is Role.CONTRACTION:
        seconds = flops / device.contraction_flops(dtype)
        if op == "conv":
            gathered = flops // (2 * max(types[1].shape[0], 1))  # im2col writes one element per product of one filter
            seconds += gathered * device.element_seconds("add", dtype)
        return Work(flops, seconds, 1)
    if described.role is Role.WINDOW:
        touched = out.size * math.prod(attrs[0])
    elif described.role in (Role.REDUCTION, Role.LIBRARY):
        touched = max(out.size, *(t.size for t in types))
        if described.role is Role.LIBRARY:  # priced by operation where there are more of these than elements
            touched = max(touched, flops)
    else:
        touched = out.size
    return Work(flops, touched * device.element_seconds(op, dtype), 1)


def gathered(op: str, attrs: tuple, source: TensorType, out: TensorType) -> int:
    """Bytes of its source that a gather touches: runs of neighbours, each a cache line at least."""
    (axis,) = attrs
    run = source.dtype.itemsize * (math.prod(source.shape[axis:][1:]) if op == "take" else 1)
    return out.nbytes // run * max(run, LINE) if run else 0


def roofline(
    state: State, read: int, written: int, done: Work, device: Device, arguments: int, itemsize: int = 4
) -> Price:
    """What a kernel of `state` costs. A view is free; a kernel the device cannot run costs infinity.

    `arguments` counts arrays read and written; `itemsize` is that of the values in its tiles, in bytes.
    """
    if state.kind in ("view", "leaf"):
        return Price(0.0, 0, 0, 0, "memory")
    if arguments > device.max_arguments:
        return Price(math.inf, read, written, done.flops, "memory")
    traffic = read + written
    if device.kind == "gpu":
        return _gpu(read, written, done, device)
    single = device.single
    calls = done.calls * device.call_seconds
    # between the kernel that writes a value and the one that reads it lies the traffic of both: hence 2 x
    alone = calls + _overlapped(traffic / single.bandwidth(2 * traffic), done.seconds * device.threads)
    memory = traffic / device.bandwidth(2 * traffic)
    tiles = max(1, math.ceil(LIVE * itemsize * math.prod(state.space) / device.tile_bytes))
    tiled = device.dispatch_seconds + calls * tiles / device.threads + _overlapped(memory, done.seconds)
    seconds = device.launch_seconds + (alone if state.kind == "library" else min(alone, tiled))
    return Price(seconds, read, written, done.flops, _bound(seconds, memory, done.seconds))


def _overlapped(memory: float, compute: float) -> float:
    """Seconds when all but a twentieth of the shorter of two activities hides under the longer, as in XLA's model."""
    return memory + compute - OVERLAP * min(memory, compute)


def _bound(seconds: float, memory: float, compute: float) -> str:
    if seconds > 2 * max(memory, compute):
        return "launch"
    return "memory" if memory >= compute else "compute"


def _gpu(read: int, written: int, done: Work, device: Device) -> Price:
    memory = (read + written) / device.bandwidth(2 * (read + written))
    seconds = device.launch_seconds + _overlapped(memory, done.seconds)
    return Price(seconds, read, written, done.flops, _bound(seconds, memory, done.seconds))
