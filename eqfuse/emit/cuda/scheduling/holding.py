"""Where a block that reduces rows keeps their elements from one pass to the next: in registers, and in shared memory.

In: what later passes need again, the threads that share a row, the device. Out: `Holding`; None where both are too
small. Next stop: `row.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.emit.cuda.scheduling.operands import ACCESS
from eqfuse.emit.cuda.scheduling.passes import IterationSpace, Passes, values_behind
from eqfuse.emit.cuda.scheduling.row_blocks import RowBlocks
from eqfuse.ir.graph import Graph, Node

REGISTER = 4  # bytes
RESERVED = 1024  # bytes of shared memory that each block takes beside its own
JOINING = 2048  # bytes of a block's shared memory by way of which its threads join what they have reduced, at most


@dataclass(frozen=True)
class Holding:
    """Of the turns of a thread, those `in_registers`; what it takes in the others lies in `shared_bytes` of its block.
    `as_read`: as it lies in memory, neighbours side by side."""

    in_registers: int
    shared_bytes: int = 0
    as_read: bool = False


def holding(
    body: Graph, space: IterationSpace, rows: RowBlocks, resident: int, passes: Passes, turns: int, as_read: bool,
    device: Device,
) -> Holding | None:  # fmt: skip
    """Of `passes`, that hold what they have computed, or only what they have read (`as_read`), a thread in so many
    `turns`; for so many `resident` blocks a multiprocessor has registers."""
    passing = len(passes.inputs_apart - values_behind(passes.held)) + sum(map(space.is_full, body.outputs))
    beside = passing * rows.width * REGISTER
    if not as_read or rows.side_by_side:
        if rows.side_by_side:
            room, kept = rows.held(), passes.held
        else:  # what is made of a value takes its place
            room = rows.held(beside - ACCESS, resident)
            kept = max(passes.alive, key=lambda alive: held_bytes(alive, 1), default=())
        return Holding(turns) if held_bytes(kept, turns * rows.width) <= room else None
    each = sum(read_bytes(n, rows.width) for n in passes.held)
    at_hand = ACCESS + rows.width * REGISTER  # as it is read, and unpacked
    in_registers = min(turns, rows.held(beside + at_hand, resident) // each)
    shared = (turns - in_registers) * math.prod(rows.block) * sum(rows.width * n.dtype.itemsize for n in passes.held)
    most = min(device.shared_bytes, device.l1_bytes // resident - RESERVED) - JOINING
    if shared and (rows.layout != "block" or shared > most):
        return None
    return Holding(in_registers, shared, as_read=True)


def held_bytes(held: tuple[Node, ...], items: int) -> int:
    """Bytes of registers, of which no value takes less than one."""
    return sum(items * max(n.dtype.itemsize, REGISTER) for n in held)


def read_bytes(n: Node, width: int) -> int:
    """The same for neighbours of an array as they lie in memory; of another value, one by one."""
    size = width * n.dtype.itemsize if n.op in ("input", "const") else width * max(n.dtype.itemsize, REGISTER)
    return max(size, REGISTER)
