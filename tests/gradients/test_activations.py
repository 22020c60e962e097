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

    def total(x: Any) -> Any:
        return function(x).sum(dtype=np.float64)

    def in_a_loop(x: Any) -> Any:
        return ef.scan(lambda s, v: (s + total(v), v), np.float64(0), x)[0]

    graphs = [ef.trace(total, x), ef.trace(in_a_loop, x)]
    slopes = [ef.grad(total), *map(ef.grad, graphs)]
    for slope in (*slopes, *(ef.jit(s, target="numpy") for s in slopes[:2])):
        values = slope(x)
        assert values.dtype == dtype
        eps = np.finfo(dtype).eps  # of what comes from values near one, such as 1 - t * t, that much is lost
        np.testing.assert_allclose(values, derivative, rtol=50 * eps, atol=2 * eps)


@pytest.mark.parametrize("name", ["sigmoid", "silu", "elu"])
def test_values_are_the_same_with_a_gradient_as_without(name: str) -> None:
    function = getattr(functions, name)
    x = np.array([-1e30, -3e4, -80, -1.5, 0, 2, 90, 3e4], np.float32)

    def total(x: Any) -> Any:
        return function(x).sum(), function(x)

    for what in (total, ef.trace(total, x)):
        value, _ = ef.value_and_grad(what, has_aux=True)(x)
        np.testing.assert_allclose(value[1], function(x), rtol=1e-6, atol=1e-35)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda t: t.__name__)
def test_a_graph_of_sigmoids_as_people_write_them_has_their_gradients(dtype: type) -> None:
    x = np.array([-1e30, -1000, -90, -1.5, 0, 2, 1000, 1e30], dtype)
    slope = DERIVATIVES["sigmoid"](np.clip(x, -5000, 5000).astype(np.longdouble))
    for sigmoid in (lambda x: 1 / (1 + np.exp(-x)), lambda x: 1 / (np.exp(-x) + 1), lambda x: 1 - 1 / (1 + np.exp(x))):
        graph = ef.trace(lambda x, sigmoid=sigmoid: sigmoid(x).sum(), x)
        np.testing.assert_allclose(ef.grad(graph)(x), slope, rtol=1e-5, atol=1e-30)


def test_a_large_number_over_an_infinite_exponential_stays_0_in_a_graph() -> None:
    x = np.array([1000.0, 2.0])
    value, _ = ef.value_and_grad(ef.trace(lambda x: (1e300 / (np.exp(x) + 1))[0], x))(x)
    assert value == 0


@pytest.mark.outside
@pytest.mark.parametrize("activation", [
    "Celu", "Celu <alpha = 0.5>", "Elu <alpha = 2.0>", "Gelu", 'Gelu <approximate = "tanh">', "HardSigmoid",
    "HardSwish", "LeakyRelu", "LogSoftmax", "Mish", "Selu", "Sigmoid", "Softmax", "Softplus", "Softsign",
    "Swish <alpha = 2.0>", "Tanh",
])  # fmt: skip
def test_activations_of_models_have_finite_gradients_far_out(activation: str) -> None:
    onnx = pytest.importorskip("onnx")
    name, _, attributes = activation.partition(" ")
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 24]>
        layer (float[6] x) => (float y) {{ a = {name} {attributes} (x) y = ReduceSum <keepdims = 0> (a) }}""")
    x = np.array([-3e4, -1000, -89, 89, 1000, 3e4], np.float32)
    slope = ef.grad(ef.from_onnx(model))(x)
    assert np.isfinite(slope).all()
    assert (np.abs(slope) <= 5).all()  # LogSoftmax of 6 numbers has -5
