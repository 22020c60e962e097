"""The programs of tests/programs, plain NumPy against ef.jit: answers checked first, then both timed in turn.

Run: eqfuse bench programs [--quick] [--small] [--json FILE] [name…]. The exit status says whether answers are right.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import eqfuse as ef
from eqfuse.benches.corpus.checkout import checkout_programs
from eqfuse.benches.timing import medians
from eqfuse.ir.pytree import tree_leaves
from eqfuse.show.progress import progress

SLACK, CALL = 1.05, 20e-6  # how much slower than plain NumPy a program may be, and what one call may cost beside that
TRACING = 20e-6  # seconds a node


@dataclass(frozen=True)
class ProgramRow:
    """What was measured, in seconds. `nodes`: of the graph; `error`: relative to the largest value."""

    name: str
    numpy: float
    jit: float
    first_call: float
    tracing: float
    nodes: int
    kernels: int
    error: float

    @property
    def fast_enough(self) -> bool:
        return self.jit <= SLACK * self.numpy + CALL

    def __str__(self) -> str:
        per_node = self.tracing / self.nodes
        return (
            f"{self.name:22}{self.numpy * 1e3:8.3f} ms{self.jit * 1e3:8.3f} ms{self.numpy / self.jit:7.2f}×  "
            f"{'met' if self.fast_enough else 'MISSED':7}{self.first_call:7.2f} s{self.nodes:7}{self.kernels:8}"
            f"{per_node * 1e6:8.1f} µs {'met' if per_node <= TRACING else 'MISSED'}"
        )


HEADING = (
    f"{'program':22}{'NumPy':>11}{'jit':>11}{'ratio':>8}  {'≥ 0.95×':7}{'first':>9}{'nodes':>7}{'kernels':>8}"
    f"{'a node':>11} ≤ 20 µs"
)


def measure(program: Any, seconds: float, small: bool = False) -> ProgramRow:
    """SystemExit when the answers differ."""
    args, kwargs = program.arguments(program.small if small else program.large)
    wanted, expected = _call(program.function, args, kwargs)
    options = {"static_argnames": program.static}
    tracing = min(_seconds(lambda: ef.trace(program.function, *args, **kwargs, **options)) for _ in range(3))
    graph = ef.trace(program.function, *args, **kwargs, **options)
    jitted = ef.jit(**options)(program.function)
    begun = time.perf_counter()
    got, after = _call(jitted, args, kwargs)
    first_call = time.perf_counter() - begun
    error = _error(tree_leaves((got, after))[0], tree_leaves((wanted, expected))[0])
    if not error < 1e-3:
        raise SystemExit(f"{program.name}: differs from plain NumPy by {error:.1e} of the largest value")
    with np.errstate(all="ignore"):
        mine, theirs = deepcopy((args, kwargs)), deepcopy((args, kwargs))
        baseline, taken = medians(
            [lambda: program.function(*theirs[0], **theirs[1]), lambda: jitted(*mine[0], **mine[1])], seconds
        )
    kernels = len(jitted.program(*args, **kwargs).report.kernels)
    return ProgramRow(program.name, baseline, taken, first_call, tracing, len(graph.nodes), kernels, error)


def _call(function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The result, and the arguments afterwards; `args` themselves are left alone."""
    args, kwargs = deepcopy((args, kwargs))
    with np.errstate(all="ignore"):
        return function(*args, **kwargs), (args, kwargs)


def _seconds(run: Any) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def _error(computed: list[Any], expected: list[Any]) -> float:
    """The largest difference relative to a result's largest value; infinite where dtypes, shapes or NaNs differ."""
    worst = 0.0
    for g, w in zip(computed, expected, strict=True):
        g, w = np.asarray(g), np.asarray(w)
        finite = np.isfinite(w)
        if (g.dtype, g.shape) != (w.dtype, w.shape) or not np.array_equal(np.isfinite(g), finite):
            return float("inf")
        difference = np.abs(g[finite].astype(np.clongdouble) - w[finite])
        worst = max(worst, float(difference.max(initial=0) / (np.abs(w[finite]).max(initial=0) + 1e-9)))
    return worst


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench programs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--small", action="store_true", help="at sizes where a call itself is most of the time")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("names", nargs="*", help="only programs with one of these in their name")
    options = parser.parse_args(arguments)
    programs = checkout_programs()
    print(HEADING)
    rows, failed = [], []
    chosen = [p for p in programs if not options.names or any(name in p.name for name in options.names)]
    with progress(len(chosen)) as display:
        for program in chosen:
            display.step(program.name)
            try:
                rows.append(measure(program, 0.3 if options.quick else 2.0, options.small))
            except ef.EqfuseError as refusal:
                failed.append(program.name)
                print(f"{program.name:22}REFUSED: {refusal}", flush=True)
            else:
                print(rows[-1], flush=True)
    faster = statistics.geometric_mean([row.numpy / row.jit for row in rows]) if rows else 1.0
    print(f"{faster:.2f} times as fast as plain NumPy in geometric mean")
    print(f"{sum(row.fast_enough for row in rows)} of {len(rows)} are no slower than plain NumPy by more than 5 %")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if failed:
        raise SystemExit(f"refused: {', '.join(failed)}")


if __name__ == "__main__":
    main()
