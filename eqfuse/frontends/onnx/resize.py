"""ONNX resizing and sampling of images: gathers at places that are known along each axis, or at traced ones.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.dtypes import kind
from eqfuse.errors import ShapeError, UnsupportedOp
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.table import axis_of, ints, matrix_product, one_of, operator, value

_POLICIES = ("stretch", "not_larger", "not_smaller")


@operator("Resize", since=11)
def resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0,
    axes: tuple[int, ...] | None = None, coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    along = tuple(range(x.ndim)) if axes is None else tuple(axis_of(a, x.ndim) for a in axes)
    extents = [x.shape[a] for a in along]
    if sizes is not None and sizes.size:
        wanted = list(ints(sizes, "the sizes"))
        factors = [m / n if n else 1.0 for m, n in zip(wanted, extents, strict=True)]
        if one_of(keep_aspect_ratio_policy, _POLICIES, "keep_aspect_ratio_policy") != "stretch":
            factor = min(factors) if keep_aspect_ratio_policy == "not_larger" else max(factors)
            factors = [factor] * len(factors)
            wanted = [math.floor(factor * n + 0.5) for n in extents]
    else:
        factors = [float(s) for s in value(scales, "the scales").reshape(-1)]
        wanted = [int(s * n) for s, n in zip(factors, extents, strict=True)]
    region = None
    if coordinate_transformation_mode == "tf_crop_and_resize":
        bounds = value(roi, "the region").astype(np.float64)
        region = list(zip(bounds[: len(along)], bounds[len(along) :], strict=True))
    coefficients = _coefficients(mode, nearest_mode, cubic_coeff_a, antialias)
    integer = kind(x.dtype) in "iu"
    y = x.astype(np.float32) if integer and mode != "nearest" else x
    outside = None
    for place, axis in enumerate(along):
        n, m, s = extents[place], wanted[place], factors[place]
        if n == m and s == 1 and region is None:
            continue
        if not m:
            y = lazy.take(y, np.zeros(0, int), axis)
            continue
        positions = _source(coordinate_transformation_mode, n, m, s, None if region is None else region[place])
        places, weights = _taps(positions, n, s, coefficients, exclude_outside)
        if mode == "nearest":
            y = lazy.take(y, places[np.arange(m), weights.argmax(1)], axis)
        else:
            y = _weighted(y, axis, places, weights.astype(y.dtype))
        if region is not None:
            beyond = ((positions < 0) | (positions > n - 1)).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
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
        x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode=_BEFORE_11
    )


_BEFORE_11 = "that of opset 10, whose test of a smaller image takes the element above, of a larger one the one below"


@operator("Upsample", since=7)
def upsample(x: Any, *, scales: tuple[float, ...], mode: str = "nearest") -> Any:
    return resize_by_scales(x, lift(np.asarray(scales, np.float32)), mode=mode)


def _source(mode: str, n: int, m: int, scale: float, region: Any) -> np.ndarray:
    """Where each of `m` elements lies among the `n` that there are."""
    index = np.arange(m, dtype=np.float64)
    if mode == "align_corners":  # the standard's tests take the length with its fraction, its text does not
        return index * 0 if m == 1 else index * (n - 1) / (scale * n - 1)
    if mode == "asymmetric":
        return index / scale
    if mode == "tf_crop_and_resize":
        first, last = region
        return (index * (last - first) / (m - 1) + first if m > 1 else index * 0 + (first + last) / 2) * (n - 1)
    if mode == "pytorch_half_pixel" and m == 1:
        return index * 0
    shift = n / 2 * (1 - m / (scale * n)) if mode == "half_pixel_symmetric" else 0
    if mode in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        return shift + (index + 0.5) / scale - 0.5
    raise UnsupportedOp(f"Resize has no coordinate_transformation_mode {mode!r}")


Coefficients = Callable[[float, float], np.ndarray]  # of the ratio between two elements and the scale


def _coefficients(mode: str, nearest: str, a: float, antialias: int) -> Coefficients:
    if mode == "nearest":
        chosen = {
            "round_prefer_floor": lambda r, s: r > 0.5, "round_prefer_ceil": lambda r, s: r >= 0.5,
            "floor": lambda r, s: r == 1, "ceil": lambda r, s: True, _BEFORE_11: lambda r, s: s < 1 or r == 1,
        }.get(nearest)  # fmt: skip
        if chosen is None:
            raise UnsupportedOp(f"Resize has no nearest_mode {nearest!r}")
        return lambda ratio, scale: np.array([not chosen(ratio, scale), chosen(ratio, scale)], float)
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
        weights = kernel(np.abs(narrow * (np.arange(start, 2 - start) - ratio)))
        return weights / weights.sum() if antialias else weights

    return coefficients


def _taps(
    positions: np.ndarray, n: int, scale: float, coefficients: Coefficients, exclude_outside: int
) -> tuple[np.ndarray, np.ndarray]:
    """The elements of an axis of `n` that each of the places `positions` reads, and their weights; beyond its ends they
    repeat."""
    below = np.ceil(positions) - 1  # the ratio lies in (0, 1]
    weights = np.array([coefficients(ratio, scale) for ratio in positions - below])
    count = weights.shape[1]
    places = below[:, None].astype(int) + np.arange(count) - (count // 2 - 1)
    if exclude_outside:
        weights[(places < 0) | (places >= n)] = 0
        total = weights.sum(1, keepdims=True)
        weights /= np.where(total == 0, 1, total)
    return np.clip(places, 0, n - 1), weights


def _weighted(y: Any, axis: int, places: np.ndarray, weights: np.ndarray) -> Any:
    """What `_taps` reads along `axis`, times the weights, summed: a product with a matrix would spread every NaN."""
    beside = (1,) * (y.ndim - 1 - axis)
    if weights.shape[1] > TERMS_UNROLLED:
        return lazy.sum(lazy.take(y, places, axis) * weights.reshape(*weights.shape, *beside), axis + 1)
    terms = zip(places.T, weights.T, strict=True)
    return reduce(lazy.add, [lazy.take(y, place, axis) * weight.reshape(-1, *beside) for place, weight in terms])


TERMS_UNROLLED = 12  # terms, beyond which they are summed as an axis


# ---- sampling at traced places


@operator("GridSample", since=16)
def grid_sample(
    x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Any:
    """``x[n, c, *spatial]`` at ``grid[n, *out, rank]``, whose coordinates lie between -1 and 1, the last axis first."""
    mode = one_of({"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode), ("nearest", "linear", "cubic"), "mode")
    one_of(padding_mode, ("zeros", "border", "reflection"), "padding_mode")
    spatial = x.shape[2:]
    places = []
    for a, n in enumerate(spatial):
        g = grid[..., len(spatial) - 1 - a]
        coordinate = (g + 1) / 2 * (n - 1) if align_corners else ((g + 1) * n - 1) / 2
        low, high = (0.0, n - 1.0) if align_corners else (-0.5, n - 0.5)
        places.append((lazy.rint(coordinate) if mode == "nearest" else coordinate, n, low, high))
    reach = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[mode]
    total: Any = 0
    for corner in itertools.product(reach, repeat=len(places)):
        index: list[Any] = []
        weight: Any = lazy.ones_like(places[0][0])
        inside: Any = None
        for offset, (coordinate, n, low, high) in zip(corner, places, strict=True):
            floor = coordinate if mode == "nearest" else lazy.floor(coordinate)
            if mode != "nearest":
                distance = lazy.abs(coordinate - floor - offset)
                weight = weight * (1 - distance if mode == "linear" else _traced_cubic(distance, offset))
            here = floor + offset
            if padding_mode == "zeros":
                fits = lazy.logical_and(here >= 0, here <= n - 1)
                inside = fits if inside is None else lazy.logical_and(inside, fits)
            if padding_mode == "reflection":
                here = _reflected(here, low, high)
            index.append(lazy.minimum(lazy.fmax(here, 0), n - 1).astype(np.int64))
        picked = _picked(x, index)
        picked = picked if inside is None else f.where(lazy.expand_dims(inside, 1), picked, 0)
        total = total + picked * lazy.expand_dims(weight, 1)
    return total


@operator("AffineGrid", since=20)
def affine_grid(theta: Any, size: Any, *, align_corners: int = 0) -> Any:
    """Where the matrices `theta` take the elements of an image of `size`, as `grid_sample` reads it."""
    batch, _, *extents = ints(size, "the size")
    along = [np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in extents]
    places = np.stack([*np.meshgrid(*along, indexing="ij")[::-1], np.ones(extents)], -1)
    moved = matrix_product(lift(places.reshape(-1, len(extents) + 1).astype(theta.dtype)), lazy.swapaxes(theta, 1, 2))
    return moved.reshape(batch, *extents, len(extents))


def _reflected(places: Any, low: float, high: float) -> Any:
    """Places beyond the borders, thrown back by them until they are inside."""
    span = high - low
    if span == 0:
        return places * 0
    turned = lazy.mod(places - low, 2 * span)
    return low + lazy.minimum(turned, 2 * span - turned)


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


@operator("RoiAlign", since=16)
def roi_align(
    x: Any, rois: Any, batch: Any, *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """The regions ``rois[r] = (x1, y1, x2, y2)`` of the images ``x[batch[r]]``, each read at points of a grid, those of
    one element of the result averaged."""
    transforms = ("half_pixel", "output_half_pixel")
    half = one_of(coordinate_transformation_mode, transforms, "coordinate_transformation_mode") == "half_pixel"
    one_of(mode, ("avg", "max"), "mode")
    out = (output_height, output_width)
    ends = rois * spatial_scale - 0.5 if half else rois * spatial_scale
    starts = ends[:, 1::-1]
    sizes = ends[:, :1:-1] - starts
    sizes = sizes if half else lazy.maximum(sizes, 1)
    if sampling_ratio > 0:
        return _pooled(x, starts, sizes, batch, out, (sampling_ratio, sampling_ratio), mode)
    lengths = value(sizes, "the size of a region")
    if not np.isfinite(lengths).all():
        raise ShapeError("RoiAlign has a region with an end that is infinite or NaN")
    counts = np.ceil(lengths / np.array(out)).astype(int)
    one = [slice(r, r + 1) for r in range(len(counts))]
    parts = [_pooled(x, starts[r], sizes[r], batch[r], out, c, mode) for r, c in zip(one, counts.tolist(), strict=True)]
    return lazy.concatenate([np.zeros((0, x.shape[1], *out), x.dtype), *parts])


@operator("RoiAlign", since=10)
def roi_align_without_shift(
    x: Any, rois: Any, batch: Any, *, mode: str = "avg", output_height: int = 1, output_width: int = 1,
    sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    return roi_align(
        x, rois, batch, coordinate_transformation_mode="output_half_pixel", mode=mode, output_height=output_height,
        output_width=output_width, sampling_ratio=sampling_ratio, spatial_scale=spatial_scale,
    )  # fmt: skip


def _pooled(
    x: Any, starts: Any, sizes: Any, batch: Any, out: Sequence[int], counts: Sequence[int], mode: str
) -> Any:
    """Regions from `starts` on (one row each), of `sizes`, in `out` bins of `counts` points along each axis."""
    channels, *extents = x.shape[1:]
    if min(counts) <= 0:
        return lift(np.zeros((starts.shape[0], channels, *out), x.dtype))
    (inside, *rows), (fits, *columns) = (
        _points(starts[:, a], sizes[:, a], *along) for a, along in enumerate(zip(extents, out, counts, strict=True))
    )
    inside = lazy.logical_and(inside[:, None, :, None], fits[:, None, None, :])
    image = batch.reshape(-1, 1, 1, 1) * channels + np.arange(channels).reshape(-1, 1, 1)
    terms = []
    for row, high in rows:
        for column, right in columns:
            place = (image * extents[0] + row[:, None, :, None]) * extents[1] + column[:, None, None, :]
            weight = lazy.where(inside, high[:, None, :, None] * right[:, None, None, :], 0)
            terms.append(lazy.take(x.reshape(-1), place) * weight)
    samples = reduce(lazy.add if mode == "avg" else lazy.maximum, terms)
    samples = samples.reshape(*samples.shape[:2], out[0], counts[0], out[1], counts[1])
    return samples.sum((3, 5)) / math.prod(counts) if mode == "avg" else samples.max((3, 5))


def _points(start: Any, size: Any, extent: int, bins: int, count: int) -> tuple[Any, ...]:
    """Where regions are read along an axis of `extent`: which points lie within it, and of the elements below and above
    each point the places and weights."""
    step = (size / bins)[:, None, None]
    position = start[:, None, None] + step * np.arange(bins, dtype=size.dtype)[:, None]
    position = (position + step * (np.arange(count, dtype=size.dtype) + 0.5) / count).reshape(-1, bins * count)
    inside = lazy.logical_and(position >= -1, position <= extent)
    position = lazy.minimum(lazy.maximum(position, 0), extent - 1)
    low = lazy.floor(position)
    above = position - low
    place = low.astype(np.int64)
    return inside, (place, 1 - above), (lazy.minimum(place + 1, extent - 1), above)
