"""Whether other programs are at work while this CPU is measured.

In: moments at which to look. Out: a sentence about what was seen, or nothing on a quiet machine. Every look gives all
threads the same work: on a busy machine they wait for a core, or are slower at times than at others.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import NamedTuple

import numpy as np

BYTES_COPIED = 512 << 10  # copied again and again by each thread: what fits its cache
COPIES = 800  # milliseconds: the system takes one to give each thread a core of its own
WORKED = 0.75  # share of the time that a thread has a core, at least, where nobody else wants it
QUIET_SPREAD = 1.5  # times as long as the shortest look half of them may take


class Look(NamedTuple):
    """One look: seconds that it took, and the share of them that the thread with the least had a core."""

    seconds: float
    worked: float


class Watch:
    """Looks of one measurement, all by `look`."""

    def __init__(self, look: Callable[[], Look]) -> None:
        self._look = look
        self._looks: list[Look] = []

    def look(self) -> None:
        """Look once more. The first look of all warms up."""
        if not self._looks:
            self._look()
        self._looks.append(self._look())

    @property
    def trouble(self) -> str | None:
        """What says that the machine is busy."""
        if not self._looks:
            return None
        worked = statistics.median(look.worked for look in self._looks)
        if worked < WORKED:
            return f"threads had a core {worked:.0%} of the time"
        spread = statistics.median(look.seconds for look in self._looks) / min(look.seconds for look in self._looks)
        return f"the same work took {spread:.1f} times as long as at best" if spread > QUIET_SPREAD else None


def look_together(threads: int) -> Look:
    """A look by `threads` threads at once."""
    ready = Barrier(threads)
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        worked = list(pool.map(_copies, [ready] * threads))
        return Look(time.perf_counter() - started, min(worked))


def _copies(ready: Barrier) -> float:
    """The share of its time that this thread has a core for some copies."""
    source, target = np.ones(BYTES_COPIED, np.uint8), np.empty(BYTES_COPIED, np.uint8)
    ready.wait()
    started, begun = time.perf_counter(), time.thread_time()
    for _ in range(COPIES):
        np.copyto(target, source)
    return (time.thread_time() - begun) / (time.perf_counter() - started)
