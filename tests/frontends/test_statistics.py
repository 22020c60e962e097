"""Order statistics, statistics without NaN, histograms and covariances, traced, agree with NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.agreement import DTYPES, agrees, sample

METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip
AXES = (None, 0, -1, (0, 2), ())


def holes(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    x = sample(shape, "float64")
    return np.where(sample(shape, "int32", 7) > 2, np.nan, x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [np.median, np.nanmedian], ids=lambda f: f.__name__)
def test_medians_agree_with_numpy(function, dtype):
    for axis in AXES[:-1]:
        for keepdims in (False, True):
            agrees(lambda a, ax=axis, k=keepdims: function(a, ax, keepdims=k), sample((3, 4, 5), dtype))
    agrees(function, sample((), dtype))
    agrees(function, holes((4, 5)))
    agrees(lambda a: function(a, axis=0), holes((4, 5), "float32"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
def test_quantiles_agree_with_numpy_by_every_method(name, method):
    function, q = getattr(np, name), np.array([0.0, 0.3, 0.5, 1.0]) * (100 if "percent" in name else 1)
    for dtype in ("int32", "float16", "float32", "float64"):
        agrees(lambda a: function(a, q, axis=1, method=method), sample((3, 5), dtype))
    for axis in (None, 0, (0, 2)):
        for keepdims in (False, True):
            agrees(lambda a, ax=axis, k=keepdims: function(a, 0.25, ax, method=method, keepdims=k), holes((3, 4, 5)))


def test_quantiles_with_traced_q_or_weights_agree_with_numpy():
    x, w = sample((3, 5), "float64"), abs(sample((3, 5), "float64", 1)) + 0.5
    agrees(np.quantile, x, np.array([0.1, 0.9]))
    agrees(lambda a, q: np.percentile(a, q, axis=0), x, 30.0)
    agrees(lambda a: np.quantile(a, [[0.1], [0.2]], axis=0, keepdims=True), x)
    agrees(lambda a, w: np.quantile(a, 0.4, weights=w, method="inverted_cdf"), x, w)
    agrees(lambda a, w: np.quantile(a, 0.4, axis=1, weights=w[0], method="inverted_cdf"), x, w)
    agrees(lambda a: np.quantile(a, 1.5), x)
    agrees(lambda a: np.quantile(a, 0.5, method="unheard"), x)
    agrees(lambda a: np.quantile(a > 0, 0.5), x)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("count", [257, 2049, 70_001])
def test_means_of_more_elements_than_their_dtype_can_count_agree_with_numpy(count: int, dtype: type) -> None:
    x = np.random.default_rng(count).uniform(-0.05, 0.1, (1, count)).astype(dtype)
    statistics = lambda a: a.mean(-1), lambda a: a.mean(dtype=a.dtype), lambda a: a.var(-1), lambda a: a.std(-1, ddof=1)
    for function in statistics:
        np.testing.assert_array_equal(ef.meaning(ef.trace(function, x), x), function(x))


NAN = {
    "nanmean": np.nanmean, "nanvar": np.nanvar, "nanstd": np.nanstd, "nanmax": np.nanmax, "nanmin": np.nanmin,
    "nansum": np.nansum, "nanprod": np.nanprod,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64"])
@pytest.mark.parametrize("name", NAN)
def test_statistics_without_nan_agree_with_numpy(name, dtype):
    function = NAN[name]
    x = holes((3, 4, 5), dtype) if "float" in dtype or "complex" in dtype else sample((3, 4, 5), dtype)
    for axis in AXES if dtype != "float16" else (0, -1):
        for keepdims in (False, True):
            agrees(lambda a, ax=axis, k=keepdims: function(a, axis=ax, keepdims=k), x)
    agrees(function, x[0, 0, 0])
    agrees(lambda a: function(a[:, :0], axis=1), x)
    if "float" in dtype:
        agrees(lambda a: function(a, axis=1), np.full((2, 3), np.nan, dtype))


def test_options_of_statistics_without_nan_agree_with_numpy():
    x = holes((4, 5), "float32")
    agrees(lambda a: np.nanvar(a, 0, ddof=1), x)
    agrees(lambda a: np.nanvar(a, 0, correction=1, dtype=np.float64), x)
    agrees(lambda a: np.nanstd(a, 0, mean=np.nanmean(a, 0, keepdims=True)), x)
    agrees(lambda a: np.nanmean(a, dtype=np.float64), x)
    agrees(lambda a: (np.nanmax(a, initial=2.0), np.nanmin(a, axis=1, initial=0.0)), x)
    agrees(lambda a: np.nanmean(a, dtype=int), x)


def test_positions_without_nan_agree_with_numpy_and_raise_its_error():
    x = holes((4, 5))
    for axis in (None, 0, 1):
        for keepdims in (False, True):
            agrees(lambda a, ax=axis, k=keepdims: (np.nanargmax(a, ax, keepdims=k), np.nanargmin(a, ax)), x)
    agrees(np.nanargmax, sample((4, 5), "int32"))
    with pytest.raises(ValueError, match="All-NaN slice"):
        ef.compile(np.nanargmax, x)(x * np.nan)


@pytest.mark.parametrize("dtype", DTYPES)
def test_histograms_agree_with_numpy(dtype):
    x, w = sample((4, 5), dtype), sample((4, 5), "float32", 1)
    agrees(np.histogram, x)
    agrees(lambda a: np.histogram(a, 4, (-1, 2.5)), x)
    agrees(lambda a: np.histogram(a, 4, density=True), x)
    agrees(lambda a: np.histogram(a, [-3, -1, 0, 2]), x)
    agrees(lambda a: np.histogram(a, np.array([-3, -1, 0.5, 2]), density=True), x)
    agrees(lambda a, w: np.histogram(a, 4, weights=w), x, w)
    agrees(lambda a, w: np.histogram(a, 4, weights=w, density=True), x, w)
    agrees(lambda a: np.histogram(a[:0], 3), x)
    agrees(lambda a: np.histogram_bin_edges(a, 5), x)
    agrees(lambda a: np.histogram_bin_edges(a, 5, (0, 1)), x)
    for low, high in ((np.float64(-0.7), np.float64(0.3)), (np.float32(-0.7), 0.3), (np.float16(0.3), np.float32(1.7))):
        limits = low, high  # of a dtype, unlike Python's numbers
        agrees(lambda a, own=limits: (*np.histogram(a, 4, own), np.histogram_bin_edges(a, 3, own)), x)
        edges = ef.compile(lambda a, own=limits: np.histogram(a, 7, own)[1], x)(x)
        np.testing.assert_array_equal(edges, np.histogram(x, 7, limits)[1])
    agrees(lambda a, e: np.histogram(a, e), x, np.array([-1.0, 0.0, 3.0]))


def test_histograms_of_several_axes_agree_with_numpy():
    x, y = sample((20,), "float64"), sample((20,), "float32", 1)
    agrees(np.histogram2d, x, y)
    agrees(lambda a, b: np.histogram2d(a, b, [3, [-1.0, 0, 1]], density=True), x, y)
    agrees(lambda a, b: np.histogram2d(a, b, np.array([-1.0, 0, 1]), weights=a), x, y)
    agrees(lambda a, b: np.histogram2d(a, b, (2, 3), [[-1, 1], [0, 2]]), x, y)
    agrees(lambda a, b: np.histogramdd([a, b, a], (2, 3, 2)), x, y)
    agrees(lambda a: np.histogramdd(a, 2, weights=a[:, 0]), np.stack((x, x[::-1]), 1))


def test_what_histograms_refuse_in_numpy_is_refused():
    x = sample((5,), "float64")
    for call in (
        lambda a: np.histogram(a, 0),
        lambda a: np.histogram(a, 2.5),
        lambda a: np.histogram(a, 2, (1, 0)),
        lambda a: np.histogram(a, 2, (0, np.inf)),
        lambda a: np.histogram(a, [2, 1, 0]),
        lambda a: np.histogram(a, 2, weights=np.ones(3)),
        lambda a: np.histogram(a * np.nan),
    ):
        agrees(call, x)


def test_counts_agree_with_numpy_up_to_the_length_that_was_promised():
    x = np.array([3, 1, 1, 0, 7])
    agrees(lambda a: np.bincount(a, minlength=9), x)
    agrees(lambda a, w: np.bincount(a, w, 9), x, np.arange(5.0))
    agrees(lambda a: np.bincount(a > 0, minlength=2), x)
    agrees(lambda w: np.bincount(x, w), np.arange(5.0))
    program = ef.compile(lambda a: np.bincount(a, minlength=9), x)
    with pytest.raises(ValueError, match="value 9 lies beyond minlength=9"):
        program(x + 2)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "float64", "complex128"])
def test_covariances_agree_with_numpy(dtype):
    x = sample((3, 6), dtype) if dtype != "complex128" else sample((3, 6), "float64") * (1 + 2j)
    agrees(np.cov, x)
    agrees(lambda a: np.cov(a, a[::-1], rowvar=False), x)
    agrees(lambda a: (np.cov(a, bias=True), np.cov(a, ddof=2), np.cov(a[0]), np.cov(a, dtype=np.complex128)), x)
    agrees(lambda a: np.cov(a, fweights=[1, 2, 1, 0, 3, 1]), x)
    agrees(lambda a: np.cov(a, fweights=[1, 2, 1, 0, 3, 1], aweights=[1, 0.5, 2, 1, 1, 1]), x)
    agrees(lambda a: np.cov(a, aweights=np.ones(6), ddof=0), x)
    agrees(lambda a: np.cov(a[:, :1]), x)
    agrees(lambda a: (np.corrcoef(a), np.corrcoef(a[0], a[1]), np.corrcoef(a[0])), x[:, :4] + x[:, 2:] * 2)
    agrees(lambda a: np.cov(a, fweights=[1.5] * 6), x)


def test_weights_of_a_covariance_must_be_known_because_numpy_looks_at_their_signs():
    with pytest.raises(ef.TraceError, match="fweights is a traced value"):
        ef.trace(lambda a, w: np.cov(a, fweights=w), np.ones((2, 3)), np.ones(3, int))
    with pytest.raises(ef.ShapeError, match="fweights"):
        ef.trace(lambda a: np.cov(a, fweights=[1, 2]), np.ones((2, 3)))
