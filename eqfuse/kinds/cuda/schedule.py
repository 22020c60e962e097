"""How one kernel body runs on a GPU, decided once: launches and blocks, passes over memory, what threads hold.

In: what the files beside this one decide, one for each template. Out: `CudaSchedule`. A kernel's price is the price of
it, and `emit/cuda` writes it and decides nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eqfuse.dtypes import BFLOAT16
from eqfuse.kinds.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class CudaSchedule(Schedule):
    """`grid`, `block`: of the one launch of a kernel of our own; none where there is nothing to compute. `workspace`:
    (dtype, elements) of arrays that start as zeros and that every launch leaves fit for the next one; each launch
    writes and reads all of it."""

    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    workspace: tuple[tuple[np.dtype, int], ...] = ()

    @property
    def workspace_bytes(self) -> int:
        return sum(dtype.itemsize * n for dtype, n in self.workspace)

    @property
    def between(self) -> int:
        """Bytes that are written on the way, and read again."""
        return self.workspace_bytes

    @property
    def bytes_read(self) -> int:
        return sum(self.reads) + self.between

    @property
    def bytes_written(self) -> int:
        return sum(self.writes) + self.between

    @property
    def blocks(self) -> float:
        """Those that share the work."""
        return math.prod(self.grid)

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


def computed_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which partial results pass through memory unrounded."""
    return np.dtype(np.float32) if dtype in (np.dtype(np.float16), BFLOAT16) else dtype


def _sizes(sizes: tuple[int, ...]) -> str:
    return " + ".join(f"{n:,}" for n in sizes) or "0"
