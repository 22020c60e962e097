"""What the target "cpu" means: C where there is a compiler, NumPy where there is none and where C would not do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost import targets
from tests.support.c_kernels import needs_compiler

X = np.linspace(-1, 1, 60, dtype=np.float32).reshape(6, 10)


def squashed(x: Any) -> Any:
    return np.tanh(x) * 2 + 1


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(targets, "CPU", ["c", "numpy"])
    for function in (targets._first, targets._device_of):
        function.cache_clear()
    yield
    for function in (targets._first, targets._device_of):
        function.cache_clear()


@needs_compiler
def test_cpu_is_c_where_a_compiler_is_found() -> None:
    program = ef.compile(squashed, X)
    assert program.plan.device.target == "c"
    np.testing.assert_allclose(program(X), squashed(X), rtol=1e-5, atol=1e-6)


def test_cpu_is_numpy_where_there_is_no_compiler_and_one_warning_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.warns(UserWarning, match="install gcc") as records:
        program = ef.compile(squashed, X)
    assert program.plan.device.target == "numpy"
    assert [w.filename for w in records] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ef.compile(lambda x: x + 1, X)


def test_strict_programs_for_cpu_have_the_bits_of_numpy() -> None:
    program = ef.compile(squashed, X, numerics="strict")
    assert program.plan.device.target == "numpy"
    assert program(X).tobytes() == squashed(X).tobytes()


def test_programs_for_many_sizes_are_numpy_since_c_is_compiled_for_one() -> None:
    program = ef.compile(squashed, ef.spec(("n", 10), np.float32))
    for rows in (2, 5):
        np.testing.assert_allclose(program(X[:rows]), squashed(X[:rows]), rtol=1e-5, atol=1e-6)
        assert program.at(n=rows).plan.device.target == "numpy"
