"""CUDA kernels. In: a planned kernel. Out: `CudaKernel`, readable CUDA text with the rule by which it is launched
through `cupy.RawModule`, or on the CPU through `eqfuse.testing.cudasim`; or `CudaCalls`. Next stop: `executable.py`.

Arrays are C-contiguous and start at multiples of 16 bytes (the runtime copies those that do not).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.back_to_back import back_to_back_lines
from eqfuse.emit.cuda.calls import CudaCalls, emit_calls
from eqfuse.emit.cuda.contract import product_lines
from eqfuse.emit.cuda.element import Parameters
from eqfuse.emit.cuda.loops import CudaLoop
from eqfuse.emit.cuda.map import map_lines
from eqfuse.emit.cuda.prelude import PRELUDE
from eqfuse.emit.cuda.row import rows_lines
from eqfuse.emit.cuda.scheduling.back_to_back import BackToBackSchedule
from eqfuse.emit.cuda.scheduling.calls import CallsSchedule
from eqfuse.emit.cuda.scheduling.contract import ProductSchedule
from eqfuse.emit.cuda.scheduling.map import MapSchedule, TilesSchedule
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule
from eqfuse.emit.cuda.scheduling.side_by_side import SideBySideSchedule
from eqfuse.emit.cuda.side_by_side import side_by_side_lines
from eqfuse.emit.cuda.transposed import tiles_lines
from eqfuse.emit.cuda.wgmma import WGMMA
from eqfuse.emit.executable import function_name
from eqfuse.ir.graph import Graph
from eqfuse.kinds import kind_named
from eqfuse.plan.plan import Kernel


@dataclass(frozen=True)
class CudaKernel:
    """One CUDA function; no text where there is nothing to compute. `constants` follow the reads among its arguments,
    the writes come next, then the workspace."""

    name: str
    source: str
    schedule: CudaSchedule
    constants: tuple[np.generic | np.ndarray, ...] = ()

    @property
    def grid(self) -> tuple[int, ...]:
        return self.schedule.grid

    @property
    def block(self) -> tuple[int, ...]:
        return self.schedule.block

    @property
    def shared_bytes(self) -> int:
        return self.schedule.shared_bytes

    @property
    def workspace(self) -> tuple[tuple[np.dtype, int], ...]:
        return self.schedule.workspace

    def arguments(self, writes: Sequence[Any], reads: Sequence[Any], constants: Sequence[Any],
                  workspace: Sequence[Any]) -> tuple[Any, ...]:  # fmt: skip
        """What a launch passes, in the order of the function's parameters; constant arrays already on the device."""
        return (*reads, *constants, *writes, *workspace)


Emitted = CudaKernel | CudaCalls | CudaLoop


def emit_kernel(kernel: Kernel, device: Device, rounds: bool = True) -> Emitted:
    """What computes `kernel.body`; where `rounds`, with 16-bit floats rounded after every operator. UnsupportedOp when
    the kind or an operator has no CUDA form."""
    kind, body = kind_named(kernel.kind), kernel.body
    if kind.has_plans:
        planned: CudaLoop = kind.emit_plans(kernel, device)
        return planned
    schedule = kind.schedule(body, device)
    emitted: CudaKernel | CudaCalls = kind.emit(body, schedule, device, function_name(kernel), rounds)
    return emitted


def source_of(body: Graph, schedule: CudaSchedule, name: str, rounds: bool = True) -> CudaKernel | CudaCalls:
    """The function `name`, or the calls, of `schedule`, which one of the kinds of eqfuse itself has made."""
    parameters, functions = Parameters(body, rounds), ""
    match schedule:
        case CallsSchedule():
            return emit_calls(body, schedule)
        case MapSchedule():
            lines = map_lines(schedule, parameters)
        case SideBySideSchedule():
            functions, lines = side_by_side_lines(schedule, parameters, name)
        case TilesSchedule():
            lines = tiles_lines(schedule, parameters)
        case RowsSchedule():
            lines = rows_lines(schedule, parameters)
        case BackToBackSchedule():
            lines = back_to_back_lines(schedule, parameters)
        case ProductSchedule():
            lines = product_lines(schedule, parameters)
        case _ if not schedule.calls:
            return CudaKernel(name, "", schedule)
        case _:
            raise TypeError(f"no emitter for a {type(schedule).__name__} of {body}")
    declarations = parameters.declarations()
    if schedule.workspace:
        *parts, _ = schedule.workspace
        declarations += [f"{ops.stored(dtype)}* parts{j}" for j, (dtype, _) in enumerate(parts)] + ["unsigned* arrived"]
    # without the second bound ptxas spills registers so that more blocks fit a multiprocessor
    bounds = f"{math.prod(schedule.block)}, {schedule.resident}"
    source = f'extern "C" __global__ void __launch_bounds__({bounds}) {name}(\n    '
    source += ",\n    ".join(declarations) + ") {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
    constants = tuple(parameters.constant_argument(c) for c in parameters.constants)
    return CudaKernel(name, functions + source, schedule, constants)


def shared_functions(sources: Iterable[str]) -> str:
    """The helpers that the functions of `sources` share."""
    return PRELUDE + WGMMA if any("eqf_wgmma" in source for source in sources) else PRELUDE


def module_source(sources: Sequence[str] | dict[str, None]) -> str:
    """A compilable module: the helpers that the functions share, then the functions."""
    return "\n".join((shared_functions(sources), *sources))
