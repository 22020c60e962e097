"""Programs: a plan's kernels, bound to memory and callable.

In: a `Plan`. Out: `Program`, called like the function it came from. Its report comes from `eqfuse/report.py`.
Results are new arrays that the caller owns; intermediates share one arena; several threads may call at once.
Floating-point warnings are silent inside: a fused program computes other intermediates than the user wrote.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from eqfuse.emit.numpy import NumpyKernel, emit_kernel
from eqfuse.emit.numpy_library import view_function
from eqfuse.errors import ShapeError
from eqfuse.frontends.accepted import ndarray
from eqfuse.ir import topological
from eqfuse.meaning import evaluate
from eqfuse.memory import Arenas, Life, arenas, place
from eqfuse.ops import Role, row
from eqfuse.plan import Plan

if TYPE_CHECKING:
    from eqfuse.explain import Explanation
    from eqfuse.report import Report
    from eqfuse.rewrites import Law
    from eqfuse.why import Rests

SMALL_BYTES = 1 << 20  # an arena up to this size stays with its program, with the arrays in it ready

Step = tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], bool]  # function, writes, reads, is it a view?
BoundStep = tuple[Callable[..., Any], list[Any], list[Any]]  # function, the arrays it writes and those it reads
Slot = tuple[int, int, int, np.dtype, tuple[int, ...]]  # value, start and stop in the arena, dtype, shape


class Program:
    """A compiled program. `program(*args)` takes and returns what the traced function does.

    `peak_bytes` is the memory of one call beside its arguments and results: the arena and the kernels' scratch.
    """

    make_report: Callable[[], Report]  # where the report is made when it is first asked for
    laws: tuple[Law, ...] | None = None  # it was chosen under; None where nobody said

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._expected = [(v, n.dtype, n.shape) for v, n in zip(plan.inputs, plan.graph.inputs, strict=True)]
        self._fixed: list[Any] = [None] * len(plan.types)
        self._prepare()
        self._emitted: list[NumpyKernel | None] = []
        in_place = updates_in_place(plan)
        self._steps: list[Step] = []
        for i, k in enumerate(plan.kernels):
            if i in in_place:
                self._steps.append((_itself, k.writes, (in_place[i],), True))
            self._steps.append(self._step(i))
        self._fresh, self._outputs, self._slots, self._arena_bytes = layout(plan, in_place)
        self._ready: list[_Ready] = []  # what calls with a small arena start from, when none uses it
        self.peak_bytes = self._arena_bytes + max((k.scratch_bytes for k in self._emitted if k), default=0)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = self.plan.graph.signature
        if signature is None:
            return self.run(args)
        return signature.rebuild(self.call(signature.flatten(args, kwargs)))

    def call(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The traced function's results for the `leaves` of its arguments, which it may change in place."""
        signature = self.plan.graph.signature
        if signature is None or signature.pure:
            return self.run(leaves)
        arrays = signature.feed(leaves)
        return signature.settle(arrays, self.run(arrays))

    @cached_property
    def report(self) -> Report:
        """What a call does, by prediction, and what that saves."""
        return self.make_report()

    def run(self, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The outputs for `arrays`, one per graph input. Raises ShapeError when they are not what was compiled for."""
        if len(arrays) != len(self._expected):
            raise ShapeError(f"the program has {len(self._expected)} inputs, {len(arrays)} arrays were given")
        if self._arena_bytes > SMALL_BYTES:
            arena = arenas.take(self._arena_bytes)
            try:
                return self._run(arrays, self._with_arrays(arena), self._steps)
            finally:
                arenas.give(arena)
        try:
            ready = self._ready.pop()
        except IndexError:
            ready = self._bound(self._with_arrays(Arenas().take(self._arena_bytes)))
        try:
            return self._run(arrays, ready.values.copy(), ready.steps)
        finally:
            self._ready.append(ready)

    def source(self) -> str:
        """The emitted source of every kernel, in the order they run."""
        parts = []
        for i, (k, emitted) in enumerate(zip(self.plan.kernels, self._emitted, strict=True)):
            ops = " ".join(n.op for n in k.body.operators)
            head = f"# kernel {i}, {k.kind}: {value_names(k.writes)} = {ops} of {value_names(k.reads)}\n"
            parts.append(head + (emitted.source if emitted else "# a view: no data moves\n"))
        return "\n".join(parts)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Why the program looks as it does, and the laws it rests on; with arguments, each kernel is timed on them too.

        Finding the laws takes up to some seconds, once (see `eqfuse/why.py`).
        """
        from eqfuse.explain import explain

        measured = self.kernel_seconds(*args, **kwargs) if args or kwargs else None
        return explain(self.report, self.plan, measured, self.rests_on)

    @cached_property
    def rests_on(self) -> Rests | None:
        """The laws that the program rests on, as a whole and by kernel. None where `laws` is."""
        from eqfuse.why import rests_on

        return None if self.laws is None else rests_on(self.plan, self.laws)

    def kernel_seconds(self, *args: Any, **kwargs: Any) -> list[float]:
        """Median seconds of each kernel that is no view, in order, on these arguments."""
        signature = self.plan.graph.signature
        arrays = args if signature is None else signature.feed(signature.flatten(args, kwargs))
        taken: list[list[float]] = []
        for _ in range(6):
            values = self._with_arrays(Arenas().take(self._arena_bytes))
            self._bind(arrays, values)
            taken.append([])
            with np.errstate(all="ignore"):
                for step in self._steps:
                    started = time.perf_counter()
                    _take(step, values)
                    if not step[3]:
                        taken[-1].append(time.perf_counter() - started)
        return [statistics.median(seconds) for seconds in zip(*taken[1:], strict=True)]

    def save(self, path: str | Path) -> None:
        """Write the program to the file `path`: data only, no code, no pickle. `ef.load` reads it."""
        from eqfuse.saved import save

        save(self.plan, self.report if hasattr(self, "report") else None, self.laws, Path(path))

    def _run(
        self, arrays: Sequence[Any], values: list[Any], steps: Sequence[Step | BoundStep]
    ) -> tuple[np.ndarray, ...]:
        self._bind(arrays, values)
        with np.errstate(all="ignore"):
            for step in steps:
                if len(step) == 3:
                    step[0](step[1], step[2])
                else:
                    _take(step, values)
        return tuple([np.array(values[v], order="C") if copied else values[v] for v, copied in self._outputs])

    def _bind(self, arrays: Sequence[Any], values: list[Any]) -> None:
        """Put the arguments, and new arrays for the results, among `values`."""
        for array, (v, dtype, shape) in zip(arrays, self._expected, strict=True):
            if type(array) is not np.ndarray:
                array = ndarray(array, f"the argument {self._name(v)!r}")
            if array.shape != shape or array.dtype != dtype:
                self._refuse(v, array)
            values[v] = array
        for v, dtype, shape in self._fresh:
            values[v] = np.empty(shape, dtype)

    def _bound(self, values: list[Any]) -> _Ready:
        """`values` with every view of them taken, and the steps with the arrays that are the same at every call."""
        changing = {v for v, _, _ in (*self._expected, *self._fresh)}
        steps: list[Step | BoundStep] = []
        for step in self._steps:
            function, writes, reads, is_view = step
            if not changing.isdisjoint((*writes, *reads)):
                steps.append(step)
                if is_view:
                    changing.update(writes)
            elif is_view:
                _take(step, values)
            else:
                steps.append((function, [values[v] for v in writes], [values[v] for v in reads]))
        return _Ready(values, steps)

    def _with_arrays(self, arena: np.ndarray) -> list[Any]:
        """All values: what is fixed, and the intermediates as arrays in `arena`."""
        values = self._fixed.copy()
        for v, start, stop, dtype, shape in self._slots:
            values[v] = arena[start:stop].view(dtype).reshape(shape)
        return values

    def _refuse(self, value: int, array: np.ndarray) -> NoReturn:
        n = self.plan.graph.inputs[self.plan.inputs.index(value)]
        got = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
        if not array.dtype.isnative:
            got = f"in another byte order ({array.dtype.str})"
        raise ShapeError(
            f"argument {n.attrs[0]!r} is {got}, the program was compiled for {n.type}: convert it, or compile for it "
            "(ef.jit does so by itself)"
        )

    def _name(self, value: int) -> Any:
        return self.plan.graph.inputs[self.plan.inputs.index(value)].attrs[0]

    def _prepare(self) -> None:
        """Place the constants, and run what depends on them alone."""
        for value, literal in self.plan.constants:
            self._fixed[value] = literal.array
        for k in self.plan.setup:
            with np.errstate(all="ignore"):
                made = evaluate(k.body, [self._fixed[v] for v in k.reads])
            for v, array in zip(k.writes, made, strict=True):
                self._fixed[v] = np.array(array, order="C")

    def _step(self, i: int) -> Step:
        k = self.plan.kernels[i]
        if k.kind == "view":
            self._emitted.append(None)
            return view_function(k.body), k.writes, k.reads, True
        emitted = emit_kernel(k, self.plan.device)
        self._emitted.append(emitted)
        return emitted.run, k.writes, k.reads, False


@dataclass(frozen=True)
class _Ready:
    """What a call starts from: the values whose memory stays, and the steps to take."""

    values: list[Any]
    steps: list[Step | BoundStep]


def _take(step: Step, values: list[Any]) -> None:
    function, writes, reads, is_view = step
    if is_view:
        values[writes[0]] = function(values[reads[0]])
    else:
        function([values[v] for v in writes], [values[v] for v in reads])


def value_names(values: Sequence[int]) -> str:
    """Values of a plan as its printed text names them."""
    return ", ".join(f"v{v}" for v in values)


def _itself(array: np.ndarray) -> np.ndarray:
    return array


def updates_in_place(plan: Plan) -> dict[int, int]:
    """The kernels that may write their result into the memory of the array they update, and which value that is.

    It must come from another kernel, and nobody may read it later, nor one write of the update after another.
    """
    owner = {v: v for v in range(len(plan.types))}
    last: dict[int, int] = {}
    made: set[int] = set()
    for i, k in enumerate(plan.kernels):
        last.update((owner[v], i) for v in k.reads)
        if k.kind == "view":
            owner[k.writes[0]] = owner[k.reads[0]]
        else:
            made.update(k.writes)
    results = {owner[v] for v in plan.outputs}
    found = {}
    for i, k in enumerate(plan.kernels):
        n = k.body.outputs[0]
        if k.kind != "library" or len(k.writes) != 1 or row(n.op).role is not Role.UPDATE or n.args[0].op != "input":
            continue
        base = k.reads[k.body.inputs.index(n.args[0])]
        others = [owner[v] for v in k.reads if v != base]
        read_again = len(n.args) > 2 and any(leaf is n.args[0] for a in n.args[1:] for leaf in topological([a]))
        if base in made and last[base] == i and base not in results and base not in others and not read_again:
            found[i] = base
    return found


def layout(
    plan: Plan, in_place: dict[int, int]
) -> tuple[list[tuple[int, np.dtype, tuple[int, ...]]], list[tuple[int, bool]], list[Slot], int]:
    """New arrays per call; outputs, and whether each is copied; intermediates in the arena; the size of the arena."""
    root: dict[int, int] = {}
    spread: set[int] = set()  # views in which elements share memory: the caller could not write into them
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, k in enumerate(plan.kernels):
        if k.kind == "view":
            root[k.writes[0]] = root.get(k.reads[0], k.reads[0])
            if k.reads[0] in spread or any(n.op in ("broadcast_to", "sliding_window") for n in k.body.nodes):
                spread.add(k.writes[0])
            continue
        if i in in_place:
            root[k.writes[0]] = root.get(in_place[i], in_place[i])
        else:
            first.update(dict.fromkeys(k.writes, i))
        last.update((root.get(v, v), i) for v in (*k.writes, *k.reads))
    fresh: dict[int, None] = {}
    outputs = []
    for v in plan.outputs:
        owner = root.get(v, v)
        copied = owner not in first or owner in fresh or v in spread
        if owner in first:
            fresh[owner] = None
        outputs.append((v, copied))
    types = plan.types
    lives = [Life(v, types[v].nbytes, at, last[v]) for v, at in first.items() if v not in fresh]
    offsets, nbytes = place(lives)
    slots = [(v, at, at + types[v].nbytes, types[v].dtype, types[v].shape) for v, at in offsets.items()]
    return [(v, types[v].dtype, types[v].shape) for v in fresh], outputs, slots, nbytes
