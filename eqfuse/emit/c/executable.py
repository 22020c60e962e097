"""What runs a plan as native code: one Python function whose lines call C kernels and, for the rest, NumPy.

In: a `Plan`. Out: `CExecutable`. A program's C texts are compiled side by side. Results are new arrays that the caller
owns; several threads may call at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from eqfuse.budget import Meter, unmetered
from eqfuse.emit.c.haste import LEAST, are_too_many, hurried, left_to_numpy
from eqfuse.emit.c.kernels import CKernel, emit_by_numpy, emit_kernel, emit_spread, loaded, modules
from eqfuse.emit.c.schedule import LoopsSchedule
from eqfuse.emit.numpy.executable import NumpyExecutable
from eqfuse.emit.numpy.kernels import NumpyKernel
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import strides_after
from eqfuse.machine.c_copies import copy_in_order, ordered_copy
from eqfuse.plan.in_place import PlacedSlice
from eqfuse.plan.plan import Kernel, Plan


def _strides(part: PlacedSlice) -> tuple[int, ...]:
    """In elements, of a value that is written as a part of another."""
    strides = strides_after(part.views[0].args[0].type, part.views)
    assert strides is not None, "a slice is a view, and a reshape where its elements lie together"
    return strides


class CExecutable(NumpyExecutable):
    """A plan as C kernels, compiled when it is made, within what `meter` has left. `text`: the C texts; nothing where
    no kernel is fused."""

    copy_into = staticmethod(copy_in_order)
    reads_in_order = True

    def __init__(self, plan: Plan, carried: Mapping[int, int] | None = None, meter: Meter | None = None) -> None:
        self.text = ""
        self._meter = meter or unmetered()
        self._read_by_kernels: set[int] = set()
        self._alike: dict[tuple[str, Graph, tuple[int, ...]], CKernel] = {}
        super().__init__(plan, carried)
        in_order = self._read_by_kernels | self.routine.ordered_inputs
        self._in_order = [i for i, v in enumerate(plan.inputs) if v in in_order]

    def source(self) -> str:
        """The C text, and below it, as comments, the Python function that a call runs."""
        routine = super().source()
        return "\n".join([self.text, *(f"// {line}" for line in routine.splitlines())]) + "\n" if self.text else routine

    def _kernels(self, kernels: Sequence[Kernel]) -> list[NumpyKernel | None]:
        rounds = self.plan.numerics != "approximate"
        emitted = self._in_budget(kernels, [None if k.is_view else self._emitted_kernel(k, rounds) for k in kernels])
        ours = {k.name: k for k in emitted if isinstance(k, CKernel)}  # alike kernels are one
        self._warns_never = all(k is None or isinstance(k, CKernel) for k in emitted)
        functions = self._compiled([*ours.values()]) if ours else {}
        views = {k.writes[0] for k in kernels if k.is_view}
        callables: list[NumpyKernel | None] = []
        for k, e in zip(kernels, emitted, strict=True):
            if isinstance(e, CKernel):
                self._read_by_kernels.update(k.reads)
                e = ours[e.name]
                panels = self._panels(k, e, functions[e.panels]) if e.panels else None
                e = e.called(functions[e.name], [i for i, v in enumerate(k.reads) if v in views], panels)
            callables.append(e)
        return callables

    def _in_budget(
        self, kernels: Sequence[Kernel], emitted: Sequence[NumpyKernel | CKernel | None]
    ) -> list[NumpyKernel | CKernel | None]:
        """What runs `kernels`: as `emitted`, but by NumPy where there is no time to compile them."""
        ours = [e for e in emitted if isinstance(e, CKernel)]
        allowance = self._meter.allowance
        seconds = max(allowance.left, LEAST - allowance.clock.waited)
        if not are_too_many(ours, seconds):
            return [*emitted]
        by_numpy: dict[str, NumpyKernel] = {}
        for k, e in zip(kernels, emitted, strict=True):
            if isinstance(e, CKernel) and e.name not in by_numpy:
                with suppress(UnsupportedOp):
                    by_numpy[e.name] = emit_by_numpy(k.body)
        left = left_to_numpy(ours, by_numpy, self.plan.device, seconds)
        self._meter.uncompiled |= left
        return [by_numpy[e.name] if isinstance(e, CKernel) and e.name in left else e for e in emitted]

    def _compiled(self, kernels: Sequence[CKernel]) -> dict[str, Any]:
        """The functions of `kernels`, by name."""
        in_haste = hurried(kernels, self._meter.allowance.left)
        self._meter.hurried |= in_haste
        texts = modules(kernels, in_haste)
        self.text = "\n".join([*filter(None, [self.text]), *[module.text for module in texts]])
        with self._meter.waiting():
            return loaded(texts)

    def _emitted_kernel(self, kernel: Kernel, rounds: bool) -> NumpyKernel | CKernel:
        """What runs `kernel`; what was compiled of an equal one."""
        constants = tuple([i for i, v in enumerate(kernel.reads) if v in self._constants])
        key = kernel.kind, kernel.body, constants
        if key in self._alike:
            return self._alike[key]
        emitted = emit_kernel(kernel, self.plan.device, rounds, meter=self._meter)
        if isinstance(emitted, CKernel):
            emitted = self._alike[key] = emitted.with_constants(constants, rounds)
        return emitted

    def _panels(self, kernel: Kernel, emitted: CKernel, function: Any) -> dict[str, np.ndarray]:
        """The copies of the constants that `emitted` multiplies by, by names that are global to the program."""
        constants = {i: self._constants[v] for i, v in enumerate(kernel.reads) if v in self._constants}
        copies = emitted.copied(function, constants)
        return {f"panels{kernel.writes[0]}_{i}": array for i, array in enumerate(copies)}

    def _with_gaps(
        self, kernels: Sequence[Kernel], parts: Mapping[int, Sequence[PlacedSlice | None]]
    ) -> dict[int, NumpyKernel]:
        emitted = {i: self._emitted_with_gaps(i, kernels[i], lying) for i, lying in parts.items()}
        spread = {k.name: k for k in emitted.values() if isinstance(k, CKernel)}  # alike ones are one
        functions = self._compiled([*spread.values()]) if spread else {}
        views = {k.writes[0] for k in self.plan.kernels if k.is_view}

        def called(i: int, k: CKernel) -> NumpyKernel:
            in_views = [j for j, v in enumerate(kernels[i].reads) if v in views]
            return spread[k.name].called(functions[k.name], in_views)

        return {i: called(i, k) if isinstance(k, CKernel) else k for i, k in emitted.items()}

    def _emitted_with_gaps(
        self, i: int, kernel: Kernel, parts: Sequence[PlacedSlice | None]
    ) -> NumpyKernel | CKernel:
        """What runs `kernel`, number `i`, where its results are `parts` of others: as before if these have no gaps."""
        before = self._emitted[i]
        assert before is not None
        if not isinstance(before.schedule, LoopsSchedule):
            return emit_kernel(kernel, self.plan.device, gaps=True)
        ordered = [contiguous(self.plan.types[v].shape) for v in kernel.writes]
        strides = [lie if p is None else _strides(p) for lie, p in zip(ordered, parts, strict=True)]
        if strides == ordered:
            return before
        return emit_spread(kernel, self.plan.device, self.plan.numerics != "approximate", strides)

    def _accepted(self, arrays: Sequence[Any]) -> Sequence[np.ndarray]:
        accepted = [*super()._accepted(arrays)]
        for i in self._in_order:
            flags = accepted[i].flags
            if not flags.c_contiguous or not flags.aligned:
                accepted[i] = ordered_copy(accepted[i])
        return accepted
