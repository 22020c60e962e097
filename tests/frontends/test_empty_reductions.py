"""What is computed of a sum or median of nothing is what NumPy computes, wherever laws would put the factors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.rolling.empty_reductions import empty_reductions_known

CASES: dict[str, Callable[[Any], Any]] = {
    "a mean of squares": lambda x: (x * x).sum(1) / x.shape[1],
    "a covariance": lambda x: x @ x.T * (1 / np.float64(x.shape[1])),
    "a covariance of centred rows": lambda x: np.dot(x - x.mean(1, keepdims=True), x.T.conj()) * np.true_divide(1, 0.0),
    "an infinite factor": lambda x: (x * 2).sum(1) * np.inf, "of all": lambda x: -(x + 1).sum() / 0.0,
    "a factor that is an extreme": lambda x: (x * x).sum(1) * x.max(initial=np.inf),
    "an infinite weight": lambda x: np.einsum("ij,kj->ik", x, x) * np.array([1.0, np.inf, 2.0]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("numerics", ["strict", "reassociate"])
@pytest.mark.parametrize("extents", [0, 4])
def test_factors_meet_a_sum_of_nothing(name: str, numerics: str, extents: int) -> None:
    for dtype in ("float32", "complex128"):
        x = np.ones((3, extents), dtype)
        with np.errstate(all="ignore"):
            wanted = CASES[name](x)
            got = ef.compile(CASES[name], x, target="numpy", numerics=numerics)(x)
        assert got.dtype == wanted.dtype
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(np.isfinite(got), finite)
        np.testing.assert_allclose(got[finite], wanted[finite], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int64", "float32", "complex64"])
@pytest.mark.parametrize("median", [np.median, np.nanmedian])
def test_a_median_of_nothing_is_nan_without_a_warning(median: Any, dtype: str) -> None:
    x = np.zeros((2, 0), dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = median(x, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = ef.jit(lambda x: median(x, axis=1))(x)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    assert np.isnan(got.real).all() and (np.isnan(got.imag) == np.isnan(wanted.imag)).all()


def test_a_graph_without_empty_reductions_stays_as_it_is() -> None:
    graph = ef.trace(lambda x: (x @ x.T).sum() + x[:0].max(initial=1.0), ef.spec((3, 3), np.float64))
    assert empty_reductions_known(graph) is graph
