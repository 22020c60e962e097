"""A kind: the template of a kernel, with what it may hold, what it costs, how it runs, and how it is emitted.

In: partial kernel bodies (`State`), whole bodies (`Graph`). Out: larger states, prices, schedules, source text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.roofline import roofline
from eqfuse.cost.work import Work
from eqfuse.ir.graph import Graph
from eqfuse.kinds.schedule import Schedule
from eqfuse.kinds.state import Call, State

Scheduler = Callable[[Graph, Device], Schedule]
Emitter = Callable[[Graph, Any], Any]  # of a body and its schedule; the result is the target's own


@dataclass(frozen=True)
class Kind:
    """One template.

    `accept(call)`: the state of the body with one more operator; or a string, why it is none; or None, which leaves the
    operator to the next kind. `price(state, bytes read, bytes written, work, device, arrays, itemsize)`: what a kernel
    costs, infinite seconds for one that cannot be emitted. By target: `schedules(body, device)` says how a body runs,
    and `emitters(body, schedule)` writes that as text; each is a function or where it stands, ``module:function``.
    """

    name: str
    accept: Callable[[Call], State | str | None]
    price: Callable[[State, int, int, Work, Device, int, int], Price] = roofline
    schedules: Mapping[str, Scheduler | str] = field(default_factory=dict, hash=False)
    emitters: Mapping[str, Emitter | str] = field(default_factory=dict, hash=False)

    def schedule(self, body: Graph, device: Device) -> Schedule:
        """How a kernel of this kind runs `body` on `device`."""
        scheduler: Scheduler = _found(self.schedules[device.target])
        return scheduler(body, device)

    def emit(self, body: Graph, schedule: Schedule, device: Device) -> Any:
        """The text of a kernel that runs `body` as `schedule` says."""
        emitter: Emitter = _found(self.emitters[device.target])
        return emitter(body, schedule)


def _found(where: Callable[..., Any] | str) -> Any:
    if not isinstance(where, str):
        return where
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


FUSED, SINGLE = "eqfuse.emit.numpy.scheduling:fused", "eqfuse.emit.numpy.scheduling:single"
EMITTERS = {"numpy": "eqfuse.emit.numpy.kernels:source_of"}
