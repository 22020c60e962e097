"""Products of long operands by a few factors: OpenBLAS is given these by rows."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from tests.support.kernels import CPU


@pytest.mark.parametrize(
    "rows, factors, copied",
    [(1000, (2, 2), True), (1000, (8, 8), True), (20, (2, 2), False), (1000, (30, 30), False)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_few_transposed_factors_are_copied(rows: int, factors: tuple[int, int], copied: bool, dtype: type) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.random((rows, factors[1])).astype(dtype), rng.random(factors).astype(dtype)
    program = ef.compile(lambda x, w: x @ w.T, x, w, target=CPU)
    assert (".copy()" in program.source()) is copied
    np.testing.assert_allclose(program(x, w), x @ w.T, rtol=1e-5)


def test_factors_by_rows_are_read_where_they_lie() -> None:
    x, w = np.random.default_rng(0).random((1000, 2)), np.eye(2)
    program = ef.compile(lambda x, w: x @ w, x, w, target=CPU)
    assert ".copy()" not in program.source()
    np.testing.assert_array_equal(program(x, w), x)
