"""Copies: views of one array that strides cannot express, as loops in C, or by NumPy where that is cheaper.

In: a body of kind library, and a device of the C target. Out: its schedule. Next stop: `emit/c/kernels.py`.
"""

from __future__ import annotations

from eqfuse.cost.device import Device
from eqfuse.emit.c.calls import calls_schedule
from eqfuse.emit.c.schedule import loops_schedule
from eqfuse.emit.numpy.temporaries import unreshaped
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph
from eqfuse.kinds.schedule import Schedule


def library_schedule(body: Graph, device: Device) -> Schedule:
    """A call of NumPy; of views alone, the loops that write their elements in order, if these are cheaper."""
    calls = calls_schedule(body, device)
    if body.computations:
        return calls
    try:
        loops = loops_schedule(Graph(body.inputs, tuple(map(unreshaped, body.outputs))), device)
    except UnsupportedOp:
        return calls
    price = loops.price(device)
    return loops if price is not None and price.seconds < calls.price(device).seconds else calls
