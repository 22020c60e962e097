"""`set_num_threads` and EQFUSE_NUM_THREADS: one limit for all targets, from the next call on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.machine.thread_limit import limit, thread_count
from eqfuse.machine.threads import pool

ROOT = Path(__file__).resolve().parents[2]
CPUS = thread_count()


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = limit.value
    yield
    limit.value = before


def counted(variable: str) -> str:
    """What a new process prints that counts its threads."""
    program = "import eqfuse; from eqfuse.machine.thread_limit import thread_count; print(thread_count())"
    environment = os.environ | {"EQFUSE_NUM_THREADS": variable}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr


def test_new_programs_are_planned_for_no_more_threads_than_asked_nor_than_there_are_cpus() -> None:
    ef.set_num_threads(None)
    cpus = thread_count()
    ef.set_num_threads(1)
    assert thread_count() == 1
    ef.set_num_threads(cpus + 5)
    assert thread_count() == cpus


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.skipif(CPUS < 2, reason="this process may use one CPU")
def test_plans_are_priced_for_the_threads_that_were_asked_last(target: str) -> None:
    def threads(count: int | None) -> int:
        ef.set_num_threads(count)
        return ef.compile(lambda x: np.exp(x) * 2, np.ones(1 << 20, np.float32), target=target).plan.device.threads

    assert [threads(2), threads(1), threads(2)] == [2, 1, 2]


def test_programs_made_before_obey_the_next_call() -> None:
    def met() -> set[int]:
        threads = set()
        first = threading.Event()

        def work(tiles: Iterator[int]) -> None:
            for _ in tiles:
                threads.add(threading.get_ident())
                first.wait(0.05)

        pool.share(work, 8, 4, False)
        return threads

    ef.set_num_threads(1)
    assert met() == {threading.get_ident()}
    ef.set_num_threads(2)
    assert len(met()) == 2


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True])
def test_other_than_whole_numbers_from_one_on_are_refused(count: object) -> None:
    with pytest.raises(ValueError, match=r"the number of threads is .*; it must be a whole number, 1 or more") as error:
        ef.set_num_threads(count)  # type: ignore[arg-type]
    assert isinstance(error.value, ef.EqfuseError)


@pytest.mark.slow
def test_the_environment_says_it_for_a_process() -> None:
    assert counted("1") == "1"
    assert counted(" ") == str(thread_count())
    assert "EQFUSE_NUM_THREADS is 'many'; it must be a whole number, 1 or more" in counted("many")
    assert "EQFUSE_NUM_THREADS is 0;" in counted("0")
