"""Calls that are disturbed at random moments, each followed by calls that must give right answers.

Run by `test_threads.py` in a process of its own: ``python -m tests.runtime.disturbances SEED TIMES``. A call that hangs
prints all stacks and ends the process, as does a wrong answer.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import itertools
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from types import FrameType
from typing import Any

import numpy as np

import eqfuse as ef
from eqfuse.emit.numpy.kernels import _emitted
from eqfuse.ir.evaluate import evaluate
from eqfuse.machine.gc_pause import gc_paused
from eqfuse.machine.threads import _serve, blas_libraries
from eqfuse.plan.memory import results
from eqfuse.runtime.program import Program
from tests.kernels.test_numpy_panels import TINY

DEADLINE = 60  # seconds without an answer after which a call hangs
LEAST_PAUSE = 1e-4  # seconds between signals: the handler must keep up with them
KILLED = "was killed while it ran a kernel"


class Asked:
    """A program, its arguments and its right answers."""

    def __init__(self, fn: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
        rng = np.random.default_rng(len(shapes))
        self.arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
        self.program: Program = ef.compile(fn, *self.arrays, target=TINY)
        self.multiplies = any("matmul" in map(attrgetter("op"), k.body.nodes) for k in self.program.plan.kernels)
        self.wanted = self.program.run(self.arrays)
        for got, meant in zip(self.wanted, evaluate(self.program.plan.graph, self.arrays), strict=True):
            np.testing.assert_allclose(got, meant, rtol=1e-3, atol=1e-3)

    def call(self) -> tuple[np.ndarray, ...]:
        return self.program.run(self.arrays)

    def check(self, results: Sequence[np.ndarray]) -> None:
        """Tiles are the same in every call, and so are the bits, but for what BLAS divides among its own threads."""
        for got, wanted in zip(results, self.wanted, strict=True):
            same = np.allclose(got, wanted, 1e-3, 1e-3) if self.multiplies else np.array_equal(got, wanted)
            assert same, f"a wrong answer of\n{self.program.source()}"


def programs() -> list[Asked]:
    """One of every template, with arenas small and large, and one without tiles."""

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True), np.tanh(x).sum(axis=0)

    def layers(x: Any, w: Any) -> Any:
        h = np.tanh(x @ w)
        return (h @ w.T).T @ h, np.sort(h, axis=-1)

    return [
        Asked(lambda x, y: np.tanh(np.exp(x) * y) + x, (400, 300), (300,)),
        Asked(softmax, (300, 200)),
        Asked(layers, (300, 64), (64, 48)),
        Asked(lambda x: np.sort(np.cumsum(np.exp(x), axis=-1), axis=0) + np.tanh(x), (700, 500)),
        Asked(lambda x: np.tanh(x[:, 1:] - x[:, :-1]).T * 2, (300, 300)),
        Asked(lambda x: np.tanh(x) + 1, (3, 4)),
    ]


class Interrupts:
    """Raises KeyboardInterrupt in the main thread, by its signal handler, as often as `left` says.

    The handler stays: a signal may come late on a busy machine, and would end the process of whatever runs by then.
    """

    def __init__(self) -> None:
        self.left = 0
        self.instead: Callable[[], Any] | None = None  # called by the handler, which then raises nothing
        signal.signal(signal.SIGALRM, self._handle)

    def _handle(self, *_: object) -> None:
        if self.left > 0:
            self.left -= 1
            if not self.left:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if self.instead is None:
                raise KeyboardInterrupt
            self.instead()

    def during(
        self, call: Callable[[], Any], after: float, every: float, times: int, instead: Callable[[], Any] | None = None
    ) -> None:
        """Disturb `call` by signals, and let no interrupt out."""
        try:
            try:
                self.left, self.instead = times, instead
                signal.setitimer(signal.ITIMER_REAL, after, max(every, LEAST_PAUSE))
                call()
            finally:
                self.left = 0  # first of all: no interrupt comes between
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass


def raised_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error) if error else None)


def workers() -> list[int]:
    """The identifiers of the pool's threads."""

    def served(frame: FrameType | None) -> bool:
        return frame is not None and (frame.f_code is _serve.__code__ or served(frame.f_back))

    return [thread for thread, frame in sys._current_frames().items() if served(frame)]


class Disturber:
    """Disturbs one call in one of all ways."""

    def __init__(self, rng: np.random.Generator, asked: list[Asked]) -> None:
        self.rng, self.asked = rng, asked
        self.interrupts = Interrupts()
        self.ways = [self.interrupt, self.nest, self.throw, self.kill, self.fail, self.fork, self.compile, self.crowd]
        self.main = threading.get_ident()

    def soon(self) -> float:
        """Up to 2 ms, which most calls take; often at once."""
        return float(10 ** self.rng.uniform(-5.3, -2.7))

    def interrupt(self, a: Asked) -> None:
        times = int(self.rng.integers(1, 6))
        self.interrupts.during(lambda: a.check(a.call()), self.soon(), self.soon(), times)

    def nest(self, a: Asked) -> None:
        """A signal handler calls a program, perhaps the same, in the middle of a call."""
        other = self.any() if self.rng.random() < 0.5 else a
        call, again = (lambda: a.check(a.call())), (lambda: other.check(other.call()))
        self.interrupts.during(call, self.soon(), self.soon(), 2, again)

    def throw(self, a: Asked) -> None:
        """Another thread throws errors at the caller."""
        error = self.one_of(KeyboardInterrupt, MemoryError, SystemExit)
        delays = [self.soon() for _ in range(int(self.rng.integers(1, 4)))]
        over: list[bool] = []

        def throw() -> None:
            for delay in delays:
                time.sleep(delay)
                if begun and not over:
                    raised_in(self.main, error)

        begun: list[bool] = []
        thrower = threading.Thread(target=throw)
        thrower.start()
        try:
            try:
                begun.append(True)
                a.check(a.call())
            finally:
                over.append(True)
                raised_in(self.main, None)
        except error:
            pass
        while thrower.is_alive():
            with suppress(error):
                thrower.join()
        raised_in(self.main, None)

    def kill(self, a: Asked) -> None:
        """Workers are killed, at work or waiting."""
        delays = [self.soon() for _ in range(int(self.rng.integers(1, 4)))]
        victims = [w for w in workers() if self.rng.random() < 0.7]

        def kill() -> None:
            for delay in delays:
                time.sleep(delay)
                for ident in victims:
                    raised_in(ident, SystemExit)

        killer = threading.Thread(target=kill)
        killer.start()
        for _ in range(3):
            try:
                a.check(a.call())
            except ef.EqfuseError as error:
                assert KILLED in str(error), error
        killer.join()

    def fail(self, a: Asked) -> None:
        """A NumPy function fails, in whichever thread calls it next but few."""
        error = self.one_of(MemoryError, FloatingPointError, KeyboardInterrupt, SystemExit)
        left = iter(range(int(self.rng.integers(0, 12))))

        def failing(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                if next(left, None) is None:
                    raise error(function.__name__)
                return function(*args, **options)

            return call

        kernels = [k.run.__globals__ for k in _emitted.values() if "run" in vars(k)]
        before = [{name: names[name] for name in ("exp", "tanh", "copyto", "matmul")} for names in kernels]
        for names, functions in zip(kernels, before, strict=True):
            names.update({name: failing(f) for name, f in functions.items()})
        try:
            a.check(a.call())
        except (error, ef.EqfuseError) as got:
            assert isinstance(got, error) or KILLED in str(got), got
        finally:
            for names, functions in zip(kernels, before, strict=True):
                names.update(functions)

    def fork(self, a: Asked) -> None:
        """A child has none of the workers, whatever another thread did when it was made: anything but multiply, as
        OpenBLAS itself hangs then."""
        if a.multiplies:
            a = self.asked[0]
        stop: list[bool] = []
        busy = threading.Thread(target=lambda: deque((a.call() for _ in iter(lambda: bool(stop), True)), maxlen=0))
        busy.start()
        time.sleep(self.soon())
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(DEADLINE)
            status = 1
            try:
                for b in (a, self.any()):
                    b.check(b.call())
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        stop.append(True)
        busy.join()
        assert os.waitstatus_to_exitcode(status) == 0, "a forked child gave a wrong answer, or hung"

    def compile(self, _: Asked) -> None:
        """Not a call but the compiling before it is interrupted, which pauses the cyclic garbage collector."""
        jitted = ef.jit(np.hypot, target=TINY)
        x = np.arange(float(self.rng.integers(1, 1000)))
        self.interrupts.during(lambda: jitted(x, x), 10 * self.soon(), 10 * self.soon(), 2)
        np.testing.assert_allclose(jitted(x, x), np.hypot(x, x))
        with gc_paused():
            pass
        assert gc.isenabled()

    def crowd(self, a: Asked) -> None:
        """Threads call programs at once, while the main thread is interrupted."""
        failures: list[BaseException] = []

        def call(b: Asked) -> None:
            try:
                for _ in range(3):
                    b.check(b.call())
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=call, args=(self.any(),)) for _ in range(4)]
        for t in threads:
            t.start()
        self.interrupt(a)
        for t in threads:
            t.join()
        if failures:
            raise failures[0]

    def any(self) -> Asked:
        return self.asked[int(self.rng.integers(len(self.asked)))]

    def one_of(self, *errors: type[BaseException]) -> type[BaseException]:
        return errors[int(self.rng.integers(len(errors)))]


def at_every_line(a: Asked) -> int:
    """Interrupt a call before its first line of ours, another before its second, and so on. How many lines it has."""
    runs = {Program.run.__code__.co_filename, _serve.__code__.co_filename, results.new.__code__.co_filename}
    runs |= {"<eqfuse program>", "<eqfuse kernel>"}
    for line in itertools.count():
        left = iter(range(line))

        def trace(frame: FrameType, event: str, _: object, left: Iterator[int] = left) -> Any:
            if frame.f_code.co_filename not in runs:
                return None
            if event == "line" and next(left, None) is None:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            a.check(a.call())
            return line
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        a.check(a.call())
    raise AssertionError


def main(seed: int, times: int) -> None:
    faulthandler.enable()
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    rng = np.random.default_rng(seed)
    asked = programs()
    threads = [library.num_threads for library in blas_libraries()]
    lines = sum(map(at_every_line, asked))
    disturber = Disturber(rng, asked)
    kept: deque[tuple[Asked, Sequence[np.ndarray]]] = deque(maxlen=20)
    for i in range(times):
        way = disturber.ways[i % len(disturber.ways)]
        a = disturber.any()
        way(a)
        for b in (a, disturber.any()):
            faulthandler.dump_traceback_later(DEADLINE, exit=True)
            kept.append((b, b.call()))
        for b, answers in kept:
            b.check(answers)
    for a in asked:
        a.check(a.call())
    assert threads == [library.num_threads for library in blas_libraries()]
    print(f"interrupted at {lines} lines, disturbed {times} times")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
