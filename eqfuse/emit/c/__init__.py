"""The C target: fused kernels as C loops, compiled for this CPU; what is not fused is a call of NumPy.

Entry points: those of `eqfuse.cost.targets.Package`.
"""

from __future__ import annotations

from collections.abc import Mapping

from eqfuse.budget import Meter
from eqfuse.cost.device import Device
from eqfuse.emit.c.device import device
from eqfuse.emit.c.executable import CExecutable
from eqfuse.emit.c.kernels import CKernel, emit_kernel
from eqfuse.emit.c.ops import emits
from eqfuse.machine.memory import ALIGNMENT
from eqfuse.plan.memory import Needs
from eqfuse.plan.plan import Kernel, Plan


def emit(plan: Plan, carried: Mapping[int, int] | None = None, meter: Meter | None = None) -> CExecutable:
    return CExecutable(plan, carried, meter)


def needs(kernel: Kernel, device: Device) -> Needs:
    """The memory that `kernel` takes; what C keeps on its stack does not count."""
    emitted = emit_kernel(kernel, device)
    if not isinstance(emitted, CKernel):
        return emitted.needs
    return Needs(sum(-(-t.nbytes // ALIGNMENT) * ALIGNMENT for t in emitted.schedule.workspaces))


__all__ = ["device", "emit", "emits", "needs"]
