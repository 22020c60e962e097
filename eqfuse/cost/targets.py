"""Targets: from the name a user gives to the device that is priced and emitted for.

In: "numpy", "cpu", "cuda", "cuda:h100", or a `Device`. Out: a `Device`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from eqfuse.cost.device import DEVICES, Device, this_cpu
from eqfuse.errors import TargetUnavailable


def device_for(target: str | Device) -> Device:
    """The device a target names; TargetUnavailable when it does not exist here."""
    return target_named(target)()


def target_named(target: str | Device) -> Callable[[], Device]:
    """What finds the device that a target names, if it is here; TargetUnavailable when there is no such target."""
    if isinstance(target, Device):
        return lambda: target
    if target in ("cpu", "numpy"):
        return _this_cpu
    if target == "cuda":
        return _this_gpu
    if isinstance(target, str) and target.startswith("cuda:"):
        found = DEVICES.get(target.removeprefix("cuda:").lower())
        if found is not None and found.kind == "gpu":
            return lambda: found
    gpus = ", ".join(f"cuda:{name}" for name, d in DEVICES.items() if d.kind == "gpu")
    raise TargetUnavailable(f"no target {target!r}; there are numpy, cpu, cuda, {gpus}, or an ef.Device")


@cache
def _this_cpu() -> Device:
    return this_cpu()


def _this_gpu() -> Device:
    """The profile of the GPU in this machine, recognised by CuPy's name for it."""
    from eqfuse.machine.gpu import cupy_gpu

    name = cupy_gpu().name.lower()
    words = name.replace("-", " ").split()
    for known in sorted((n for n, d in DEVICES.items() if d.kind == "gpu"), key=len, reverse=True):
        if all(part in words or part in name for part in known.split("-")):
            return DEVICES[known]
    raise TargetUnavailable(f"no profile for {name!r}; name the nearest one, such as cuda:h100, or pass an ef.Device")
