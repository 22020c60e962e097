"""A loop whose step is C kernels alone, as iterations that C runs.

In: a loop, the executable of its step, and what the loop is handed: its arguments, then the places of its results, then
a spare array for each carry that steps make anew: every other iteration writes there. Out: `NativeLoop`; None where
Python has to do something in a step. Next stop: `machine/c_loops.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from eqfuse.budget import Meter
from eqfuse.cost.device import Device
from eqfuse.emit.c.executable import CExecutable
from eqfuse.emit.c.kernels import raise_index_error
from eqfuse.emit.numpy.bound_memory import BoundMemory
from eqfuse.emit.numpy.kernels import NumpyKernel, kernel_of_steps
from eqfuse.emit.steps import emitted_steps
from eqfuse.ir.graph import Graph, Node, input_node
from eqfuse.ir.loops import FIRST_CARRY, first_shared, inputs_before, result_types
from eqfuse.ir.view_strides import contiguous, strided
from eqfuse.machine.c_loops import BoundLoop, Iteration
from eqfuse.ops.types import TensorType
from eqfuse.plan.loops import planned_loop
from eqfuse.plan.memory import Arena
from eqfuse.plan.plan import Kernel

SHOWN = frozenset(["reshape", "slice", "transpose", "broadcast_to"])  # views of which elements keep their size


def loop_of_plans(kernel: Kernel, device: Device, meter: Meter | None) -> NumpyKernel:
    """The loop or choice `kernel`, whose steps are programs of their own."""
    n = planned_loop(kernel)
    steps = emitted_steps(n, kernel.inner, device, meter)
    return kernel_of_steps(kernel, steps, native_loop(n, steps[-1]))


class NativeLoop:
    """The loop `n` as iterations of C. `spares`: types of the arrays that it is handed besides."""

    def __init__(self, n: Node, step: CExecutable) -> None:
        self._step = step
        operands = tuple([input_node(f"operand {i}", a.type) for i, a in enumerate(n.args)])
        self._meaning = Graph(operands, (n.over(operands),))
        slots = _Slots(n, step, self._arrays(Arena(step.layout.nbytes)))
        self.spares, self._iteration, self._staying = slots.spares, slots.iteration(), slots.staying
        self._memory: BoundMemory[BoundLoop] = BoundMemory(step.layout.nbytes)

    def run(self, rows: range, start: int, arrays: Sequence[np.ndarray]) -> None:
        """As `emit/numpy/loops.py` wants it of a loop without Python."""
        loop, arena = self._memory.take(self._bound)
        missed = loop.run(rows, start, arrays)
        self._memory.give(loop, arena)
        if missed:
            raise_index_error(self._meaning, *arrays[: len(self._meaning.inputs)])

    def _arrays(self, arena: Arena) -> dict[str, np.ndarray]:
        return self._step.routine.staying(self._step.values(arena))

    def _bound(self, arena: Arena) -> BoundLoop:
        stays = self._arrays(arena)
        return BoundLoop(self._iteration, {slot: stays[name] for name, slot in self._staying.items()})


def native_loop(n: Node, step: CExecutable) -> NativeLoop | None:
    """`n` without Python, if that can be; `step` is what it runs in each iteration."""
    with suppress(_NeedsPython):
        return NativeLoop(n, step)
    return None


class _NeedsPython(Exception):
    """What a step does is more than to call kernels."""


class _Slots:
    """Where the arrays of a step lie, by the names that its function has for them. `staying`: those of which the place
    is known before a call."""

    def __init__(self, n: Node, step: CExecutable, stays: Mapping[str, np.ndarray]) -> None:
        calls = step.routine.calls
        if n.op not in FIRST_CARRY or not calls:
            raise _NeedsPython
        self._n, self._step, self._plan, self._stays = n, step, step.plan, stays
        self._numbers: dict[str, int] = {}
        self._in_order: dict[int, TensorType] = {}  # slots of arrays in C order
        self.staying: dict[str, int] = {}
        self.spares: list[TensorType] = []
        self._arguments: list[tuple[int, int]] = []
        self._rows: list[tuple[int, int, int]] = []
        self._carries: list[tuple[int, int, int, int, int, int, int]] = []
        self._views: list[tuple[int, int, int]] = []
        self._copies: list[tuple[int, int, int]] = []
        self._goes_on: int | None = None
        self._inputs = [self._new(f"v{v}", self._plan.types[v]) for v in self._plan.inputs]
        self._results = {f"v{v}": self._plan.types[v] for v in step.layout.fresh}
        self._calls = [
            (call.function, [*map(self._read, call.reads), *map(self._number, call.others)]) for call in calls
        ]
        self._hand()
        self._take_results()

    def iteration(self) -> Iteration:
        index = self._inputs[0] if self._n.op != "while_loop" else None
        return Iteration(
            self._arguments, self._rows, self._carries, self._views, self._calls, self._copies, index, self._goes_on,
            len(self._numbers), self._plan.seconds,
        )  # fmt: skip

    def _new(self, name: str, t: TensorType | None) -> int:
        slot = self._numbers[name] = len(self._numbers)
        if t is not None:
            self._in_order[slot] = t
        return slot

    def _number(self, name: str) -> int:
        """The slot of the array of that name."""
        if name in self._numbers:
            return self._numbers[name]
        if name in self._step.routine.shown:
            return self._view(name, *self._step.routine.shown[name])
        if name in self._stays:
            array = self._stays[name]
            in_order = TensorType(array.dtype, array.shape) if array.flags.c_contiguous else None
            slot = self.staying[name] = self._new(name, in_order)
            return slot
        return self._new(name, self._results[name])

    def _read(self, name: str) -> int:
        """The same of an array that lies in C order, as kernels read it."""
        slot = self._number(name)
        if slot not in self._in_order:
            raise _NeedsPython
        return slot

    def _view(self, name: str, base: str, chain: Sequence[Node]) -> int:
        shown = self._read(base)
        t, seen = self._in_order[shown], chain[-1].type
        view = strided(t.shape, chain)
        if view is None or not SHOWN.issuperset(n.op for n in chain):
            raise _NeedsPython
        steps = zip(view.shape, view.strides, contiguous(view.shape), strict=True)
        slot = self._new(name, seen if all(n <= 1 or step == own for n, step, own in steps) else None)
        self._views.append((slot, shown, view.first * t.dtype.itemsize))
        return slot

    def _shown_whole(self, name: str) -> str:
        """What is shown as it lies under `name`."""
        shown = self._step.routine.shown.get(name)
        if shown is None or any(n.op != "reshape" for n in shown[1]):
            return name
        return self._shown_whole(shown[0])

    def _hand(self) -> None:
        """What an iteration is handed by the loop."""
        n, first, shared, before = self._n, FIRST_CARRY[self._n.op], first_shared(self._n), inputs_before(self._n)
        carries = first + n.attr("carries")
        for number in range(carries, len(n.args)):
            slot = self._inputs[number + before]
            if number < shared:
                self._rows.append((slot, number, self._in_order[slot].nbytes))
            else:
                self._arguments.append((slot, number))

    def _take_results(self) -> None:
        n, kept = self._n, self._step.kept
        count, places, types = n.attr("carries"), len(n.args), result_types(n)
        for result, name in enumerate(self._step.routine.outputs):
            if result >= len(types):
                self._goes_on = self._read(name)
            elif result >= count:
                written, t = self._written(result, name)
                self._rows.append((written, places + result, t.nbytes))
            else:
                read, begin = self._inputs[result + FIRST_CARRY[n.op] + inputs_before(n)], result + FIRST_CARRY[n.op]
                place, spare, t, source = places + result, -1, types[result], kept.get(result, result)
                if result in kept:
                    written, begin = -1, place
                else:
                    written, _ = self._written(result, name)
                if source != result or result not in kept:
                    spare = places + len(types) + len(self.spares)
                    self.spares.append(t)
                self._carries.append((read, written, source, begin, place, spare, t.nbytes))
        for name, t in self._results.items():  # no result lies there as it is
            if name in self._numbers:
                self._arguments.append((self._numbers[name], places + len(types) + len(self.spares)))
                self.spares.append(t)

    def _written(self, result: int, name: str) -> tuple[int, TensorType]:
        """The slot of the place of a result: where a kernel writes it, or where it is copied to behind the kernels."""
        t, whole = self._plan.types[self._plan.outputs[result]], self._shown_whole(name)
        if self._results.pop(whole, None):
            return self._number(whole), t
        slot = self._new(f"result {result}", t)
        self._copies.append((slot, self._read(name), t.nbytes))
        return slot, t
