"""Gradients of what ``ufunc.at`` writes, against the same written element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef

RNG = np.random.default_rng(0)
X, V, WEIGHTS = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3))
PLACES = np.array([2, 0, -2, 2, 3])  # some are the same; one has none
MODES = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin")


def by_at(mode: str, x: Any, places: Any, v: Any) -> Any:
    y = np.array(x * 1.5)
    getattr(np, mode).at(y, places, v)
    return np.sum(y**2 * WEIGHTS)


def one_by_one(mode: str, x: Any, places: np.ndarray, v: Any) -> Any:
    y = np.array(x * 1.5)
    for i, place in enumerate(places):
        y[place] = getattr(np, mode)(y[place], v[i])
    return np.sum(y**2 * WEIGHTS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("zeros", [False, True])
def test_what_is_joined_in_places_has_the_gradient_of_its_steps(mode: str, zeros: bool) -> None:
    v = V.copy()
    if zeros and mode != "divide":
        v[0, 1] = v[1, 0] = v[2, 2] = v[3, 1] = 0
    for places in (PLACES, PLACES[:2]):
        given = X, v[: len(places)]
        wanted = ef.grad(lambda x, v, p=places: one_by_one(mode, x, p, v), (0, 1))(*given)
        known = ef.grad(lambda x, v, p=places: by_at(mode, x, p, v), (0, 1))(*given)
        by_data = ef.grad(lambda x, v, p: by_at(mode, x, p, v), (0, 1))(*given, places)
        for gradients in (known, by_data):
            np.testing.assert_allclose(gradients[0], wanted[0], rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(gradients[1], wanted[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_joining_in_places_has_derivatives_of_the_second_order(mode: str) -> None:
    v = V[:, 0].copy()
    v[:2] = 0.5 if mode == "divide" else 0.0

    def total(fn: Any) -> Any:
        return lambda v: fn(mode, X, PLACES, v[:, None] * np.ones(3))

    of_at, of_steps = (ef.hessian(total(fn))(v) for fn in (by_at, one_by_one))
    np.testing.assert_allclose(of_at, of_steps, rtol=1e-9, atol=1e-11)
    forward = [ef.jvp(total(fn), (v,), (np.cos(v),))[1] for fn in (by_at, one_by_one)]
    np.testing.assert_allclose(*forward)


@pytest.mark.parametrize("mode", ["multiply", "maximum"])
def test_masks_and_several_arrays_say_where_it_is_joined(mode: str) -> None:
    for key in ((np.array([1, 1, 3]), np.array([0, 0, 2])), (X[:, 0] > 0, 1), (slice(1, 3), np.array([0, 0, 2]))):
        v = RNG.normal(size=X[key].shape)

        def f(x: Any, v: Any, key: Any = key) -> Any:
            y = x * 1.0
            getattr(np, mode).at(y, key, v)
            return np.sum(np.sin(y) * WEIGHTS)

        ef.check_grad(f, X, v)


def test_elements_that_are_equally_large_share_the_gradient_as_in_jax() -> None:
    def largest(x: Any, v: Any) -> Any:
        y = x * 1
        np.maximum.at(y, [0, 0, 1], v)
        return (y * np.array([6.0, 1.0])).sum()

    of_x, of_v = ef.grad(largest, (0, 1))(np.array([2.0, 0.0]), np.array([2.0, 2.0, 1.0]))
    np.testing.assert_allclose(of_x, [2, 0])
    np.testing.assert_allclose(of_v, [2, 2, 1])


def test_what_cannot_be_joined_with_a_gradient_is_refused_by_name_and_line() -> None:
    def powers(x: Any) -> Any:
        y = x * 1
        np.power.at(y, [0, 0], x[:2])
        return y.sum()

    with pytest.raises(ef.UnsupportedOp, match=r"np\.power\.at has none here\. np\.add\.at.*\n.*np\.power\.at\(y"):
        ef.grad(powers)(np.ones(3))
