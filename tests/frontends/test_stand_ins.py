"""While a function is traced, NumPy's functions that make arrays make traced ones, under every name they have."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy as numerics
import pytest
from numpy import arange, empty, zeros

import eqfuse as ef
from eqfuse.frontends.numpy.tracer import Tracer

X = np.arange(12.0).reshape(3, 4)
WEIGHTS = np.array([0.5, 0.25, 0.125, 1.0])


def helper(x: Any, make: Any = None) -> Any:
    buffer = empty(len(x))
    for i in arange(len(x)):
        buffer[i] = x[i].sum()
    return buffer


class Smoother:
    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self, x: Any) -> Any:
        out = numerics.zeros_like(x)
        out[:, self.width :] = x[:, self.width :]
        return out


@dataclass
class State:
    x: np.ndarray

    def padded(self) -> Any:
        out = zeros((self.x.shape[0] + 2, self.x.shape[1]))
        out[1:-1] = self.x
        return out


def imported_inside(x: Any) -> Any:
    import numpy
    from numpy import ones as unity

    out = numpy.full(x.shape, 2.0)
    out[0] = x[0] * unity(4)
    return out


def closure() -> Any:
    from numpy import zeros as make

    def inner(x: Any) -> Any:
        out = make(x.shape)
        out[1] = x[1]
        return out

    return inner


@pytest.mark.parametrize(
    "function",
    [
        helper, lambda x: Smoother(2)(x), lambda x: State(x).padded(), imported_inside, closure(),
        lambda x: [helper(row[None]) for row in x], lambda x: partial(helper, make=1)(x), ef.jit(helper),
        lambda x: np.array([x[0, 0], 1, x.sum()]) + np.asarray([[1.0], [2.0]]) @ np.array([x[0, :3]]),
        lambda x: np.linspace(0, 1, 4) * x + np.eye(4)[1] - WEIGHTS[np.argsort(WEIGHTS)[0]],
        lambda x: [np.r_[0.0, x[0], 1:3, x[1]], np.c_[x, x[:, 0], WEIGHTS[:3]], np.c_[x[0], WEIGHTS], np.r_[x, x]],
        lambda x: [float(w) * x for w in np.array([1.0, 2.0])] if np.ones(2).all() else x,
    ],
)  # fmt: skip
def test_buffers_made_under_any_name_can_be_written_to(function):
    got, wanted = ef.jit(lambda x: function(x))(X), function(X)
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-14)


def test_afterwards_everything_is_as_before():
    before = (np.zeros, np.array, np.random.default_rng, zeros, empty, np.random.normal, np.add)
    ef.trace(helper, X)
    with pytest.raises(ZeroDivisionError):
        ef.trace(lambda x: zeros(3) / (1 // 0), X)
    assert before == (np.zeros, np.array, np.random.default_rng, zeros, empty, np.random.normal, np.add)
    assert type(np.zeros(3)) is np.ndarray


def test_another_thread_makes_plain_arrays_meanwhile():
    def function(x: Any) -> Any:
        seen: list[Any] = []
        other = threading.Thread(target=lambda: seen.extend([zeros(2), np.arange(3), np.array([1, 2])]))
        other.start()
        other.join()
        assert [type(a) for a in seen] == [np.ndarray] * 3
        mine = zeros(2)
        assert isinstance(mine, Tracer)
        return x + mine.sum()

    ef.trace(function, X)


def test_traces_in_several_threads_at_once_do_not_disturb_each_other():
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                np.testing.assert_array_equal(ef.meaning(ef.trace(helper, X), X), X.sum(1))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert type(zeros(1)) is np.ndarray


def branches(x: Any, op: Any = np.sum) -> Any:
    return x * (2.0 if op is np.sum else 3.0 if op is np.add else 5.0 if op is np.zeros else 7.0)


TABLE = {np.sum: 2.0, np.add: 3.0, np.zeros: 5.0}
LISTED = [np.sum, np.add, np.zeros, np.exp]


class Settings:
    """Functions of NumPy's, held as attributes."""

    op = staticmethod(np.sum)

    def __init__(self) -> None:
        self.make = np.zeros


SETTINGS = Settings()


@pytest.mark.parametrize("op", LISTED)
@pytest.mark.parametrize(
    "function",
    [
        branches,
        lambda x, op: branches(x) if op is np.add else x,
        lambda x, op: x * TABLE.get(op, 1.0) + TABLE.get(np.zeros, 1.0) + TABLE[np.add],
        lambda x, op: x * LISTED.index(np.zeros) + LISTED.index(op) + (op in LISTED) + LISTED.index(np.add),
        lambda x, op: x * (op == np.zeros) + (op != np.add) + ({op, np.sum, np.add} == {np.add, np.sum}),
        lambda x, op: x * (SETTINGS.op is op) + (SETTINGS.make is op) + (Settings.op is np.sum),
        lambda x, op: x + isinstance(op, np.ufunc) + isinstance(np.add, np.ufunc) + isinstance(np.sum, np.ufunc),
        lambda x, op: x + sum(f is op for f in (np.sum, np.add, np.zeros)) + len(np.add.__name__ + op.__name__),
    ],
)
def test_functions_of_numpys_are_the_same_functions_while_a_function_is_traced(function: Any, op: Any) -> None:
    np.testing.assert_array_equal(ef.jit(function, static_argnames="op", target="numpy")(X, op=op), function(X, op=op))


def test_buffers_can_be_written_to_wherever_the_function_that_makes_them_is_held() -> None:
    table = {"make": (np.zeros, [np.ones])}

    def function(x: Any, make: Any = np.empty, *, ones: Any = np.ones) -> Any:
        buffers = [make(4), ones(4), table["make"][0](4), table["make"][1][0](4), SETTINGS.make(4)]
        for buffer in buffers:
            buffer[:] = x[0]
            buffer[1] = x.sum()
        return buffers

    for got, wanted in zip(ef.jit(function)(X), function(X), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert table == {"make": (np.zeros, [np.ones])}
    assert table["make"][1][0] is np.ones and function.__defaults__ == (np.empty,)
    assert SETTINGS.make is np.zeros and type(np.add) is np.ufunc


class Kind(type):
    """A class of classes."""


def classes(x: Any, n: Any, flag: Any) -> Any:
    other = Kind("other", (), {"size": 2})
    within, equal = x[x > 0], np.allclose(x, x)
    kinds = [
        type(x), type(x[0, 0]), type(x.sum()), type(n), type(flag), type(n * 2), type(WEIGHTS), type(zeros(2)),
        type(x.flat), type(within), type(equal), type(np.exp), type(zeros), type(other), type(Kind),
    ]  # fmt: skip
    instances = [
        isinstance(x, np.ndarray), isinstance(within, np.ndarray), isinstance(equal, bool), isinstance(x, type),
        isinstance(other, type), isinstance(Kind, type), issubclass(Kind, type),
    ]  # fmt: skip
    by_class = {np.ndarray: "array"}[type(x)] + {int: " and number"}[type(n)]
    sized = type("made", (), {"size": n})
    names = " ".join(kind.__name__ for kind in kinds)
    return {"kinds": names, "instances": instances, "by class": by_class}, sized.size * x


def test_what_a_function_sees_as_the_class_of_a_value_is_the_class_without_a_trace() -> None:
    seen, value = classes(X, 3, True)
    traced, computed = ef.jit(classes)(X, 3, True)
    assert traced == seen
    assert np.array_equal(computed, value)
    assert "type" not in globals()
