"""What has no loops of our own in C runs as the NumPy target runs it: library calls, products, windows, sorts, loops.

In: a body and a device of the C target. Out: `CallsSchedule`, the NumPy target's own at its own price.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.work import Work
from eqfuse.emit.numpy.schedule import NumpySchedule
from eqfuse.emit.numpy.scheduling import fused, single
from eqfuse.ir.graph import Graph
from eqfuse.kinds.schedule import Schedule


@dataclass(frozen=True, eq=False, kw_only=True)
class CallsSchedule(Schedule):
    """The schedule of the NumPy target."""

    by_numpy: NumpySchedule

    def price(self, device: Device, work: Work | None = None) -> Price:
        return self.by_numpy.price(numpy_side(device))

    def __str__(self) -> str:
        return f"by NumPy: {self.by_numpy}"


@lru_cache(maxsize=64)
def numpy_side(device: Device) -> Device:
    """The machine as the NumPy target sees it. (Its rates of operators and calls are in the profile as they are.)"""
    return replace(device, target="numpy")


def calls_schedule(body: Graph, device: Device) -> CallsSchedule:
    """One operator at most."""
    return _by(single(body, numpy_side(device)))


def tiles_schedule(body: Graph, device: Device) -> CallsSchedule:
    """A product or windows, with work around them, in tiles on several threads or on whole arrays."""
    return _by(fused(body, numpy_side(device)))


def _by(schedule: NumpySchedule) -> CallsSchedule:
    return CallsSchedule(schedule.reads, schedule.writes, schedule.calls, by_numpy=schedule)
