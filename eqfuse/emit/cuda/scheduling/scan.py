"""The schedule of a kernel that scans along rows on a GPU: running sums and the like, with the work around them.

In: a scan body. Out: `ScansSchedule`, or CuPy's call of a lone scan that has none. A block has a row in registers;
longer rows, and few of them, are shared by blocks that each wait for the sums of those before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.roofline import LATENCY
from eqfuse.cost.work import NOTHING, Work
from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.scheduling.calls import calls_schedule
from eqfuse.emit.cuda.scheduling.holding import Holding, held_bytes
from eqfuse.emit.cuda.scheduling.operands import ACCESS
from eqfuse.emit.cuda.scheduling.passes import levels, passes_of, space_of
from eqfuse.emit.cuda.scheduling.row import ELEMENTS_UNROLLED, RowsSchedule
from eqfuse.emit.cuda.scheduling.row_blocks import RowBlocks, rows_of
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, computed_dtype, unless_empty
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops import Role

SHARING = 512  # threads of a block that shares a row with others
SHARED_BYTES = 160  # that such a thread keeps in registers, at most
MOST_PARTS = 8192  # of a row; the last block reads the sums of all


@dataclass(frozen=True, kw_only=True)
class ScansSchedule(RowsSchedule):
    """`splits` blocks share a row: each leaves the sum of its part, marks that it has, and reads those of all parts
    before its own, in blocks that began earlier."""

    @property
    def full_turns(self) -> int:
        """The last threads of rows side by side may have none at all."""
        return self.turns if self.whole else 0

    @property
    def read_between(self) -> int:
        """The last part's sums are read by no block, the marks that tell of the launch before by their own."""
        if self.splits == 1:
            return 0
        unread = sum(computed_dtype(n.dtype).itemsize for n in self.scans) * self.rows.rows
        return self.workspace_bytes - unread + np.dtype(np.uint32).itemsize * self.splits * self.rows.groups

    @property
    def join_seconds(self) -> float:
        """A block asks which part it takes, leaves its sums, and reads those before, which took as long to be left."""
        return (4 + -(-self.splits // self.rows.stride)) * LATENCY if self.splits > 1 else 0.0

    def price(self, device: Device, work: Work | None = None) -> Price | None:
        """Sums of earlier parts, and their marks, are read by every later block, from the cache."""
        price = super().price(device, work)
        sums = sum(computed_dtype(n.dtype).itemsize for n in self.scans) * self.rows.rows
        sums += np.dtype(np.uint32).itemsize * len(self.scans) * self.rows.groups
        again = self.splits * max(0, self.splits - 3) // 2 * sums
        return price and replace(price, seconds=price.seconds + again / 2 / device.bandwidth(again or 1))

    def details(self) -> list[str]:
        first, *_ = super().details()
        kept = held_bytes(self.held, self.items)
        return [first, f"{len(self.scans)} scan{'s' * (len(self.scans) > 1)}; a thread holds {kept:,} bytes"]


@unless_empty
def scan_schedule(body: Graph, device: Device) -> CudaSchedule:
    """UnsupportedOp where no kernel scans `body`; a lone scan is then a call of CuPy's."""
    try:
        return min(ways(body), key=lambda way: _seconds(way, device))
    except UnsupportedOp:
        if len(body.operators) == 1:
            return calls_schedule(body, device)
        raise


def _seconds(way: ScansSchedule, device: Device) -> float:
    price = way.price(device, NOTHING)
    return price.seconds if price else 0.0


def ways(body: Graph) -> list[ScansSchedule]:
    """A block for each row, and rows shared by blocks, as far as threads hold their elements."""
    reductions = levels(body)
    every = tuple(chain(*reductions))
    scans = tuple(n for n in every if n.row.role is Role.SCAN)
    space = space_of(every)
    for n in scans:
        ops.scanned_reduction(n)
    wide = (*body.inputs, *filter(space.is_full, body.outputs))
    access = ACCESS // max(n.dtype.itemsize for n in wide)
    if not scans or len(space.wide(True)) != 1 or 0 in space.shape:
        raise UnsupportedOp("a cuda kernel scans arrays with elements, along one axis that has more than one")
    held = rows_of(space.shape, space.axes, access, access, "held")
    candidates = []
    for rows in _blocks(held):
        candidates.append(_way(body, rows, reductions, scans, -(-rows.columns // rows.per_turn), rows.held()))
    alone = len(reductions) == 1 and len(scans) == len(every) and all(map(space.is_full, body.outputs))
    if alone and held.layout != "warp":
        rows = held if held.side_by_side else replace(held, block=(SHARING, 1), stride=SHARING)
        candidates += [_way(body, rows, reductions, scans, turns, SHARED_BYTES) for turns in (1, 2, 4, 8, 16, 32)]
    ways = [way for way in candidates if way is not None]
    if not ways:
        raise UnsupportedOp("the rows that a cuda kernel scans are too long")
    return ways


def _blocks(rows: RowBlocks) -> list[RowBlocks]:
    """Those that may have whole rows: of ever more threads for each."""
    if rows.layout == "warp":
        return [rows]
    threads = math.prod(rows.block)
    more = [threads << n for n in range(5) if threads << n <= 1024]
    if not rows.side_by_side:
        return [replace(rows, block=(threads, 1), stride=threads) for threads in more]
    vectors, some = rows.rows // rows.width, [rows.block[0] >> n for n in range(3) if rows.block[0] >> n]
    return [replace(rows, block=(across, threads // across), groups=-(-vectors // across), stride=threads // across)
            for threads in more for across in some]  # fmt: skip


def _resident(rows: RowBlocks) -> int:
    """Blocks of 1,024 threads in all; of 8 rows side by side, half as many, for which ptxas has registers enough."""
    return max(1, (512 if rows.side_by_side and rows.width > 4 else 1024) // math.prod(rows.block))


def _way(
    body: Graph, rows: RowBlocks, reductions: tuple[tuple[Node, ...], ...], scans: tuple[Node, ...], turns: int,
    most: int,
) -> ScansSchedule | None:  # fmt: skip
    """Threads that take `turns` neighbours each and have room for `most` bytes. None where that is not enough."""
    items, space = rows.width * turns, space_of(chain(*reductions))
    splits = -(-rows.columns // (turns * rows.per_turn))
    own = max(computed_dtype(n.dtype).itemsize for n in scans) * turns if rows.layout == "block" else 0
    fitting = (passes for hold in ("values", "reads") for passes in (passes_of(body, space, reductions, hold),)
               if own + held_bytes((*scans, *passes.held), items) <= most)  # fmt: skip
    passes = next(fitting, None)
    if passes is None or items > ELEMENTS_UNROLLED or splits > MOST_PARTS:
        return None
    parts = [(computed_dtype(n.dtype), splits * rows.rows) for n in scans] if splits > 1 else []
    marks = [(np.dtype(np.uint32), 1 + len(scans) * splits * rows.groups)] if splits > 1 else []
    asked = [n.dtype.itemsize for n in body.inputs if n.type.size >= math.prod(space.shape)]
    reads = tuple([passes.elements.get(n, 0) * n.dtype.itemsize for n in body.inputs])
    return ScansSchedule(
        reads, tuple(o.type.nbytes for o in body.outputs), 1, grid=(rows.groups * splits, 1), block=rows.block,
        resident=_resident(rows) if splits > 1 else 1, workspace=(*parts, *marks), space=space,
        rows=rows, reductions=reductions, held=(*scans, *passes.held), splits=splits,
        per_split=turns * rows.per_turn if splits > 1 else rows.columns, items=items, holding=Holding(turns),
        unrolled=True, asked=sum(asked), finest=min(asked, default=0), passes=passes, scans=scans,
    )  # fmt: skip
