"""Loops whose steps are C kernels alone run without Python, and give what they give step by step."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.machine import c_loops
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import with_address_sanitizer

pytestmark = needs_compiler
RNG = np.random.default_rng(0)


def average(start: Any, x: Any, share: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c = c + share * (v - c)
        return c, c

    return ef.scan(step, start, x)


def fibonacci(a: Any, b: Any) -> Any:
    return ef.fori_loop(0, 51, lambda i, c: (c[1], c[0] + c[1]), (a, b))


def three_in_turn(a: Any, b: Any, c: Any) -> Any:
    return ef.fori_loop(0, 7, lambda i, s: (s[1], s[2], s[0] + 1), (a, b, c))


def exchanged_rows(a: Any, b: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return (c[1], c[0] * 0.5 + x, c[2]), (c[0], c[1] + c[2])

    return ef.scan(step, (a, b, a * 2), np.arange(7.0)[:, None] + a)


def backwards(x: Any) -> Any:
    return ef.scan(lambda c, v: (c * 0.9 + v, c), np.zeros(3), x, reverse=True)


def until_small(x: Any) -> Any:
    return ef.while_loop(lambda c: (c[0] > 1e-3).any(), lambda c: (c[0] * 0.5, c[1] + 1), (x, np.int64(0)))


def newton(a: Any) -> Any:
    return ef.while_loop(lambda x: abs(x * x - a) > 1e-10, lambda x: 0.5 * (x + a / x), a)


def recurrent(x: Any, w: Any) -> Any:
    return ef.scan(lambda h, v: (np.tanh(w @ h + v), h.sum()), np.zeros(8), x)


def counted_up(x: Any, n: Any) -> Any:
    return ef.fori_loop(0, n, lambda i, c: c + i, x)


def reshaped(x: Any) -> Any:
    return ef.scan(lambda c, v: ((c.reshape(2, 3).T.reshape(6) + v), c.reshape(3, 2)), x[0], x)


def turned(x: Any) -> Any:
    return ef.scan(lambda c, v: (c[::-1] + v, c[1:4]), x[0], x)


def one_place(p: Any, places: Any) -> Any:
    def step(c: Any, i: Any) -> Any:
        c = c.copy()
        c[i] = c[i] * 2 + 1
        return c, c[i]

    return ef.scan(step, p, places)


def several_places(p: Any, places: Any) -> Any:
    def step(c: Any, i: Any) -> Any:
        c = c.copy()
        c[:, i] = c[:, i[::-1]] + 1
        return c, c[:, i].sum()

    return ef.scan(step, p, places)


def slices(u: Any, v: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        c = c.copy()
        c[1:-1, 2] = x
        c[0] = c[1]
        c[:, ::2] = c[:, 1::2]
        c[-1, -1] = 3
        return c, c[::2].sum()

    return ef.scan(step, u, v)


def rows_and_columns(p: Any) -> Any:
    def step(k: Any, p: Any) -> Any:
        p = p.copy()
        p[:, k] = p[k] * 2 + k
        p[-k, 1:3] = p[k, 0]
        return p

    return ef.fori_loop(1, 5, step, p)


def read_behind(p: Any, q: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        a, b = c
        a, old = a.copy(), a[0]
        a[0] = b
        return (a, old + b), a.sum()

    return ef.scan(step, (p, q), None, length=9)


def kept_besides(p: Any) -> Any:
    def step(c: Any, i: Any) -> Any:
        a, b = c
        new = a.copy()
        new[i] = b[i]
        return (b, new), None

    return ef.scan(step, (p, p * 2), np.arange(6))


def shifted(p: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        c = c.copy()
        c[1:] = c[:-1]
        c[0, 0] = c[3, 1] + 1
        c[:, 2:] = c[:, 1:-1]
        c[2:5] = c[4:1:-1]
        return c, c[1]

    return ef.scan(step, p, None, length=5)


def moved_along(p: Any) -> Any:
    def step(_: Any, c: Any) -> Any:
        c = c.copy()
        c[1:] = c[:-1]
        c[:, 2:] = c[:, 1:-1]
        c[2:5] = c[4:1:-1]
        return c

    return ef.fori_loop(0, 3, step, p)


def exchanged_places(p: Any, places: Any) -> Any:
    def step(c: Any, i: Any) -> Any:
        c = c.copy()
        c[i] = c[:3]
        c[1:4] = c[i]
        return c, None

    return ef.scan(step, p, places)


MATRIX, SQUARE = RNG.random((8, 6)), RNG.random((6, 6))
CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (average, (np.float64(0), RNG.random(1000), np.float64(0.1))),
    (average, (np.float32(0), RNG.random(3, np.float32), np.float32(0.1))),
    (fibonacci, (0.0, 1.0)),
    (three_in_turn, (RNG.random(3), RNG.random(3), RNG.random(3))),
    (exchanged_rows, (RNG.random(3), RNG.random(3))),
    (backwards, (RNG.random((9, 3)),)),
    (until_small, (RNG.random(5),)),
    (until_small, (np.zeros(5),)),
    (newton, (2.0,)),
    (recurrent, (RNG.random((20, 8)), RNG.random((8, 8)))),
    (counted_up, (RNG.random(4), 5)),
    (counted_up, (RNG.random(4), 0)),
    (counted_up, (RNG.random(4), 1)),
    (reshaped, (MATRIX,)),
    (turned, (MATRIX,)),
    (one_place, (RNG.random(10), RNG.integers(-10, 10, 20))),
    (one_place, (RNG.integers(0, 99, 10).astype(np.int16), RNG.integers(0, 10, 20).astype(np.uint8))),
    (several_places, (RNG.random((4, 9)), RNG.integers(-9, 9, (7, 3)).astype(np.int16))),
    (slices, (SQUARE, RNG.random((5, 4)))),
    (rows_and_columns, (SQUARE,)),
    (read_behind, (RNG.random(4), 1.5)),
    (kept_besides, (RNG.random(8),)),
    (shifted, (SQUARE,)),
    (moved_along, (SQUARE,)),
    (exchanged_places, (SQUARE, RNG.integers(-6, 6, (9, 3)))),
]
NAMES = [f"{function.__name__} {number}" for number, (function, _) in enumerate(CASES)]


def leaves(values: Any) -> list[np.ndarray]:
    if isinstance(values, tuple):
        return [leaf for value in values for leaf in leaves(value)]
    return [] if values is None else [np.asarray(values)]


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=NAMES)
def test_a_loop_of_kernels_gives_what_python_gives_step_by_step(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    judge(function, arguments)


@pytest.mark.slow
def test_loops_read_and_write_no_more_than_their_arrays() -> None:
    with_address_sanitizer("tests.runtime.test_native_loops", "for case in CASES: judge(*case)")


def judge(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    program = ef.compile(function, *arguments, target="c")
    by_python = ef.compile(function, *arguments, target="numpy")
    assert "iterate(" in program.source() and "iterate(" not in by_python.source()
    for _ in range(3):  # memory is used again
        for own, other in zip(leaves(program(*arguments)), leaves(by_python(*arguments)), strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-6 if own.dtype == np.float32 else 1e-12)


def lying_otherwise(a: Any) -> Any:
    """The same elements as `a` has: last axis first in memory, with gaps, not aligned, and not to be written to."""
    if not isinstance(a, np.ndarray):
        return a
    memory = np.zeros(2 * a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(*a.shape[::-1], 2)
    memory[..., 0] = a.T
    memory.flags.writeable = False
    return memory[..., 0].T


def test_arguments_may_lie_in_any_way_and_earlier_results_stay() -> None:
    for function, arguments in CASES:
        program = ef.compile(function, *arguments, target="c")
        first = leaves(program(*arguments))
        kept = [a.copy() for a in first]
        for _ in range(2):
            for own, other in zip(leaves(program(*map(lying_otherwise, arguments))), kept, strict=True):
                np.testing.assert_array_equal(own, other)
        program(arguments[0] * 0, *arguments[1:])
        for own, other in zip(first, kept, strict=True):
            np.testing.assert_array_equal(own, other)


def test_arguments_are_left_as_they_were() -> None:
    for function, arguments in CASES:
        before = [np.array(a) for a in arguments]
        ef.compile(function, *arguments, target="c")(*arguments)
        for argument, copy in zip(arguments, before, strict=True):
            np.testing.assert_array_equal(argument, copy)


def test_python_runs_what_c_does_not_compute() -> None:
    x = RNG.random((5, 4))

    def ordered(x: Any) -> Any:
        return ef.scan(lambda c, v: (np.sort(c + v), c), x[0], x)

    program = ef.compile(ordered, x, target="c")
    assert "iterate(" not in program.source()
    np.testing.assert_allclose(program(x)[0], ef.compile(ordered, x, target="numpy")(x)[0])


@pytest.mark.parametrize("place", [10, -11])
def test_a_place_that_an_array_does_not_have_is_numpys_error(place: int) -> None:
    p, places = RNG.random(10), np.array([1, 2, place, 3])
    program = ef.compile(one_place, p, places, target="c")
    with pytest.raises(IndexError, match="out of bounds"):
        program(p, places)
    assert leaves(program(p, places % 10))[1].shape == (4,)


def test_an_interrupt_ends_a_loop_and_the_program_runs_again() -> None:
    program = ef.compile(counted_up, np.zeros(2), 5, target="c")
    threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        program(np.zeros(2), 1 << 40)
    np.testing.assert_array_equal(program(np.zeros(2), 5), [10, 10])


def test_other_threads_of_python_work_meanwhile() -> None:
    program = ef.compile(counted_up, np.zeros(2), 5, target="c")
    ended = threading.Event()

    def call() -> None:
        program(np.zeros(2), 20_000_000)
        ended.set()

    thread = threading.Thread(target=call)
    thread.start()
    seen = 0
    while not ended.is_set():
        seen += 1
        time.sleep(1e-3)
    thread.join()
    assert seen > 3


def test_threads_have_a_loop_each() -> None:
    program = ef.compile(average, np.float64(0), RNG.random(20_000), np.float64(0.1), target="c")
    arguments = [(np.float64(0), RNG.random(20_000), np.float64(share)) for share in (0.1, 0.2, 0.3, 0.4)]
    expected = [leaves(program(*a)) for a in arguments]
    results: dict[int, list[list[np.ndarray]]] = {}

    def call(number: int) -> None:
        results[number] = [leaves(program(*arguments[number])) for _ in range(20)]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, own_results in results.items():
        for result in own_results:
            for own, other in zip(result, expected[number], strict=True):
                np.testing.assert_array_equal(own, other)


def test_a_turn_without_python_is_priced_so() -> None:
    arguments = np.float64(0), RNG.random(1000), np.float64(0.1)
    c, by_numpy = (ef.compile(average, *arguments, target=t).plan for t in ("c", "numpy"))
    assert c.seconds < by_numpy.seconds / 10


def test_an_update_without_memory_for_a_copy_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, words = np.arange(4), np.array([8, 0, 8, 0, 0, 0, 0, 0, 0, 1, 3, 8, 8])  # the first three, one later
    library = c_loops.loaded_library
    c_loops._library.cache_clear()
    with monkeypatch.context() as lacking:
        lacking.setattr(c_loops, "loaded_library", lambda text: library(text.replace("malloc(places * step + 1)", "0")))
        program = ef.compile(moved_along, SQUARE, target="c")
        assert "iterate(" in program.source()
        with pytest.raises(MemoryError):
            program(SQUARE)
        together, table = c_loops.call_table([(c_loops.put_function(), [0, 0, 1])])
        assert together(table, numbers, words)
        np.testing.assert_array_equal(numbers, np.arange(4))
    c_loops._library.cache_clear()
    together, table = c_loops.call_table([(c_loops.put_function(), [0, 0, 1])])
    assert not together(table, numbers, words)
    np.testing.assert_array_equal(numbers, [0, 0, 1, 2])
