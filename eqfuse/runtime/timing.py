"""Calls timed in turn, so that they share the drift of the machine.

In: calls. Out: the median seconds of each. Used by `program.py` and by `eqfuse/specialise/tuning.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

TIMING_SECONDS, LEAST_TURNS, MOST_TURNS = 1.0, 5, 50  # seconds: of all calls, once each has had the least turns
TURN = 1e-3  # seconds that a turn takes at least


def in_turn(calls: Sequence[Callable[[], Any]], look: Callable[[], None] = lambda: None) -> list[float]:
    """Median seconds of each of `calls`. `look` is called now and then, to notice other programs at work."""
    times = [max(1, round(TURN / max(_seconds(call, 1) for _ in range(2)))) for call in calls]
    logs: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + TIMING_SECONDS
    for number in range(MOST_TURNS):
        if number >= LEAST_TURNS and time.perf_counter() > end:
            break
        if number % LEAST_TURNS == 0:
            look()
        for call, count, log in zip(calls, times, logs, strict=True):
            log.append(_seconds(call, count))
    return [median(log) for log in logs]


def _seconds(call: Callable[[], Any], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        call()
    return max(time.perf_counter() - started, 1e-9) / times
