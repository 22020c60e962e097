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
from eqfuse.machine import c_compiler, c_threads
from eqfuse.machine.c_objects import loaded_library
from eqfuse.machine.thread_limit import limit, thread_count
from tests.runtime.disturbances import Interrupts
from tests.support.c_kernels import Saxpy, address, needs_compiler, run

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
void thread(char **threads, long long chunk) {
    for (volatile int i = 0; i < 1000000; i++)
        ;
    threads[chunk] = &mine;
}
void meet(long long *met, long long chunk) {
    __atomic_fetch_add(met, 1, __ATOMIC_SEQ_CST);
    for (long long i = 0; i < 10000000000 && __atomic_load_n(met, __ATOMIC_SEQ_CST) < 2; i++)
        met[1] = i;
}
struct nested { void (*run)(void *, void *, long long, long long); int *counts; };
void nested(struct nested *args, long long chunk) { args->run(count, args->counts + 100 * chunk, 100, 4); }
void third(double *thirds, long long chunk) { volatile double one = 1, three = 3; thirds[chunk] = one / three; }
"""


@pytest.fixture(scope="module")
def kernels() -> ctypes.CDLL:
    return loaded_library(KERNELS)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = limit.value
    yield
    limit.value = before


def counts_of(kernels: ctypes.CDLL, chunks: int, threads: int) -> np.ndarray:
    counts = np.zeros(chunks, np.int32)
    run(address(kernels.count), counts.ctypes.data, chunks, threads)
    return counts


def threads_of(kernels: ctypes.CDLL, threads: int) -> int:
    """How many threads there are at work on chunks that take a while."""
    seen = np.zeros(64, np.uint64)
    run(address(kernels.thread), seen.ctypes.data, len(seen), threads)
    assert seen.all()
    return len({*seen.tolist()})


@two_cpus
def test_the_caller_takes_the_first_chunks_and_another_thread_the_last(kernels: ctypes.CDLL) -> None:
    for _ in range(20):
        seen = np.zeros(64, np.uint64)
        run(address(kernels.thread), seen.ctypes.data, len(seen), 2)
        assert np.count_nonzero(seen[1:] != seen[:-1]) <= 1


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_shared_saxpy_is_right(threads: int) -> None:
    problem = Saxpy(64)
    run(problem.kernel, problem.args, problem.chunks, threads)
    problem.check()


@pytest.mark.parametrize("chunks", [0, 1, 2, 3, 1000])
def test_each_chunk_runs_once(kernels: ctypes.CDLL, chunks: int) -> None:
    for threads in (-1, 0, 1, 2, 3, 100):
        assert (counts_of(kernels, chunks, threads) == 1).all()


@two_cpus
@pytest.mark.parametrize("pause", [0.0, 0.002])
def test_chunks_run_at_the_same_time_whether_workers_are_awake_or_asleep(kernels: ctypes.CDLL, pause: float) -> None:
    for _ in range(20):
        time.sleep(pause)
        met = np.zeros(2, np.int64)
        run(address(kernels.meet), met.ctypes.data, 2, 2)
        assert met[0] == 2
        assert met[1] < 10_000_000_000 - 1


def test_calls_from_many_threads_at_once_are_all_right(kernels: ctypes.CDLL) -> None:
    wrong: list[int] = []

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for chunks in rng.integers(0, 200, 200).tolist():
            if not (counts_of(kernels, chunks, int(rng.integers(1, 9))) == 1).all():
                wrong.append(chunks)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not wrong


def test_a_chunk_may_share_work_itself(kernels: ctypes.CDLL) -> None:
    counts = np.zeros((50, 100), np.int32)
    args = (ctypes.c_void_p * 2)(c_threads.runner(), counts.ctypes.data)
    run(address(kernels.nested), ctypes.addressof(args), 50, 4)
    assert (counts == 1).all()


def test_more_callers_at_once_than_there_are_places_work_alone(kernels: ctypes.CDLL) -> None:
    """Each level of calls in calls holds a place."""
    depth = 80
    counts = np.zeros(4, np.int32)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_longlong)
    def deeper(args: int, chunk: int) -> None:
        if chunk:
            return
        levels.append(chunk)
        if len(levels) < depth:
            run(address(deeper), 0, 2, 2)
        else:
            run(address(kernels.count), counts.ctypes.data, 4, 2)

    levels: list[int] = []
    run(address(deeper), 0, 2, 2)
    assert len(levels) == depth
    assert (counts == 1).all()


def test_the_limit_is_obeyed_from_the_next_call_on(kernels: ctypes.CDLL) -> None:
    threads_of(kernels, 4)
    ef.set_num_threads(1)
    assert threads_of(kernels, 4) == 1
    ef.set_num_threads(2)
    assert threads_of(kernels, 4) == min(2, thread_count())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads are not bound to CPUs here")
def test_the_cpus_that_a_caller_may_use_are_those_its_workers_use(kernels: ctypes.CDLL) -> None:
    threads_of(kernels, 4)
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert threads_of(kernels, 4) == 1
    finally:
        os.sched_setaffinity(0, before)
    assert threads_of(kernels, 4) == min(4, len(before))


ASLEEP_ON_ONE_CPU = """
import os, time
import numpy as np
from eqfuse.machine import c_threads
from eqfuse.machine.c_objects import loaded_library
from tests.runtime.test_native_threads import KERNELS, address, run, threads_of

def tasks(): return {int(task) for task in os.listdir("/proc/self/task")}
kernels, everywhere, others = loaded_library(KERNELS), os.sched_getaffinity(0), tasks()
threads_of(kernels, 2)
(worker,) = tasks() - others
for _ in range(100):  # the system may move the caller on
    os.sched_setaffinity(worker, {min(everywhere)})
    threads_of(kernels, 2)
    time.sleep(0.01)
    os.sched_setaffinity(0, {min(everywhere)})
    os.sched_setaffinity(0, everywhere)
    met = np.zeros(2, np.int64)
    run(address(kernels.meet), met.ctypes.data, 2, 2)
    if os.sched_getaffinity(worker) == everywhere:
        break
else:
    raise AssertionError(os.sched_getaffinity(worker))
"""


@pytest.mark.slow
@two_cpus
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads are not bound to CPUs here")
def test_a_worker_is_woken_off_the_callers_cpu() -> None:
    """It is bound to that CPU here, and may use all of them once it has begun."""
    subprocess.run([sys.executable, "-c", ASLEEP_ON_ONE_CPU], cwd=ROOT, check=True, timeout=PATIENCE)


@two_cpus
def test_workers_have_the_callers_arithmetic(kernels: ctypes.CDLL) -> None:
    c = ctypes.CDLL(None)
    upward = loaded_library("#include <fenv.h>\nint upward(void) { return FE_UPWARD; }").upward()
    for way in (upward, 0, upward):
        thirds = np.zeros(20_000)
        before = c.fegetround()
        assert not c.fesetround(way)
        try:
            run(address(kernels.third), thirds.ctypes.data, len(thirds), 2)
        finally:
            c.fesetround(before)
        assert {*thirds.tolist()} == {1 / 3 if way == 0 else np.nextafter(1 / 3, 1)}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_workers_of_its_own(kernels: ctypes.CDLL) -> None:
    stop = threading.Event()

    def others() -> None:
        while not stop.is_set():
            counts_of(kernels, 100, 2)

    busy = threading.Thread(target=others)
    busy.start()
    try:
        for _ in range(4):
            child = os.fork()
            if not child:
                signal.alarm(PATIENCE)
                right = threads_of(kernels, 2) == min(2, thread_count()) and (counts_of(kernels, 100, 2) == 1).all()
                os._exit(0 if right else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        busy.join(PATIENCE)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_an_interrupted_call_has_run_all_chunks_or_none(kernels: ctypes.CDLL) -> None:
    interrupts, undisturbed = Interrupts(), 0

    def call() -> None:
        nonlocal undisturbed
        run(address(kernels.count), counts.ctypes.data, len(counts), 2)
        undisturbed += 1

    for i in range(200):
        counts = np.zeros(300, np.int32)
        interrupts.during(call, 1e-5 + i * 2e-6, 0, 1)
        assert len({*counts.tolist()}) == 1
        assert (counts_of(kernels, 10, 2) == 1).all()
    assert undisturbed < 200


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited otherwise")
def test_without_more_threads_the_caller_works_alone() -> None:
    program = """
import resource, threading
from pathlib import Path
from eqfuse.machine import c_threads
from tests.support.c_kernels import Saxpy, run
problem, again, workers = Saxpy(64), Saxpy(64), c_threads._library().eqfuse_workers
for _ in range(20):  # these take the stacks that the system has kept
    threading.Thread(target=threading.Event().wait, daemon=True).start()
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20), before[1]))  # no room for a thread's stack
run(problem.kernel, problem.args, problem.chunks, 2)
resource.setrlimit(resource.RLIMIT_AS, before)
assert not workers()
problem.check()
run(again.kernel, again.args, again.chunks, 2)
again.check()
print(workers())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=PATIENCE, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{min(1, thread_count() - 1)}\n", "")


def test_one_chunk_runs_after_the_other_where_the_system_has_no_threads(
    kernels: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c_threads, "_library", lambda: None)
    c_threads.runner.cache_clear()
    try:
        assert (counts_of(kernels, 1000, 2) == 1).all()
    finally:
        c_threads.runner.cache_clear()


@pytest.mark.slow
def test_a_process_ends_at_once_with_workers_at_rest_or_at_work() -> None:
    program = """
import ctypes, os, threading, time
from eqfuse.machine import c_compiler, c_threads
from eqfuse.machine.c_objects import loaded_library
from tests.support.c_kernels import address, run
text = "volatile int on = 1; void forever(void *args, long long chunk) { while (on) ; }"
forever = address(loaded_library(text).forever)
threading.Thread(target=run, args=(forever, 0, 2, 2), daemon=True).start()
time.sleep(0.2)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=PATIENCE, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("checked", ["thread", "address,undefined"])
def test_sanitizers_find_nothing_in_the_threads(checked: str, tmp_path: Path) -> None:
    sources = [ROOT / "tests" / "runtime" / "native_threads.c", Path(c_threads.__file__).parent / "c_threads.c"]
    compiler = c_compiler.find_compiler().command
    command = [*compiler, "-g", "-O1", "-w", "-pthread", f"-fsanitize={checked}", *map(str, sources)]
    build = subprocess.run([*command, "-o", str(tmp_path / "stress"), "-lm"], capture_output=True, text=True)
    if build.returncode:
        pytest.skip(f"no sanitizer: {build.stderr[:200]}")
    done = subprocess.run([tmp_path / "stress"], timeout=PATIENCE, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
