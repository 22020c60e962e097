"""Medians and quantiles of short rows are taken of sorted rows; what follows fuses, and the answer is NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.support.c_target import C
from tests.support.kernels import CPU
from tests.support.some import some

STATISTICS: dict[str, Callable[[Any], Any]] = {
    "median": lambda x: np.median(x, axis=-1),
    "median of columns": lambda x: np.median(x, axis=0, keepdims=True),
    "a quantile": lambda x: np.quantile(x, 0.3, axis=-1),
    "the ends": lambda x: np.quantile(x, [0.0, 1.0], axis=-1),
    "percentiles": lambda x: np.percentile(x, [2.5, 50, 97.5], axis=-1),
    "a whole percentile": lambda x: np.percentile(x, 25, axis=0),
    "whole percentiles": lambda x: np.percentile(x, [[25, 50], [75, 99]], axis=-1),
}


def rows(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    x = np.random.default_rng(shape[-1]).normal(size=shape)
    x.flat[::29], x.flat[3::31], x.flat[5::37] = np.inf, -np.inf, np.nan
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", some([np.float32, np.float64], 2))
@pytest.mark.parametrize("name", STATISTICS)
def test_the_answer_is_numpys(name: str, dtype: Any) -> None:
    for shape in ((20, 7), (9, 12), (4, 1), (3, 4, 5)):
        x = rows(dtype, shape)
        program = ef.compile(STATISTICS[name], x, target=CPU)
        assert program.report.kernels[0].ops == ("sort",)
        with np.errstate(all="ignore"):
            wanted, result = STATISTICS[name](x), program(x)
        np.testing.assert_array_equal(result, wanted, strict=True)


@pytest.mark.parametrize("name", STATISTICS)
def test_what_follows_the_sort_fuses(name: str) -> None:
    program = ef.compile(lambda x: np.exp(-STATISTICS[name](x)), ef.spec((40, 30)), target=C)
    assert program.report.n_kernels <= 3


def test_a_long_row_is_partitioned_by_numpy() -> None:
    program = ef.compile(np.median, ef.spec(10**6), target=C)
    assert [k.ops for k in program.report.kernels] == [("median",)]


@pytest.mark.parametrize("share", [1.5, -0.1, [0.5, 1.01], np.nan])
def test_a_quantile_out_of_range_is_refused(share: Any) -> None:
    for function, factor in ((np.quantile, 1), (np.percentile, 100), (np.nanquantile, 1)):
        with pytest.raises(ef.ShapeError, match="from 0 to 1"):
            ef.trace(lambda x, f=function, times=factor: f(x, np.multiply(share, times)), np.ones(5))


def test_so_it_is_where_an_argument_of_the_call_says_it() -> None:
    program = ef.compile(lambda x, q: np.quantile(x, q), np.ones(5), np.array([0.5]), target=CPU)
    with pytest.raises(ValueError, match="range"):
        program(np.ones(5), np.array([-0.5]))
