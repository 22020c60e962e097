"""How one kernel body runs on a GPU, decided once: launches and blocks, passes over memory, what threads hold.

In: what the files beside this one decide, one for each template. Out: `CudaSchedule`, and its price.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import OVERLAP
from eqfuse.cost.price import Price
from eqfuse.cost.roofline import compiled_price
from eqfuse.cost.work import Work
from eqfuse.dtypes import BFLOAT16
from eqfuse.ir.graph import Graph
from eqfuse.kinds.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class CudaSchedule(Schedule):
    """`grid`, `block`: of the one launch of a kernel of our own; none where there is nothing to compute. `resident`:
    blocks for which the registers of a multiprocessor are to have room. `shared_bytes`: of shared memory that each
    block is given when it is launched. `workspace`:
    (dtype, elements) of arrays that start as zeros and that every launch leaves fit for the next one; each launch
    writes and reads all of it."""

    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    resident: int = 1
    shared_bytes: int = 0
    workspace: tuple[tuple[np.dtype, int], ...] = ()

    @property
    def workspace_bytes(self) -> int:
        return sum(dtype.itemsize * n for dtype, n in self.workspace)

    @property
    def architecture_specific(self) -> bool:
        """Does it need what later architectures do not have either, as sm_90a has wgmma?"""
        return False

    @property
    def between(self) -> int:
        """Bytes that are written on the way, and read again."""
        return self.workspace_bytes

    @property
    def read_between(self) -> int:
        """Bytes that are read of those."""
        return self.between

    @property
    def bytes_read(self) -> int:
        return sum(self.reads) + self.read_between

    @property
    def bytes_written(self) -> int:
        return sum(self.writes) + self.between

    @property
    def blocks(self) -> float:
        """Those that share the work."""
        return math.prod(self.grid)

    def price(self, device: Device, work: Work | None = None) -> Price | None:
        if work is None:
            return None
        read, written = self.bytes_read, self.bytes_written
        if self.grid and len(self.reads) + len(self.writes) > device.max_arguments:
            return Price(math.inf, read, written, work.flops, "memory")
        compute = self.compute_seconds(work, device)
        drawn = self.drawn(device)
        blocks, overlap = self.blocks, self.overlap
        return compiled_price(read, written, compute, work.flops, device, blocks, self.calls, drawn, overlap)

    @property
    def overlap(self) -> float:
        """The share of the shorter of work and memory traffic that hides under the longer."""
        return OVERLAP

    def drawn(self, device: Device) -> float:
        """The share of the device's bandwidth that its blocks can draw, if the schedule knows."""
        return math.inf

    def compute_seconds(self, work: Work, device: Device) -> float:
        """What the operators take on the device."""
        return work.seconds

    def __str__(self) -> str:
        launched = f"{self.calls} launch{'es' * (self.calls != 1)}"
        if self.grid:
            launched += f" of {' x '.join(map(str, self.grid))} blocks of {' x '.join(map(str, self.block))} threads"
        lines = [launched, *self.details(), f"reads {_sizes(self.reads)}; writes {_sizes(self.writes)} bytes"]
        if self.between:
            lines.append(f"{self.between:,} bytes written and read on the way")
        return "\n".join(lines)

    def details(self) -> list[str]:
        """What its template decides beside."""
        return []


def unless_empty(scheduler: Callable[[Graph, Device], CudaSchedule]) -> Callable[[Graph, Device], CudaSchedule]:
    """`scheduler`, without launches where there is nothing to compute."""

    @wraps(scheduler)
    def schedule(body: Graph, device: Device) -> CudaSchedule:
        if all(o.type.size == 0 for o in body.outputs):
            return CudaSchedule((0,) * len(body.inputs), (0,) * len(body.outputs), 0)
        return scheduler(body, device)

    return schedule


def computed_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which partial results pass through memory unrounded."""
    return np.dtype(np.float32) if dtype in (np.dtype(np.float16), BFLOAT16) else dtype


def _sizes(sizes: tuple[int, ...]) -> str:
    return " + ".join(f"{n:,}" for n in sizes) or "0"
