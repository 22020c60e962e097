"""np.allclose, np.array_equal and np.array_equiv give a Python bool, to callers too, and arrays take it as NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.agreement import agrees

X = np.arange(6.0)
S = np.ones(6, np.float32)
TAKEN: list[Callable[..., Any]] = [
    lambda x, s: np.allclose(x, x), lambda x, s: np.array_equal(x, s), lambda x, s: np.array_equiv(x, x[:1]),
    lambda x, s: np.array_equal(x, x[1:]), lambda x, s: np.allclose(x, x) & np.array_equal(x, s),
    lambda x, s: np.allclose(x, x) | False, lambda x, s: np.allclose(x, x) == np.array_equal(x, s),
    lambda x, s: s * np.array_equal(x, x), lambda x, s: s.astype(np.int8) + np.allclose(x, x),
    lambda x, s: (x > 1) & np.allclose(x, s), lambda x, s: np.where(np.allclose(x, s), s, 2 * s),
    lambda x, s: np.add(np.allclose(x, x), 1), lambda x, s: {"near": np.allclose(x, x), "sum": s.sum()},
    lambda x, s: np.array([np.allclose(x, x), np.array_equal(x, s)]), lambda x, s: np.logical_not(np.allclose(x, x)),
]  # fmt: skip
REFUSED: list[Callable[..., Any]] = [
    lambda x, s: np.allclose(x, x) + np.allclose(x, s), lambda x, s: s * (np.allclose(x, x) * 0.5),
    lambda x, s: sum(np.array_equal(x, x + k) for k in range(3)), lambda x, s: -np.allclose(x, x),
    lambda x, s: ~np.array_equiv(x, x), lambda x, s: 1 - np.array_equal(x, s), lambda x, s: np.allclose(x, x) & 3,
]  # fmt: skip


@pytest.mark.parametrize("function", TAKEN)
def test_arrays_take_a_verdict_as_numpys_bool_and_callers_get_pythons(function: Callable[..., Any]) -> None:
    agrees(function, X, S)
    result, wanted = ef.jit(function)(X, S), function(X, S)
    assert type(result) is type(wanted)
    if isinstance(result, dict):
        assert type(result["near"]) is bool


@pytest.mark.parametrize("function", REFUSED)
def test_arithmetic_that_python_would_do_on_it_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ef.TraceError, match="is a Python bool"):
        ef.trace(function, X, S)


def test_a_saved_program_gives_a_python_bool_too(tmp_path: Path) -> None:
    ef.compile(lambda x: (np.allclose(x, x), x + 1), X).save(tmp_path / "program")
    verdict, _ = ef.load(tmp_path / "program")(X)
    assert verdict is True
