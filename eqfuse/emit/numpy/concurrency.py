"""What the threads of this CPU do together: memory bandwidth by level, and what they cost each other in Python.

In: nothing but the machine. Out: figures of a `Device`, for `calibrate`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from eqfuse.cost.device import Levels
from eqfuse.cost.profiles import DEVICES

# Seconds of a figure, and of one of all threads: a guest's kernel may leave two of them on one CPU for tens of ms.
QUICK, QUICK_TOGETHER, THOROUGH = 1e-3, 0.06, 0.3
REPEATED = 256 << 20  # bytes at least that one run copies, beside which it takes little to hand it to threads
DISPATCHED = 0.01  # seconds, at least, in which work is handed to threads: the first times take twice as long
# elements of an exponential that takes some ten microseconds, and such calls in a row
LASTS, CALLS_IN_A_ROW = 16384, 30
MOST_LOCKED = 3.0  # calls, on average over kernels of long calls; of short ones alone threads wait up to ten
SHORT_ADDITION = 256  # elements of an addition that takes about as long as its call


class Caches(NamedTuple):
    """Sizes in bytes: level 1 data and level 2 of one core, level 3 as one core sees it (0: none)."""

    l1: int
    l2: int
    l3: int


def seconds_of(call: Callable[[], Any], stop_after: float) -> float:
    """Seconds of one call: the best of at least three timings, repeated until `stop_after` seconds are spent."""
    call()
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 3 or spent < stop_after:
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


def memory_of(caches: Caches, threads: int, quick: bool) -> tuple[Levels, Levels, float]:
    """Copy bandwidth by level for one thread and for all, and the cost of handing work to the thread pool.

    A level-2 cache belongs to its core, so all cores together have the sum. No far level is faster than a nearer one.
    Of a large level-3 cache smaller parts are measured too: other machines on the same processor may hold the rest.
    """
    memory = DEVICES["cpu"].levels[-1][0]
    if hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    capacities = [caches.l2] + ([caches.l3] if caches.l3 > caches.l2 * threads else []) + [memory]
    while not quick and len(capacities) > 2 and 16 * capacities[0] * threads < capacities[1]:
        capacities.insert(1, capacities[1] // 4)
    far = min(4 * caches.l3, (256 << 20) if quick else 1 << 30)  # of smaller ones a part stays in the cache
    far = max(far, 64 << 20)
    sizes = [min(capacity, far) // 2 for capacity in capacities[:-1]] + [far]
    arrays = np.ones(far // 2, np.uint8), np.ones(far // 2, np.uint8)
    stop_after, long = (QUICK, QUICK_TOGETHER) if quick else (THOROUGH, THOROUGH)
    one, every = [], []
    with ThreadPoolExecutor(threads) as pool:
        dispatch = seconds_of(partial(_everywhere, pool, int, range(threads)), max(stop_after, DISPATCHED))
        for number, size in enumerate(sizes):
            half, repeats = size // 2, max(1, REPEATED // size)
            parts = [slice(half * i // threads, half * (i + 1) // threads) for i in range(threads)]
            one.append(size * repeats / seconds_of(partial(_copy, *arrays, repeats, slice(0, half)), stop_after))
            if number:
                copy = partial(_copy, *arrays, repeats * threads)
                together = seconds_of(partial(_everywhere, pool, copy, parts), long) - dispatch
                every.append(size * repeats * threads / max(together, 1e-9))
    every.insert(0, one[0] * threads)
    one = list(accumulate(one, min))
    every = list(accumulate(map(max, one, every), min))
    return (
        tuple(zip(capacities, one, strict=True)),
        tuple(zip([capacities[0] * threads, *capacities[1:]], every, strict=True)),
        dispatch,
    )


def lasting_of(threads: int) -> float:
    """`lasting_seconds` of a `Device`: of the shortest addition of which all threads do half as much more together as
    they could."""
    with ThreadPoolExecutor(threads) as pool:
        _everywhere(pool, int, range(threads))
        for size in (SHORT_ADDITION << k for k in range(1, 9)):
            alone, together = _additions(pool, threads, size)
            if threads * alone / together >= (1 + threads) / 2:
                return max(alone, 2e-6)
    return 1e-4


def lock_of(threads: int, call: float) -> float:
    """`lock` of a `Device`, whose NumPy calls take `call` seconds: how much longer one that lasts takes while all
    threads make such calls, which wait for no memory."""
    arrays = [np.zeros((2, LASTS), np.float32) for _ in range(threads)]

    def round_of_calls(pair: np.ndarray) -> None:
        for _ in range(CALLS_IN_A_ROW):
            np.exp(pair[0], pair[1])

    with ThreadPoolExecutor(threads) as pool:
        _everywhere(pool, int, range(threads))
        longer = []
        for _ in range(9):
            begin = time.perf_counter()
            round_of_calls(arrays[0])
            middle = time.perf_counter()
            _everywhere(pool, round_of_calls, arrays)
            longer.append((time.perf_counter() - middle) - (middle - begin))
    return min(max(1 + median(longer) / CALLS_IN_A_ROW / call, 1.0), MOST_LOCKED)


def wake_of(threads: int, dispatch: float, naps: int) -> float:
    """`wake` of a `Device`: the time to reach threads that have slept, of so many `naps` the median."""
    slept = []
    with ThreadPoolExecutor(threads) as pool:
        _everywhere(pool, int, range(threads))
        for _ in range(naps):
            time.sleep(0.01)
            start = time.perf_counter()
            _everywhere(pool, int, range(threads))
            slept.append(time.perf_counter() - start)
    return min(max(median(slept) / dispatch, 1.0), 20.0)


def _additions(pool: ThreadPoolExecutor, threads: int, size: int) -> tuple[float, float]:
    """Seconds of an addition of `size` elements, on one thread and while all others add too."""
    arrays = [(np.ones(size, np.float32), np.ones(size, np.float32)) for _ in range(threads)]
    calls = max(50, (1 << 20) // size)

    def add(pair: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in range(calls):
            np.add(pair[0], pair[0], pair[1])

    alone = seconds_of(partial(add, arrays[0]), 0.05)
    return alone / calls, seconds_of(partial(_everywhere, pool, add, arrays), 0.05) / calls


def _everywhere(pool: ThreadPoolExecutor, work: Callable[[Any], Any], parts: Iterable[Any]) -> None:
    list(pool.map(work, parts))


def _copy(target: np.ndarray, source: np.ndarray, repeats: int, part: slice) -> None:
    target, source = target[part], source[part]
    for _ in range(repeats):
        np.copyto(target, source)
