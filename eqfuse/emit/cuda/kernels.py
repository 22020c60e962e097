"""CUDA kernels. In: a planned kernel of kind map, row, reduce or contract. Out: `CudaKernel`, readable CUDA text with
the rule by which it is launched through `cupy.RawModule`, or on the CPU through `eqfuse.testing.cudasim`. Next stop:
`emit/cuda/executable.py`.

Arrays are C-contiguous and start at multiples of 16 bytes (the runtime copies those that do not).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.cuda import contract, map, ops, row
from eqfuse.emit.cuda.element import Code, Parameters
from eqfuse.emit.cuda.prelude import PRELUDE
from eqfuse.errors import UnsupportedOp
from eqfuse.kinds import cuda_schedule
from eqfuse.kinds.cuda.maps import MapSchedule
from eqfuse.kinds.cuda.products import ProductSchedule
from eqfuse.kinds.cuda.rows import RowsSchedule
from eqfuse.kinds.cuda.schedule import CudaSchedule
from eqfuse.plan.plan import Kernel

WRITERS: dict[type, Callable[[Any, Parameters], Code]] = {
    MapSchedule: map.emit, RowsSchedule: row.emit, ProductSchedule: contract.emit,
}  # fmt: skip


@dataclass(frozen=True)
class CudaKernel:
    """One CUDA function; no text and no grid where there is nothing to compute. `constants` follow the reads among its
    arguments, the writes come next, then the `workspace`: (dtype, elements) of arrays that start as zeros and that
    every launch leaves fit for the next one."""

    name: str
    source: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    constants: tuple[np.generic | np.ndarray, ...]
    workspace: tuple[tuple[np.dtype, int], ...]

    def arguments(self, writes: Sequence[Any], reads: Sequence[Any], constants: Sequence[Any],
                  workspace: Sequence[Any]) -> tuple[Any, ...]:  # fmt: skip
        """What a launch passes, in the order of the function's parameters; constant arrays already on the device."""
        return (*reads, *constants, *writes, *workspace)


def emit_kernel(kernel: Kernel, device: Device, rounds: bool = True) -> CudaKernel:
    """The CUDA function that computes `kernel.body`; where `rounds`, with 16-bit floats rounded after every operator.
    UnsupportedOp when the kind or an operator has no CUDA form."""
    return emit_function(kernel, cuda_schedule(kernel.kind, kernel.body, device), device, rounds)


def emit_function(kernel: Kernel, schedule: CudaSchedule, device: Device, rounds: bool = True) -> CudaKernel:
    """The same by a schedule that is at hand."""
    name = f"{kernel.kind}_{hashlib.blake2b(str(kernel.body).encode(), digest_size=6).hexdigest()}"
    if not schedule.calls:
        return CudaKernel(name, "", (), (), (), ())
    write = WRITERS.get(type(schedule))
    if write is None:
        raise UnsupportedOp(f"the cuda target ({device.name}) has no function for this kernel of kind {kernel.kind}; "
                            "what is left runs as library calls")  # fmt: skip
    parameters = Parameters(kernel.body, rounds)
    code = write(schedule, parameters)
    declarations = parameters.declarations()
    if schedule.workspace:
        *parts, _ = schedule.workspace
        declarations += [f"{ops.stored(dtype)}* parts{j}" for j, (dtype, _) in enumerate(parts)] + ["unsigned* arrived"]
    # without the second bound ptxas spills registers so that more blocks fit a multiprocessor
    bounds = f"{math.prod(schedule.block)}, {code.resident}"
    source = f'extern "C" __global__ void __launch_bounds__({bounds}) {name}(\n    '
    source += ",\n    ".join(declarations) + ") {\n" + "".join(f"    {line}\n" for line in code.lines) + "}\n"
    constants = tuple(parameters.constant_argument(c) for c in parameters.constants)
    return CudaKernel(name, source, schedule.grid, schedule.block, constants, schedule.workspace)


def module_source(sources: Sequence[str] | dict[str, None]) -> str:
    """A compilable module: the helpers that the functions share, then the functions."""
    return "\n".join((PRELUDE, *sources))
