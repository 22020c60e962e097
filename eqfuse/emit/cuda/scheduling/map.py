"""The schedule of a map on a GPU: a grid-stride loop over the shape of the results, 16 bytes a thread and turn.

In: a map body. Out: `MapSchedule`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, unless_empty
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph
from eqfuse.kinds.elements import bytes_read

THREADS = 256
MOST_BLOCKS = 132 * 8 * 16  # sixteen waves of the largest device; a thread then takes more than one turn


@dataclass(frozen=True, kw_only=True)
class MapSchedule(CudaSchedule):
    """A thread computes `width` neighbours at a time."""

    width: int

    def details(self) -> list[str]:
        return [f"{self.width} neighbours a thread and turn"]


@unless_empty
def map_schedule(body: Graph, device: Device) -> CudaSchedule:
    shape = body.outputs[0].shape
    if any(o.shape != shape for o in body.outputs):
        raise UnsupportedOp("a cuda map kernel writes results of one shape")
    size = math.prod(shape)
    widest = max(n.dtype.itemsize for n in (*body.inputs, *body.outputs))
    width = math.gcd(16 // widest, size)  # elements per access of 16 bytes, as far as they divide the result
    blocks = max(1, min(MOST_BLOCKS, -(-size // (THREADS * width))))
    return MapSchedule(bytes_read(body, body.outputs), tuple(o.type.nbytes for o in body.outputs), 1,
                       grid=(blocks, 1), block=(THREADS, 1), width=width)  # fmt: skip
