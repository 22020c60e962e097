"""The CUDA target: kernels as CUDA functions, and calls of CuPy's libraries where there are none.

Entry points: those of `eqfuse.cost.targets.Package`.
"""

from __future__ import annotations

from collections.abc import Mapping

from eqfuse.cost.device import Device
from eqfuse.cost.profiles import recognised
from eqfuse.emit.cuda.calibrate import calibrated
from eqfuse.emit.cuda.executable import CudaExecutable
from eqfuse.emit.cuda.kernels import emit_kernel
from eqfuse.emit.cuda.ops import emits
from eqfuse.errors import TargetUnavailable
from eqfuse.machine.gpu import cupy_gpu
from eqfuse.plan.memory import Needs
from eqfuse.plan.plan import Kernel, Plan


def device() -> Device:
    """The profile of the GPU in this machine, with what `eqfuse calibrate` measured of it."""
    return calibrated(recognised_profile())


def recognised_profile() -> Device:
    """The profile of the GPU in this machine, recognised by CuPy's name for it."""
    name = cupy_gpu().name
    profile = recognised(name)
    if profile is None:
        raise TargetUnavailable(
            f"no profile for {name!r}; name the nearest one, such as cuda:h100, or pass an ef.Device"
        )
    return profile


def emit(plan: Plan, carried: Mapping[int, int] | None = None) -> CudaExecutable:
    return CudaExecutable(plan, carried=carried)


def needs(kernel: Kernel, device: Device) -> Needs:
    """Its workspace. What CuPy's library calls allocate is not known."""
    return Needs() if kernel.is_view else Needs(held=emit_kernel(kernel, device).schedule.workspace_bytes)


__all__ = ["device", "emit", "emits", "needs"]
