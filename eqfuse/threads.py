"""The threads that run a kernel's tiles, and the scratch memory each of them keeps.

In: a function that works through tiles, and how many there are. Out: nothing; all tiles are done on return.
Workers are started at first use. While they run, BLAS is held to one thread each.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Tiles = Callable[[Iterator[int]], None]

KEPT_BYTES = 16 << 20  # a thread keeps scratch memory up to this size for its next kernel


class Worker(threading.Thread):
    """One thread that waits for work, does it and says so."""

    def __init__(self) -> None:
        super().__init__(name="eqfuse", daemon=True)
        self.go, self.done = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.done.acquire()
        self.work: Tiles | None = None
        self.tiles: Iterator[int] = iter(())
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        np.seterr(all="ignore")
        while True:
            self.go.acquire()
            assert self.work is not None
            try:
                self.work(self.tiles)
            except BaseException as error:  # handed to the caller's thread, which raises it
                self.error = error
            self.work, self.tiles = None, iter(())
            self.done.release()


class Pool:
    """Workers beside the calling thread. One kernel uses them at a time; another caller meanwhile works alone."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.free = threading.Lock()

    def share(self, work: Tiles, count: int, threads: int, blas: bool) -> None:
        """Run `work(tiles)` on `threads` threads over one iterator of 0..count-1. `blas`: it multiplies matrices."""
        tiles = iter(range(count))
        threads = min(threads, count)
        if threads < 2 or not self.free.acquire(blocking=False):
            work(tiles)
            return
        try:
            while len(self.workers) < threads - 1:
                self.workers.append(Worker())
            if blas:
                with one_blas_thread:
                    self._run(work, tiles, self.workers[: threads - 1])
            else:
                self._run(work, tiles, self.workers[: threads - 1])
        finally:
            self.free.release()

    @staticmethod
    def _run(work: Tiles, tiles: Iterator[int], workers: list[Worker]) -> None:
        for w in workers:
            w.work, w.tiles = work, tiles
            w.go.release()
        try:
            work(tiles)
        finally:
            for w in workers:
                w.done.acquire()
        for w in workers:
            if w.error is not None:
                error, w.error = w.error, None
                raise error


class OneBlasThread:
    """Holds NumPy's BLAS to one thread while at least one caller is inside."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.before: list[int] = []

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.before = [library.num_threads for library in blas_libraries()]
                for library in blas_libraries():
                    library.set_num_threads(1)
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                for library, count in zip(blas_libraries(), self.before, strict=True):
                    library.set_num_threads(count)


@cache
def blas_libraries() -> list[Any]:
    """threadpoolctl's controllers of the BLAS libraries loaded here (finding them takes milliseconds)."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


class Scratch(threading.local):
    """Memory that a thread uses inside a tile; its contents mean nothing between kernels."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)

    def get(self, nbytes: int) -> np.ndarray:
        """At least `nbytes` bytes, aligned to a cache line."""
        if self.memory.size < nbytes:
            if nbytes <= KEPT_BYTES:
                self.memory = np.empty(0, np.uint8)  # else the old and the new would lie side by side
            memory = np.empty(nbytes + 64, np.uint8)
            memory = memory[-memory.ctypes.data % 64 :]
            if nbytes > KEPT_BYTES:
                return memory
            self.memory = memory
        return self.memory


one_blas_thread = OneBlasThread()
scratch = Scratch()
pool = Pool()


def _after_fork() -> None:
    """A forked child has none of its parent's threads."""
    pool.__init__()  # type: ignore[misc]
    one_blas_thread.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
