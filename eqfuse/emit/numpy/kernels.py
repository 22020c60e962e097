"""NumPy kernels: one Python function per kernel of a plan.

In: a `Kernel` and the `Device` it is made for. Out: `NumpyKernel`, readable source and a function. Next: `runtime`.
The schedule that its kind makes says how a body runs; the text follows it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eqfuse.budget import Meter
from eqfuse.cost.device import Device
from eqfuse.emit.numpy.conv import conv_kernel
from eqfuse.emit.numpy.library import block_copies_kernel, library_kernel
from eqfuse.emit.numpy.loops import LoopRunner, loop_kernel
from eqfuse.emit.numpy.panel import panel_kernel
from eqfuse.emit.numpy.reduce import cascade_kernel, reduce_kernel
from eqfuse.emit.numpy.replaced import updates_kernel
from eqfuse.emit.numpy.schedule import (
    BlockCopies,
    BlockedConvolution,
    BlockedWindows,
    LibraryCall,
    NumpySchedule,
    ReplacedSlices,
    ResultsOfRows,
    TiledReduction,
    Tiles,
    WholeArrays,
)
from eqfuse.emit.numpy.source import Source, straight_kernel
from eqfuse.emit.numpy.window import window_kernel
from eqfuse.emit.steps import emitted_steps
from eqfuse.ir.graph import Graph
from eqfuse.kinds import kind_named
from eqfuse.kinds.schedule import Schedule
from eqfuse.machine.memory import ALIGNMENT
from eqfuse.machine.threads import pool, scratch
from eqfuse.plan.loops import loop_schedule, planned_loop
from eqfuse.plan.memory import Needs
from eqfuse.plan.plan import Kernel


@dataclass(frozen=True, eq=False)
class NumpyKernel:
    """`run(outs, ins)` writes the results of `body` into `outs`, which must not overlap `ins`.

    The `parts` of an inline kernel may stand in a program's function instead.
    """

    source: str
    parts: Source
    schedule: Schedule

    @property
    def needs(self) -> Needs:
        """The memory that it takes."""
        parts = self.parts
        workspaces = sum(-(-t.nbytes // ALIGNMENT) * ALIGNMENT for t in parts.workspaces.values())
        return Needs(workspaces, parts.scratch_bytes, parts.threads, parts.temporary_bytes, parts.held_bytes)

    @cached_property
    def run(self) -> Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]:
        names = {"__builtins__": {}, **self.parts.names, "share": pool.share}
        names |= {"scratch": scratch.take, "keep": scratch.give}
        exec(compile(self.source, "<eqfuse kernel>", "exec"), names)
        run: Any = names["run"]
        return run


KERNELS_KEPT = 1024  # kernels that later programs may share; the oldest go first
_emitted: dict[tuple[str, str, Device, bool], NumpyKernel] = {}
_lock = threading.RLock()


def emit_kernel(kernel: Kernel, device: Device, gaps: bool = False) -> NumpyKernel:
    """The NumPy function of `kernel`; equal kernels share one. UnsupportedOp when the body has no NumPy form.

    `gaps`: its result will have gaps between its rows, where NumPy is slower, so that it writes each element once.
    """
    kind = kind_named(kernel.kind)
    if kind.has_plans:
        planned: NumpyKernel = kind.emit_plans(kernel, device)
        return planned
    key = (kernel.kind, kernel.body.key, device, gaps)
    emitted = _emitted.get(key)
    if emitted is None:
        schedule = kind.schedule(kernel.body, device)
        if gaps and isinstance(schedule, Tiles):
            schedule = schedule.with_gaps()
        source = kind.emit(kernel.body, schedule, device)
        emitted = NumpyKernel(source.text(), source, schedule)
        with _lock:
            _emitted[key] = emitted
            while len(_emitted) > KERNELS_KEPT:
                del _emitted[next(iter(_emitted))]
    return emitted


def loop_of_plans(kernel: Kernel, device: Device, meter: Meter | None) -> NumpyKernel:
    """The loop or choice `kernel`, whose steps are programs of their own."""
    return kernel_of_steps(kernel, emitted_steps(planned_loop(kernel), kernel.inner, device, meter))


def kernel_of_steps(kernel: Kernel, steps: Sequence[Any], native: LoopRunner | None = None) -> NumpyKernel:
    """The same, where the programs of its `steps` are there. `native`: what runs its turns without Python."""
    source = loop_kernel(kernel, steps, native)
    return NumpyKernel(source.text(), source, loop_schedule(kernel, source.kernel_bytes))


def source_of(body: Graph, schedule: NumpySchedule) -> Source:
    """The kernel of `schedule`, which one of the kinds of eqfuse itself has made."""
    match schedule:
        case WholeArrays():
            return straight_kernel(schedule.body, schedule.branches)
        case LibraryCall():
            return library_kernel(schedule.body)
        case BlockCopies():
            return block_copies_kernel(schedule)
        case Tiles():
            return panel_kernel(schedule)
        case ResultsOfRows():
            return cascade_kernel(schedule)
        case TiledReduction():
            return reduce_kernel(schedule)
        case ReplacedSlices():
            return updates_kernel(schedule)
        case BlockedConvolution():
            return conv_kernel(schedule)
        case BlockedWindows():
            return window_kernel(schedule)
    raise TypeError(f"no emitter for a {type(schedule).__name__} of {body}")
