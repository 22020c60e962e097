"""The schedule of library calls on a GPU: what CuPy has, one operator after another.

In: a body. Out: `CallsSchedule`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.cuda.maps import map_schedule
from eqfuse.kinds.cuda.schedule import CudaSchedule


@dataclass(frozen=True, kw_only=True)
class CallsSchedule(CudaSchedule):
    """One call of CuPy's after another."""

    @property
    def blocks(self) -> float:
        """The library's own."""
        return math.inf


def calls_schedule(body: Graph, device: Device) -> CudaSchedule:
    """One call for each operator; a gather that is too large for them is a map."""
    if any(n.op == "take" and uncounted(n) for n in body.nodes):
        return map_schedule(body, device)
    return CallsSchedule(tuple(n.type.nbytes for n in body.inputs), tuple(o.type.nbytes for o in body.outputs), 1)


def uncounted(n: Node) -> bool:
    """Has `n` places that CuPy, which counts them in 32 bits, does not find?"""
    return n.op in ("take", "scatter") and max(a.type.size for a in (n, *n.args)) >= 2**31
