"""How the benchmarks measure: versions in turn with medians, peak temporary memory, and on which machine."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from eqfuse.calibrate import cpu_name
from eqfuse.pytree import flatten
from eqfuse.targets import device_for

PAUSE = 0.05  # seconds before a turn of long calls: BLAS threads of the version before spin on and would take a core
WARM = 0.03  # seconds of untimed calls that follow, since sleeping threads come back on whichever core is awake
LONG = 1e-3  # seconds from which a call is timed alone; shorter ones in batches of about this length


def medians(runs: Sequence[Callable[[], Any]], seconds: float, least: int = 5, most: int = 25) -> list[float]:
    """Median seconds of a call of each of `runs`, which take turns for about `seconds`."""
    batches = [_batch(run) for run in runs]
    taken: list[list[float]] = [[] for _ in runs]
    begun = time.perf_counter()
    for i in range(most):
        if i >= least and time.perf_counter() - begun > seconds:
            break
        for samples, run, batch in zip(taken, runs, batches, strict=True):
            if batch == 1:
                time.sleep(PAUSE)
                warm = time.perf_counter() + WARM
                while time.perf_counter() < warm:
                    run()
            for _ in range(3):
                started = time.perf_counter()
                for _ in range(batch):
                    run()
                samples.append((time.perf_counter() - started) / batch)
    return [statistics.median(samples) for samples in taken]


def _batch(run: Callable[[], Any]) -> int:
    """How many calls to time at once; calling `run` for this warms it up too."""
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return 1 if best > LONG else max(1, round(LONG / best))


def with_temporaries(run: Callable[[], Any]) -> tuple[Any, int]:
    """What `run` returns, and the most bytes it held at once beside that."""
    tracemalloc.start()
    try:
        result = run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return result, max(0, peak - sum(a.nbytes for a in flatten(result)[0]))


def machine() -> str:
    """Where and on how many threads this runs."""
    blas = ", ".join(f"{i['internal_api']} {i['num_threads']} threads" for i in threadpool_info())
    return f"{cpu_name()}, eqfuse {device_for('numpy').threads} threads, {blas}, NumPy {np.__version__}"
