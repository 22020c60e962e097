"""What is taken for a Python number, and what cannot be done with a traced one."""

from __future__ import annotations

import dataclasses
import enum
import weakref
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.python_numbers import U, X, same


class Mode(enum.IntEnum):
    NEAR = 1


class Metres(float):
    pass


SUBCLASSES = (Mode.NEAR, Metres(2), Fraction(1, 2), Decimal("0.5"))


@pytest.mark.parametrize("value", SUBCLASSES, ids=lambda v: type(v).__name__)
def test_a_number_with_a_class_of_its_own_is_refused_by_name(value: Any) -> None:
    name = type(value).__name__
    with pytest.raises(ef.TraceError, match=rf"'n' is a .*{name}, a number with a class of its own.*static_argnames"):
        ef.jit(lambda x, n: x * float(n))(X, value)
    f = ef.jit(lambda x, n: x * float(n), static_argnames="n")
    np.testing.assert_array_equal(f(X, value), X * float(value))


def test_an_enumeration_in_the_function_is_as_strong_as_in_numpy() -> None:
    f = lambda u, n: (u + Mode.NEAR, n + Mode.NEAR, u + Metres(1.5), n * Metres(1.5))  # noqa: E731
    assert same(ef.jit(f)(U, 3), f(U, 3))


@pytest.mark.parametrize("value", [
    np.float32(2), np.float64(2), np.int8(2), np.bool_(True), np.array(2), np.array(2.0, "f4"), np.complex64(2),
], ids=repr)  # fmt: skip
def test_numpys_scalars_and_arrays_of_rank_0_are_strong(value: Any) -> None:
    f = lambda u, x, n: (u + n, x * n, u < n, n * n, x**n)  # noqa: E731
    run = ef.jit(f)
    for times in (1, -1, 0):
        v = value * type(value)(times) if isinstance(value, np.generic) else value * times
        assert all(map(same, run(U, X, v), f(U, X, v)))


def test_a_program_takes_numbers_of_the_kind_it_was_compiled_for() -> None:
    run = ef.compile(lambda x, n: x * n, X, 2)
    for wrong in (2.0, True, 2j, np.int64(2), np.array(2), "2", None, Mode.NEAR):
        with pytest.raises(ef.ShapeError):
            run(X, wrong)
    np.testing.assert_array_equal(run(X, 3), X * 3)


def test_huge_integers_go_through_and_are_never_printed() -> None:
    huge = 10**5000
    assert ef.jit(lambda n: n * n + 1)(huge) == huge * huge + 1
    with pytest.raises(OverflowError, match="an int of 16610 bits"):
        ef.jit(lambda x, n: x + n)(X, huge)


@dataclasses.dataclass
class Settings:
    rate: float
    steps: int
    rest: tuple


def test_numbers_nest_and_come_back_as_they_would_from_python() -> None:
    def f(x: Any, settings: Settings, more: Any) -> Any:
        total = sum(more["rates"], settings.rate)
        return Settings(total, settings.steps + 1, (x * total, 2)), [total > 1, {"n": -more["n"]}], None

    arguments = (X, Settings(0.25, 3, ("a",)), {"rates": [1, 2.5], "n": 7})
    got, wanted = ef.jit(f)(*arguments), f(*arguments)
    assert repr(got) == repr(wanted)


# ---- what a traced number cannot do

KEPT = type("Kept", (), {})()
IMPOSSIBLE = {
    "if": lambda x, n: x if n else -x, "if compared": lambda x, n: x if n > 2 else -x, "and": lambda x, n: n and x,
    "float()": lambda x, n: x * float(n), "int()": lambda x, n: x * int(n), "range": lambda x, n: [x for _ in range(n)],
    "list index": lambda x, n: [x, x, x][n], "slice": lambda x, n: x[:n], "dict key": lambda x, n: {n: x},
    "in": lambda x, n: x * (n in {1, 2}), "bit_length": lambda x, n: x * n.bit_length(), "text": lambda x, n: f"{n:3}",
    "zeros": lambda x, n: np.zeros(n), "reshape": lambda x, n: x.reshape(n, -1), "axis": lambda x, n: x.sum(axis=n),
    "tile": lambda x, n: np.tile(x, n), "repeat": lambda x, n: np.repeat(x, n), "roll": lambda x, n: np.roll(x, n),
    "eye": lambda x, n: x[:, :n] @ np.eye(n, dtype=np.float32), "tri": lambda x, n: x[0, 0] * np.tri(n),
    "eye's diagonal": lambda x, n: x * np.eye(3, 4, n), "arange": lambda x, n: x[0, 0] * np.arange(n),
    "a window": lambda x, n: x[0, 0] * np.hanning(n), "indices": lambda x, n: x[np.tril_indices(n)],
    "fromfunction": lambda x, n: x[0, 0] * np.fromfunction(lambda i: i, (n,)),
    "linspace": lambda x, n: x[0, 0] * np.linspace(0, 1, n), "full": lambda x, n: x[0, 0] * np.full((2, n), 1),
    "list repetition": lambda x, n: [x] * n, "max()": lambda x, n: x * max(n, 3),
}  # fmt: skip


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_needs_its_value_names_the_remedy(case: str) -> None:
    with pytest.raises(ef.EqfuseError, match="static_argnames"):
        ef.trace(IMPOSSIBLE[case], X, 2)
    f = ef.jit(IMPOSSIBLE[case], static_argnames="n")
    wanted = IMPOSSIBLE[case](X, 1)
    if case != "text":
        assert repr(f(X, 1)) == repr(wanted)


def test_a_number_that_leaks_is_an_error_that_names_the_line() -> None:
    leaked: list[Any] = []
    with pytest.raises(ef.TraceError, match=r"Python int, made at .*leaked\.append.* is kept as leaked\[0\]"):
        ef.trace(lambda x, n: leaked.append(n * 2) or x, X, 2)
    assert leaked == []


def test_a_number_that_leaks_where_nobody_looks_is_named_when_it_is_used() -> None:
    hidden: Any = weakref.WeakKeyDictionary()  # of a library, which is not looked into
    with pytest.raises(ef.TraceError, match=r"Python int, made at .*setdefault.* is kept in a dict"):
        ef.trace(lambda x, n: (hidden.setdefault(KEPT, n * 2), x)[1], X, 2)
    with pytest.raises(ef.TraceError, match="a traced Python int is used outside the call that made it"):
        hidden[KEPT] + 1
    with pytest.raises(ef.TraceError, match="outside the call"):
        ef.trace(lambda x: x + hidden[KEPT], X)


def test_python_numbers_that_a_generator_draws_are_weak_and_drawn_anew() -> None:
    def f(x: Any, rng: Any, s: Any) -> Any:
        a, b = rng.random(), rng.normal(0.0, s)
        return x * a + b, (a < 0.5, a * 2), rng.integers(0, 5, 3)

    run = ef.jit(f)
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    for s in (0.5, 2.0, 0.0):
        got, wanted = run(X, ours, s), f(X, theirs, s)
        assert same(got[0], wanted[0]) and same(got[1], wanted[1]) and same(got[2], wanted[2])
