"""The schedule of maps side by side in one launch: the blocks of one behind those of the other.

In: a body whose outputs are maps. Out: `SideBySideSchedule`, with that of each map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from eqfuse.cost.device import Device
from eqfuse.emit.cuda.scheduling.map import THREADS, MapSchedule, map_schedule
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import computes


@dataclass(frozen=True)
class SideBySidePart:
    """One map: its `body`, which of the kernel's arrays it reads and writes, and the schedule of its blocks."""

    body: Graph
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    schedule: MapSchedule


@dataclass(frozen=True, kw_only=True)
class SideBySideSchedule(CudaSchedule):
    """The blocks of each of the `parts`, in order."""

    parts: tuple[SideBySidePart, ...]

    @property
    def firsts(self) -> list[int]:
        """The first block of each part."""
        return [0, *accumulate(part.schedule.grid[0] for part in self.parts[:-1])]

    def details(self) -> list[str]:
        blocks = " + ".join([str(part.schedule.grid[0]) for part in self.parts])
        return [f"{len(self.parts)} maps side by side, of {blocks} blocks"]


def side_by_side_schedule(body: Graph, device: Device) -> SideBySideSchedule:
    parts = tuple([_part(body, writes, device) for writes in _apart(body)])
    reads, written = [0] * len(body.inputs), [0] * len(body.outputs)
    for part in parts:
        for i, nbytes in zip(part.reads, part.schedule.reads, strict=True):
            reads[i] += nbytes
        for i, nbytes in zip(part.writes, part.schedule.writes, strict=True):
            written[i] += nbytes
    blocks = sum(part.schedule.grid[0] for part in parts)
    return SideBySideSchedule(tuple(reads), tuple(written), 1, grid=(blocks, 1), block=(THREADS, 1), parts=parts)


def _apart(body: Graph) -> list[list[int]]:
    """The outputs by maps: those of one shape that share work are of one."""
    maps: list[tuple[set[Node], list[int]]] = []
    for number, output in enumerate(body.outputs):
        work = {n for n in Graph(body.inputs, (output,)).nodes if computes(n)}
        shared = [m for m in maps if body.outputs[m[1][0]].shape == output.shape and not m[0].isdisjoint(work)]
        whole = work.union(*[held for held, _ in shared])
        maps = [m for m in maps if m not in shared]
        maps.append((whole, [*(other for _, writes in shared for other in writes), number]))
    return [writes for _, writes in maps]


def _part(body: Graph, writes: Sequence[int], device: Device) -> SideBySidePart:
    outputs = tuple([body.outputs[i] for i in writes])
    needed = {*Graph(body.inputs, outputs).nodes}
    reads = tuple([i for i, n in enumerate(body.inputs) if n in needed])
    own = Graph(tuple([body.inputs[i] for i in reads]), outputs)
    schedule = map_schedule(own, device)
    if not isinstance(schedule, MapSchedule):
        raise UnsupportedOp("tiles through shared memory, and maps of nothing, have launches of their own")
    return SideBySidePart(own, reads, tuple(writes), schedule)
