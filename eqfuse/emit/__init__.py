"""Emitters: a planned kernel in, code for one target out. One package per target; next stop: `eqfuse.runtime`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eqfuse.cost.device import Device
    from eqfuse.plan.memory import Needs
    from eqfuse.plan.plan import Kernel, Plan
    from eqfuse.runtime.program import Program


def emit(plan: Plan) -> Program:
    """The program that runs `plan`: NumPy functions on a CPU, CUDA kernels on a GPU."""
    if plan.device.kind == "gpu":
        from eqfuse.runtime.program_cuda import CudaProgram

        return CudaProgram(plan)
    from eqfuse.runtime.program import Program

    return Program(plan)


def needs(kernel: Kernel, device: Device) -> Needs:
    """The memory that `kernel` takes on `device` beside what it reads and writes."""
    if device.kind == "gpu":
        from eqfuse.runtime.program_cuda import kernel_needs

        return kernel_needs(kernel, device)
    from eqfuse.emit.numpy.kernels import emit_kernel

    return emit_kernel(kernel, device).needs
