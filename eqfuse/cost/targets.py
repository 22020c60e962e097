"""Targets: what programs are emitted for. One row each: what a user calls it, and the package that emits for it.

In: "numpy", "cpu", "c", "cuda", "cuda:h100", or a `Device`. Out: the `Device`, and the package of its target.
A target is a package with the entry points of `Package`; its rows in the tables of kinds say which kernels it emits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES
from eqfuse.errors import EqfuseError, TargetUnavailable, user_level
from eqfuse.machine.thread_limit import thread_count

if TYPE_CHECKING:
    from eqfuse.budget import Meter
    from eqfuse.cost.price import Price
    from eqfuse.cost.work import Jumps, Work
    from eqfuse.emit.executable import Executable
    from eqfuse.ir.graph import Graph
    from eqfuse.kinds.state import State
    from eqfuse.ops.literal import Literal
    from eqfuse.ops.types import TensorType
    from eqfuse.plan.memory import Needs
    from eqfuse.plan.plan import Kernel, Plan


class Package(Protocol):
    """What a target's package offers."""

    def device(self) -> Device:
        """The device of this kind in this machine; TargetUnavailable where there is none."""

    def emits(self, op: str, dtypes: Sequence[np.dtype], result: np.dtype) -> bool:
        """May `op`, of arguments of `dtypes`, share a kernel with others? `op`: an operator that is elementwise, a
        reduction, joined of pieces or a gather."""

    def emit(self, plan: Plan, carried: Mapping[int, int] | None = None, meter: Meter | None = None) -> Executable:
        """What runs `plan`. UnsupportedOp when a kernel cannot be emitted. `carried`: of a loop's step, as
        `plan.in_place.updates` takes it; given to targets whose row says `in_place`. `meter`: of the compile; given to
        targets whose row says `compiles`."""

    def needs(self, kernel: Kernel, device: Device) -> Needs:
        """The memory that `kernel` takes beside what it reads and writes."""


class CallPrices(Protocol):
    """What the module of a row's `calls` offers."""

    def call_work(
        self, op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device, steps: Jumps,
        literal: Literal | None,
    ) -> Work:  # fmt: skip
        """What one application of `op` costs; arguments as those of `roofline.work`."""

    def kernel_seconds(
        self, state: State, traffic: int, work: Work, device: Device, itemsize: int
    ) -> tuple[float, float, Work]:
        """An estimate of a kernel: its seconds, those of its memory, and its work; `traffic` in bytes."""


class Estimates(Protocol):
    """What the module of a row's `estimates` offers."""

    def operator_work(
        self, op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device,
        literal: Literal | None,
    ) -> Work:  # fmt: skip
        """What one application of `op` costs in a compiled kernel; arguments as those of `roofline.work`."""

    def kernel_price(self, state: State, read: int, written: int, work: Work, device: Device, itemsize: int) -> Price:
        """What a compiled kernel costs about."""

    def has_schedule(self, state: State) -> bool:
        """Is it known that a kernel of `state` has a schedule, whatever it computes?"""

    def is_near(self, state: State) -> bool:
        """Is the estimate of a kernel of `state` near the price of its schedule, if it has one?"""


class IterationPrices(Protocol):
    """What the module of a row's `iterations` offers."""

    def iteration_seconds(self, step: Plan) -> float | None:
        """What an iteration of a loop takes, the kernels of its `step` among it; None where Python runs it."""

    def advance_seconds(self, step: Graph) -> float | None:
        """What it takes to go from a step, of which there is no plan yet, to the next; None likewise."""


_ENTRIES = [name for name in vars(Package) if not name.startswith("_")]


@dataclass(frozen=True)
class Target:
    """One row. `package` is the name of a module that is imported when it is first used; `names` are what a user calls
    the target on the device of this machine; `profiles`: "name:profile" are other devices of it. `calls`: the module
    that prices kernels which are sequences of calls, each on a tile or a whole array (`CallPrices`); without one, a
    kernel is compiled, one loop over all its operators. `searches_schedules`: the search makes the schedule of every
    kernel that it prices; else it estimates from states, and schedules settle the prices of those that it chooses.
    `estimates`: the module by which candidates are chosen whose schedules the search then makes (`Estimates`); without
    one it makes those of all. `iterations`: the module that prices iterations of loops which run without Python
    (`IterationPrices`); without one, Python runs all of them. `meanwhile`: the target on which a program may run while
    its kernels are compiled. `in_place`: updates of a loop's carries write where these lie. `copies_overlap`: a copy
    is right where what it reads and what it writes overlap. `reads_blocks`: what kernels read again from main memory
    may be read once, block by block, by a loop over blocks that stay in a cache. `holds_tiles`: a kernel holds a
    tile of each of its values in memory, which takes less where tiles are smaller. `copies_operands`: products and
    windows are loops of our own, which copy the operands block by block and may compute them on the way. `compiles`:
    to emit a program takes seconds, which its compile's meter counts. `offloads`: kernels are launched on a device
    with a memory of its own, where a call copies its arguments; the operators of a step are one launch."""

    package: str
    names: tuple[str, ...]
    profiles: bool = False
    calls: str = ""
    searches_schedules: bool = False
    estimates: str = ""
    iterations: str = ""
    meanwhile: str = ""
    in_place: bool = False
    copies_overlap: bool = False
    reads_blocks: bool = False
    holds_tiles: bool = False
    copies_operands: bool = False
    compiles: bool = False
    offloads: bool = False


TARGETS = {
    "numpy": Target("eqfuse.emit.numpy", ("numpy",), calls="eqfuse.emit.numpy.cost", in_place=True,
                    copies_overlap=True, reads_blocks=True, holds_tiles=True),
    "c": Target("eqfuse.emit.c", ("c",), searches_schedules=True, estimates="eqfuse.emit.c.estimates",
                iterations="eqfuse.emit.c.iteration_prices",
                meanwhile="numpy", in_place=True, copies_overlap=True, reads_blocks=True, copies_operands=True,
                compiles=True),
    "cuda": Target("eqfuse.emit.cuda", ("cuda",), profiles=True, searches_schedules=True, in_place=True,
                   offloads=True),
}
OUR_TARGETS = frozenset(TARGETS)
CPU = ["c", "numpy"]  # what "cpu" means: the first of these that is here;
STRICT_TARGET = "numpy"  # where results are to have NumPy's own bits, since functions in C are within 2 ulp;
MANY_SIZES = "numpy"  # and of programs for many sizes, since C kernels are compiled for one


def package(target: str) -> Package:
    """The package of a row. EqfuseError when there is no such row, as with a saved program of a target of a user's, or
    the package lacks an entry point."""
    return _imported(_row(target).package)


def emitter(device: Device, meter: Meter | None = None) -> Callable[..., Executable]:
    """What emits plans for `device`, within what the `meter` of a compile has left."""
    emit = package(device.target).emit
    return partial(emit, meter=meter) if _row(device.target).compiles else emit


def is_compiled(device: Device) -> bool:
    """Is a kernel for `device` one loop over all its operators, and not a sequence of calls?"""
    return not _row(device.target).calls


def calls_of(device: Device) -> CallPrices | None:
    """What prices the calls of kernels for `device`; None where they are compiled."""
    name = _row(device.target).calls
    return cast(CallPrices, _module(name)) if name else None


def estimates_of(device: Device) -> Estimates | None:
    """What estimates kernels for `device` whose schedules are not made yet; None where all are made."""
    name = _row(device.target).estimates
    return cast(Estimates, _module(name)) if name else None


def iterations_of(device: Device) -> IterationPrices | None:
    """What prices iterations of loops on `device` that run without Python; None where Python runs them all."""
    name = _row(device.target).iterations
    return cast(IterationPrices, _module(name)) if name else None


@cache
def _module(name: str) -> object:
    return import_module(name)


def searches_schedules(device: Device) -> bool:
    """Does the search price kernels for `device` by their schedules, and not by estimates?"""
    return _row(device.target).searches_schedules


def writes_in_place(device: Device) -> bool:
    """Do updates of a loop's carries write where these lie, on `device`?"""
    return _row(device.target).in_place


def copies_overlap(device: Device) -> bool:
    """Are copies on `device` right where what they read and what they write overlap?"""
    return _row(device.target).copies_overlap


def reads_blocks(device: Device) -> bool:
    """May programs for `device` read large arguments block by block, so that what reads them again finds them near?"""
    return _row(device.target).reads_blocks


def holds_tiles(device: Device) -> bool:
    """Do kernels for `device` hold a tile of each of their values in memory?"""
    return _row(device.target).holds_tiles


def copies_operands(device: Device) -> bool:
    """Do kernels for `device` copy the operands of products block by block, and compute them on the way?"""
    return _row(device.target).copies_operands


def offloads(device: Device) -> bool:
    """Are kernels launched on `device`, in a memory of its own?"""
    return _row(device.target).offloads


def runs_meanwhile(device: Device) -> str:
    """The target on which a program for `device` may run while it is compiled; none where that is not said."""
    return _row(device.target).meanwhile


def _row(target: str) -> Target:
    if target not in TARGETS:
        raise EqfuseError(f"no target is named {target!r} here; give it a row in eqfuse.cost.targets.TARGETS")
    return TARGETS[target]


@cache
def _imported(name: str) -> Package:
    module = import_module(name)
    missing = [entry for entry in _ENTRIES if not hasattr(module, entry)]
    if missing:
        raise EqfuseError(f"{name} is no target: it has no {', '.join(missing)}; see eqfuse.cost.targets.Package")
    return cast(Package, module)


def device_for(target: str | Device, numerics: str = "reassociate") -> Device:
    """The device a target names; TargetUnavailable when it does not exist here. "cpu" is the fastest here that keeps
    `numerics`."""
    return target_named(STRICT_TARGET if target == "cpu" and numerics == "strict" else target)()


def target_named(target: str | Device) -> Callable[[], Device]:
    """What finds the device that a target names, if it is here; TargetUnavailable when there is no such target."""
    if isinstance(target, Device):
        return lambda: target
    finders = _by_name()
    if isinstance(target, str):
        row, colon, profile = target.partition(":")
        name = row + colon + profile.lower()
        if name in finders:
            return finders[name]
    raise TargetUnavailable(f"no target {target!r}; there are {', '.join(finders)}, or an ef.Device")


def _by_name() -> dict[str, Callable[[], Device]]:
    """What finds the device of each name."""
    finders: dict[str, Callable[[], Device]] = {"cpu": _cpu}
    for name, row in TARGETS.items():
        finders |= {word: lambda name=name: _local_device(name) for word in row.names}  # type: ignore[misc]
        if row.profiles:
            finders |= {f"{name}:{p}": lambda d=d: d for p, d in DEVICES.items() if d.target == name}  # type: ignore[misc]
    return finders


def _cpu() -> Device:
    return _local_device(_first(tuple(CPU)))


@cache
def _first(names: tuple[str, ...]) -> str:
    """The first of `names` whose device is here; a warning says why it is not the best."""
    try:
        _local_device(names[0])
        return names[0]
    except TargetUnavailable as error:
        if len(names) == 1:
            raise
        why = str(error).removesuffix(f"\n  at {error.where}")
        warnings.warn(
            f'the target "cpu" is "{names[1]}" here, several times slower than "{names[0]}": {why}\n'
            f'  target="{names[1]}" asks for it without this warning', stacklevel=user_level(),
        )  # fmt: skip
        return _first(names[1:])


def _local_device(target: str) -> Device:
    return _device_of(target, thread_count())


@cache
def _device_of(target: str, threads: int) -> Device:
    """This machine's device with so many threads, which is another where `set_num_threads` was called."""
    return package(target).device()
