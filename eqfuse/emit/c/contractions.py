"""Which of our kernels runs a body around products or a convolution.

In: a body of kind contract or back_to_back, a device. Out: its schedule.
"""

from __future__ import annotations

from eqfuse.cost.device import Device
from eqfuse.emit.c.calls import tiles_schedule
from eqfuse.emit.c.convolution.schedule import convolution_schedule
from eqfuse.emit.c.product.schedule import products_schedule
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph
from eqfuse.kinds.schedule import Schedule


def contractions_schedule(body: Graph, device: Device) -> Schedule:
    """A convolution is the NumPy target's only where we have no form of it."""
    if not any(n.op == "conv" for n in body.nodes):
        return products_schedule(body, device)
    try:
        return convolution_schedule(body, device)
    except UnsupportedOp:
        return tiles_schedule(body, device)
