"""How the threads of a GPU share rows that are reduced. In: a space and its reduced axes. Out: `Rows`, with which
`kinds/row.py` prices a kernel and `emit/cuda/row.py` emits it.

Three layouts: a warp per row (short rows), a block per row, and 32 rows side by side (the kept axis is contiguous).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from eqfuse.ops.types import Shape

WARP_ROW = 1024  # columns up to which one warp takes a row
HELD_BYTES = 256  # per thread: values kept in registers from one pass to the next, at most
REGISTERS, WORKING = 65536, 16  # of a block, and those of a thread that hold no such value; of 4 bytes
MOST_GROUPS = 2**31 - 1  # blocks that one launch may have


@dataclass(frozen=True, slots=True)
class Rows:
    """`groups` blocks of threads `block`, each of which takes one row or more; `stride` threads share the columns of
    one."""

    layout: str  # "warp" | "block" | "column"
    rows: int
    columns: int
    block: tuple[int, int]
    groups: int
    stride: int

    @property
    def items(self) -> int:
        """Columns that one thread takes of a row that is not split."""
        return -(-self.columns // self.stride)

    @property
    def held(self) -> int:
        """Bytes of values that a thread keeps in registers from one pass to the next, at most."""
        return min(HELD_BYTES, 4 * (REGISTERS // math.prod(self.block) - WORKING))


@lru_cache(maxsize=4096)
def rows_of(space: Shape, axes: tuple[int, ...]) -> Rows:
    """`axes` are those reduced, counted from the end."""
    kept = [a for a, n in enumerate(space) if a - len(space) not in axes and n != 1]
    reduced = [a for a, n in enumerate(space) if a - len(space) in axes and n != 1]
    columns = math.prod(space[a] for a in reduced)
    rows = math.prod(space[a] for a in kept)
    if kept and reduced and kept[-1] > reduced[-1]:
        return Rows("column", rows, columns, (32, 8), -(-rows // 32), 8)
    if columns <= WARP_ROW:
        warps = 4 if rows <= 4 * MOST_GROUPS else 32
        return Rows("warp", rows, columns, (32, warps), -(-rows // warps), 32)
    threads = min(1024, max(64, 1 << (columns // 8 - 1).bit_length()))
    return Rows("block", rows, columns, (threads, 1), rows, threads)
