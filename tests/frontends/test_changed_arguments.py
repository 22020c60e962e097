"""An argument that a function changes in place is changed for its caller, wherever it lies, or the call is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.test_in_place import X, agrees


def changes_its_argument(u: Any, dt: Any) -> Any:
    u[1:-1] += dt * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def test_an_argument_changed_in_place_is_changed_for_the_caller_and_returned_itself():
    u, plain = np.arange(10.0) ** 2, np.arange(10.0) ** 2
    step = ef.jit(changes_its_argument)
    for _ in range(3):
        assert step(u, 0.1) is u
        changes_its_argument(plain, 0.1)
    np.testing.assert_allclose(u, plain, rtol=1e-15)


def test_arguments_inside_containers_and_without_results_are_changed_too():
    def update(state: Any, g: Any) -> None:
        state["m"] *= 0.9
        state["w"][0] -= g
        state["n"][...] = state["n"] + 1

    states = [{"m": X[0].copy(), "w": X.copy(), "n": np.zeros((), np.int64)} for _ in range(2)]
    update(states[0], X[1])
    assert ef.jit(update)(states[1], X[1]) is None
    for key in states[0]:
        np.testing.assert_array_equal(states[0][key], states[1][key])


@pytest.mark.parametrize(
    "layout", [lambda a: a, np.asfortranarray, lambda a: np.repeat(a, 2, 0)[::2], lambda a: a[::-1]]
)
def test_an_argument_of_any_layout_is_changed(layout):
    def change(x: Any) -> None:
        x[1] = x[0] + x[:, :1].sum()

    agrees(change, layout(X.copy()))


def test_a_scalar_that_is_put_into_stays_what_it_is_as_in_numpy():
    def change(x: Any) -> Any:
        totals = np.inner(x[0], x[0]), np.vecdot(x[0], x[0]), np.tensordot(x[0], x[0], 1)  # the last is an array
        for total in totals:
            np.put(total, [0, -1], 3)
        return totals

    agrees(change, X.copy())


def test_read_only_and_overlapping_arguments_are_refused_before_anything_changes():
    step = ef.jit(changes_its_argument)
    fixed = X[0].copy()
    fixed.flags.writeable = False
    with pytest.raises(ef.ShapeError, match="read-only"):
        step(fixed, 0.1)

    def shifted(x: Any, y: Any) -> None:
        x += y

    memory = np.arange(6.0)
    for x, y in ((memory[:-1], memory[1:]), (memory, memory)):
        with pytest.raises(ef.ShapeError, match="shares"):
            ef.jit(shifted)(x, y)
    np.testing.assert_array_equal(memory, np.arange(6.0))
    ef.jit(shifted)(memory[::2], memory[1::2])
    np.testing.assert_array_equal(memory, [1, 1, 5, 3, 9, 5])


def test_sharing_is_found_between_arguments_whatever_lies_between_them():
    def add_one(x: Any, between: Any, last: Any) -> None:
        x += 1

    memory, elsewhere = np.arange(12.0), np.zeros(1)
    evens, between = memory[::2], memory[1:4:2]
    ef.jit(add_one)(evens, between, memory[9:10])
    np.testing.assert_array_equal(memory, [1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11])
    for last in (memory[10:11], memory[10:11][::-1]):
        with pytest.raises(ef.ShapeError, match="shares"):
            ef.jit(add_one)(evens, between, last)
        with pytest.raises(ef.ShapeError, match="shares"):
            ef.jit(add_one)(last, elsewhere, evens)
    np.testing.assert_array_equal(memory[::2], [1, 3, 5, 7, 9, 11])


MEMORY = {
    "an array": lambda x: x,
    "a view of a view": lambda x: x[:][1:][:-1],
    "a reshape": lambda x: x.reshape(2, 3),
    "a buffer": lambda x: np.frombuffer(x),
    "a memoryview": lambda x: np.asarray(memoryview(x)),
    "strides": lambda x: np.lib.stride_tricks.as_strided(x, (6,), (8,)),
    "a subclass": lambda x: x.view(np.matrix).A1,
    "the array interface": lambda x: np.asarray(type("", (), {"__array_interface__": x.__array_interface__})()),
}


@ef.jit
def double(x: Any, y: Any) -> None:
    x *= 2


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(MEMORY, 2)))
def test_sharing_is_found_however_arrays_came_to_the_memory(first: str, second: str):
    memory, other = np.arange(6.0), np.arange(6.0)
    x, y = MEMORY[first](memory), MEMORY[second](memory)
    for arguments in ((x, y), (y, x)):
        with pytest.raises(ef.ShapeError, match="shares"):
            double(*arguments)
    np.testing.assert_array_equal(memory, np.arange(6.0))
    double(x, MEMORY[second](other))
    np.testing.assert_array_equal(other, np.arange(6.0))
    assert memory[2] == 4


def test_a_saved_program_changes_its_arguments_too(tmp_path):
    ef.compile(changes_its_argument, X[0], 0.1).save(tmp_path / "p")
    u, plain = X[0].copy(), X[0].copy()
    changes_its_argument(plain, 0.1)
    assert ef.load(tmp_path / "p")(u, 0.1) is u
    np.testing.assert_allclose(u, plain)
