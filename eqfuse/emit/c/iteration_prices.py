"""What an iteration of a loop costs that C runs (`native_loops.py`).

In: the plan of a step, or what it computes before there is one. Out: seconds; None where Python runs the iterations.
"""

from __future__ import annotations

import math

from eqfuse.cost.device import Device
from eqfuse.emit.c.calls import CallsSchedule
from eqfuse.emit.c.ops import emits
from eqfuse.emit.c.puts import is_put
from eqfuse.ir.graph import Graph
from eqfuse.ops import Role
from eqfuse.plan.plan import Kernel, Plan

PASSAGE, KERNEL_CALL = 1.5e-8, 1e-8  # seconds to place the arrays of a step, and to call a kernel; measured on a Zen 4


def iteration_seconds(step: Plan) -> float | None:
    """Of a step, its kernels among them."""
    kernels = [_seconds(k, step.device) for k in step.kernels if not k.is_view]
    return PASSAGE + sum(kernels) if kernels and math.inf not in kernels else None


def advance_seconds(step: Graph) -> float | None:
    """From a step to the next, where it is one kernel about."""
    computed = [n for n in step.nodes if n.row.computes]
    by_c = all(n.row.role is Role.UPDATE or emits(n.op, [a.dtype for a in n.args], n.dtype) for n in computed)
    return PASSAGE + KERNEL_CALL if by_c else None


def _seconds(kernel: Kernel, device: Device) -> float:
    """Infinitely many where Python calls it."""
    if kernel.inner:
        return math.inf
    by_numpy = isinstance(kernel.template.schedule(kernel.body, device), CallsSchedule)
    if by_numpy and not is_put(kernel.body):
        return math.inf
    return KERNEL_CALL + max(0.0, kernel.price.seconds - (device.call_seconds if by_numpy else device.launch_seconds))
