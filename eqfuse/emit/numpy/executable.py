"""What runs a plan on a CPU: its kernels as one Python function, bound to memory.

In: a `Plan`. Out: `NumpyExecutable`.
Results are new arrays that the caller owns; intermediates share one arena; several threads may call at once.
Floating-point warnings are silent inside: a fused program computes other intermediates than the user wrote.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eqfuse.emit.executable import Executable, constant_values
from eqfuse.emit.numpy.bound_memory import BoundMemory
from eqfuse.emit.numpy.kernels import NumpyKernel, emit_kernel
from eqfuse.emit.numpy.library import with_constant_places
from eqfuse.emit.numpy.program import BoundCall, CopyInto, Routine
from eqfuse.emit.numpy.temporaries import SHORT_BUFFER
from eqfuse.ir.accepted import ndarray
from eqfuse.plan.buffers import layout
from eqfuse.plan.in_place import PlacedSlice, updates
from eqfuse.plan.memory import Arena, outside_bytes
from eqfuse.plan.plan import Kernel, Plan


class NumpyExecutable(Executable):
    """A plan as NumPy calls on the threads of a CPU.

    `peak_bytes` counts the arena, the scratch memory of its threads, and what NumPy's routines allocate on the way;
    not workspaces inside C libraries (LAPACK, BLAS, sorting) and Python's own objects. `carried`: of a loop's step, as
    `plan.in_place.updates` takes it; `kept`: the results that lie in the memory of carries, and in whose.
    """

    copy_into: CopyInto = staticmethod(np.copyto)  # what copies results that are views
    reads_in_order = False  # do its kernels read arrays as if they lay in C order?
    _warns_never = False  # does nothing in it warn about floating-point numbers?

    def __init__(self, plan: Plan, carried: Mapping[int, int] | None = None) -> None:
        super().__init__(plan)
        self._constants = constant_values(plan)
        kernels = [with_constant_places(k, self._constants) for k in plan.kernels]
        self._emitted = self._kernels(kernels)
        emitted = [(i, k) for i, k in enumerate(self._emitted) if k is not None]
        self.short_buffers = any(k.parts.short_buffers for _, k in emitted)
        workspaces = {i: tuple(k.parts.workspaces.values()) for i, k in emitted if k.parts.workspaces}
        shared = {i for i, k in emitted if k.parts.one_ufunc_writes}
        gaps = {i for i, k in emitted if k.parts.writes_gaps}
        returned = [i for i, k in emitted if k.parts.returned]
        last = {i for i, k in emitted if k.parts.writes_last}
        loops = {i: k.parts.carries for i, k in emitted if k.parts.carries}
        anywhere = {i for i, k in emitted if not k.parts.returned}
        overlays = {i: k.parts.overlays for i, k in emitted}
        placed = updates(plan, gaps | shared, shared, carried, last, loops, anywhere, overlays)
        self.kept = placed.kept
        with_gaps = sorted(gaps.intersection(part.maker for part in placed.parts.values()))
        parts = {i: [placed.parts.get(v) for v in kernels[i].writes] for i in with_gaps}
        for i, emitted_anew in self._with_gaps(kernels, parts).items():
            self._emitted[i] = emitted_anew
        self.layout = layout(plan, placed, returned, workspaces, carried, lends=carried is None)
        self.routine = Routine(plan, kernels, self._emitted, self.layout, self._constants, self.copy_into)
        self._memory: BoundMemory[BoundCall] = BoundMemory(self.layout.nbytes)
        self.peak_bytes = self.layout.peak + outside_bytes([k.needs for k in self._emitted if k])

    def _kernels(self, kernels: Sequence[Kernel]) -> list[NumpyKernel | None]:
        """What runs each kernel; None for a view."""
        return [None if k.is_view else emit_kernel(k, self.plan.device) for k in kernels]

    def _with_gaps(
        self, kernels: Sequence[Kernel], parts: Mapping[int, Sequence[PlacedSlice | None]]
    ) -> dict[int, NumpyKernel]:
        """What runs those of `kernels`, by number, of which results are `parts` of others, with gaps between their
        elements."""
        return {i: emit_kernel(kernels[i], self.plan.device, gaps=True) for i in parts}

    def run(self, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        self._counted(arrays)
        arguments = self._accepted(arrays)
        if self._warns_never:
            return self._results(arguments)
        with np.errstate(all="ignore"):  # on leaving, NumPy has its own buffers again
            if self.short_buffers:
                np.setbufsize(SHORT_BUFFER)
            return self._results(arguments)

    def _results(self, arguments: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        bound, arena = self.take()
        results = bound(arguments)
        self.give(bound, arena)
        return results

    def source(self) -> str:
        """The Python function that a call runs, and the kernels it calls."""
        return self.routine.source

    def schedules(self) -> list[str]:
        return [str(k.schedule) for k in self._emitted if k]

    def kernel_seconds(self, arrays: Sequence[Any]) -> list[float]:
        arguments = self._accepted(arrays)
        clock: list[float] = []
        run = self._bound(Arena(self.layout.nbytes), lambda: clock.append(time.perf_counter()))
        taken = []
        with np.errstate(all="ignore"):
            if self.short_buffers:
                np.setbufsize(SHORT_BUFFER)
            for _ in range(6):
                clock.clear()
                run(arguments)
                taken.append(np.diff(clock))
        return [statistics.median(seconds) for seconds in zip(*taken[1:], strict=True)]

    def take(self) -> tuple[BoundCall, Arena | None]:
        """What runs on arguments of the right types, bound to memory until it is given back; and that memory, if it is
        not its own."""
        return self._memory.take(self._bound)

    def give(self, bound: BoundCall, arena: Arena | None) -> None:
        """Take back what was taken."""
        self._memory.give(bound, arena)

    def _accepted(self, arrays: Sequence[Any]) -> Sequence[np.ndarray]:
        """The arguments, each of the type that was compiled for."""
        arguments = []
        for array, (v, dtype, shape) in zip(arrays, self._expected, strict=True):
            if type(array) is not np.ndarray:
                array = ndarray(array, f"the argument {self._name(v)!r}")
            if array.shape != shape or array.dtype != dtype:
                self._refuse(v, array)
            arguments.append(array)
        return arguments

    def _bound(self, arena: Arena, mark: Callable[[], None] | None = None) -> BoundCall:
        """The function that calls which use `arena` run."""
        return self.routine.bound(self.values(arena), mark)

    def values(self, arena: Arena) -> dict[int, np.ndarray]:
        """The values of the plan that lie in `arena`, or are constants, and the workspaces, by number."""
        return self._constants | self.layout.arrays(arena.memory)
