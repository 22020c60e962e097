"""Programs on a GPU that is given, such as the emulator's."""

from __future__ import annotations

from eqfuse.emit.cuda.executable import CudaExecutable
from eqfuse.emit.cuda.kernels import CudaKernel
from eqfuse.machine.gpu import Gpu
from eqfuse.plan.plan import Plan
from eqfuse.runtime.program import Program
from eqfuse.testing.cudasim import CpuRawKernel


def program_on(plan: Plan, gpu: Gpu | None = None) -> Program:
    """The program that runs `plan` on `gpu`; on none, one that is only looked at."""
    return Program(plan, CudaExecutable(plan, gpu))


def emulated_function(cuda: CudaKernel, code: str, counted: bool = False) -> CpuRawKernel:
    """The function of `cuda` in the module `code`, which may be given as much shared memory as it is launched with."""
    function = CpuRawKernel(code, cuda.name, counted)
    function.max_dynamic_shared_size_bytes = max(cuda.shared_bytes, function.max_dynamic_shared_size_bytes)
    return function
