"""Price: the roofline of whole kernels.

In: what a kernel body is (its kind's `State`), does (`Work`) and moves, on a `Device`. Out: `Price`, seconds and bytes.
    seconds = launch + max(bytes / bandwidth of the level they fit in, sum of elements x seconds per element)
plus a twentieth of the smaller, which does not quite hide under the larger; where each call waits for what it reads,
its own share of the memory time is added to its work. After Williams, Waterman, Patterson, "Roofline" (CACM 2009), with
one rate per function: an exp is not an add. A kind that knows more may price its kernels otherwise. Next stop:
`eqfuse/kinds/`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import OVERLAP, bound, overlapped
from eqfuse.cost.price import Price
from eqfuse.cost.targets import calls_of, estimates_of
from eqfuse.cost.work import NO_JUMPS, NOTHING, Jumps, Work, element_work
from eqfuse.ops import Role, row
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType

if TYPE_CHECKING:
    from eqfuse.kinds.state import State

LATENCY = 0.6e-6  # seconds from a load of a GPU's memory to its value, where memory is busy
SEGMENT = 64  # bytes that a GPU's memory moves at least
# The share of its part of a GPU's bandwidth that a multiprocessor can draw where others are idle, by Little's law: 1024
# threads with eight loads of 4 bytes under way, over that latency, are 55 GB/s; a part is 17 to 33.
DRAWN = 2.0


def work(
    op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device, steps: Jumps = NO_JUMPS,
    literal: Literal | None = None,
) -> Work:  # fmt: skip
    """What one application of `op` costs to compute, all threads at work.

    `steps`: elements of its operands that are no neighbours; of a view, those it copies.
    `literal`: the last operand, where it is a constant.
    """
    calls = calls_of(device)
    if calls is not None:
        return calls.call_work(op, attrs, out, types, device, steps, literal)
    if row(op).role in (Role.LEAF, Role.VIEW):
        return NOTHING
    estimates = estimates_of(device)
    estimate = element_work if estimates is None else estimates.operator_work
    return estimate(op, attrs, out, types, device, literal)


def roofline(
    state: State, read: int, written: int, work: Work, device: Device, arguments: int, itemsize: int = 4
) -> Price:
    """What a kernel of `state` costs. A view is free; a kernel the device cannot run costs infinity.

    `arguments` counts arrays read and written; `itemsize` is that of the values in its tiles, in bytes.
    """
    if state.at_leaf:
        return Price(0.0, 0, 0, 0, "memory")
    if arguments > device.max_arguments and not state.template.is_library:  # a library takes arrays one by one
        return Price(math.inf, read, written, work.flops, "memory")
    traffic = read + written
    calls = calls_of(device)
    if calls is None and (estimates := estimates_of(device)) is not None:
        return estimates.kernel_price(state, read, written, work, device, itemsize)
    if calls is None:
        return compiled_price(read, written, work.seconds, work.flops, device)
    seconds, memory, work = calls.kernel_seconds(state, traffic, work, device, itemsize)
    seconds += device.launch_seconds
    return Price(seconds, read, written, work.flops, bound(seconds, memory, work.seconds))


def compiled_price(
    read: int, written: int, compute: float, flops: int, device: Device, blocks: float = math.inf, launches: int = 1,
    drawn: float = math.inf, overlap: float = OVERLAP,
) -> Price:  # fmt: skip
    """What a kernel of `launches` costs whose operators take `compute` seconds of the whole device; on a GPU, few
    `blocks` draw a part of its bandwidth and its rate, and no more of its bandwidth than what is `drawn`. `overlap`:
    the share of the shorter of work and traffic that hides under the longer."""
    busy = min(1.0, max(blocks, 1) / max(device.multiprocessors, 1))  # share of the device that has a block
    memory = device.memory_seconds(read + written) / min(1.0, DRAWN * busy, drawn)
    seconds = launches * device.launch_seconds + overlapped(memory, compute / busy, overlap)
    return Price(seconds, read, written, flops, bound(seconds, memory, compute / busy))
