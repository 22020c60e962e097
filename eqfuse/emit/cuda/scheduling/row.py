"""The schedule of a kernel that reduces rows on a GPU: how threads share them, and what they hold between passes.

In: a row, reduce or total body. Out: `RowsSchedule`; `row_blocks.py` lays out its blocks. Few long rows of one pass, or
of a cascade, are split among blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import OVERLAP
from eqfuse.cost.price import Price
from eqfuse.cost.roofline import LATENCY, SEGMENT
from eqfuse.cost.work import Work
from eqfuse.emit.cuda.ops import PLACES
from eqfuse.emit.cuda.scheduling.holding import Holding, held_bytes, holding, read_bytes
from eqfuse.emit.cuda.scheduling.operands import ACCESS
from eqfuse.emit.cuda.scheduling.passes import IterationSpace, Passes, levels, passes_of, space_of
from eqfuse.emit.cuda.scheduling.row_blocks import MOST_THREADS, RowBlocks, rows_of
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, computed_dtype, unless_empty
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.kinds.cascade import Cascade, cascade_of
from eqfuse.kinds.elements import bytes_read
from eqfuse.kinds.total import Totals, totals_of
from eqfuse.ops import Role

# Threads that a multiprocessor is to hold, by the bytes of their widest values, so that some compute while others wait
# for memory: layer norm of 16,384 float32 took 44 us on an H200 with 512 threads, and takes 39 with 1,024. ptxas takes
# all registers that as many leave, to interleave functions of float64
RESIDENT_THREADS = {4: 768, 8: 512, 16: 192}
# Of the shorter of work and traffic, where a multiprocessor has one block: with it, norms and softmax of 49,152 float32
# are priced at 0.89 to 1.06 of what they took on an H200
OVERLAP_ALONE = 0.25
MOST_SPLITS = 1024  # of a row in a cascade, whose parts one block joins
RESULTS = 64  # bytes of what a thread reduces, of all rows that it takes side by side
AT_WORK = 1024  # threads that a multiprocessor has room for, of those that reduce rows side by side
PARTS_READ = 4  # parts of totals that a thread reads before it joins the first
ELEMENTS_UNROLLED = 64  # elements of a thread up to which its loop over them is unrolled


@dataclass(frozen=True, kw_only=True)
class RowsSchedule(CudaSchedule):
    """`reductions` by pass; one more pass writes. `splits` blocks share a row, `per_split` elements each; a thread has
    `items` of these, and keeps their values of `held` from pass to pass, as `holding` says. `unrolled`: its loop over
    them is, as far as they lie in registers. `asked`: bytes that it reads for each element, and `finest`, of the array
    of which these are fewest.
    `cascade`: how what blocks have reduced is joined, where later reductions need earlier ones. `scans`, among the
    reductions: running values, which a thread keeps in registers too. `totals`: what is reduced over all rows; each
    block leaves what its rows add up to."""

    space: IterationSpace
    rows: RowBlocks
    reductions: tuple[tuple[Node, ...], ...]
    held: tuple[Node, ...]
    splits: int
    per_split: int
    items: int
    holding: Holding
    unrolled: bool
    asked: int
    finest: int
    cascade: Cascade | None = field(default=None, repr=False, compare=False)
    scans: tuple[Node, ...] = ()
    totals: Totals | None = field(default=None, repr=False, compare=False)
    passes: Passes = field(repr=False, compare=False)  # kept, as other bodies begin with the same ones

    @property
    def whole(self) -> bool:
        """Has every thread `items` elements, none of them beyond the row?"""
        return self.splits * self.turns * self.rows.per_turn == self.rows.columns

    @property
    def turns(self) -> int:
        """Times that a thread takes neighbours."""
        return self.items // self.rows.width

    @property
    def kept_bytes(self) -> int:
        """What a thread keeps in registers."""
        if not self.holding.as_read:
            return max([held_bytes(alive, self.items) for alive in self.passes.alive], default=0)
        return self.holding.in_registers * sum(read_bytes(n, self.rows.width) for n in self.held)

    @property
    def full_turns(self) -> int:
        """Those in which every thread finds elements, of every part of a row."""
        last = self.rows.columns - self.per_split * (self.splits - 1)
        return min(self.per_split, last) // self.rows.per_turn

    @property
    def totalled(self) -> list[Node]:
        """What is reduced over all rows, of what stands for their results."""
        return self.totals.rest.of_role(Role.REDUCTION) if self.totals else []

    @property
    def read_between(self) -> int:
        """Of a cascade, parts of what other reductions need are read again."""
        cascade = self.cascade
        if cascade is None:
            return self.workspace_bytes
        again = [{r: None for n in level for r in cascade.made_of(n)} for level in self.reductions]
        sizes = [d.itemsize * count for r in chain(*again) for d, count in (_parts(r, self.splits * self.rows.rows),)]
        after = self.workspace[len([*chain(*self.reductions)]) :]
        return sum(sizes) + sum(dtype.itemsize * count for dtype, count in after)

    def price(self, device: Device, work: Work | None = None) -> Price | None:
        price = super().price(device, work)
        return price and replace(price, seconds=price.seconds + self.join_seconds)

    @property
    def join_seconds(self) -> float:
        """A block leaves its parts and looks whether it is the last, which reads those of all, two at a time."""
        reads = len(self.reductions) * -(-self.splits // (2 * self.rows.stride))
        of_rows = (2 + reads) * LATENCY if self.splits > 1 else 0.0
        turns = -(-self.rows.groups // (PARTS_READ * math.prod(self.block)))
        return of_rows + ((2 + turns) * LATENCY if self.totals else 0.0)

    @property
    def overlap(self) -> float:
        """A multiprocessor that has room for one block waits for memory, then computes."""
        is_alone = self.rows.layout == "block" and bool(self.held) and self.resident == 1
        return OVERLAP_ALONE if is_alone else OVERLAP

    def drawn(self, device: Device) -> float:
        """Of rows side by side: what threads have asked for before they use the first of it, in whole segments."""
        threads, rows = math.prod(self.block), self.rows
        if not rows.side_by_side or not self.asked * self.turns * device.multiprocessors:
            return math.inf
        blocks = min(self.blocks, device.multiprocessors * max(1, AT_WORK // threads))
        turns = self.turns if self.unrolled else min(self.turns, rows.ahead)
        bandwidth = device.bandwidth(2 * (self.bytes_read + self.bytes_written))
        under_way = blocks * threads * turns * rows.width * self.asked
        segment = self.finest * rows.width * self.block[0] if rows.groups > 1 else SEGMENT
        return min(1.0, under_way / LATENCY / bandwidth) * min(1.0, segment / SEGMENT)

    def details(self) -> list[str]:
        lanes = self.rows.stride
        short = "a warp a row" if lanes == 32 else f"{lanes} thread{'s' * (lanes > 1)} a row"
        several = f"{self.rows.block[0] * self.rows.width} rows a block, side by side"
        who = {"warp": short, "block": "a block a row", "column": several}
        shared = f", {self.splits} blocks a row" if self.splits > 1 else ""
        held = f"a thread holds {self.kept_bytes:,} bytes" if self.held else "nothing is held"
        if self.shared_bytes:
            held += f", a block {self.shared_bytes:,} in shared memory,"
        passes = len(self.reductions)
        return [
            f"{who[self.rows.layout]}{shared}; {self.items} elements a thread, {self.rows.width} at a time",
            f"{passes} reducing pass{'es' * (passes > 1)}; {held} between passes",
        ]


@unless_empty
def rows_schedule(whole: Graph, device: Device) -> CudaSchedule:
    totals = totals_of(whole)
    body = whole if totals is None else totals.rows
    reductions = levels(body)
    space = space_of(chain(*reductions))
    first = passes_of(body, space, reductions, "nothing")
    neighbouring = (*(body.inputs if space.is_by_columns else first.inputs_apart), *filter(space.is_full, body.outputs))
    access = ACCESS // max([n.dtype.itemsize for n in neighbouring], default=ACCESS)
    results = sum([16 if r.op in PLACES else computed_dtype(r.dtype).itemsize for r in chain(*reductions)])
    most = 1 << max(1, RESULTS // results).bit_length() - 1
    rows = rows_of(space.shape, space.axes, access, most, "joined" if len(reductions) == 1 else "held")
    splits, cascade = _splits(body, space, rows, reductions, _resident(first, rows, holds=True), device)
    if cascade is not None and rows.layout == "block" and rows.stride == MOST_THREADS:
        rows = rows.halved()
        splits, cascade = _splits(body, space, rows, reductions, _resident(first, rows, holds=True), device)
    if splits == 1 and rows.side_by_side:
        rows = rows_of(space.shape, space.axes, access, most, "none")
    per_split = _per_split(rows, splits)
    splits = max(1, -(-rows.columns // per_split))
    cascade = cascade if splits > 1 else None
    again = passes_of(body, space, reductions, "reads").held
    blocks = _blocks(first, rows, device) if splits == 1 and again else [rows]
    extent = min(per_split, rows.columns)
    for rows in blocks:
        resident = _resident(first, rows, holds=True)
        passes, kept = _kept(body, space, rows, resident, reductions, extent, device)
        if kept is not None:
            break
    turns = -(-extent // rows.per_turn)
    items = rows.width * turns
    parts = [_parts(r, splits * rows.rows) for r in chain(*reductions)] if splits > 1 else []
    of_totals = [_parts(n, rows.groups) for n in totals.rest.of_role(Role.REDUCTION)] if totals else []
    count = rows.groups * (splits > 1) + (totals is not None)
    counters = [(np.dtype(np.uint32), count)] if count else []
    size = math.prod(space.shape)
    asked = [n.dtype.itemsize for n in body.inputs if n.type.size >= size]
    unrolled = bool(passes.held) or (kept is not None and items <= ELEMENTS_UNROLLED and not rows.side_by_side)
    after = bytes_read(totals.rest, totals.rest.outputs) if totals else (0,) * len(body.inputs)
    reads = [passes.elements.get(n, 0) * n.dtype.itemsize + more for n, more in zip(body.inputs, after, strict=False)]
    return RowsSchedule(
        tuple(reads), tuple(o.type.nbytes for o in whole.outputs), 1,
        grid=(rows.groups, splits), block=rows.block, resident=_resident(first, rows, bool(passes.held)),
        shared_bytes=kept.shared_bytes if kept else 0, workspace=(*parts, *of_totals, *counters),
        space=space, rows=rows, reductions=reductions, held=passes.held, splits=splits, per_split=per_split,
        items=items, holding=kept or Holding(turns), unrolled=unrolled, asked=sum(asked),
        finest=min(asked, default=0), cascade=cascade, totals=totals, passes=passes,
    )  # fmt: skip


def _kept(
    body: Graph, space: IterationSpace, rows: RowBlocks, resident: int, reductions: tuple[tuple[Node, ...], ...],
    extent: int, device: Device,
) -> tuple[Passes, Holding | None]:  # fmt: skip
    """What passes hold of `extent` elements of a row, and where; None where what is read again is read from memory."""
    turns = -(-extent // rows.per_turn)
    for hold in ("values", "reads"):
        passes = passes_of(body, space, reductions, hold)
        kept = holding(body, space, rows, resident, passes, turns, hold == "reads" and bool(passes.held), device)
        if kept is not None:
            return passes, kept
    return passes_of(body, space, reductions, "nothing"), None


def _resident(passes: Passes, rows: RowBlocks, holds: bool) -> int:
    if rows.side_by_side:
        return 2 if holds and math.prod(rows.block) <= 256 else 1
    widest = max([4, *(computed_dtype(n.dtype).itemsize for n in passes.done)])
    return -(-RESIDENT_THREADS[widest] // math.prod(rows.block))


def _blocks(passes: Passes, rows: RowBlocks, device: Device) -> list[RowBlocks]:
    """Of rows so long that a block fills a multiprocessor, first blocks half as large: two have room, so that one
    computes while the other waits, if there are as many; or their threads have registers for values of 8 bytes."""
    if rows.layout != "block" or rows.stride < MOST_THREADS:
        return [rows]
    wide = _resident(passes, rows.halved(), True) == 1
    return [rows.halved(), rows] if wide or rows.groups > device.multiprocessors else [rows]


def _splits(
    body: Graph, space: IterationSpace, rows: RowBlocks, reductions: tuple[tuple[Node, ...], ...], resident: int,
    device: Device,
) -> tuple[int, Cascade | None]:  # fmt: skip
    """How many blocks share a row: more than one in a lone pass that alone would leave the device idle; in a cascade,
    as many as hold what they read from pass to pass too. All of them run at a time, two to a multiprocessor."""
    if any(map(space.is_full, body.outputs)):
        return 1, None
    most = rows.columns * (rows.width // rows.grain) // (rows.stride * 8)
    enough = max(1, min(2 * max(1, device.multiprocessors) // rows.groups, most))
    if len(reductions) == 1:
        return enough, None
    held = min([held_bytes(passes_of(body, space, reductions, hold).held, 1) for hold in ("values", "reads")])
    room = rows.held(0, 1 if rows.side_by_side else resident)
    items = room // held // rows.width * rows.width if held else rows.columns
    splits = max(enough, -(-rows.columns // max(1, items // rows.width * rows.per_turn)))
    if splits == 1 or not items or splits > min(most, MOST_SPLITS):
        return 1, None
    cascade = cascade_of(body)
    return (1, None) if cascade is None or not _of_numbers(cascade) else (splits, cascade)


def _per_split(rows: RowBlocks, splits: int) -> int:
    """Elements of a row that each of about so many blocks takes: such as leave no part of a turn, if there are any."""
    even = max(1, -(-rows.columns // (splits * rows.grain))) * rows.grain
    turns = rows.per_turn * (rows.ahead if even >= 4 * rows.ahead * rows.per_turn else 1)
    whole = -(-even // turns) * turns
    return whole if rows.side_by_side and splits > 1 and rows.columns % whole == 0 else even


def _of_numbers(cascade: Cascade) -> bool:
    """Are parts joined by themselves and by numbers alone?"""
    placeholders = {*cascade.parts.values(), *cascade.wholes.values(), cascade.count}
    nodes = topological((*cascade.anchors.values(), *cascade.shares.values()))
    return all(n.args or n in placeholders or n.number is not None for n in nodes)


def _parts(r: Node, count: int) -> tuple[np.dtype, int]:
    """What `count` blocks leave of the reduction `r`: an element each, or a value with its place."""
    return (np.dtype(np.uint64), 2 * count) if r.op in PLACES else (computed_dtype(r.dtype), count)
