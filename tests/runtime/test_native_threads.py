"""Chunks of native kernels: each runs once, whoever calls, and threads obey limits, affinity, forks and interrupts."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.machine import c_threads
from eqfuse.machine.c_objects import load
from eqfuse.machine.thread_limit import limit, thread_count
from tests.support.c_kernels import Saxpy, address, needs_compiler

pytestmark = needs_compiler
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60
two_cpus = pytest.mark.skipif(thread_count() < 2, reason="one CPU")

KERNELS = """
void count(int *counts, long long chunk) {
    for (volatile int i = 0; i < 300; i++)
        ;
    counts[chunk]++;
}
static _Thread_local char mine;
void thread(char **threads, long long chunk) { threads[chunk] = &mine; }
int meet(long long *met, long long chunk) {
    __atomic_fetch_add(met, 1, __ATOMIC_SEQ_CST);
    for (long long i = 0; i < 10000000000 && __atomic_load_n(met, __ATOMIC_SEQ_CST) < met[1]; i++)
        ;
    return 0;
}
struct nested { void (*run)(void *, void *, long long, long long); int *counts; };
void nested(struct nested *args, long long chunk) { args->run(count, args->counts + 100 * chunk, 100, 4); }
void third(double *thirds, long long chunk) { volatile double one = 1, three = 3; thirds[chunk] = one / three; }
"""


@pytest.fixture(scope="module")
def kernels() -> ctypes.CDLL:
    return load(KERNELS)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = limit.value
    yield
    limit.value = before


def counts_of(kernels: ctypes.CDLL, chunks: int, threads: int) -> np.ndarray:
    counts = np.zeros(chunks, np.int32)
    c_threads.run(address(kernels.count), counts.ctypes.data, chunks, threads)
    return counts


def threads_of(kernels: ctypes.CDLL, chunks: int, threads: int) -> int:
    """How many threads work on `chunks` that wait for as many as there may be."""
    seen = np.zeros(chunks, np.uint64)
    c_threads.run(address(kernels.thread), seen.ctypes.data, chunks, threads)
    assert seen.all()
    return len({*seen.tolist()})


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_shared_saxpy_is_right(threads: int) -> None:
    problem = Saxpy(64)
    c_threads.run(problem.kernel, problem.args, problem.chunks, threads)
    problem.check()


@pytest.mark.parametrize("chunks", [0, 1, 2, 3, 1000])
def test_each_chunk_runs_once(kernels: ctypes.CDLL, chunks: int) -> None:
    for threads in (-1, 0, 1, 2, 3, 100):
        assert (counts_of(kernels, chunks, threads) == 1).all()


@two_cpus
def test_chunks_run_at_the_same_time(kernels: ctypes.CDLL) -> None:
    for _ in range(20):
        met = np.array([0, 2])
        c_threads.run(address(kernels.meet), met.ctypes.data, 2, 2)
        assert met[0] == 2
