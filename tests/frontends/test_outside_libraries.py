"""What libraries and other threads hold beside a traced function is left alone, and so is an array that it copies."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

X = np.arange(3.0)
FALLING = np.array([3.0, 2.0, 1.0])


def sorted_copy(copy: Any) -> Any:
    copy[1:] += 0.5
    copy.sort()
    return copy


@pytest.mark.parametrize("fn", [
    np.sort, np.unique, np.median, lambda t: np.partition(t, 1), lambda t: np.quantile(t, 0.3),
    lambda t: np.sort(t.reshape(3, 1), axis=None), lambda t: sorted_copy(t.flatten()), lambda t: sorted_copy(t.copy()),
])  # fmt: skip
def test_copies_of_an_array_from_outside_may_be_changed(fn: Any) -> None:
    def scaled(x: Any) -> Any:
        return x * fn(FALLING)

    np.testing.assert_array_equal(ef.jit(scaled, target="numpy")(X), scaled(X))
    np.testing.assert_array_equal(FALLING, [3, 2, 1])


def test_cycles_that_nobody_holds_are_no_leak() -> None:
    def recursive(x: Any) -> Any:
        def power(n: int) -> Any:
            return x if n == 0 else x * power(n - 1)

        return power(3)

    np.testing.assert_allclose(ef.jit(recursive)(X), X**4)


def test_a_traced_array_behind_a_librarys_object_is_a_leak_that_names_the_line() -> None:
    import weakref

    class Thing:
        pass

    things: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
    thing = Thing()

    def leak(x: Any) -> Any:
        y = x * 3
        things[thing] = y
        return y

    with pytest.raises(ef.TraceError, match=r"y = x \* 3"):
        ef.jit(leak)(X)


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_a_library_is_left_alone_wherever_libraries_are_installed(folder: str, tmp_path: Any, monkeypatch: Any) -> None:
    name = f"library_in_{folder.partition('-')[0]}"
    home = tmp_path / folder
    home.mkdir()
    (home / f"{name}.py").write_text("calls = 0\n\ndef twice(x):\n    global calls\n    calls += 1\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(home))
    library = importlib.import_module(name)
    np.testing.assert_array_equal(ef.jit(lambda x: library.twice(x))(X), 2 * X)


def test_a_generator_from_which_another_thread_draws_meanwhile_is_left_alone() -> None:
    shared = np.random.default_rng(0)
    begun, done = threading.Event(), threading.Event()

    def drawing() -> None:
        while not done.wait(0):
            shared.random()
            begun.set()

    thread = threading.Thread(target=drawing)
    thread.start()
    begun.wait()
    try:
        for n in range(20):
            ef.trace(lambda x: x + shared.normal(), np.zeros(n))
    finally:
        done.set()
        thread.join()
