"""Threads: whatever disturbs one call, the next ones give right answers, and none hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.machine import threads
from eqfuse.machine.threads import Scratch, blas_libraries, pool
from eqfuse.plan.memory import Needs, outside_bytes
from tests.kernels.test_numpy_panels import TINY
from tests.runtime import disturbances

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30  # seconds until an event that must come


def disturbed(seed: int, times: int) -> None:
    command = [sys.executable, "-m", disturbances.__name__, str(seed), str(times)]
    two = {**os.environ, "OMP_NUM_THREADS": "2"}  # BLAS has threads of its own there
    done = subprocess.run(command, cwd=ROOT, env=two, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_disturbed_calls_are_followed_by_right_ones():
    disturbed(0, 16)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_calls_disturbed_at_100_random_moments_are_followed_by_right_ones(seed):
    disturbed(seed, 100)


@pytest.fixture
def libraries() -> Iterator[list[Any]]:
    """BLAS, with two threads of its own."""
    before = [library.num_threads for library in blas_libraries()]
    for library in blas_libraries():
        library.set_num_threads(2)  # threadpoolctl now obeys this thread alone
    yield blas_libraries()
    for library, count in zip(blas_libraries(), before, strict=True):
        library.set_num_threads(count)


def test_matrices_multiply_on_one_thread_of_blas_whichever_thread_calls(libraries: list[Any]) -> None:
    met: list[list[int]] = []

    def work(tiles: Iterator[int]) -> None:
        met.extend([library.num_threads for library in libraries] for _ in tiles)

    caller = threading.Thread(target=pool.share, args=(work, 4, 2, True))
    caller.start()
    caller.join(PATIENCE)
    assert met == [[1] * len(libraries)] * 4
    assert [library.num_threads for library in libraries] == [2] * len(libraries)


def test_a_caller_whose_workers_are_busy_multiplies_on_one_thread_of_blas_too(libraries: list[Any]) -> None:
    """The bits of a product depend on the threads of BLAS: calls while others run would differ from calls alone."""
    begun, go_on = threading.Event(), threading.Event()
    met: list[list[int]] = []

    def wait(tiles: Iterator[int]) -> None:
        for _ in tiles:
            begun.set()
            assert go_on.wait(PATIENCE)

    def work(tiles: Iterator[int]) -> None:
        met.extend([library.num_threads for library in libraries] for _ in tiles)

    others = [threading.Thread(target=pool.share, args=(wait, 8, 2, False)) for _ in range(8)]
    for other in others:
        other.start()
    assert begun.wait(PATIENCE)
    pool.share(work, 4, 2, True)
    go_on.set()
    for other in others:
        other.join(PATIENCE)
    assert met == [[1] * len(libraries)] * 4


def test_scratch_memory_is_kept_as_programs_count_it_whichever_threads_use_it(monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 8)
    rng, scratch, kernels = np.random.default_rng(0), Scratch(), []
    for _ in range(300):
        kernels.append(Needs(scratch=int(rng.integers(1, 50_000)), threads=int(rng.integers(1, 9))))
        held: list[np.ndarray] = []
        for _ in range(kernels[-1].threads):
            if held and rng.random() < 0.3:  # this thread is done before another begins
                scratch.give(held.pop(rng.integers(len(held))))
            held.append(scratch.take(kernels[-1].scratch))
        for i in rng.permutation(len(held)):
            scratch.give(held[i])
        spare = 64 * len(scratch.kept)
        assert sum(memory.nbytes for memory in scratch.kept.values()) <= outside_bytes(kernels) + spare


def on_two_threads(here: Any, there: Any) -> None:
    """A job of which the caller's thread does `here` and a worker `there`, at the same time."""
    pool.forget()
    caller = threading.get_ident()
    both = threading.Barrier(2)

    def work(tiles: Iterator[int]) -> None:
        for _ in tiles:
            both.wait(PATIENCE)
            here() if threading.get_ident() == caller else there()

    pool.share(work, 2, 2, False)


def nothing() -> None:
    pass


def fail() -> None:
    raise MemoryError("of one call")


def test_an_error_of_a_worker_is_raised_once():
    with pytest.raises(MemoryError, match="of one call"):
        on_two_threads(nothing, fail)
    on_two_threads(nothing, nothing)


def test_an_error_of_the_caller_hides_that_of_a_worker_for_good():
    def interrupt() -> None:
        raise KeyboardInterrupt

    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            on_two_threads(interrupt, fail)
        on_two_threads(nothing, nothing)


def test_a_killed_worker_is_a_clear_error_and_is_replaced():
    def end() -> None:
        raise SystemExit

    with pytest.raises(ef.EqfuseError, match="was killed while it ran a kernel"):
        on_two_threads(nothing, end)
    on_two_threads(nothing, nothing)


def test_workers_see_the_error_state_and_the_context_of_the_caller():
    variable: ContextVar[int] = ContextVar("variable", default=0)
    seen: list[Any] = []
    variable.set(3)
    with np.errstate(divide="raise", over="ignore", under="call", invalid="print"):
        on_two_threads(nothing, lambda: seen.append((np.geterr(), variable.get())))
        assert seen == [(np.geterr(), 3)]


def test_a_worker_that_outlives_its_call_writes_into_memory_that_no_other_call_has():
    pool.forget()
    x = np.linspace(-1, 1, 120_000, dtype=np.float32).reshape(400, 300)
    program = ef.compile(lambda x: np.sort(np.tanh(x)), x, target=TINY)
    kernel = next(f for name, f in program.executable.routine._names.items() if name.startswith("kernel"))
    tanh, sort = kernel.__globals__["tanh"], program.executable.routine._names["sort"]
    caller = threading.get_ident()
    begun, go, done = threading.Event(), threading.Event(), threading.Event()

    def late(a: np.ndarray, out: np.ndarray) -> None:
        if threading.get_ident() == caller:
            assert begun.wait(PATIENCE)
            raise KeyboardInterrupt
        begun.set()
        assert go.wait(PATIENCE)
        tanh(a, out)
        done.set()

    def sort_after_it(*args: Any) -> None:
        if begun.is_set():
            go.set()
            assert done.wait(PATIENCE)
        sort(*args)

    program.executable.routine._names["sort"] = sort_after_it
    (wanted,) = program.run([x])
    kernel.__globals__["tanh"] = late
    with pytest.raises(KeyboardInterrupt):
        program.run([x * 0])
    kernel.__globals__["tanh"] = tanh
    np.testing.assert_array_equal(program.run([x])[0], wanted)
    assert done.is_set()
