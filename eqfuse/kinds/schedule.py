"""A schedule: how one body runs on a device. Its kind makes it; its price is the kernel's, and the emitter follows it.

In: a body and a device, by the kind. Out: `Schedule`, of which every target has its own, with what its emitter needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.work import Work
from eqfuse.summary import count


@dataclass(frozen=True)
class Schedule:
    """What every target's schedule says.

    `reads` and `writes`: bytes that pass between memory and each array that the body reads or writes, in the order of
    its inputs and outputs, all passes over it together; an array whose parts stay on chip from one pass to the next is
    read once. `calls`: library calls or launches.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    calls: int

    def price(self, device: Device, work: Work | None = None) -> Price | None:
        """What the schedule costs. `work`: the work of its operators as the search sums it, with what is computed again
        for several readers; None without it, where a schedule does not count its own."""
        return None

    def __str__(self) -> str:
        return count(self.calls, "call") if self.calls else "nothing to compute"
