"""Of a large matrix times its own transpose BLAS computes half, and the price says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eqfuse as ef
from tests.support.c_target import C


def seconds(function: Callable[[Any], Any], n: int, dtype: str) -> float:
    return ef.compile(function, ef.spec((n, n), dtype), target=C.single).report.predicted_seconds


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_gram_product_costs_little_more_than_half(dtype: str) -> None:
    product = seconds(lambda x: x @ x, 1500, dtype)
    assert 0.5 * product < seconds(lambda x: x.T @ x, 1500, dtype) < 0.75 * product
    assert 0.5 * product < seconds(lambda x: x @ x.T, 1500, dtype) < 0.75 * product


def test_but_not_a_small_one() -> None:
    assert seconds(lambda x: x.T @ x, 100, "float64") > 0.8 * seconds(lambda x: x @ x, 100, "float64")
