"""What runs along axes: the derivative of every reduction, with a first value or without one, and over one or no
element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.support.derivatives import difference

REDUCED = [np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.hypot]
ALONG: list[Callable[[Any], Any]] = [
    lambda z: z.prod(axis=0), lambda z: z.prod(axis=-1), np.prod, lambda z: np.cumprod(z, 0), np.cumsum,
    lambda z: np.maximum.accumulate(z, 0) if len(z) else z, np.sort, lambda z: np.diff(z, axis=0),
    lambda z: np.pad(z, 1), lambda z: np.flip(z, 0), lambda z: np.roll(z, 1, 0), lambda z: z[:1],
    lambda z: np.concatenate([z, 2 * z]), lambda z: np.repeat(z, 2, 0), lambda z: z @ z.T,
    lambda z: np.einsum("...i,...i->...", z, z),
    lambda z: np.linalg.norm(z + 2, axis=0), lambda z: np.outer(z, z), lambda z: z.sum(axis=-1),
]  # fmt: skip


def checked(function: Callable[[Any], Any], x: np.ndarray) -> None:
    step = np.random.default_rng(1).uniform(-1, 1, x.shape)

    def squares(x: Any) -> Any:
        return np.sum(function(x) ** 2)

    gradient = ef.grad(squares)(x)
    assert gradient.shape == x.shape
    np.testing.assert_allclose(np.sum(gradient * step), difference(squares, [x], [step]), rtol=1e-8, atol=1e-8)
    second = ef.grad(lambda x: np.sum(ef.grad(squares)(x) ** 2))(x)
    assert second.shape == x.shape


@pytest.mark.parametrize("ufunc", REDUCED, ids=lambda u: u.__name__)
@pytest.mark.parametrize("shape", [(3, 4), (1, 2)])
def test_a_reduction_has_its_derivative_with_a_first_value_and_without_one(ufunc: np.ufunc, shape: Any) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    for axis in (0, -1):
        checked(lambda x, axis=axis: ufunc.reduce(x, axis=axis), x)
        checked(lambda x, axis=axis: ufunc.reduce(x, axis=axis, initial=0.7), x)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 3), (3, 1), (1, 1), (0,), (1,)])
def test_what_runs_along_an_axis_of_one_or_no_element_has_its_derivative(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    for function in ALONG:
        checked(function, x)


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (-2,), (0, 2), (0, 1), (2, 1), None])
@pytest.mark.parametrize("extent", [2, 8, 9, 63, 64, 70])
def test_a_product_has_its_derivative_along_any_axes_of_any_extents(extent: int, axes: tuple[int, ...] | None) -> None:
    for place in range(3):
        shape = [2, 3]
        shape.insert(place, extent)
        x = np.random.default_rng(0).uniform(0.9, 1.1, shape)
        x.flat[::11] = 0
        weights = np.cos(np.arange(np.prod(x, axes).size)).reshape(np.shape(np.prod(x, axes)))
        gradient = ef.grad(lambda x, w=weights: np.sum(np.prod(x, axes) * w))(x)
        others = np.empty_like(x)
        for i in np.ndindex(x.shape):
            changed = x.copy()
            changed[i] = 1
            others[i] = np.sum(np.prod(changed, axes) * weights)
            changed[i] = 0
            others[i] -= np.sum(np.prod(changed, axes) * weights)
        np.testing.assert_allclose(gradient, others, rtol=1e-9, atol=1e-12)
