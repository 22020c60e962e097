"""Products with a bias and a clamp behind them against NumPy's, whose products BLAS computes, on equal threads.

Both run in this process and take turns after their answers are compared. *BLAS* is the product alone, into memory that
is there. Run: eqfuse bench cpu --products [--threads N] [--seconds N] [name…].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import eqfuse as ef
from eqfuse.benches.measured import geometric_mean
from eqfuse.benches.timing import machine, medians
from eqfuse.show.progress import progress

SHAPES = {  # rows, terms and columns, and how many at once
    "square": [(n, n, n, 1) for n in (16, 32, 64, 96, 128, 256, 512, 1024, 2048)],
    "batched": [(16, 16, 16, 4096), (32, 32, 32, 1024), (64, 64, 64, 256)],
    "few rows": [(1, 1024, 1024, 1), (1, 4096, 4096, 1), (8, 1024, 1024, 1)],
    "few columns": [(4096, 1024, 1, 1), (16384, 64, 16, 1)], "few terms": [(1024, 16, 1024, 1)],
}  # fmt: skip
DTYPES = ("float32", "float64")
CLOSE = 100  # times the unit roundoff and the number of terms, of the largest value, that answers may differ


def layer(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def run(names: Sequence[str], threads: int, seconds: float) -> int:
    """Prints the table; the exit status is 1 where an answer is wrong."""
    threadpool_limits(threads)  # BLAS was loaded before
    cases = [
        (name, shape, dtype) for name, shapes in SHAPES.items() for shape in shapes for dtype in DTYPES
        if not names or any(part in name for part in names)
    ]  # fmt: skip
    print(machine())
    heads = f"{'product':14}{'shape':>22}{'dtype':>9}{'eqfuse ms':>12}"
    print(f"{heads}{'Gflop/s':>9}{'NumPy':>8}{'BLAS':>7}   times eqfuse's")
    ratios, wrong = [], False
    with progress(len(cases)) as display:
        for name, (m, k, n, count), dtype in cases:
            display.step(f"{name}, {m} x {k} x {n}")
            rng = np.random.default_rng(0)
            shapes = [(count, m, k), (count, k, n), (n,)] if count > 1 else [(m, k), (k, n), (n,)]
            x, w, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
            program, product, wanted = ef.compile(layer, x, w, b), np.empty_like(x @ w), layer(x, w, b)
            off = np.abs(program(x, w, b) - wanted).max() / max(wanted.max(), 1)
            start = f"{name:14}{f'{count} of ' * (count > 1) + f'{m} x {k} x {n}':>22}{dtype:>9}"
            if off > CLOSE * k * np.finfo(dtype).eps:
                wrong = True
                print(f"{start}  the answer is off by {off:.1e} of the largest value")
                continue
            calls = [lambda: program(x, w, b), lambda: layer(x, w, b), lambda: np.matmul(x, w, out=product)]  # noqa: B023
            ours, numpy, blas = medians(calls, 3 * seconds, rested=True)
            ratios.append(numpy / ours)
            rate = 2 * count * m * k * n / ours / 1e9
            print(f"{start}{ours * 1e3:12.4f}{rate:9.1f}{ratios[-1]:8.2f}{blas / ours:7.2f}", flush=True)
    if ratios:
        print(f"{geometric_mean(ratios):.2f} times as fast as NumPy in geometric mean, least {min(ratios):.2f}")
    return int(wrong)
