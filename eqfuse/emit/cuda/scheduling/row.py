"""The schedule of a kernel that reduces rows on a GPU: how threads share them, and what they hold between passes.

In: a row or reduce body. Out: `RowsSchedule`. Three layouts: a warp or a part of one per row (short rows), a block per
row, and 32 rows side by side (the kept axis is contiguous). A thread takes neighbours of a contiguous row by accesses
of 16 bytes. Few long rows of one pass, or of a cascade, are split among blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.cuda.ops import PLACES
from eqfuse.emit.cuda.scheduling.operands import ACCESS
from eqfuse.emit.cuda.scheduling.passes import IterationSpace, Passes, levels, passes_of, space_of
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, computed_dtype, unless_empty
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.kinds.cascade import Cascade, cascade_of
from eqfuse.ops.types import Shape

WARP_ROW = 1024  # columns up to which one warp takes a row
A_LANE, A_THREAD = 16, 32  # columns that a thread takes, where so many are enough: of a warp's row, of a block's
HELD_BYTES = 256  # per thread: values kept in registers from one pass to the next, at most
REGISTERS, WORKING = 65536, 16  # of a block, and those of a thread that hold no such value; of 4 bytes
# bytes of a value in each of the threads that a multiprocessor is to hold (768 of float32), so that some compute while
# others wait for memory: layer norm of 16,384 float32 took 44 us on an H200 with 512 threads, and takes 39 with 1,024
RESIDENT = 4 * 768
ENOUGH_BLOCKS = 256  # fewer than this, and a reduction is split over several blocks
MOST_SPLITS = 1024  # of a row in a cascade, whose parts one block joins
UNROLLED = 64  # elements of a thread up to which its loop over them is unrolled
MOST_GROUPS = 2**31 - 1  # blocks that one launch may have


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """`groups` blocks of threads `block`, each of which takes one row or more; `stride` threads share the columns of
    one, `width` neighbours at a time."""

    layout: str  # "warp" | "block" | "column"
    rows: int
    columns: int
    block: tuple[int, int]
    groups: int
    stride: int
    width: int

    @property
    def held(self) -> int:
        """Bytes of values that a thread keeps in registers from one pass to the next, at most."""
        return min(HELD_BYTES, 4 * (REGISTERS // math.prod(self.block) - WORKING))


@lru_cache(maxsize=4096)
def rows_of(space: Shape, axes: tuple[int, ...], access: int) -> RowBlocks:
    """`axes` are those reduced, counted from the end; `access`: elements of every array that 16 bytes hold."""
    kept = [a for a, n in enumerate(space) if a - len(space) not in axes and n != 1]
    reduced = [a for a, n in enumerate(space) if a - len(space) in axes and n != 1]
    columns = math.prod(space[a] for a in reduced)
    rows = math.prod(space[a] for a in kept)
    if kept and reduced and kept[-1] > reduced[-1]:
        return RowBlocks("column", rows, columns, (32, 8), -(-rows // 32), 8, 1)
    is_contiguous = not kept or not reduced or kept[-1] < reduced[0]
    width = math.gcd(access, columns) if is_contiguous else 1
    if columns <= WARP_ROW:
        lanes = min(32, _power_of_two(columns / max(A_LANE, width) if width > 1 else columns))
        high = (128 if rows * lanes <= 128 * MOST_GROUPS else 1024) // lanes
        return RowBlocks("warp", rows, columns, (lanes, high), -(-rows // high), lanes, width)
    threads = min(1024, max(64, _power_of_two(columns / A_THREAD)))
    return RowBlocks("block", rows, columns, (threads, 1), rows, threads, width)


def _power_of_two(least: float) -> int:
    return 1 << max(0, math.ceil(least) - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class RowsSchedule(CudaSchedule):
    """`reductions` by pass; one more pass writes. `splits` blocks share a row, `per_split` elements each; a thread has
    `items` of these, and keeps their values of `held` from pass to pass. `unrolled`: its loop over them is.
    `cascade`: how what blocks have reduced is joined, where later reductions need earlier ones."""

    space: IterationSpace
    rows: RowBlocks
    reductions: tuple[tuple[Node, ...], ...]
    held: tuple[Node, ...]
    splits: int
    per_split: int
    items: int
    unrolled: bool
    cascade: Cascade | None = field(default=None, repr=False, compare=False)
    passes: Passes = field(repr=False, compare=False)  # kept, as other bodies begin with the same ones

    @property
    def whole(self) -> bool:
        """Has every thread `items` elements, none of them beyond the row?"""
        return self.splits * self.items * self.rows.stride == self.rows.columns

    def details(self) -> list[str]:
        lanes = self.rows.stride
        short = "a warp a row" if lanes == 32 else f"{lanes} thread{'s' * (lanes > 1)} a row"
        who = {"warp": short, "block": "a block a row", "column": "32 rows a block, side by side"}
        shared = f", {self.splits} blocks a row" if self.splits > 1 else ""
        held = f"a thread holds {held_bytes(self.held, self.items):,} bytes" if self.held else "nothing is held"
        passes = len(self.reductions)
        return [
            f"{who[self.rows.layout]}{shared}; {self.items} elements a thread, {self.rows.width} at a time",
            f"{passes} reducing pass{'es' * (passes > 1)}; {held} between passes",
        ]


@unless_empty
def rows_schedule(body: Graph, device: Device) -> CudaSchedule:
    reductions = levels(body)
    space = space_of(chain(*reductions))
    wide = (*body.inputs, *filter(space.is_full, body.outputs))
    rows = rows_of(space.shape, space.axes, ACCESS // max([n.dtype.itemsize for n in wide], default=ACCESS))
    splits, cascade = _splits(body, space, rows, reductions)
    per_split = rows.width * -(-rows.columns // (splits * rows.width))
    items = rows.width * -(-per_split // (rows.stride * rows.width))
    for hold in ("values", "reads", "nothing"):
        passes = passes_of(body, space, reductions, hold)
        if held_bytes(passes.held, items) <= rows.held:
            break
    parts = [_parts(r, splits * rows.rows) for r in chain(*reductions)] if splits > 1 else []
    counters = [(np.dtype(np.uint32), rows.groups)] if splits > 1 else []
    reads = tuple([passes.elements.get(n, 0) * n.dtype.itemsize for n in body.inputs])
    return RowsSchedule(
        reads, tuple(o.type.nbytes for o in body.outputs), 1,
        grid=(rows.groups, splits), block=rows.block, resident=_resident(body, rows),
        workspace=(*parts, *counters), space=space, rows=rows,
        reductions=reductions, held=passes.held, splits=splits, per_split=per_split, items=items,
        unrolled=hold != "nothing" and items <= UNROLLED, cascade=cascade, passes=passes,
    )  # fmt: skip


def _resident(body: Graph, rows: RowBlocks) -> int:
    widest = max([4, *(computed_dtype(n.dtype).itemsize for n in body.operators)])
    return -(-RESIDENT // (widest * math.prod(rows.block)))


def _splits(
    body: Graph, space: IterationSpace, rows: RowBlocks, reductions: tuple[tuple[Node, ...], ...]
) -> tuple[int, Cascade | None]:
    """How many blocks share a row: more than one in a lone pass that alone would leave the device idle; in a cascade,
    as many as hold what they read from pass to pass too."""
    if any(map(space.is_full, body.outputs)):
        return 1, None
    most = rows.columns // (rows.stride * 8)
    enough = max(1, min(ENOUGH_BLOCKS // rows.groups, most))
    if len(reductions) == 1:
        return enough, None
    held = min([held_bytes(passes_of(body, space, reductions, hold).held, 1) for hold in ("values", "reads")])
    items = rows.held // held // rows.width * rows.width if held else rows.columns
    splits = max(enough, -(-rows.columns // max(1, items * rows.stride)))
    if splits == 1 or not items or splits > min(most, MOST_SPLITS):
        return 1, None
    cascade = cascade_of(body)
    return (1, None) if cascade is None or not _of_numbers(cascade) else (splits, cascade)


def _of_numbers(cascade: Cascade) -> bool:
    """Are parts joined by themselves and by numbers alone?"""
    known = {*cascade.parts.values(), *cascade.wholes.values(), cascade.count}
    nodes = topological((*cascade.anchors.values(), *cascade.shares.values()))
    return all(n.args or n in known or (n.op == "const" and n.type.size == 1) for n in nodes)


def _parts(r: Node, count: int) -> tuple[np.dtype, int]:
    """What `count` blocks leave of the reduction `r`: an element each, or a value with its place."""
    return (np.dtype(np.uint64), 2 * count) if r.op in PLACES else (computed_dtype(r.dtype), count)


def held_bytes(held: tuple[Node, ...], items: int) -> int:
    """Bytes of registers, of which no value takes less than one."""
    return sum(items * max(n.dtype.itemsize, 4) for n in held)
