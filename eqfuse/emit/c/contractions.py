"""Which of our kernels runs a body around products, a convolution or pooling.

In: a body of kind contract, back_to_back or window, a device. Out: its schedule.
"""

from __future__ import annotations

from eqfuse.cost.device import Device
from eqfuse.emit.c.calls import tiles_schedule
from eqfuse.emit.c.convolution.schedule import convolution_schedule
from eqfuse.emit.c.product.schedule import products_schedule
from eqfuse.emit.c.sliding.schedule import windows_schedule
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops import Role


def contractions_schedule(body: Graph, device: Device) -> Schedule:
    """A convolution or pooling is the NumPy target's only where we have no form of it; there is none there of both."""
    is_convolution = any(n.op == "conv" for n in body.nodes)
    is_pooling = body.of_role(Role.WINDOW)
    if not is_convolution and not is_pooling:
        return products_schedule(body, device)
    try:
        return convolution_schedule(body, device) if is_convolution else windows_schedule(body, device)
    except UnsupportedOp:
        if is_convolution and is_pooling:
            raise
        return tiles_schedule(body, device)
