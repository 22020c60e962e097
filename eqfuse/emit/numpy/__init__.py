"""The NumPy target: kernels as Python functions over NumPy's calls, on the threads of a CPU.

Entry points: those of `eqfuse.cost.targets.Package`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.numpy.calibrate import this_cpu
from eqfuse.emit.numpy.executable import NumpyExecutable
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.plan.memory import Needs
from eqfuse.plan.plan import Kernel, Plan


def device() -> Device:
    """This CPU, as it was measured."""
    return this_cpu()


def emits(op: str, dtypes: Sequence[np.dtype], result: np.dtype) -> bool:
    """Every operator is a call that a tile can make."""
    return True


def emit(plan: Plan, carried: Mapping[int, int] | None = None) -> NumpyExecutable:
    return NumpyExecutable(plan, carried)


def needs(kernel: Kernel, device: Device) -> Needs:
    return emit_kernel(kernel, device).needs
