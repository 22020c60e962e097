"""The buffers of NumPy's ufuncs: short while a program reads large rows with gaps between them, and then as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.numpy.executable import NumpyExecutable
from eqfuse.emit.numpy.temporaries import SHORT_BUFFER
from tests.support.kernels import CPU


def inner(x: Any) -> Any:
    return np.sin(x[1:-1, 1:-1]) * x[2:, 1:-1]


def within_a_loop(x: Any) -> Any:
    return ef.fori_loop(0, 3, lambda i, y: np.pad(inner(y), 1), x)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The elements of a buffer in each call of a program."""
    sizes: list[int] = []
    results = NumpyExecutable._results

    def watched(self: NumpyExecutable, arguments: Any) -> Any:
        sizes.append(np.getbufsize())
        return results(self, arguments)

    monkeypatch.setattr(NumpyExecutable, "_results", watched)
    return sizes


@pytest.mark.parametrize(
    "function, size, short",
    [(inner, 400, True), (within_a_loop, 400, True), (inner, 10, False), (np.sin, 400, False), (inner, 150, False)],
)
def test_buffers_are_short_where_long_rows_have_gaps(function: Any, size: int, short: bool, seen: list[int]) -> None:
    x = np.random.default_rng(0).random((size, size))
    program = ef.compile(function, x, target=CPU)
    np.testing.assert_allclose(program(x), function(x), rtol=1e-12)
    assert seen == [SHORT_BUFFER if short else np.getbufsize()]


def test_the_users_buffers_and_error_state_are_as_before_after_a_call(seen: list[int]) -> None:
    x = np.random.default_rng(0).random((400, 400))
    program = ef.compile(inner, x, target=CPU)
    before = np.setbufsize(4096)
    try:
        with np.errstate(divide="raise"):
            program(x)
            assert (np.getbufsize(), np.geterr()["divide"]) == (4096, "raise")
            with pytest.raises(ef.ShapeError):
                program(x[1:])
            assert np.getbufsize() == 4096
    finally:
        np.setbufsize(before)
    assert seen == [SHORT_BUFFER]
