"""Programs: a plan that can be called, and says what it does.

In: a `Plan`. Out: `Program`, called like the function it came from. Its report comes from `eqfuse/plan/report.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse.budget import Meter
from eqfuse.cost.targets import emitter, offloads
from eqfuse.emit.executable import Executable
from eqfuse.emit.onnx.model import to_onnx
from eqfuse.errors import EqfuseError
from eqfuse.ir.evaluate import evaluate
from eqfuse.machine.files import users_file
from eqfuse.ops.loops import LOOPS
from eqfuse.plan.plan import Plan
from eqfuse.plan.report import Report
from eqfuse.rewrites import Law
from eqfuse.runtime.save import save_program
from eqfuse.runtime.timing import in_turn
from eqfuse.show.attribution import NeededLaws, rests_on
from eqfuse.show.draw import draw_plan
from eqfuse.summary import SummarisedValue, Summary, costs, count, cut, of_kernels, quantity

if TYPE_CHECKING:
    from eqfuse.show.explain import Explanation

KERNELS_DRAWN = 16  # kernels that a notebook shows as a drawing
TIMED_SECONDS, TIMED_BYTES = 1.0, 1 << 30  # of all values, up to which NumPy is timed beside a program


class Program(SummarisedValue):
    """A compiled program. `program(*args)` takes and returns what the traced function does.

    `peak_bytes` is the most memory that one call holds beside its arguments, its results and the program's constants.
    """

    make_report: Callable[[], Report] | None = None  # where the report is made when it is first asked for
    laws: tuple[Law, ...] | None = None  # it was chosen under; None where nobody said

    def __init__(self, plan: Plan, executable: Executable | None = None) -> None:
        self.plan = plan
        self.executable = executable or emitter(plan.device)(plan)
        self.peak_bytes = self.executable.peak_bytes
        self._run = self.executable.run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = self.plan.graph.signature
        if signature is None:
            return self._run(args)
        return signature.rebuild(self.call(signature.flatten(args, kwargs)))

    def call(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The traced function's results for the `leaves` of its arguments, which it may change in place."""
        signature = self.plan.graph.signature
        if signature is None or signature.pure:
            return self._run(leaves)
        fed = signature.feed(leaves)
        return signature.settle(fed, self._run(fed.arrays))

    @cached_property
    def report(self) -> Report:
        """What a call does, by prediction, and what that saves; of a program that `compile` or `jit` made."""
        if self.make_report is None:
            raise EqfuseError(
                "no report: this program was made by ef.emit, of a plan, which does not know the search that found it, "
                "nor the program of one kernel per operator. ef.compile(graph) makes a program with a report"
            )
        return self.make_report()

    @property
    def _is_reported(self) -> bool:
        """Has it a report, or what makes one?"""
        return self.make_report is not None or "report" in vars(self)

    def wait(self, seconds: float | None = None) -> bool:
        """With ``wait=False``: wait until the kernels are compiled, so many seconds at most. Are they?"""
        return True

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs for `arrays`, one per graph input. Raises ShapeError when they are not what was compiled for."""
        return self._run(arrays)

    def source(self) -> str:
        """What was emitted: a Python function, or one CUDA text with library calls as comments."""
        return self.executable.source()

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Why the program looks as it does, and the laws it rests on; with arguments, each kernel is timed on them, and
        the whole beside NumPy.

        Finding the laws takes up to some seconds, once (see `eqfuse/show/attribution.py`).
        """
        from eqfuse.show.explain import explain  # what prints tables is slow to import

        measured, against = None, None
        if args or kwargs:
            arrays = self._arrays(args, kwargs)
            measured, against = self.executable.kernel_seconds(arrays), self._against_numpy(arrays)
        explanation = explain(self.report, self.plan, measured, self.rests_on, self.executable.schedules(), against)
        return explanation.about(self.executable.notes())

    def _against_numpy(self, arrays: Sequence[Any]) -> tuple[float, float] | None:
        """Median seconds of the operators as NumPy calls, one by one, and of the program, timed in turn; None on a GPU,
        of loops, and where NumPy would take long, or much memory."""
        graph = self.plan.graph
        large = sum(n.type.nbytes for n in graph.operators) > TIMED_BYTES or self.report.unfused_seconds > TIMED_SECONDS
        if large or offloads(self.plan.device) or any(n.op in LOOPS for n in graph.nodes):
            return None
        with np.errstate(all="ignore"):
            numpy, own = in_turn([partial(evaluate, graph, arrays), partial(self.run, arrays)])
        return numpy, own

    def _arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """What a call with these arguments gives the graph."""
        signature = self.plan.graph.signature
        return args if signature is None else signature.feed(signature.flatten(args, kwargs)).arrays

    @cached_property
    def rests_on(self) -> NeededLaws | None:
        """The laws that the program rests on, as a whole and by kernel. None where `laws` is."""
        return None if self.laws is None else rests_on(self.plan, self.laws)

    def kernel_seconds(self, *args: Any, **kwargs: Any) -> list[float]:
        """Median seconds of each kernel that is no view, in order, on these arguments."""
        return self.executable.kernel_seconds(self._arrays(args, kwargs))

    def summary(self) -> Summary:
        return self._summary(f"{type(self).__name__} {self.plan.graph.heading}")

    def _summary(self, title: str) -> Summary:
        """What the program is, by `title`, and the kernels of its plan."""
        lines = self.plan.kernel_lines()
        kept = f"{quantity(self.peak_bytes, 'B')} of temporaries"
        kernels = f"{count(len(lines), 'kernel')} for {self.plan.device.name}, {costs(lines)}, {kept}"
        return of_kernels(f"{cut(title)}\n{kernels}", lines)

    def _repr_html_(self) -> str:
        """The short form, and a drawing of the kernels where these are few."""
        lines = self.plan.kernel_lines()
        small = len(lines) <= KERNELS_DRAWN and sum(len(line.ops) for line in lines) <= KERNELS_DRAWN * KERNELS_DRAWN
        return self.summary().html() + (draw_plan(self.plan) if small else "")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise EqfuseError("a program is neither pickled nor copied: write it by program.save(path), read it by ef.load")

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, _memo: dict) -> Program:
        return self

    def save(self, path: str | Path) -> None:
        """Write the program to the file `path`: data only, no code, no pickle. `ef.load` reads it."""
        save_program(self.plan, self.report if self._is_reported else None, self.laws, path)

    def to_onnx(self, path: str | Path) -> None:
        """Write the program to the file `path` as an ONNX model in which every kernel is a local function."""
        to_onnx(self.plan, users_file(path))


def emit(plan: Plan, meter: Meter | None = None) -> Program:
    """The program that runs `plan`, by the target of its device, made within what the `meter` of a compile has left."""
    return Program(plan, emitter(plan.device, meter)(plan))
