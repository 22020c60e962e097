"""What runs each kernel of a plan: a CUDA function, library calls, or nothing for a view."""

from __future__ import annotations

from dataclasses import replace

from eqfuse.cost.device import Device
from eqfuse.emit.cuda.calls import CudaCalls, emit_calls, uncounted
from eqfuse.emit.cuda.kernels import EMITTED, CudaKernel, emit_kernel
from eqfuse.ir.graph import Graph
from eqfuse.kinds.product import is_tiled
from eqfuse.plan.plan import Kernel, Plan


def emitted(plan: Plan) -> list[CudaKernel | CudaCalls | None]:
    """By kernel, in order. Equal kernels share one."""
    made: dict[tuple[str, Graph], CudaKernel | CudaCalls | None] = {}
    for k in plan.kernels:
        if (k.kind, k.body) not in made:
            made[k.kind, k.body] = emitted_kernel(k, plan.device, plan.numerics != "approximate")
    return [made[k.kind, k.body] for k in plan.kernels]


def emitted_kernel(kernel: Kernel, device: Device, rounds: bool = True) -> CudaKernel | CudaCalls | None:
    if kernel.kind == "view":
        return None
    if kernel.kind in EMITTED and (kernel.kind != "contract" or is_tiled(kernel.body, device)):
        return emit_kernel(kernel, device, rounds)
    if any(n.op == "take" and uncounted(n) for n in kernel.body.nodes):
        return emit_kernel(replace(kernel, kind="map"), device, rounds)
    return emit_calls(kernel, device)


def workspace_bytes(emitted: CudaKernel | CudaCalls | None) -> int:
    return sum(dtype.itemsize * n for dtype, n in emitted.workspace) if isinstance(emitted, CudaKernel) else 0
