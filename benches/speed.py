"""Whole programs: plain NumPy against eqfuse, answers checked first, then both timed in turn on equal threads.

Run: eqfuse bench speed [--quick] [--json FILE] [name…]. The exit status tells whether every answer was right.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import eqfuse as ef
from eqfuse.benches.corpus.workloads import gelu
from eqfuse.benches.timing import machine, medians, with_temporaries
from eqfuse.demo.comparison import largest_error
from eqfuse.demo.programs import Build, convolution, layer_norm, options, softmax, transformer
from eqfuse.ir.pytree import tree_leaves
from eqfuse.machine.threads import scratch
from eqfuse.plan.memory import arenas, results
from eqfuse.show.progress import progress

SLACK, CALL = 1.05, 20e-6  # how much slower than plain NumPy a program may be, and what one call may cost beside that
NOISE = 256 << 10  # bytes of Python objects that tracemalloc sees beside arrays


@dataclass(frozen=True)
class SpeedCase:
    """One program. `target`: how many times faster it should be, None where it must only be no slower.

    `share`: the share of plain NumPy's temporary memory that it may use. `small`: ef.jit is timed too.
    """

    name: str
    build: Build
    target: float | None = None
    share: float = 1.0
    small: bool = False


@dataclass(frozen=True)
class SpeedRow:
    """What was measured: seconds, and bytes of temporaries."""

    name: str
    numpy: float
    eqfuse: float
    jit: float | None
    target: float | None
    fast_enough: bool
    numpy_bytes: int | None
    eqfuse_bytes: int | None
    reported_bytes: int  # by the program's own report
    share: float
    small_enough: bool | None

    def __str__(self) -> str:
        wanted = f"≥ {self.target:.1f}×" if self.target else "≥ 0.95×"
        columns = [
            f"{self.name:32}{_time(self.numpy):>9}{_time(self.eqfuse):>9}",
            f"{_time(self.jit) if self.jit is not None else '':>9}",
            f"{self.numpy / self.eqfuse:7.2f}×  {wanted:8}{'met' if self.fast_enough else 'MISSED':7}",
        ]
        if self.numpy_bytes is not None and self.eqfuse_bytes is not None:
            met = "met" if self.small_enough else "MISSED"
            columns.append(f"{self.numpy_bytes / 1e6:9.2f}{self.eqfuse_bytes / 1e6:9.2f}  ≤ {self.share:<5.2f}{met}")
            if self.eqfuse_bytes != self.reported_bytes:
                columns.append(f", report.peak_bytes says {self.reported_bytes / 1e6:.2f}")
        return "".join(columns)


HEADING = (
    f"{'program':32}{'NumPy':>9}{'eqfuse':>9}{'jit':>9}{'ratio':>8}  {'wanted':8}{'':7}"
    f"{'NumPy MB':>9}{'eqfuse':>9}  temporaries"
)


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def norm_gelu(x: Any, gain: Any, shift: Any) -> Any:
    return gelu(layer_norm(x, gain, shift))


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5) @ v


def dense(x: Any, weight: Any, bias: Any) -> Any:
    return np.maximum(x @ weight + bias, 0)


def column_sums(x: Any) -> Any:
    return x.sum(axis=0)


def full_sum(x: Any) -> Any:
    return x.sum()


def normal(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Build:
    """A case's `build`: `function` on normal random arrays."""

    def build(dtype: DTypeLike) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        rng = np.random.default_rng(0)
        return function, tuple([rng.standard_normal(shape, np.float32).astype(dtype) for shape in shapes])

    return build


def cases(quick: bool) -> list[SpeedCase]:
    """The rows of the table; `quick` for a tenth of the work, at sizes that no target is set for."""
    elements, rows, tokens = (1 << 18, 256, 128) if quick else (1 << 22, 4096, 1024)
    panel = (rows, 1024)
    heads = (8, tokens, 64)
    all_cases = [
        SpeedCase(f"GELU {elements:,}", normal(gelu, (elements,)), 3.0),
        SpeedCase(f"softmax {rows}×1024", normal(softmax, panel), 2.5),
        SpeedCase(f"layer norm + GELU {rows}×1024", normal(norm_gelu, panel, (1024,), (1024,)), 2.5),
        SpeedCase(f"Black–Scholes {elements:,}", options(elements).build, 2.5),
        SpeedCase(f"attention 8×{tokens}×64", normal(attention, heads, heads, heads), 2.0, share=0.25),
    ]
    for n, shape in ((10, (2, 5)), (1_000, (20, 50)), (100_000, (200, 500))):
        k = shape[1]
        small = partial(SpeedCase, small=True)
        all_cases += [
            small(f"GELU {n:,}", normal(gelu, (n,))),
            small(f"softmax {shape[0]}×{k}", normal(softmax, shape)),
            small(f"dense + ReLU {shape[0]}×{k}", normal(dense, shape, (k, k), (k,))),
            small(f"column sums {shape[0]}×{k}", normal(column_sums, shape)),
            small(f"sum {n:,}", normal(full_sum, (n,))),
        ]
    block = transformer(2, 128, 192, 6) if quick else transformer()
    conv = convolution(batch=8) if quick else convolution()
    all_cases += [SpeedCase("transformer block", block.build), SpeedCase("conv block", conv.build)]
    return [replace(case, target=None) for case in all_cases] if quick else all_cases


def measure(case: SpeedCase, seconds: float) -> SpeedRow:
    """Check the answers of both, then time them in turn. SystemExit when eqfuse is less accurate than plain NumPy."""
    function, arguments = case.build(np.float64)
    exact = tree_leaves(function(*arguments))[0]
    function, arguments = case.build(np.float32)
    program = ef.compile(function, *arguments, target="numpy")
    _forget()
    ours, traced = with_temporaries(lambda: program(*arguments))
    reference, temporaries = with_temporaries(lambda: function(*arguments))
    errors = [largest_error(result, exact) for result in (reference, ours)]
    if errors[1] > 3 * errors[0] + 1e-6:
        raise SystemExit(f"{case.name}: the error is {errors[1]:.1e}, plain NumPy's {errors[0]:.1e}")
    del exact, reference, ours
    reported = program.report.peak_bytes
    peak = reported if abs(traced - reported) < NOISE else traced
    runs = [lambda: function(*arguments), lambda: program(*arguments)]
    if case.small:
        jitted = ef.jit(target="numpy")(function)
        runs.append(lambda: jitted(*arguments))
    taken = medians(runs, seconds)
    fast = taken[0] / taken[1] >= case.target if case.target else max(taken[1:]) <= SLACK * taken[0] + CALL
    seen = sum(a.nbytes for a in tree_leaves(arguments)[0]) >= NOISE  # smaller ones drown in Python objects
    return SpeedRow(
        case.name, taken[0], taken[1], taken[2] if case.small else None, case.target, fast,
        temporaries if seen else None, peak if seen else None, reported, case.share,
        peak <= case.share * temporaries if seen else None,
    )  # fmt: skip


def _forget() -> None:
    """Drop the memory that earlier programs left behind for later ones, so that all of a call's memory is seen."""
    arenas.forget()
    results.forget()
    scratch.kept.clear()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench speed", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller arrays, shorter runs")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("names", nargs="*", help="only programs with one of these in their name")
    options = parser.parse_args(arguments)
    print(f"{machine()}\n{HEADING}")
    rows = []
    chosen = [c for c in cases(options.quick) if not options.names or any(name in c.name for name in options.names)]
    with progress(len(chosen)) as display:
        for case in chosen:
            display.step(case.name)
            rows.append(measure(case, 0.3 if options.quick or case.small else 4.0))
            print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))


if __name__ == "__main__":
    main()
