"""Gradients of the functions of deep learning, far out as well as near zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse import functions

Derivative = Callable[[Any], Any]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _silu(x: Any) -> Any:
    return _sigmoid(x) * (1 + x * _sigmoid(-x))


# The derivative of each in longdouble, which has exponents enough.
DERIVATIVES: dict[str, Derivative] = {
    "sigmoid": lambda x: _sigmoid(x) * _sigmoid(-x),
    "silu": _silu,
    "elu": lambda x: np.where(x > 0, 1, np.exp(np.minimum(x, 0))),
    "softplus": _sigmoid,
    "tanh": lambda x: 1 / np.cosh(x) ** 2,
    "relu": lambda x: 1.0 * (x > 0),
    "leaky_relu": lambda x: np.where(x > 0, 1, 0.01),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16], ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_right_where_exponentials_overflow(name: str, dtype: type) -> None:
    function = getattr(functions, name)
    far = [3e4, 1e3, 700, 89, 88.5, 60, 20, 3, 0.5]
    x = np.array([*far, *(-v for v in far)], dtype)
    with np.errstate(over="ignore"):
        derivative = DERIVATIVES[name](x.astype(np.longdouble))
    for jitted in (False, True):
        slope = ef.grad(lambda x: function(x).sum(dtype=np.float64))
        values = (ef.jit(slope, target="numpy") if jitted else slope)(x)
        assert values.dtype == dtype
        eps = np.finfo(dtype).eps  # of what comes from values near one, such as 1 - t * t, that much is lost
        np.testing.assert_allclose(values, derivative, rtol=50 * eps, atol=2 * eps)


@pytest.mark.parametrize("name", ["sigmoid", "silu", "elu"])
def test_values_are_the_same_with_a_gradient_as_without(name: str) -> None:
    function = getattr(functions, name)
    x = np.array([-1e30, -3e4, -80, -1.5, 0, 2, 90, 3e4], np.float32)
    value, _ = ef.value_and_grad(lambda x: (function(x).sum(), function(x)), has_aux=True)(x)
    np.testing.assert_allclose(value[1], function(x), rtol=1e-6, atol=1e-35)
