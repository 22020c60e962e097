"""Operators whose derivative is that of a formula of others: whatever their arguments are made of, no path is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

RNG = np.random.default_rng(5)
SQUARE, TALL, B = RNG.normal(size=(4, 4)), RNG.normal(size=(3, 5)), RNG.normal(size=5)
FORMULAS: dict[str, Callable[[Any], Any]] = {
    "median": lambda x: np.median(x, axis=0), "nanmedian": lambda x: np.nanmedian(x, axis=0),
    "quantile": lambda x: np.quantile(x, 0.3, axis=0), "percentile": lambda x: np.percentile(x, [20, 70], axis=0),
    "lstsq": lambda x: np.linalg.lstsq(x, B[: x.shape[0]], rcond=None)[0], "cond": lambda x: np.linalg.cond(x),
    "cond by sums": lambda x: np.linalg.cond(x[:3, :3], 1),
    "interp": lambda x: np.interp(x[0], np.arange(5.0), B), "reduceat": lambda x: np.add.reduceat(x, [0, 2], axis=0),
    "histogram edges": lambda x: np.histogram_bin_edges(x, 4),
}  # fmt: skip
VIEWS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.T, "swapaxes": lambda x: np.swapaxes(x, 0, 1), "flip": lambda x: x[::-1],
    "reshape": lambda x: x.reshape(x.shape[::-1]), "negative": lambda x: -x, "exp": lambda x: np.exp(x),
    "part": lambda x: x[:, 1:],
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", FORMULAS)
def test_the_gradient_of_a_formula_of_a_view_is_that_of_its_values(name: str, view: str) -> None:
    formula, seen = FORMULAS[name], VIEWS[view]
    loss = lambda x: (formula(x) ** 2).sum()  # noqa: E731
    x = SQUARE if name == "cond by sums" else TALL
    (wanted,) = ef.vjp(seen, x)[1](ef.grad(loss)(np.array(seen(x))))
    gradient = ef.grad(lambda x: loss(seen(x)))(x)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-9, atol=1e-9)
    _, along = ef.jvp(lambda x: loss(seen(x)), (x,), (B[0] * np.ones_like(x),))
    np.testing.assert_allclose(along, (gradient * B[0]).sum(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("zeros", [(), (1,), (1, 3), (0, 1, 2)])
def test_a_product_has_its_second_derivatives_where_factors_are_zero(zeros: tuple[int, ...]) -> None:
    x = np.array([1.5, -2.0, 3.0, 0.5])
    x[list(zeros)] = 0
    wanted = [[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(4)] for i in range(4)]
    np.testing.assert_allclose(ef.hessian(np.prod)(x), wanted)
    rows = lambda x: np.prod(x.reshape(2, 2), axis=0).sum()  # noqa: E731
    cross = np.zeros((4, 4))
    cross[[0, 1, 2, 3], [2, 3, 0, 1]] = 1
    np.testing.assert_allclose(ef.hessian(rows)(x), cross)
