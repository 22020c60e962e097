"""Under strict numerics traced functions give NumPy's bits, where its loops or the rounding of constants decide."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import eqfuse as ef

CLIPPED = [(), (8,), (1, 1), (3, 8), (2, 3, 8)]
BOUNDS = [(), (1,), (1, 1), (8,), (3, 8)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.complex64])
def test_strict_clip_keeps_the_zero_that_numpy_keeps(dtype):
    cases = []
    for shape, low, high in product(CLIPPED, BOUNDS, BOUNDS):
        if low != high and () not in (low, high):
            continue
        try:
            np.broadcast_shapes(shape, low, high)
        except ValueError:
            continue
        zero = np.zeros((), dtype)
        cases.append((np.full(shape, zero), np.full(low, -zero), np.ones(high, dtype)))
        cases.append((np.full(shape, -zero), -np.ones(low, dtype), np.full(high, zero)))

    def clips(cases):
        return [np.clip(*case) for case in cases]

    results = ef.compile(clips, cases, numerics="strict")(cases)
    other = [
        [a.shape for a in case]
        for case, got, wanted in zip(cases, results, clips(cases), strict=True)
        if np.asarray(got).tobytes() != np.asarray(wanted).tobytes()
    ]
    assert not other


CONSTANTS = {
    "rad2deg": np.rad2deg, "degrees": np.degrees, "deg2rad": np.deg2rad, "radians": np.radians, "sinc": np.sinc,
    "angle": lambda x: np.angle(x - 1, deg=True), "angle of complex": lambda x: np.angle(x + 1j * x[::-1], deg=True),
    "unwrap": np.unwrap, "unwrap to a period": lambda x: np.unwrap(x, discont=1, period=2.5),
    "rounded to digits": lambda x: np.round(x, 3), "spaced": lambda x: np.linspace(x, 2 * x, 5),
    "rad2deg of a scalar": lambda x: np.rad2deg(x[3]), "slopes": lambda x: np.gradient(x, 0.1),
    "area": lambda x: np.trapezoid(x, dx=0.1), "base": lambda x: 0.1**x, "rest": lambda x: divmod(x, 0.1),
    **{w.__name__: lambda x, w=w: x[:9] * w(9) for w in (np.hanning, np.hamming, np.blackman, np.bartlett)},
    "kaiser": lambda x: x[:9] * np.kaiser(9, 3.5).astype(x.dtype),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_strict_rounds_the_constants_of_a_function_where_numpy_does(dtype):
    x = (np.random.default_rng(0).standard_normal(300) * 3).astype(dtype)

    def every(x):
        return {name: function(x) for name, function in CONSTANTS.items()}

    results = ef.compile(every, x, numerics="strict")(x)
    for name, wanted in every(x).items():
        for got, part in zip(np.atleast_1d(results[name]), np.atleast_1d(wanted), strict=True):
            assert got.dtype == part.dtype, name
            np.testing.assert_array_equal(got, part, name)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("function", [np.quantile, np.percentile, np.nanquantile, np.nanpercentile])
def test_strict_quantiles_round_the_share_where_numpy_does(function, dtype):
    x = (np.random.default_rng(0).standard_normal((7, 101)) * 100).astype(dtype)
    shares = [0.3, 1, np.float32(0.3), np.float64(0.3), np.array(0.3), [0.1, 0.3], np.array([0.3], "f4")]
    if "nan" not in function.__name__:
        shares.append([[0.1], [0.7]])

    def every(x, n):
        calls = product([*shares, n], (None, 1), (False, True))
        return [function(x, q, axis=axis, keepdims=kept) for q, axis, kept in calls]

    results = ef.compile(every, x, 0.6, numerics="strict")(x, 0.6)
    for got, wanted in zip(results, every(x, 0.6), strict=True):
        assert got.dtype == wanted.dtype
        assert got.shape == wanted.shape
        np.testing.assert_array_equal(got, wanted)
