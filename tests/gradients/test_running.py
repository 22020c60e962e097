"""Gradients of running products and extremes, of axes shorter and longer than the blocks they are taken in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef

RNG = np.random.default_rng(0)
EXTENTS = (1, 2, 7, 8, 9, 63, 64, 65, 130)


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_products_change_as_products_of_the_others_where_some_are_zero(extent: int, axis: int) -> None:
    shape = tuple(extent if a == axis else 2 for a in range(3))
    x, weights = RNG.normal(size=shape), RNG.normal(size=shape)
    x[RNG.random(shape) < 0.1] = 0
    wanted = np.zeros(shape)
    for place in np.ndindex(*shape):  # products are linear in each element
        one, none = x.copy(), x.copy()
        one[place], none[place] = 1, 0
        wanted[place] = ((np.cumprod(one, axis) - np.cumprod(none, axis)) * weights).sum()

    def loss(x: Any) -> Any:
        return (np.cumprod(x, axis) * weights).sum()

    np.testing.assert_allclose(ef.grad(loss)(x), wanted, atol=1e-12)
    step = RNG.normal(size=shape)
    np.testing.assert_allclose(ef.jvp(loss, (x,), (step,))[1], (wanted * step).sum(), atol=1e-11)


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_running_extremes_change_with_the_first_element_that_is_the_extreme(name: str, extent: int) -> None:
    x = RNG.integers(-3, 4, (extent, 2)).astype(np.float64)
    if name in ("fmax", "fmin") and extent > 2:
        x[1, 0] = np.nan
    weights, extremes = RNG.normal(size=x.shape), getattr(np, name).accumulate(x)
    wanted = np.zeros_like(x)
    for column in range(2):
        first = 0
        for i in range(extent):
            first = i if i == 0 or extremes[i, column] != extremes[i - 1, column] else first
            wanted[first, column] += weights[i, column]
    by_rows = ef.grad(lambda x: (getattr(np, name).accumulate(x, 0) * weights).sum())(x)
    by_columns = ef.grad(lambda x: (getattr(np, name).accumulate(x, 1) * weights.T).sum())(x.T)
    np.testing.assert_allclose(by_rows, wanted, atol=1e-12)
    np.testing.assert_allclose(by_columns.T, wanted, atol=1e-12)
