"""ef's own functions give the same on arrays and when traced, and agree with scipy or a plain formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

from eqfuse import functions as F
from eqfuse.dtypes import FLOAT8, epsilon
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.evaluate import meaning
from eqfuse.specialise.compile import compile
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


ONE_ARGUMENT = {name: function for name, (function, _) in CASES.items()} | {
    "softmax over two axes": lambda x: F.softmax(x, (0, 1)),
    "exp": F.exp, "log": lambda x: F.log(abs(x) + 1), "sqrt": lambda x: F.sqrt(abs(x)), "tanh": F.tanh,
    "maximum": lambda x: F.maximum(x, -x), "minimum": lambda x: F.minimum(x, x + x),
    "where": lambda x: F.where(x > 0, x, 2),
    "elu with alpha": lambda x: F.elu(x, alpha=0.25), "leaky_relu with slope": lambda x: F.leaky_relu(x, 0.25),
    "layer_norm of columns": lambda x: F.layer_norm(x, x[:1] * 0 + 2, x[:1] * 0, axis=0), "rms_norm plain": F.rms_norm,
    "max_pool": lambda x: F.max_pool(x[None], 2), "avg_pool": lambda x: F.avg_pool(x[None], 2),
    "batch_norm": lambda x: F.batch_norm(x[None], *(np.full(x.shape[0], n).astype(x.dtype) for n in (1, 4, 2, 1))),
    "conv": lambda x: F.conv(x[None], np.full((2, x.shape[0], 2), 0.5).astype(x.dtype), padding=1),
}  # fmt: skip
FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")


def whole_range(dtype: np.dtype) -> np.ndarray:
    """Rows of small, of usual and of large numbers."""
    large = {"float16": 6e4, "float8_e4m3fn": 400, "float8_e5m2": 5e4}.get(dtype.name, 2.0**60)
    usual = np.array([0.0, 1.0, -1.0, 0.25, -3.0, 2.5, 10.0, -11.0])
    return np.array([usual, usual / 64, usual * (large / 11), [-large, large, 0, 1, -1, 40, -40, -0.0]]).astype(dtype)


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_a_function_keeps_the_dtype_and_is_right_over_its_whole_range(name):
    for dtype in map(np.dtype, FLOATS):
        _is_right_over_its_whole_range(ONE_ARGUMENT[name], dtype)


def _is_right_over_its_whole_range(function, dtype):
    x = whole_range(dtype)
    with np.errstate(all="ignore"):
        direct, traced = np.asarray(function(x)), meaning(trace(function, x), x)
        wanted = np.asarray(function(x.astype(np.float64)))
        representable = np.isfinite(wanted) & np.isfinite(wanted.astype(dtype).astype(np.float64))
    assert direct.dtype == traced.dtype == dtype
    if dtype in FLOAT8:
        return  # whose steps round to a digit or two
    for got in (direct, traced):
        error = np.abs(got[representable].astype(np.float64) - wanted[representable])
        room = 8 * epsilon(dtype) * np.maximum(1, np.abs(wanted[representable]))
        assert (error <= room).all(), (dtype, error.max(), got, wanted)


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_a_function_of_integers_gives_on_arrays_what_it_gives_when_traced(name):
    for dtype in ("bool", "int8", "uint8", "int32", "int64", "uint64"):
        agrees(ONE_ARGUMENT[name], np.arange(32).reshape(4, 8).astype(dtype))


def test_narrow_floats_beside_wider_ones_give_the_wider():
    x, wide = sample((2, 8), "float16"), np.ones(8, np.float32)
    assert F.layer_norm(x, wide, wide).dtype == np.float32 == F.rms_norm(x, scale=wide).dtype
    assert F.layer_norm(x, wide.astype("f2"), wide.astype("f2")).dtype == np.float16


def test_statistics_of_half_precision_do_not_overflow():
    x = (sample((4, 1024), "float32") * 100).astype(np.float16)
    for function in (F.layer_norm, F.rms_norm):
        wanted = function(x.astype(np.float64))
        for got in (function(x), meaning(trace(function, x), x), compile(function, x)(x)):
            np.testing.assert_allclose(got, wanted, atol=4e-3)


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax, F.logsumexp], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("dtype", "n"), [("float16", 70_000), ("bfloat16", 5_000)])
def test_sums_of_many_narrow_floats_neither_overflow_nor_stand_still(function, dtype, n):
    x = np.zeros(n, dtype)
    wanted = function(x.astype(np.float64))
    for got in (function(x), meaning(trace(function, x), x), compile(function, x)(x)):
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=epsilon(x.dtype), atol=2.0**-25)


@pytest.mark.parametrize("function", [F.sigmoid, F.silu, F.erfc], ids=lambda f: f.__name__)
def test_tails_are_right_down_to_the_least_float16(function):
    x = np.linspace(-20, 20, 801).astype(np.float16)
    wanted = function(x.astype(np.float64))
    for got in (function(x), meaning(trace(function, x), x)):
        np.testing.assert_allclose(got, wanted, rtol=epsilon(x.dtype), atol=2.0**-24)


def test_a_function_of_one_operator_records_that_operator_and_of_float32_none_to_cast():
    x = X[0]
    for function in (F.erf, F.erfc, F.relu, F.softplus, F.tanh, F.exp, F.log, F.sqrt):
        assert len(trace(function, x).operators) == 1, function.__name__
    for name, function in ONE_ARGUMENT.items():
        for dtype in (np.float32, np.float64):
            assert "cast" not in {n.op for n in trace(function, x.astype(dtype)).operators}, name
