"""Which threads take which elements of rows that are reduced: the layout of blocks.

In: the space, the axes reduced, the sizes of elements. Out: `RowBlocks`. Three layouts: a warp or a part of one per
row (short rows), a block per row, and rows side by side (the kept axis is contiguous). A thread takes neighbours by
accesses of 16 bytes: of a contiguous row, or of rows side by side. Next stop: `row.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from eqfuse.ops.types import Shape

WARP_ROW = 1024  # columns up to which one warp takes a row
MOST_THREADS = 1024  # of a block
A_LANE, A_THREAD = 16, 32  # columns that a thread takes, where so many are enough: of a warp's row, of a block's
THREADS_OF_A_ROW = 4  # that share a short row: 64 bytes side by side; alone, one took 55 us on an H200 instead of 35
HELD_BYTES = 256  # that a thread keeps in registers from one pass to the next, at most
BLOCK_REGISTERS, WORKING = 65536, 16  # of a block, and those of a thread that hold no such value; of 4 bytes
WORKING_ALONGSIDE = 32  # those of a thread that takes rows side by side
MOST_GROUPS = 2**31 - 1  # blocks that one launch may have
SIDE_BY_SIDE = 512  # threads of a block that takes parts of rows side by side
A_COLUMN = 8  # elements that a thread takes of such a row, where so many are enough
UNDER_WAY = 64  # bytes of such rows that a thread has asked for before it uses the first of them
READ_SEGMENT, HELD_SEGMENT = 32, 128  # bytes side by side that a block reads, at least; of parts that are held, at most
# Threads of a block that holds rows side by side, and bytes of each of them, the best first: a multiprocessor has room
# for two such blocks, then for one
HOLDING = ((256, 256), (512, 256), (1024, 128))
ENOUGH_BLOCKS = 256  # fewer than this, and a block takes fewer rows side by side


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """`groups` blocks of threads `block`, each of which takes one row or more; `stride` threads share the columns of
    one. A thread takes `width` neighbours at a time, of one row or of as many rows `side_by_side`, and asks for those
    of `ahead` turns before it uses the first."""

    layout: str  # "warp" | "block" | "column"
    rows: int
    columns: int
    block: tuple[int, int]
    groups: int
    stride: int
    width: int
    ahead: int = 4

    @property
    def side_by_side(self) -> bool:
        return self.layout == "column"

    @property
    def grain(self) -> int:
        """Elements of a row that a thread takes at a time."""
        return 1 if self.side_by_side else self.width

    @property
    def per_turn(self) -> int:
        """Elements of a row that its threads take at a time."""
        return self.stride * self.grain

    def halved(self) -> RowBlocks:
        """Half as many threads for each row, which have a block of their own."""
        return replace(self, block=(self.stride // 2, 1), stride=self.stride // 2)

    def held(self, beside: int = 0, resident: int = 1) -> int:
        """Bytes of values that a thread keeps in registers from one pass to the next, at most, where it has so many
        bytes `beside` them, and its multiprocessor so many blocks."""
        working = WORKING_ALONGSIDE if self.side_by_side else WORKING
        registers = BLOCK_REGISTERS // (resident * math.prod(self.block)) - working
        return max(0, min(HELD_BYTES, 4 * registers - max(0, beside)))


@lru_cache(maxsize=4096)
def rows_of(space: Shape, axes: tuple[int, ...], access: int, most: int, parts: str = "joined") -> RowBlocks:
    """`axes` are those reduced, counted from the end; `access`: elements of every array that 16 bytes hold. `most`:
    rows whose results a thread has room for. `parts`, of rows side by side: "joined" at the end, "held" until then, or
    "none", where a block takes whole rows."""
    kept = [a for a, n in enumerate(space) if a - len(space) not in axes and n != 1]
    reduced = [a for a, n in enumerate(space) if a - len(space) in axes and n != 1]
    columns = math.prod(space[a] for a in reduced)
    rows = math.prod(space[a] for a in kept)
    if kept and reduced and kept[-1] > reduced[-1]:
        lying = math.prod(space[a] for a in kept if a > reduced[-1])
        return _side_by_side(rows, columns, math.gcd(access, lying, most), access, parts)
    lying = math.prod(space[a] for a in reduced if not kept or a > kept[-1])
    width = math.gcd(access, lying)
    if columns <= WARP_ROW:
        shared = columns if width == 1 else max(columns / max(A_LANE, width), min(THREADS_OF_A_ROW, columns / width))
        lanes = min(32, _power_of_two(shared))
        high = (128 if rows * lanes <= 128 * MOST_GROUPS else 1024) // lanes
        return RowBlocks("warp", rows, columns, (lanes, high), -(-rows // high), lanes, width)
    threads = min(MOST_THREADS, max(64, _power_of_two(columns / A_THREAD)))
    return RowBlocks("block", rows, columns, (threads, 1), rows, threads, width)


def _side_by_side(rows: int, columns: int, width: int, access: int, parts: str) -> RowBlocks:
    """Threads side by side read neighbours, others the same rows further down."""
    vectors, bytes_each = rows // width, 16 * width // access
    threads, across = SIDE_BY_SIDE, min(32, _power_of_two(vectors))
    if parts == "held":  # two blocks have room; few rows each, so that those which join parts are more
        threads, across = HOLDING[0][0], min(across, max(1, HELD_SEGMENT // bytes_each))
    if parts == "none":
        threads, across = _whole(vectors, columns, width, across, min(across, max(1, READ_SEGMENT // bytes_each)))
    lanes = min(threads // across, _power_of_two(columns / A_COLUMN))
    if across * lanes < 128:
        across = min(_power_of_two(vectors), 128 // lanes)
    ahead = max(2, min(16, UNDER_WAY // bytes_each))
    return RowBlocks("column", rows, columns, (across, lanes), -(-vectors // across), lanes, width, ahead)


def _whole(vectors: int, columns: int, width: int, most: int, least: int) -> tuple[int, int]:
    """How many threads, and how many of them side by side, where a block takes whole rows: so few side by side that
    there are blocks enough, and that threads hold their elements, if that is possible."""
    across = [most >> n for n in range(most.bit_length()) if most >> n >= least]
    enough = [n for n in across if -(-vectors // n) >= ENOUGH_BLOCKS] or across[-1:]
    for threads, held in HOLDING:
        for n in enough:
            if 4 * width * -(-columns // (threads // n)) <= held:
                return threads, n
    return 1024, enough[0]


def _power_of_two(least: float) -> int:
    return 1 << max(0, math.ceil(least) - 1).bit_length()
