"""How the benchmarks compare two versions on a machine whose speed drifts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest

from eqfuse.benches import timing


class Clock:
    """Time that passes only when a version runs: more of it while the machine is slow."""

    def __init__(self, noise: float = 0.0) -> None:
        self.now = 0.0
        self.rng, self.noise = np.random.default_rng(0), noise

    def version(self, seconds: float) -> Callable[[], None]:
        def run() -> None:
            drift = 1 + 0.4 * math.sin(self.now * 3)
            self.now += seconds * drift * math.exp(self.noise * self.rng.standard_normal())

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(time, "sleep", lambda seconds: setattr(clock, "now", clock.now + seconds))
    return clock


@pytest.mark.parametrize("rested", [False, True])
def test_a_duel_tells_two_versions_apart_by_a_fiftieth_while_the_machine_drifts_by_two_fifths(
    clock: Clock, rested: bool
) -> None:
    ratio = timing.duel(clock.version(5.1e-3), clock.version(5e-3), 20.0, rested)
    assert ratio.times == pytest.approx(1.02, abs=0.01)
    assert ratio.low <= ratio.times <= ratio.high


def test_a_duel_ends_when_the_ratio_is_known_and_at_the_latest_when_its_time_is_up(clock: Clock) -> None:
    timing.duel(clock.version(2e-3), clock.version(1e-3), 20.0)
    assert clock.now < 1
    clock.noise = 0.5
    begun = clock.now
    ratio = timing.duel(clock.version(2e-3), clock.version(1e-3), 20.0)
    assert clock.now - begun == pytest.approx(20, abs=0.5)
    assert ratio.high - ratio.low > 2 * timing.CLOSE * ratio.times


def test_the_interval_of_a_duel_holds_the_ratio_nearly_always(clock: Clock) -> None:
    clock.noise = 0.1
    duels = [timing.duel(clock.version(2e-3), clock.version(2e-3), 0.2) for _ in range(200)]
    assert sum(d.low <= 1 <= d.high for d in duels) >= 180


def test_short_calls_are_timed_by_the_batch(clock: Clock) -> None:
    calls = 0
    run = clock.version(1e-6)

    def counted() -> None:
        nonlocal calls
        calls += 1
        run()

    assert timing.duel(counted, counted, 0.1).times == pytest.approx(1, abs=0.01)
    assert calls > 1000 * timing.PAIRS


def test_arguments_are_put_elsewhere_before_every_block_of_pairs(clock: Clock) -> None:
    places = 0
    run = clock.version(2e-3)

    def renew() -> None:
        nonlocal places
        places += 1

    timing.duel(run, run, 0.0, renew=renew)
    assert places == timing.BLOCKS
