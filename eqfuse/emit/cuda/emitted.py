"""What runs each kernel of a plan: a CUDA function, library calls, or nothing for a view."""

from __future__ import annotations

from eqfuse.cost.device import Device
from eqfuse.emit.cuda.calls import CudaCalls, emit_calls
from eqfuse.emit.cuda.kernels import CudaKernel, emit_function
from eqfuse.ir.graph import Graph
from eqfuse.kinds import cuda_schedule
from eqfuse.kinds.cuda.calls import CallsSchedule
from eqfuse.plan.plan import Kernel, Plan


def emitted(plan: Plan) -> list[CudaKernel | CudaCalls | None]:
    """By kernel, in order. Equal kernels share one."""
    made: dict[tuple[str, Graph], CudaKernel | CudaCalls | None] = {}
    for k in plan.kernels:
        if (k.kind, k.body) not in made:
            made[k.kind, k.body] = emitted_kernel(k, plan.device, plan.numerics != "approximate")
    return [made[k.kind, k.body] for k in plan.kernels]


def emitted_kernel(kernel: Kernel, device: Device, rounds: bool = True) -> CudaKernel | CudaCalls | None:
    if kernel.is_view:
        return None
    schedule = cuda_schedule(kernel.kind, kernel.body, device)
    if isinstance(schedule, CallsSchedule):
        return emit_calls(kernel, schedule, device)
    return emit_function(kernel, schedule, device, rounds)


def workspace_bytes(emitted: CudaKernel | CudaCalls | None) -> int:
    return sum(dtype.itemsize * n for dtype, n in emitted.workspace) if isinstance(emitted, CudaKernel) else 0
