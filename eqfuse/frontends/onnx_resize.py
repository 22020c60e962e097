"""ONNX resizing and sampling of images: products with known weights along each axis, or gathers at traced places.

In: rows' calls from `onnx_model`. Out: traced arrays, by NumPy's functions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.dtypes import kind
from eqfuse.errors import UnsupportedOp
from eqfuse.frontends.onnx_table import ints, operator, value
from eqfuse.frontends.promotion import lift
from eqfuse.tracer import lazy


@operator("Resize", since=11)
def resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0,
    axes: tuple[int, ...] | None = None, coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    along = tuple(range(x.ndim)) if axes is None else tuple(a % x.ndim for a in axes)
    extents = [x.shape[a] for a in along]
    if sizes is not None and sizes.size:
        wanted = list(ints(sizes, "the sizes"))
        factors = [m / n for m, n in zip(wanted, extents, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            factor = min(factors) if keep_aspect_ratio_policy == "not_larger" else max(factors)
            factors = [factor] * len(factors)
            wanted = [math.floor(factor * n + 0.5) for n in extents]
    else:
        factors = [float(s) for s in value(scales, "the scales").reshape(-1)]
        wanted = [int(s * n) for s, n in zip(factors, extents, strict=True)]
    region = None
    if coordinate_transformation_mode == "tf_crop_and_resize":
        given = value(roi, "the region").astype(np.float64)
        region = list(zip(given[: len(along)], given[len(along) :], strict=True))
    coefficients = _coefficients(mode, nearest_mode, cubic_coeff_a, antialias)
    integer = kind(x.dtype) in "iu"
    y = x.astype(np.float32) if integer and mode != "nearest" else x
    outside = None
    for place, axis in enumerate(along):
        n, m, s = extents[place], wanted[place], factors[place]
        if n == m and s == 1 and region is None:
            continue
        at = _source(coordinate_transformation_mode, n, m, s, None if region is None else region[place])
        weights = _weights(at, n, s, coefficients, exclude_outside)
        if mode == "nearest":
            y = lazy.take(y, weights.argmax(1), axis)
        else:
            y = lazy.moveaxis(lazy.moveaxis(y, axis, -1) @ weights.T.astype(y.dtype), -1, axis)
        if region is not None:
            beyond = ((at < 0) | (at > n - 1)).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
            outside = beyond if outside is None else outside | beyond
    if outside is not None and outside.any():
        y = f.where(lift(outside), extrapolation_value, y)
    if integer and mode != "nearest":
        limits = np.iinfo(x.dtype)
        y = lazy.minimum(lazy.maximum(lazy.rint(y), limits.min), limits.max)
    return y.astype(x.dtype)


@operator("Resize", "Upsample", since=9)
def resize_by_scales(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    return resize(
        x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


@operator("Upsample", since=7)
def upsample(x: Any, *, scales: tuple[float, ...], mode: str = "nearest") -> Any:
    return resize_by_scales(x, lift(np.asarray(scales, np.float32)), mode=mode)


def _source(mode: str, n: int, m: int, scale: float, region: Any) -> np.ndarray:
    """Where each of `m` elements lies among the `n` that there are."""
    at = np.arange(m, dtype=np.float64)
    length = scale * n
    if mode == "align_corners":
        return at * 0 if length == 1 else at * (n - 1) / (length - 1)
    if mode == "asymmetric":
        return at / scale
    if mode == "tf_crop_and_resize":
        first, last = region
        spread = at * 0 + (last - first) * (n - 1) / 2 if length == 1 else at * (last - first) * (n - 1) / (length - 1)
        return spread + first * (n - 1)
    if mode == "pytorch_half_pixel" and length == 1:
        return at * 0 - 0.5
    shift = n / 2 * (1 - m / length) if mode == "half_pixel_symmetric" else 0
    if mode in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        return shift + (at + 0.5) / scale - 0.5
    raise UnsupportedOp(f"Resize has no coordinate_transformation_mode {mode!r}")


Coefficients = Callable[[float, float], np.ndarray]  # of the ratio between two elements and the scale


def _coefficients(mode: str, nearest: str, a: float, antialias: int) -> Coefficients:
    if mode == "nearest":
        chosen = {
            "round_prefer_floor": lambda r: r > 0.5, "round_prefer_ceil": lambda r: r >= 0.5,
            "floor": lambda r: r == 1, "ceil": lambda r: True,
        }.get(nearest)  # fmt: skip
        if chosen is None:
            raise UnsupportedOp(f"Resize has no nearest_mode {nearest!r}")
        return lambda ratio, _: np.array([not chosen(ratio), chosen(ratio)], float)
    if mode == "linear":
        return _sampled(1, lambda d: np.clip(1 - d, 0, 1), antialias)
    if mode == "cubic":
        return _sampled(2, lambda d: _cubic(d, a), antialias)
    raise UnsupportedOp(f"Resize has no mode {mode!r}")


def _cubic(d: np.ndarray, a: float) -> np.ndarray:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _sampled(reach: int, kernel: Callable[[np.ndarray], np.ndarray], antialias: int) -> Coefficients:
    """The kernel at the neighbours of a place, wider where `antialias` and the array shrinks."""

    def coefficients(ratio: float, scale: float) -> np.ndarray:
        narrow = min(scale, 1.0) if antialias else 1.0
        start = math.floor(-reach / narrow) + 1
        found = kernel(np.abs(narrow * (np.arange(start, 2 - start) - ratio)))
        return found / found.sum() if antialias else found

    return coefficients


def _weights(at: np.ndarray, n: int, scale: float, coefficients: Coefficients, exclude_outside: int) -> np.ndarray:
    """The matrix [m, n] that takes an axis of `n` elements to the places `at` of it; beyond its ends they repeat."""
    weights = np.zeros((len(at), n))
    for i, x in enumerate(at):
        below = math.floor(x) - (1 if x == math.floor(x) else 0)  # the ratio lies in (0, 1]
        c = coefficients(x - below, scale)
        places = below + np.arange(len(c)) - (len(c) // 2 - 1)
        if exclude_outside:
            c = np.where((places < 0) | (places >= n), 0, c)
            c = c / (c.sum() or 1)
        np.add.at(weights[i], np.clip(places, 0, n - 1), c)
    return weights


# ---- sampling at traced places


@operator("GridSample", since=16)
def grid_sample(
    x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Any:
    """``x[n, c, *spatial]`` at ``grid[n, *out, rank]``, whose coordinates lie between -1 and 1, the last axis first."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic"):
        raise UnsupportedOp(f"GridSample has no mode {mode!r}")
    spatial = x.shape[2:]
    places = []
    for a, n in enumerate(spatial):
        g = grid[..., len(spatial) - 1 - a]
        at = (g + 1) / 2 * (n - 1) if align_corners else ((g + 1) * n - 1) / 2
        low, high = (0.0, n - 1.0) if align_corners else (-0.5, n - 0.5)
        at = lazy.rint(at) if mode == "nearest" else at
        places.append((_folded(at, n, low, high, padding_mode), n, low, high))
    reach = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[mode]
    total: Any = 0
    for corner in itertools.product(reach, repeat=len(places)):
        index: list[Any] = []
        weight: Any = lazy.ones_like(places[0][0])
        for offset, (at, n, low, high) in zip(corner, places, strict=True):
            floor = at if mode == "nearest" else lazy.floor(at)
            if mode != "nearest":
                distance = lazy.abs(at - floor - offset)
                weight = weight * (1 - distance if mode == "linear" else _traced_cubic(distance, offset))
            here = floor + offset
            if padding_mode == "zeros":
                weight = weight * lazy.logical_and(here >= 0, here <= n - 1).astype(x.dtype)
            here = _folded(here, n, low, high, padding_mode)
            index.append(lazy.minimum(lazy.maximum(here, 0), n - 1).astype(np.int64))
        total = total + _picked(x, index) * lazy.expand_dims(weight, 1)
    return total


def _folded(at: Any, n: int, low: float, high: float, padding: str) -> Any:
    """Places beyond the borders, brought back as the padding mode says."""
    if padding == "border":
        return lazy.minimum(lazy.maximum(at, 0), n - 1)
    if padding == "reflection":
        span = high - low
        if span == 0:
            return at * 0
        turned = lazy.mod(at - low, 2 * span)
        return low + lazy.minimum(turned, 2 * span - turned)
    return at


def _traced_cubic(distance: Any, offset: int) -> Any:
    a = -0.75
    if offset in (0, 1):
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def _picked(x: Any, index: list[Any]) -> Any:
    """``x[n, c, i[n, …], j[n, …], …]`` as [n, c, …]."""
    out = index[0].shape[1:]
    flat: Any = 0
    for i, n in zip(index, x.shape[2:], strict=True):
        flat = flat * n + i
    flat = lazy.expand_dims(flat.reshape(x.shape[0], -1), 1)
    spread = lazy.broadcast_to(flat, (x.shape[0], x.shape[1], flat.shape[-1]))
    return lazy.take_along_axis(x.reshape(*x.shape[:2], -1), spread, 2).reshape(*x.shape[:2], *out)
