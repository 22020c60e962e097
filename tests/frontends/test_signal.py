"""Convolution, interpolation, differences and polynomials, traced, agree with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.agreement import DTYPES, agrees, sample


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", [*DTYPES, "complex64"])
@pytest.mark.parametrize("function", [np.convolve, np.correlate], ids=lambda f: f.__name__)
def test_convolution_agrees_with_numpy(function, dtype, mode):
    for other in (dtype, "float32"):
        for m, n in ((7, 3), (3, 7), (4, 4), (1, 5)):
            agrees(lambda a, v: function(a, v, mode), sample((m,), dtype), sample((n,), other, 1))
    agrees(lambda a: function(a, 2, mode), sample((3,), dtype))


def test_convolution_refuses_what_numpy_refuses():
    for function in (np.convolve, np.correlate):
        agrees(function, np.ones(0), np.ones(3))
        agrees(function, np.ones((2, 2)), np.ones(3))
        agrees(lambda a, f=function: f(a, a, "sideways"), np.ones(3))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_interpolation_agrees_with_numpy(dtype):
    x, xp, fp = sample((3, 4), dtype), np.sort(sample((6,), "float64", 1)), sample((6,), dtype, 2)
    agrees(np.interp, x, xp, fp)
    agrees(lambda *a: np.interp(*a, left=-5, right=7.5), x, xp, fp)
    agrees(lambda *a: np.interp(*a, right=7.5), x, xp, fp)
    agrees(lambda *a: np.interp(*a, left=a[2][2]), x, xp, fp)
    agrees(lambda *a: np.interp(*a, period=2.5), x, xp, fp)
    agrees(lambda a, b, c: np.interp(a, b, c * (1 + 2j)), x, xp, fp)
    agrees(lambda a, b, c: np.interp(a[0, 0], b, c), x, xp, fp)
    agrees(lambda a: np.interp(a, [0, 1, 2], [3.0, 1.0, 2.0]), x)
    agrees(lambda a, b, c: np.interp(a, b, c[:3]), x, xp, fp)


def test_sliding_windows_agree_with_numpy():
    x = sample((5, 6), "float32")
    windows = np.lib.stride_tricks.sliding_window_view
    agrees(lambda a: windows(a, (2, 3)), x)
    agrees(lambda a: windows(a, 3, axis=1), x)
    agrees(lambda a: windows(a, (2, 2), axis=(0, 0)) * 2, x)
    agrees(lambda a: windows(a[0], 4)[::2].mean(-1), x)
    agrees(lambda a: windows(a, (6, 1)), x)
    agrees(lambda a: windows(a, 3), x)
    agrees(lambda a: windows(a, 0, axis=0), x)


@pytest.mark.parametrize("shape, window", [((4000,), 7), ((3, 2000), 5), ((2, 40, 50), 3)])
def test_programs_over_sliding_windows_give_what_numpy_gives(shape, window):
    def moving(x, w):
        seen = np.lib.stride_tricks.sliding_window_view(np.tanh(x), window, axis=-1)
        return seen.max(-1) - seen.mean(-1), (seen * w).sum(-1), seen @ w, np.exp(seen).std(-1)

    x, w = np.random.default_rng(0).normal(size=shape), np.linspace(0, 1, window)
    for got, wanted in zip(ef.compile(moving, x, w)(x, w), moving(x, w), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("dtype", ["int32", "float16", "float32", "float64", "complex64"])
def test_gradients_agree_with_numpy(dtype, edge_order):
    x, t = sample((5, 4), dtype), np.array([0.0, 1.0, 1.5, 3.0, 7.0])

    def gradient(*args, **options):
        return np.gradient(*args, edge_order=edge_order, **options)

    agrees(gradient, x)
    agrees(lambda a: gradient(a, 0.5), x)
    agrees(lambda a: gradient(a, 2, np.float64(0.25)), x)
    agrees(lambda a: gradient(a, t, np.arange(4)), x)
    agrees(lambda a, t: gradient(a, t, axis=0), x, t)
    agrees(lambda a, h: gradient(a, h, axis=(1, 0)), x, 0.5)
    agrees(lambda a: gradient(a[0], axis=-1), x)
    agrees(lambda a: gradient(a[:1]), x)
    agrees(lambda a: gradient(a, t), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_integrals_agree_with_numpy(dtype):
    y = sample((3, 4), dtype)
    agrees(np.trapezoid, y)
    agrees(lambda a: (np.trapezoid(a, dx=0.5, axis=0), np.trapezoid(a, dx=np.float32(2))), y)
    agrees(lambda a: np.trapezoid(a, [0, 1, 1.5, 4]), y)
    agrees(lambda a, x: (np.trapezoid(a, x), np.trapezoid(a, x[:, :1], axis=0)), y, sample((3, 4), "float64", 1))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_unwrapping_agrees_with_numpy(dtype):
    x = sample((4, 6), dtype) * 5
    agrees(np.unwrap, x)
    agrees(lambda a: (np.unwrap(a, axis=0), np.unwrap(a, 8.0), np.unwrap(a, period=4), np.unwrap(a, period=5)), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_a_vector_agree_with_numpy(dtype):
    for count in (None, 0, 1, 2, 4):
        for increasing in (False, True):
            agrees(lambda a, n=count, i=increasing: np.vander(a, n, i), sample((5,), dtype))


def test_fits_agree_with_numpy():
    x = np.linspace(-1, 2, 9)
    y, w = 3 * x**2 - x + 0.5 + 0.01 * sample((9,), "float64"), np.linspace(1, 2, 9)
    agrees(lambda a, b: np.polyfit(a, b, 2), x, y)
    agrees(lambda a, b, w: np.polyfit(a, b, 2, w=w), x, y, w)
    agrees(lambda a, b: np.polyfit(a, np.stack((b, -b), 1), 1), x, y)
    agrees(lambda a, b: np.polyfit(a, b, 2, full=True), x, y)
    agrees(lambda a, b: np.polyfit(a, b, 2, cov=True), x, y)
    agrees(lambda a, b: np.polyfit(a, b, 2, cov="unscaled"), x, y)
    agrees(lambda a, b: np.polyfit(a, b, 3), np.arange(6), np.arange(6) ** 3)
    agrees(lambda a, b: np.polyfit(a, b, -1), x, y)


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_polynomials_agree_with_numpy(dtype):
    p, q = sample((5,), dtype), sample((3,), "float64", 1)
    agrees(lambda a, b: (np.polyadd(a, b), np.polysub(b, a), np.polyadd(a, 2), np.polysub(a, a)), p, q)
    agrees(lambda a: (np.polyder(a), np.polyder(a, 2), np.polyder(a, 0), np.polyder(a, 5)), p)
    agrees(lambda a: (np.polyint(a), np.polyint(a, 2), np.polyint(a, 2, [1, 2.5]), np.polyint(a, 2, 3)), p)
    agrees(np.poly, p)
    agrees(lambda a: np.polyint(a, 3, [1, 2]), p)


def test_polynomials_of_matrices_are_refused_by_name():
    with pytest.raises(ef.TraceError, match=r"np\.poly of a matrix"):
        ef.trace(np.poly, np.eye(2))
