"""The threads that run a kernel's tiles, and the scratch memory that they use.

In: a function that works through tiles, and how many there are. Out: nothing; all tiles are done on return.
Workers are started at first use. While they multiply matrices, BLAS is held to one thread each.

A call may be interrupted anywhere, a signal handler may call again in the middle of it, and threads may be killed. So a
caller does the tiles itself, and workers that come in time help; it waits only for those that have begun. Calls share
no state but the queue of offers. A call that ends by an error leaves at once, and workers may still be at its tiles: it
must not give the memory that they write to anybody else.
"""

from __future__ import annotations

import _thread
import os
import weakref
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextvars import copy_context
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from eqfuse.errors import EqfuseError
from eqfuse.machine.memory import aligned_memory
from eqfuse.machine.thread_limit import limit, thread_count

TileLoop = Callable[[Iterator[int]], None]

SCRATCH_KEPT = 16 << 20  # scratch memory up to this size is kept for the next kernel
WORKERS_PATIENCE = 0.1  # seconds after which a caller looks whether the workers that it waits for are alive


class ThreadToken:
    """An object that one thread alone refers to: a weak reference to it tells whether the thread still runs."""


Worker = weakref.ref[ThreadToken]


class WorkerPart:
    """What one worker does of a job."""

    __slots__ = ("error", "worker")

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.error: BaseException | None = None


class Job:
    """The tiles of one kernel in one call. `work` is None once nobody may begin any more."""

    __slots__ = ("__weakref__", "begun", "context", "ended", "tiles", "work")

    def __init__(self, work: TileLoop, count: int) -> None:
        self.work: TileLoop | None = work
        self.tiles = iter(range(count))
        self.context = copy_context()  # NumPy's error state among it
        self.begun: list[WorkerPart] = []
        self.ended: SimpleQueue[WorkerPart] = SimpleQueue()

    def help(self, worker: Worker) -> None:
        """Run tiles until none is left. A worker registers before it checks whether the job is still open."""
        part = WorkerPart(worker)
        self.begun.append(part)
        try:
            work = self.work
            if work is not None:
                self.context.copy().run(work, self.tiles)
        except BaseException as error:  # handed to the caller's thread, which raises it
            part.error = error
            self.cancel()
        work = None  # the caller may use its memory again
        self.ended.put(part)

    def cancel(self) -> None:
        """Leave no tile."""
        deque(self.tiles, maxlen=0)

    def close(self, alive: Container[Worker]) -> None:
        """Wait for the workers that have begun, and raise the error of one. EqfuseError when one is no longer alive."""
        self.work = None
        busy = {*self.begun}
        while busy:
            try:
                part = self.ended.get(True, WORKERS_PATIENCE)
            except Empty:
                if not all(part.worker in alive for part in busy):
                    raise _killed() from None
                continue
            busy.discard(part)
            error, part.error = part.error, None
            try:
                if error is not None:
                    raise error if isinstance(error, Exception) else _killed() from error
            finally:
                del error  # its traceback holds this frame


def _killed() -> EqfuseError:
    return EqfuseError("a worker thread was killed while it ran a kernel; this call has no results, so call again")


class ThreadPool:
    """Workers beside the calling threads. `offers`: jobs, each as often as workers may help with it.

    `workers` are those alive. They are no `threading.Thread`s: starting one of these waits for it to begin.
    """

    def __init__(self) -> None:
        self.offers: SimpleQueue[Job | None] = SimpleQueue()
        self.workers: set[Worker] = set()

    def share(self, work: TileLoop, count: int, threads: int, blas: bool) -> None:
        """Run `work(tiles)` on up to `threads` threads over one iterator of 0..count-1. `blas`: it multiplies matrices.

        `set_num_threads` may allow fewer. Where workers have left the offers before this one, they are busy, and the
        caller works alone: BLAS is held then too, as a product on two of its threads has other bits.
        """
        helpers = min(threads, count, limit.value) - 1
        while len(self.workers) < helpers and self._hire():
            pass
        if helpers < 1:
            work(iter(range(count)))
            return
        job = Job(work, count)
        try:
            if blas:
                one_blas_thread.hold(job)
            if self.offers.qsize() <= len(self.workers):
                for _ in range(helpers):
                    self.offers.put(job)
            work(job.tiles)
            job.close(self.workers)
        except BaseException:
            job.cancel()
            raise
        finally:
            job.work = None
            if one_blas_thread.before:
                one_blas_thread.release()

    def forget(self) -> None:
        """Let all workers go. The next job starts new ones."""
        for _ in range(len(self.workers)):
            self.offers.put(None)
        self.__init__()  # type: ignore[misc]

    def _hire(self) -> bool:
        """Start a worker. False where the system has no more threads."""
        life = None
        try:
            life = ThreadToken()
            worker = weakref.ref(life, self.workers.discard)
            self.workers.add(worker)
            _thread.start_new_thread(_serve, (self.offers, worker, life))
        except RuntimeError:
            return False
        finally:
            life = None  # an interrupt's traceback would hold it
        return True


def _serve(offers: SimpleQueue[Job | None], worker: Worker, life: ThreadToken) -> None:
    """A worker: it helps with one offered job after another, until it is offered None."""
    del life  # held by the thread, but by no frame, which the traceback of an error might hold
    while _take(offers.get(), worker):
        pass


def _take(job: Job | None, worker: Worker) -> bool:
    if job is not None:
        job.help(worker)
    return job is not None


class OneBlasThread:
    """Holds NumPy's BLAS to one thread while a job is open. `before`: libraries that are held, and their threads.

    There is no lock, so that nobody can wait for one that an interrupt left behind: when calls begin and end at once, a
    product may run on more threads than it should, but in the end each library has its threads again.
    """

    def __init__(self) -> None:
        self.jobs: weakref.WeakSet[Job] = weakref.WeakSet()  # one whose call an interrupt ended goes by itself
        self.before: dict[object, tuple[Any, int]] = {}

    def hold(self, job: Job) -> None:
        self.jobs.add(job)
        for library in blas_libraries():
            count, key = library.num_threads, object()
            while count > 1 and key not in self.before:  # nor is it where another call has just released the library
                self.before[key] = library, count
                set_blas_threads(library, 1)

    def release(self) -> None:
        """Give BLAS its threads back, unless a job is still open."""
        for job in [*self.jobs]:
            if job.work is None:
                self.jobs.discard(job)
        if not self.jobs:
            for key, (library, count) in [*self.before.items()]:
                set_blas_threads(library, count)
                self.before.pop(key, None)
                set_blas_threads(library, count)  # whoever has held it meanwhile finds no `key` any more


@cache
def blas_libraries() -> list[Any]:
    """threadpoolctl's controllers of the BLAS libraries loaded here (finding them takes milliseconds)."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


def set_blas_threads(library: Any, count: int) -> None:
    """From whichever thread: since 3.8 threadpoolctl itself obeys the first one that asks, and no other."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


class Scratch:
    """Memory that threads use inside a tile, lent to one at a time; its contents mean nothing between kernels.

    The largest kept is lent first, so that what is kept is as much as the most threads of any kernel hold at once,
    whichever workers they are. Blocks are kept by size and identity, and every step on `kept` is atomic.
    """

    def __init__(self) -> None:
        self.kept: dict[tuple[int, int], np.ndarray] = {}

    def take(self, nbytes: int) -> np.ndarray:
        """At least `nbytes` bytes, aligned to a cache line."""
        memory = self._largest()
        if memory is None or memory.size < nbytes:
            memory = None  # else the old and the new would lie side by side
            memory = aligned_memory(nbytes)
        return memory

    def give(self, memory: np.ndarray) -> None:
        """Keep `memory` for another kernel, unless as many are kept as threads can run at once."""
        if memory.size <= SCRATCH_KEPT and len(self.kept) < thread_count():
            self.kept[memory.size, id(memory)] = memory

    def _largest(self) -> np.ndarray | None:
        memories = (self.kept.pop(key, None) for key in sorted(self.kept, reverse=True))
        return next((memory for memory in memories if memory is not None), None)


one_blas_thread = OneBlasThread()
scratch = Scratch()
pool = ThreadPool()


def _after_fork() -> None:
    """A forked child has none of its parent's threads."""
    pool.__init__()  # type: ignore[misc]
    one_blas_thread.jobs.clear()
    one_blas_thread.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
