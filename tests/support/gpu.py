"""Programs on a GPU that is given, such as the emulator's."""

from __future__ import annotations

from eqfuse.emit.cuda.executable import CudaExecutable
from eqfuse.machine.gpu import Gpu
from eqfuse.plan.plan import Plan
from eqfuse.runtime.program import Program


def program_on(plan: Plan, gpu: Gpu | None = None) -> Program:
    """The program that runs `plan` on `gpu`; on none, one that is only looked at."""
    return Program(plan, CudaExecutable(plan, gpu))
