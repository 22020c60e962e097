"""As `numpy_cases`, for functions that are library calls: linear algebra, transforms, sorting, statistics, signals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import polynomial

from tests.frontends.numpy_cases import Case, I


def square(x: Any) -> Any:
    """A well-conditioned matrix for each matrix of `x`."""
    return np.matmul(x, np.swapaxes(x, -1, -2)) / 8 + 3 * np.eye(x.shape[-2])


PLACES: dict[str, tuple[Case, ...]] = {
    "np.argsort": (
        lambda x: np.argsort(x, kind="stable"), lambda x: np.argsort(x, axis=0, stable=True),
        lambda x: np.argsort(x, None, kind="stable"),
    ),
    "np.argpartition": (lambda x: np.take_along_axis(x, np.argpartition(x, 1), -1)[..., 1],),
    "np.bincount": (
        lambda x: np.bincount([0, 2, 1], weights=x), lambda x: np.bincount(x > 9, minlength=5),
        lambda x: np.bincount([0, 1], x, minlength=-1), lambda x: np.bincount(x > 0, x, minlength=2),
    ),
    "np.digitize": (lambda x: np.digitize(x, [-1, 0, 2.5]), lambda x: np.digitize(x, [2, 0], right=True)),
    "np.fft.fftshift": (np.fft.fftshift, lambda x: np.fft.fftshift(x, axes=0)),
    "np.fft.ifftshift": (np.fft.ifftshift, lambda x: np.fft.ifftshift(x, axes=(-1,))),
    "np.lexsort": (lambda x: np.lexsort((x, abs(x))), np.lexsort, lambda x: np.lexsort((x[0], x[1]), axis=-1)),
    "np.lib.stride_tricks.sliding_window_view": (
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=-1),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2)),
    ),
    "np.linalg.diagonal": (np.linalg.diagonal, lambda x: np.linalg.diagonal(x, offset=1)),
    "np.linalg.matrix_rank": (np.linalg.matrix_rank, lambda x: np.linalg.matrix_rank(x[..., :1])),
    "np.nanargmax": (np.nanargmax, lambda x: np.nanargmax(x, axis=0), lambda x: np.nanargmax(x / x)),
    "np.nanargmin": (np.nanargmin, lambda x: np.nanargmin(x, axis=-1, keepdims=True)),
    "np.partition": (lambda x: np.partition(x, 1)[..., 1], lambda x: np.partition(x, 0, axis=0)[0]),
    "np.searchsorted": (
        lambda x: np.searchsorted([-1, 0, 2], x), lambda x: np.searchsorted(np.sort(x), 1, side="right"),
        lambda x: np.searchsorted(x, 0, sorter=np.argsort(x, kind="stable")),
    ),
    "np.vander": (np.vander, lambda x: np.vander(x, 3, increasing=True)),
}  # fmt: skip


def _transforms(name: str) -> tuple[Case, ...]:
    function: Any = getattr(np.fft, name)
    if name.endswith(("2", "n")):
        return (
            lambda x: function(x), lambda x: function(x, axes=(0, 1), norm="ortho"),
            lambda x: function(x, s=(4, 3), axes=(0, 1)),
        )  # fmt: skip
    return (
        lambda x: function(x),
        lambda x: function(x, 5, axis=-1, norm="ortho"),
        lambda x: function(x, n=3, norm="forward"),
    )


NUMBERS: dict[str, tuple[Case, ...]] = {
    **{f"np.fft.{name}": _transforms(name) for name in (
        "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2",
        "fftn", "ifftn", "rfftn", "irfftn",
    )},
    "np.convolve": (
        lambda x: np.convolve(x, [1, 2]), lambda x: np.convolve(x, I, "same"), lambda x: np.convolve(x, x, "valid"),
    ),
    "np.correlate": (
        lambda x: np.correlate(x, [1, 2]), lambda x: np.correlate(x, I, "full"), lambda x: np.correlate(x, x),
    ),
    "np.corrcoef": (lambda x: np.corrcoef(x + np.arange(x.shape[-1])),),
    "np.cov": (np.cov, lambda x: np.cov(x, rowvar=False, bias=True), lambda x: np.cov(x, x, ddof=0)),
    "np.cumprod": (np.cumprod, lambda x: np.cumprod(x, axis=0), lambda x: np.cumprod(x, -1, dtype="f8")),
    "np.cumulative_prod": (np.cumulative_prod, lambda x: np.cumulative_prod(x, axis=0, include_initial=True)),
    "np.cumulative_sum": (np.cumulative_sum, lambda x: np.cumulative_sum(x, axis=-1, dtype="f8")),
    "np.gradient": (np.gradient, lambda x: np.gradient(x, 2.0, axis=0), lambda x: np.gradient(x, edge_order=2)),
    "np.histogram": (
        lambda x: np.histogram(x, 3, range=(-2, 2)), lambda x: np.histogram(x, [-1, 0, 2.5], density=True),
    ),
    "np.histogram2d": (lambda x: np.histogram2d(x, x, 3, range=((-2, 2), (0, 3))),),
    "np.histogramdd": (lambda x: np.histogramdd(x, bins=[2] * x.shape[-1], range=[(-2, 2)] * x.shape[-1]),),
    "np.histogram_bin_edges": (
        lambda x: np.histogram_bin_edges(x, 4), lambda x: np.histogram_bin_edges(x, 2, range=(0, 1)),
    ),
    "np.i0": (lambda x: np.i0(x / 4),),
    "np.interp": (
        lambda x: np.interp(x, [-1, 0, 2], [1, 5, 2]), lambda x: np.interp([0.5, 9], np.arange(len(x)), x, right=7),
    ),
    "np.linalg.cholesky": (
        lambda x: np.linalg.cholesky(square(x)), lambda x: np.linalg.cholesky(square(x), upper=True),
    ),
    "np.linalg.cond": (lambda x: np.linalg.cond(square(x)), lambda x: np.linalg.cond(square(x), 1)),
    "np.linalg.cross": (lambda x: np.linalg.cross(x, x[::-1]), lambda x: np.linalg.cross(x, I)),
    "np.linalg.det": (lambda x: np.linalg.det(square(x)), np.linalg.det),
    "np.linalg.eig": (lambda x: np.sort(np.linalg.eig(square(x).astype(complex))[0].real),),
    "np.linalg.eigh": (
        lambda x: np.linalg.eigh(square(x))[0], lambda x: abs(np.linalg.eigh(square(x), "U").eigenvectors),
    ),
    "np.linalg.eigvals": (lambda x: np.sort(np.linalg.eigvals(square(x).astype(complex)).real),),
    "np.linalg.eigvalsh": (lambda x: np.linalg.eigvalsh(square(x)),),
    "np.linalg.inv": (lambda x: np.linalg.inv(square(x)), np.linalg.inv),
    "np.linalg.lstsq": (lambda x: np.linalg.lstsq(square(x), x, rcond=None)[0],),
    "np.linalg.matrix_norm": (np.linalg.matrix_norm, lambda x: np.linalg.matrix_norm(x, ord=1, keepdims=True)),
    "np.linalg.matrix_power": (
        lambda x: np.linalg.matrix_power(square(x), 3), lambda x: np.linalg.matrix_power(square(x), -1),
    ),
    "np.linalg.multi_dot": (lambda x: np.linalg.multi_dot([x, np.transpose(x), x]),),
    "np.linalg.pinv": (lambda x: np.linalg.pinv(square(x)),),
    "np.linalg.qr": (lambda x: abs(np.linalg.qr(square(x))[1]), lambda x: abs(np.linalg.qr(square(x), mode="r"))),
    "np.linalg.slogdet": (lambda x: np.linalg.slogdet(square(x)),),
    "np.linalg.solve": (lambda x: np.linalg.solve(square(x), x), lambda x: np.linalg.solve(square(x), x[..., 0])),
    "np.linalg.svd": (lambda x: np.linalg.svd(x)[1], lambda x: np.linalg.svd(x, compute_uv=False)),
    "np.linalg.svdvals": (np.linalg.svdvals,),
    "np.linalg.tensorinv": (lambda x: np.linalg.tensorinv(square(x).reshape(1, *square(x).shape), ind=2),),
    "np.linalg.tensorsolve": (lambda x: np.linalg.tensorsolve(square(x), x[..., 0]),),
    "np.linalg.trace": (np.linalg.trace, lambda x: np.linalg.trace(x, offset=1, dtype="f8")),
    "np.linalg.vecdot": (lambda x: np.linalg.vecdot(x, x), lambda x: np.linalg.vecdot(x, x, axis=0)),
    "np.linalg.vector_norm": (np.linalg.vector_norm, lambda x: np.linalg.vector_norm(x, axis=-1, ord=1, keepdims=True)),
    "np.median": (np.median, lambda x: np.median(x, axis=0), lambda x: np.median(x / x, -1, keepdims=True)),
    "np.nancumprod": (np.nancumprod, lambda x: np.nancumprod(x / x, axis=-1)),
    "np.nancumsum": (np.nancumsum, lambda x: np.nancumsum(x / x, axis=0)),
    "np.nanmax": (np.nanmax, lambda x: np.nanmax(x / x, axis=0)),
    "np.nanmean": (np.nanmean, lambda x: np.nanmean(x / x, axis=-1)),
    "np.nanmedian": (np.nanmedian, lambda x: np.nanmedian(x / x, axis=0)),
    "np.nanmin": (np.nanmin, lambda x: np.nanmin(x / x, axis=-1, keepdims=True)),
    "np.nanpercentile": (lambda x: np.nanpercentile(x, 30), lambda x: np.nanpercentile(x / x, [10, 90], axis=-1)),
    "np.nanquantile": (lambda x: np.nanquantile(x, 0.3, axis=-1),),
    "np.nanstd": (np.nanstd, lambda x: np.nanstd(x / x, axis=0, ddof=1)),
    "np.nanvar": (np.nanvar, lambda x: np.nanvar(x / x, axis=-1, keepdims=True)),
    "np.pad (median)": (lambda x: np.pad(x, 2, "median"), lambda x: np.pad(x, (0, 3), "median", stat_length=2)),
    "np.percentile": (
        lambda x: np.percentile(x, 30), lambda x: np.percentile(x, [25, 75], axis=-1),
        lambda x: np.percentile(x, 50, method="nearest", keepdims=True),
    ),
    "np.poly": (lambda x: np.poly([1, 2, 3]) * x, lambda x: np.poly(x.real.ravel()[:3])),
    "np.polyadd": (lambda x: np.polyadd(x, [1, 2]),),
    "np.polyder": (np.polyder, lambda x: np.polyder(x, 2)),
    "np.polyfit": (lambda x: np.polyfit([0, 1, 2, 4], x, 1), lambda x: np.polyfit(np.arange(3), x, 2)),
    "np.polyint": (np.polyint, lambda x: np.polyint(x, 2, k=3)),
    "np.polynomial.polynomial.polygrid2d": (
        lambda x: polynomial.polygrid2d(x, [1, 2], [[1, 2, 3], [4, 5, 6]]), lambda x: polynomial.polygrid2d(0.5, 2, x),
        lambda x: polynomial.polygrid2d(x, x[0], x),
    ),
    "np.polynomial.polynomial.polyval2d": (
        lambda x: polynomial.polyval2d(x, x + 1, [[1, 2, 3], [4, 5, 6]]), lambda x: polynomial.polyval2d(I, I, x),
        lambda x: polynomial.polyval2d(x, x[..., :1], x),
    ),
    "np.polysub": (lambda x: np.polysub([1, 2], x),),
    "np.quantile": (lambda x: np.quantile(x, 0.5), lambda x: np.quantile(x, [0.2, 0.9], axis=0, method="lower")),
    "np.sort_complex": (np.sort_complex,),
    "np.trapezoid": (np.trapezoid, lambda x: np.trapezoid(x, dx=0.5, axis=0), lambda x: np.trapezoid(x, x)),
    "np.unwrap": (np.unwrap, lambda x: np.unwrap(x * 3, axis=0, period=4)),
}  # fmt: skip
