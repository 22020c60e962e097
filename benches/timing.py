"""How the benchmarks measure: versions in turn with medians, two of them call by call, peak temporary memory, and on
which machine."""

from __future__ import annotations

import math
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from eqfuse.cost.targets import device_for
from eqfuse.emit.numpy.calibrate import cpu_name
from eqfuse.ir.graph import Graph
from eqfuse.ir.pytree import tree_leaves
from eqfuse.ops import Role

Clock = Callable[[], float]
PAUSE = 0.15  # seconds before a turn of long calls: BLAS threads of the version before spin on and would take a core
SHORT = 0.05  # the same between neighbours of a duel, which are to share the drift of the machine
WARM = 0.03  # seconds of untimed calls that follow, since sleeping threads come back on whichever core is awake
LONG = 1e-3  # seconds from which a call is timed alone; shorter ones in batches of about this length
ROUNDS = 25  # at most

CLOSE = 0.01  # a ratio is known well enough when its interval reaches no further than this, either way
PAIRS, BLOCKS = 4, 8  # pairs in a block, which gives one figure; the fewest blocks that say anything


@dataclass(frozen=True)
class Ratio:
    """How many times as long one version takes as another; `low` and `high` hold that 95 times in 100."""

    times: float
    low: float
    high: float


def duel(
    first: Callable[[], Any], second: Callable[[], Any], seconds: float, rested: bool = False,
    renew: Callable[[], Any] = lambda: None,
) -> Ratio:  # fmt: skip
    """How many times as long `first` takes as `second`: of pairs of turns, one right behind the other.

    A machine's speed drifts by a third within a second, and medians of turns far apart by a tenth; neighbours share the
    drift. What is left depends on where in memory the arguments lie, which `renew` changes between blocks of pairs: a
    block's figure is its median, and the ratio that of all blocks. Ends when it is known to CLOSE, or after `seconds`.
    `rested`: every turn follows a pause, see SHORT. The interval is that of order statistics (Conover, Practical
    Nonparametric Statistics, 3.2).
    """
    batch = max(map(_batch, (first, second)))
    logs: list[float] = []
    begun = time.perf_counter()
    while True:
        renew()
        first(), second()
        logs.append(statistics.median(_pair(first, second, batch, rested, i) for i in range(PAIRS)))
        ratio = _middle(logs)
        converged = ratio.high - ratio.low < 2 * CLOSE * ratio.times
        if len(logs) >= BLOCKS and (converged or time.perf_counter() - begun >= seconds):
            return ratio


def _pair(first: Callable[[], Any], second: Callable[[], Any], batch: int, rested: bool, i: int) -> float:
    """The logarithm of how many times as long `first` takes; which goes first depends on `i`."""
    taken = [_sample(run, batch, rested) for run in ((first, second) if i % 2 else (second, first))]
    return math.log(taken[0] / taken[1]) * (1 if i % 2 else -1)


def _sample(run: Callable[[], Any], batch: int, rested: bool) -> float:
    """Seconds of a call."""
    if rested:
        _rest(run, SHORT)
    return _seconds(run, batch)


def _middle(logs: Sequence[float]) -> Ratio:
    ordered, n = sorted(logs), len(logs)
    away = math.ceil(1.96 * math.sqrt(n) / 2)
    ends = statistics.median(ordered), ordered[max(0, n // 2 - away)], ordered[min(n - 1, n // 2 + away)]
    return Ratio(*map(math.exp, ends))


def _rest(run: Callable[[], Any], pause: float) -> None:
    time.sleep(pause)
    warm = time.perf_counter() + WARM
    while time.perf_counter() < warm:
        run()


def medians(
    runs: Sequence[Callable[[], Any]], seconds: float, least: int = 5, clock: Clock | None = None,
    before: Callable[[], Any] | None = None, rested: bool = False,
) -> list[float]:  # fmt: skip
    """Median seconds of a call of each of `runs`, which take turns for about `seconds`, in another order each round: a
    call may be slower behind some other. Calls are timed by `clock`, or the wall's. Where there is something that runs
    `before` each, calls are timed one by one, right behind it. `rested`: short calls too follow a pause."""
    orders = random.Random(0)
    batches = [_batch(run) if before is None else 1 for run in runs]
    taken: list[list[float]] = [[] for _ in runs]
    begun = time.perf_counter()
    for i in range(ROUNDS):
        if i >= least and time.perf_counter() - begun > seconds:
            break
        for samples, run, batch in orders.sample([*zip(taken, runs, batches, strict=True)], len(runs)):
            if before is None and (batch == 1 or rested):
                _rest(run, PAUSE)
            for _ in range(3):
                if before is not None:
                    before()
                samples.append(_seconds(run, batch, clock))
    return [statistics.median(samples) for samples in taken]


def _seconds(run: Callable[[], Any], batch: int, clock: Clock | None = None) -> float:
    """Seconds of a call, over `batch` of them."""
    clock = clock or time.perf_counter
    started = clock()
    for _ in range(batch):
        run()
    return (clock() - started) / batch


def _batch(run: Callable[[], Any]) -> int:
    """How many calls to time at once; calling `run` for this warms it up too."""
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return 1 if best > LONG else max(1, round(LONG / best))


def uses_blas(graph: Graph) -> bool:
    """Does a program start threads of BLAS, so that its versions are to be timed `rested`?"""
    return any(n.row.role in (Role.CONTRACTION, Role.LIBRARY) for n in graph.nodes)


def with_temporaries(run: Callable[[], Any]) -> tuple[Any, int]:
    """What `run` returns, and the most bytes it held at once beside that."""
    tracemalloc.start()
    try:
        result = run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return result, max(0, peak - sum(a.nbytes for a in tree_leaves(result)[0]))


def machine() -> str:
    """Where and on how many threads this runs."""
    blas = ", ".join(f"{i['internal_api']} {i['num_threads']} threads" for i in threadpool_info())
    return f"{cpu_name()}, eqfuse {device_for('numpy').threads} threads, {blas}, NumPy {np.__version__}"
