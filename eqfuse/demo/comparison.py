"""One program three ways: plain NumPy, the best greedy fusion, and eqfuse.

In: an example of `programs`. Out: `DemoComparison`, checked against float64 and timed.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.compiler import compile_graph, extract
from eqfuse.demo.programs import Example
from eqfuse.egraph.saturate import saturate
from eqfuse.extract.greedy import GREEDY
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.graph import Graph
from eqfuse.ir.pytree import tree_leaves
from eqfuse.plan.plan import Plan
from eqfuse.runtime.program import Program
from eqfuse.summary import duration, quantity

HEADINGS = ("", "kernels", "moved", "temp.", "predicted", "measured", "×", "error")
LEGEND = (
    "moved: bytes between kernels and memory, and predicted: time, both by the price model; temp.: peak bytes of "
    "temporaries; measured: median, versions in turn; ×: times faster than plain NumPy; error: largest difference "
    "from a float64 run, relative to the largest value; greedy: the cheapest of four greedy fusers, without laws"
)
BUDGET = 10.0  # seconds of timing per program, at least three rounds
TIMING_ROUNDS = (3, 15)  # at least and at most


@dataclass(frozen=True)
class DemoVersion:
    """One way to run a program. `temporaries`: peak bytes beside arguments and results."""

    name: str
    kernels: int
    bytes_moved: int
    temporaries: int
    predicted: float
    measured: float
    error: float

    def cells(self, seconds: float) -> list[str]:
        return [
            self.name, str(self.kernels), quantity(self.bytes_moved, "B"), quantity(self.temporaries, "B"),
            duration(self.predicted), duration(self.measured), f"{seconds / self.measured:.2f}", f"{self.error:.1e}",
        ]  # fmt: skip


@dataclass(frozen=True)
class DemoComparison:
    """Plain NumPy, greedy fusion and eqfuse on one example, in this order."""

    example: Example
    versions: tuple[DemoVersion, ...]
    graph: Graph
    plan: Plan
    compile_seconds: float

    def rows(self) -> list[list[str]]:
        return [v.cells(self.versions[0].measured) for v in self.versions]


def compare_example(example: Example, say: Callable[[str], None]) -> DemoComparison:
    """Compile, check against float64 and time one example; `say` is told each step."""
    say("float64 run")
    wanted, _ = tree_leaves(example.precise())
    function, arguments = example.build(np.float32)
    say("search")
    graph = trace(function, *arguments)
    started = time.perf_counter()
    fused = compile_graph(graph)
    compile_seconds = time.perf_counter() - started
    say("greedy fusion")
    name, greedy = best_greedy(graph)
    runs = [lambda: function(*arguments), lambda: greedy(*arguments), lambda: fused(*arguments)]
    say("largest error")
    errors = [largest_error(run(), wanted) for run in runs]
    temporaries = [_temporaries(runs[0]), greedy.report.peak_bytes, fused.report.peak_bytes]
    measured = _medians(runs, say)
    r = fused.report
    models = [
        (r.unfused_kernels, r.unfused_bytes_moved, r.unfused_seconds),
        *((p.report.n_kernels, p.report.bytes_moved, p.report.predicted_seconds) for p in (greedy, fused)),
    ]
    versions = tuple(
        DemoVersion(label, kernels, moved, temporary, predicted, seconds, error)
        for label, (kernels, moved, predicted), temporary, seconds, error in zip(
            ("plain NumPy", f"greedy, {name}", "eqfuse"), models, temporaries, measured, errors, strict=True
        )
    )
    return DemoComparison(example, versions, graph, fused.plan, compile_seconds)


def best_greedy(graph: Graph) -> tuple[str, Program]:
    """The greedy fuser whose plan has the lowest predicted time, and its program. Greedy fusers use no laws."""
    space = saturate(graph, laws="none")
    costs = {name: extract(space, extractor=name).seconds for name in GREEDY}
    best = min(GREEDY, key=costs.__getitem__)
    return best.removeprefix("greedy-"), compile_graph(graph, laws="none", extractor=best)


def largest_error(result: Any, wanted: list[Any]) -> float:
    """How far the arrays of `result` are from `wanted`, as a share of the largest element of each."""
    worst = 0.0
    for got, exact in zip(tree_leaves(result)[0], wanted, strict=True):
        worst = max(worst, float(np.abs(got - exact).max() / np.abs(exact).max()))
    return worst


def _temporaries(run: Callable[[], Any]) -> int:
    """Peak bytes that NumPy holds while `run` works, less its result."""
    tracemalloc.start()
    try:
        kept = run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return max(0, peak - sum(a.nbytes for a in tree_leaves(kept)[0]))


def _medians(runs: list[Callable[[], Any]], say: Callable[[str], None]) -> list[float]:
    """Median seconds of each, run in turn."""
    seconds: list[list[float]] = [[] for _ in runs]
    begun = time.perf_counter()
    least, most = TIMING_ROUNDS
    for i in range(most):
        if i >= least and time.perf_counter() - begun > BUDGET:
            break
        say(f"timing, round {i + 1}")
        for taken, run in zip(seconds, runs, strict=True):
            started = time.perf_counter()
            run()
            taken.append(time.perf_counter() - started)
    return [statistics.median(taken) for taken in seconds]
