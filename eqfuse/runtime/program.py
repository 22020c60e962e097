"""Programs: a plan's kernels, bound to memory and callable.

In: a `Plan`. Out: `Program`, called like the function it came from. Its report comes from `eqfuse/plan/report.py`.
Results are new arrays that the caller owns; intermediates share one arena; several threads may call at once.
Floating-point warnings are silent inside: a fused program computes other intermediates than the user wrote.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.emit.numpy.library import with_known_places
from eqfuse.emit.numpy.program import Call, Routine
from eqfuse.errors import DtypeError, ShapeError
from eqfuse.ir.accepted import ndarray
from eqfuse.ir.evaluate import evaluate
from eqfuse.plan.buffers import layout
from eqfuse.plan.in_place import updates
from eqfuse.plan.memory import Arena, arenas, outside_bytes
from eqfuse.plan.plan import Plan

if TYPE_CHECKING:
    from eqfuse.plan.report import Report
    from eqfuse.rewrites import Law
    from eqfuse.show.attribution import Rests
    from eqfuse.show.explain import Explanation

SMALL_BYTES = 1 << 20  # an arena up to this size stays with its program


class Program:
    """A compiled program. `program(*args)` takes and returns what the traced function does.

    `peak_bytes` is the most memory that one call holds beside its arguments, its results and the program's constants:
    the arena, the scratch memory of its threads, and what NumPy's routines allocate on the way. Workspaces inside
    C libraries (LAPACK, BLAS, sorting) and Python's own objects are not counted.
    """

    make_report: Callable[[], Report]  # where the report is made when it is first asked for
    laws: tuple[Law, ...] | None = None  # it was chosen under; None where nobody said

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._expected = [(v, n.dtype, n.shape) for v, n in zip(plan.inputs, plan.graph.inputs, strict=True)]
        self._known = _known(plan)
        kernels = [with_known_places(k, self._known) for k in plan.kernels]
        self._emitted = [None if k.kind == "view" else emit_kernel(k, plan.device) for k in kernels]
        rooms = {i: tuple(k.parts.rooms.values()) for i, k in enumerate(self._emitted) if k and k.parts.rooms}
        shared = {i for i, k in enumerate(self._emitted) if k and k.parts.one_ufunc_writes}
        gaps = {i for i, k in enumerate(self._emitted) if k and k.parts.writes_gaps}
        returned = [i for i, k in enumerate(self._emitted) if k and k.parts.returned]
        placed = updates(plan, gaps | shared, shared)
        for i in gaps.intersection(part.maker for part in placed.parts.values()):
            self._emitted[i] = emit_kernel(kernels[i], plan.device, gaps=True)
        self._layout = layout(plan, placed, returned, rooms)
        self._routine = Routine(plan, kernels, self._emitted, self._layout, self._known)
        self._ready: list[Call] = []  # bound to small arenas, while no call uses them
        self.peak_bytes = self._layout.peak + outside_bytes([k.needs for k in self._emitted if k])

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
        fed = signature.feed(leaves)
        return signature.settle(fed, self.run(fed.arrays))

    @cached_property
    def report(self) -> Report:
        """What a call does, by prediction, and what that saves."""
        return self.make_report()

    def run(self, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The outputs for `arrays`, one per graph input. Raises ShapeError when they are not what was compiled for."""
        if len(arrays) != len(self._expected):
            raise ShapeError(f"the program has {len(self._expected)} inputs, {len(arrays)} arrays were given")
        given = self._accepted(arrays)
        run = self._in_own_memory if self._layout.nbytes <= SMALL_BYTES else self._in_arena
        with np.errstate(all="ignore"):
            return run(given)

    def source(self) -> str:
        """The Python function that a call runs, and the kernels it calls."""
        return self._routine.source

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Why the program looks as it does, and the laws it rests on; with arguments, each kernel is timed on them too.

        Finding the laws takes up to some seconds, once (see `eqfuse/show/attribution.py`).
        """
        from eqfuse.show.explain import explain

        measured = self.kernel_seconds(*args, **kwargs) if args or kwargs else None
        return explain(self.report, self.plan, measured, self.rests_on)

    @cached_property
    def rests_on(self) -> Rests | None:
        """The laws that the program rests on, as a whole and by kernel. None where `laws` is."""
        from eqfuse.show.attribution import rests_on

        return None if self.laws is None else rests_on(self.plan, self.laws)

    def kernel_seconds(self, *args: Any, **kwargs: Any) -> list[float]:
        """Median seconds of each kernel that is no view, in order, on these arguments."""
        signature = self.plan.graph.signature
        arrays = args if signature is None else signature.feed(signature.flatten(args, kwargs)).arrays
        given = self._accepted(arrays)
        clock: list[float] = []
        run = self._bound(Arena(self._layout.nbytes), lambda: clock.append(time.perf_counter()))
        taken = []
        with np.errstate(all="ignore"):
            for _ in range(6):
                clock.clear()
                run(given)
                taken.append(np.diff(clock))
        return [statistics.median(seconds) for seconds in zip(*taken[1:], strict=True)]

    def save(self, path: str | Path) -> None:
        """Write the program to the file `path`: data only, no code, no pickle. `ef.load` reads it."""
        from eqfuse.runtime.program_file import save

        save(self.plan, self.report if hasattr(self, "report") else None, self.laws, Path(path))

    def to_onnx(self, path: str | Path) -> None:
        """Write the program to the file `path` as an ONNX model in which every kernel is a local function."""
        from eqfuse.emit.onnx.model import to_onnx

        to_onnx(self.plan, path)

    # memory of a call that ends by an error is not used again: workers may still write there

    def _in_own_memory(self, given: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        try:
            bound = self._ready.pop()
        except IndexError:
            bound = self._bound(Arena(self._layout.nbytes))
        made = bound(given)
        self._ready.append(bound)
        return made

    def _in_arena(self, given: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        arena = arenas.take(self._layout.nbytes)
        bound = arena.laid.get(self)
        if bound is None:
            bound = arena.laid[self] = self._bound(arena)
        made = bound(given)
        arenas.give(arena)
        return made

    def _accepted(self, arrays: Sequence[Any]) -> Sequence[np.ndarray]:
        """The arguments, each of the type that was compiled for."""
        given = []
        for array, (v, dtype, shape) in zip(arrays, self._expected, strict=True):
            if type(array) is not np.ndarray:
                array = ndarray(array, f"the argument {self._name(v)!r}")
            if array.shape != shape or array.dtype != dtype:
                self._refuse(v, array)
            given.append(array)
        return given

    def _bound(self, arena: Arena, mark: Callable[[], None] | None = None) -> Call:
        """The function that calls which use `arena` run."""
        return self._routine.bound(self._known | self._layout.arrays(arena.memory), mark)

    def _refuse(self, value: int, array: np.ndarray) -> NoReturn:
        n = self.plan.graph.inputs[self.plan.inputs.index(value)]
        got = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
        if not array.dtype.isnative:
            got = f"in another byte order ({array.dtype.str})"
        misfit = ShapeError if array.dtype == n.dtype else DtypeError
        raise misfit(
            f"argument {n.attrs[0]!r} is {got}, the program was compiled for {n.type}: convert it, or compile for it "
            "(ef.jit does so by itself)"
        )

    def _name(self, value: int) -> Any:
        return self.plan.graph.inputs[self.plan.inputs.index(value)].attrs[0]


def _known(plan: Plan) -> dict[int, np.ndarray]:
    """The values that depend on constants alone."""
    known = {v: np.asarray(literal.array, order="C") for v, literal in plan.constants}  # else calls may copy them
    with np.errstate(all="ignore"):
        for k in plan.setup:
            made = evaluate(k.body, [known[v] for v in k.reads])
            known |= zip(k.writes, [np.array(array, order="C") for array in made], strict=True)
    return known
