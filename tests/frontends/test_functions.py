"""ef's own functions give the same on arrays and when traced, and agree with scipy or a plain formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

from eqfuse import functions as F
from eqfuse.meaning import meaning
from eqfuse.trace import trace
from tests.frontends.agreement import agrees, sample

X = sample((2, 3, 4), "float32")
IMAGE, WEIGHT = sample((2, 4, 7, 6), "float32"), sample((6, 4, 3, 3), "float32", 1)
CASES = {
    "relu": (lambda x: F.relu(x), lambda x: np.maximum(x, 0)),
    "relu6": (lambda x: F.relu6(x * 5), lambda x: np.clip(x * 5, 0, 6)),
    "leaky_relu": (lambda x: F.leaky_relu(x), lambda x: np.where(x > 0, x, x * 0.01)),
    "elu": (lambda x: F.elu(x), lambda x: np.where(x > 0, x, np.expm1(x))),
    "sigmoid": (lambda x: F.sigmoid(x), scipy.special.expit),
    "silu": (lambda x: F.silu(x), lambda x: x * scipy.special.expit(x)),
    "softplus": (lambda x: F.softplus(x), lambda x: np.log1p(np.exp(x))),
    "gelu": (lambda x: F.gelu(x), lambda x: x * scipy.special.ndtr(x)),
    "gelu tanh": (
        lambda x: F.gelu(x, "tanh"),
        lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "softmax": (lambda x: F.softmax(x), lambda x: scipy.special.softmax(x, -1)),
    "softmax over two axes": (lambda x: F.softmax(x, (0, 2)), lambda x: scipy.special.softmax(x, (0, 2))),
    "log_softmax": (lambda x: F.log_softmax(x, 1), lambda x: scipy.special.log_softmax(x, 1)),
    "logsumexp": (lambda x: F.logsumexp(x), lambda x: scipy.special.logsumexp(x, -1, keepdims=True)),
    "layer_norm": (
        lambda x: F.layer_norm(x, 2, 1),
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * 2 + 1,
    ),
    "rms_norm": (lambda x: F.rms_norm(x, 3), lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * 3),
    "erf": (lambda x: F.erf(x), scipy.special.erf),
    "erfc": (lambda x: F.erfc(x), scipy.special.erfc),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_function_agrees_with_its_formula_on_arrays_and_when_traced(name):
    function, formula = CASES[name]
    agrees(function, X)
    np.testing.assert_allclose(function(X), formula(X), rtol=2e-5, atol=1e-6)
    assert function(X).dtype == np.float32


def direct_conv(x, w, stride, padding, groups):
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, c, k = x.shape[0], w.shape[1], w.shape[2]
    rows, columns = (x.shape[2] - k) // stride + 1, (x.shape[3] - k) // stride + 1
    y = np.zeros((n, w.shape[0], rows, columns))
    for o in range(w.shape[0]):
        g = o // (w.shape[0] // groups)
        for i in range(rows):
            for j in range(columns):
                part = x[:, g * c : (g + 1) * c, i * stride : i * stride + k, j * stride : j * stride + k]
                y[:, o, i, j] = (part * w[o]).sum((1, 2, 3))
    return y


@pytest.mark.parametrize(("stride", "padding", "groups"), [(1, 0, 1), (1, 1, 1), (2, 1, 1), (1, 1, 2)])
def test_conv_agrees_with_the_sum_over_windows(stride, padding, groups):
    weight, bias = WEIGHT[:, : 4 // groups], np.arange(6, dtype=np.float32)

    def conv(x, w, b):
        return F.conv(x, w, b, stride=stride, padding=padding, groups=groups)

    agrees(conv, IMAGE, weight, bias)
    expected = direct_conv(IMAGE, weight, stride, padding, groups) + bias[:, None, None]
    np.testing.assert_allclose(conv(IMAGE, weight, bias), expected, rtol=1e-5)


def test_pooling_agrees_with_windows_cut_by_hand():
    blocks = IMAGE[:, :, :6].reshape(2, 4, 3, 2, 3, 2)
    agrees(lambda x: F.max_pool(x, 2), IMAGE)
    agrees(lambda x: F.avg_pool(x, (2, 3), stride=1, padding=((0, 1), (1, 1))), IMAGE)
    np.testing.assert_array_equal(F.max_pool(IMAGE, 2), blocks.max((3, 5)))
    np.testing.assert_allclose(F.avg_pool(IMAGE, 2), blocks.mean((3, 5)), rtol=1e-6)


def test_conv_batch_norm_relu_pool_traces_to_primitives():
    mean, variance, scale, shift = (sample((6,), "float32", i) ** 2 + 1 for i in range(4))

    def block(x, w):
        return F.max_pool(F.relu(F.batch_norm(F.conv(x, w, padding=1), mean, variance, scale, shift)), 2)

    graph = trace(block, IMAGE, WEIGHT)
    np.testing.assert_allclose(meaning(graph, IMAGE, WEIGHT), block(IMAGE, WEIGHT), rtol=1e-5)
    assert {"conv", "maximum", "window_max"} <= {n.op for n in graph.operators}
