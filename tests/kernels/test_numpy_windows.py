"""NumPy kernels around sliding windows: convolutions and pooling with the work before and after them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.ir.graph import node
from tests.kernels.test_numpy_panels import DEVICES
from tests.support.kernels import add, body, gelu, judge, kernel, mul, number, read


@pytest.fixture(params=DEVICES, ids=lambda d: d.name)
def device(request):
    return request.param


def conv(x, w, strides, padding, dilations=None, groups=1):
    return node("conv", (x, w), (strides, padding, dilations or (1,) * len(strides), groups))


CONVOLUTIONS = [
    ((3, 4, 20, 21), (5, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 4, 19, 20), (6, 4, 3, 2), (2, 3), ((1, 0), (0, 2)), (1, 1), 1),
    ((2, 4, 19, 20), (6, 2, 3, 3), (1, 1), ((2, 2), (0, 0)), (2, 3), 2),
    ((1, 6, 40, 9), (6, 1, 3, 3), (2, 1), ((1, 1), (1, 1)), (1, 1), 6),
    ((2, 8, 30, 30), (4, 8, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((2, 3, 200), (4, 3, 5), (1,), ((4, 0),), (1,), 1),
    ((2, 3, 200), (4, 3, 5), (3,), ((2, 2),), (2,), 1),
    ((1, 2, 7, 8, 9), (3, 2, 3, 2, 3), (1, 2, 1), ((1, 1), (0, 1), (1, 0)), (1, 1, 1), 1),
    ((4, 3, 6, 6), (2, 3, 6, 6), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((3, 4, 18, 17), (2, 4, 18, 17), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 1, 4, 4), (1, 1, 2, 2), (3, 3), ((1, 1), (1, 1)), (1, 1), 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda c: "x".join(map(str, c[0])) + "s" + str(c[2]))
def test_a_convolution_alone_and_with_work_around_it(case, device):
    shape, weight, *attrs = case
    x, w = read(0, shape), read(1, weight)
    y = conv(x, w, *attrs)
    channels = (1, -1, *[1] * (len(shape) - 2))
    bias = read(2, (weight[0], *channels[2:]))
    before = read(3, (shape[1], *channels[2:]))
    judge("library", body([x, w], y), device=device)
    judge("contract", body([x, w, bias], node("maximum", (add(y, bias), number(0)))), device=device)
    tidy = conv(node("tanh", (add(mul(x, x), before),)), w, *attrs)
    judge("contract", body([x, w, bias, before], gelu(add(tidy, bias)), tidy), device=device)


def test_the_gradient_of_filters_holds_windows_for_few_more_columns_than_it_has_results():
    x, ct = read(0, (16, 4, 32, 32)), read(1, (8, 4, 32, 32))  # images and channels have changed places
    y = conv(x, ct, (1, 1), ((1, 1), (1, 1)))
    needs = emit_kernel(kernel("contract", body([x, ct], y)), DEVICES[0]).needs
    windows, results = 4 * 32 * 32, math.prod(y.shape[2:])
    assert needs.scratch <= 2 * 4 * windows * results


@pytest.mark.parametrize("dtype", ["float64", "int64", "float16"])
def test_a_convolution_of_other_dtypes(dtype, device):
    x, w = read(0, (2, 3, 20, 20), dtype), read(1, (4, 3, 3, 3), dtype)
    judge("contract", body([x, w], mul(y := conv(x, w, (1, 1), ((1, 1), (1, 1))), y)), device=device)


POOLS = [
    ((8, 5, 20, 21), (2, 2), (2, 2), ((0, 0), (0, 0))),
    ((8, 5, 20, 21), (3, 3), (2, 1), ((1, 1), (0, 2))),
    ((300, 200), (3, 3), (1, 1), ((1, 1), (1, 1))),
    ((3000,), (4,), (4,), ((0, 0),)),
    ((2, 3000), (5,), (1,), ((4, 0),)),
    ((2, 3, 9, 10, 11), (2, 1, 3), (1, 2, 2), ((0, 0), (0, 0), (1, 1))),
    ((1, 1, 3, 3), (3, 3), (1, 1), ((0, 0), (0, 0))),
]


@pytest.mark.parametrize("op", ["window_max", "window_sum"])
@pytest.mark.parametrize("case", POOLS, ids=lambda c: "x".join(map(str, c[0])))
def test_pooling_alone_and_with_work_around_it(op, case, device):
    shape, *attrs = case
    x = read(0, shape)
    y = node(op, (x,), attrs)
    judge("window", body([x], y), device=device)
    k = read(1, shape[-1:])
    y = node(op, (mul(node("tanh", (x,)), k),), attrs)
    judge("window", body([x, k], gelu(y), y), device=device)


@pytest.mark.parametrize("dtype", ["int32", "float16", "bool"])
def test_pooling_of_other_dtypes_pads_with_the_identity(dtype, device):
    x = read(0, (50, 60), dtype)
    arrays = [np.random.default_rng(0).integers(-5 if dtype != "bool" else 0, 2, (50, 60)).astype(dtype)]
    judge("window", body([x], node("window_max", (x,), ((3, 3), (2, 2), ((1, 1), (1, 1))))), arrays, device)


def test_pooling_keeps_nan(device):
    x = read(0, (60, 70))
    a = np.random.default_rng(0).normal(size=(60, 70)).astype(np.float32)
    a[10, 10] = np.nan
    judge("window", body([x], node("window_max", (x,), ((2, 2), (1, 1), ((0, 0), (0, 0))))), [a], device)
