"""A kind: the template of a kernel, with what it may hold, what it costs, and how it is emitted.

In: partial kernel bodies (`State`), whole bodies (`Graph`). Out: larger states, prices, source text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.roofline import Work, roofline
from eqfuse.ir.graph import Graph
from eqfuse.kinds.cuda.calls import calls_schedule
from eqfuse.kinds.cuda.schedule import CudaSchedule
from eqfuse.kinds.state import Call, State

if TYPE_CHECKING:
    from eqfuse.emit.numpy.source import Source


@dataclass(frozen=True)
class Kind:
    """One template.

    `accept(call)`: the state of the body with one more operator; or a string, why it is none; or None, which leaves the
    operator to the next kind. `price(state, bytes read, bytes written, work, device, arrays, itemsize)`: what a kernel
    costs, infinite seconds for one that cannot be emitted. `numpy(body, device)`: the source of its NumPy kernel, whose
    function is ``run(outs, ins)``; None for the panels and calls of `eqfuse.emit.numpy.kernels`. `cuda(body, device)`:
    how its kernel runs on a GPU; by library calls where nothing else is said.
    """

    name: str
    accept: Callable[[Call], State | str | None]
    price: Callable[[State, int, int, Work, Device, int, int], Price] = roofline
    numpy: Callable[[Graph, Device], Source] | None = None
    cuda: Callable[[Graph, Device], CudaSchedule] = calls_schedule
