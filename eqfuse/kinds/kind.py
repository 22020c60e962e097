"""A kind: the template of a kernel, with what it may hold, what it costs, how it runs, and how it is emitted.

In: partial kernel bodies (`State`), whole bodies (`Graph`). Out: larger states, prices, schedules, source text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.roofline import roofline
from eqfuse.cost.targets import TARGETS
from eqfuse.cost.work import Work
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph
from eqfuse.kinds.schedule import Schedule

if TYPE_CHECKING:
    from eqfuse.budget import Meter
    from eqfuse.kinds.state import Call, State

Scheduler = Callable[[Graph, Device], Schedule]
Emitter = Callable[..., Any]  # of a body, its schedule and what the target adds; the result is the target's own


@dataclass(frozen=True)
class Kind:
    """One template.

    `accept(call)`: the state of the body with one more operator; or a string, why it is none; or None, which leaves the
    operator to the next kind. `price(state, bytes read, bytes written, work, device, arrays, itemsize)`: what a kernel
    costs, infinite seconds for one that cannot be emitted. By target: `schedules(body, device)` says how a body runs,
    and `emitters(body, schedule)` writes that as text; each is a function or where it stands, ``module:function``. On a
    target without a schedule there are no kernels of the kind. CUDA's emitters take the name of the function too, and
    whether 16-bit floats are rounded. `of_plans(kernel, device, meter)`, by target: what runs a kernel that holds
    plans, those of its steps, in place of an emitter; the search prices it by its schedule before there are plans.
    `merge(a, b)`: the state of a kernel that computes two values of one space at once, or why there is none, or None.

    What others ask of a kind: `is_view`, it moves nothing, its result lies in the memory of its one argument;
    `is_library`, it is one operator, by a library that takes arrays one by one; `updates`, of an update, it can write
    into the memory of the array; `pointwise`, it computes each element on its own; `reduces`, it holds reductions over
    one set of axes and what is pointwise; `scans`, running reductions too; `has_levels`, it uses what it has reduced at
    full size again; `repeats`, compiled it computes a broadcast value for each element anew; `takes_maps`, it reads
    arrays by index maps that strides do not express; `of_any_spaces`, its values may be of unlike spaces; `colour`, in
    drawings.
    """

    name: str
    accept: Callable[[Call], State | str | None]
    price: Callable[[State, int, int, Work, Device, int, int], Price] = roofline
    schedules: Mapping[str, Scheduler | str] = field(default_factory=dict, hash=False)
    emitters: Mapping[str, Emitter | str] = field(default_factory=dict, hash=False)
    of_plans: Mapping[str, Emitter | str] = field(default_factory=dict, hash=False)
    merge: Callable[[State, State], State | str | None] = lambda a, b: None
    is_view: bool = False
    is_library: bool = False
    updates: bool = False
    pointwise: bool = False
    reduces: bool = False
    scans: bool = False
    has_levels: bool = False
    repeats: bool = False
    takes_maps: bool = False
    of_any_spaces: bool = False
    colour: str = "#b0b4ba"

    @property
    def only_reduces(self) -> bool:
        """Do its reductions leave the kernel, and nothing of full size depends on them?"""
        return self.reduces and not self.has_levels

    def has_schedule_price(self, target: str) -> bool:
        """Is its price on `target` that of its schedule? A view has none, and a kind may bring a price of its own."""
        return not self.is_view and self.price is roofline and target in self.schedules

    def is_on(self, target: str) -> bool:
        """Are there kernels of this kind on `target`? A view needs no schedule."""
        return target in self.schedules or self.is_view

    def schedule(self, body: Graph, device: Device) -> Schedule:
        """How a kernel of this kind runs `body` on `device`."""
        scheduler: Scheduler = self._named("schedules", device.target)
        return scheduler(body, device)

    def emit(self, body: Graph, schedule: Schedule, device: Device, *more: Any) -> Any:
        """The text of a kernel that runs `body` as `schedule` says; `more`: what the target's emitters take beside."""
        emitter: Emitter = self._named("emitters", device.target)
        return emitter(body, schedule, *more)

    @property
    def has_plans(self) -> bool:
        """Do its kernels hold plans, those of their steps?"""
        return bool(self.of_plans)

    def emit_plans(self, kernel: Any, device: Device, meter: Meter | None = None) -> Any:
        """What runs `kernel`, one of a kind whose kernels hold plans, on `device`. `meter`: of the compile."""
        emitter: Emitter = self._named("of_plans", device.target)
        return emitter(kernel, device, meter)

    def _named(self, table: str, target: str) -> Any:
        """What the kind's row has in `table` for `target`."""
        where = getattr(self, table).get(target)
        if where is None:
            raise UnsupportedOp(
                f"the kind {self.name!r} of kernels is not on the {target} target: name what runs it there in its row, "
                f"as {table}={{{target!r}: ...}} of eqfuse.kinds.Kind"
            )
        return _imported(where) if isinstance(where, str) else where


KINDS: dict[str, Kind] = {}  # in the order in which they are asked; `eqfuse.kinds` fills it
NO_KIND = Kind("none", lambda call: None)


def kind_of(name: str) -> Kind:
    """The kind `name`; one without properties where there is none, as for a leaf and for what runs at set-up."""
    return KINDS.get(name, NO_KIND)


@cache
def _imported(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


FUSED, SINGLE = "eqfuse.emit.numpy.scheduling:fused", "eqfuse.emit.numpy.scheduling:single"
LOOPS_SCHEDULE = "eqfuse.emit.c.schedule:loops_schedule"
BY_NUMPY = "eqfuse.emit.c.calls:calls_schedule"
OWN_COPIES = "eqfuse.emit.c.copies:library_schedule"
OWN_PRODUCTS = "eqfuse.emit.c.contractions:contractions_schedule"
CALLS_SCHEDULE = "eqfuse.emit.cuda.scheduling.calls:calls_schedule"
EMITTERS = {name: f"{row.package}.kernels:source_of" for name, row in TARGETS.items()}
