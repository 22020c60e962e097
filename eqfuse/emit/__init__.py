"""Emitters: a planned kernel in, code for one target out. One module per target; next stop: `eqfuse.runtime`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eqfuse.hardware import Device
    from eqfuse.memory import Needs
    from eqfuse.plan import Kernel, Plan
    from eqfuse.runtime import Program


def emit(plan: Plan) -> Program:
    """The program that runs `plan`: NumPy functions on a CPU, CUDA kernels on a GPU."""
    if plan.device.kind == "gpu":
        from eqfuse.runtime_cuda import CudaProgram

        return CudaProgram(plan)
    from eqfuse.runtime import Program

    return Program(plan)


def needs(kernel: Kernel, device: Device) -> Needs:
    """The memory that `kernel` takes on `device` beside what it reads and writes."""
    if device.kind == "gpu":
        from eqfuse.runtime_cuda import kernel_needs

        return kernel_needs(kernel, device)
    from eqfuse.emit.numpy import emit_kernel

    return emit_kernel(kernel, device).needs
