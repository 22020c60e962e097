"""Rows of order statistics and counts: quantiles, positions of extremes among NaN, histograms."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from eqfuse.ops.linalg import packed
from eqfuse.ops.probe import result_dtype
from eqfuse.ops.reductions import arg_meaning
from eqfuse.ops.row import Op, PriceClass, Role, Types, need
from eqfuse.ops.sorting import INDEX_DTYPE
from eqfuse.ops.types import Shape, TensorType


def _kept(op: str, types: Types, axes: tuple[int, ...]) -> Shape:
    t = types[0]
    need(all(-t.rank <= a < 0 for a in axes), op, types, f"axes {axes} are not all in -{t.rank}..-1")
    return tuple(1 if i - t.rank in axes else n for i, n in enumerate(t.shape))


def _median(op: str, function: Callable[..., Any]) -> Callable[[Types, tuple], TensorType]:
    def rule(types: Types, attrs: tuple) -> TensorType:
        (axes,) = attrs
        return TensorType(result_dtype(function, types[0].dtype), _kept(op, types, axes))

    return rule


def _quantile(op: str, function: Callable[..., Any]) -> Callable[[Types, tuple], TensorType]:
    """Values, quantiles, perhaps weights of the values' shape; the axes of q come first, reduced axes stay.

    A single quantile of floats is as weak as a Python number: the result has the dtype of the values."""

    def with_method(method: str) -> Callable[..., np.ndarray]:
        def call(x: np.ndarray, q: np.ndarray) -> np.ndarray:
            return function(np.repeat(x, 2), q.reshape(-1)[0], method=method)

        return call

    def rule(types: Types, attrs: tuple) -> TensorType:
        (x, q, *weights), (axes, method) = types, attrs
        need(q.rank < 2, op, types, "q must be a scalar or a vector")
        need(all(w.shape == x.shape for w in weights), op, types, "the weights need the shape of the values")
        if method not in _methods:
            need(False, op, types, f"{method!r} is none of the methods {', '.join(_methods)}")
        weak = q.rank == 0 and x.dtype.kind == "f"
        probe = _probes.setdefault((op, method), with_method(method))
        dtype = x.dtype if weak else result_dtype(probe, x.dtype, q.dtype)
        return TensorType(dtype, (*q.shape, *_kept(op, types, axes)))

    return rule


_probes: dict[tuple[str, str], Callable[..., np.ndarray]] = {}
_methods = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip


def _axes(axes: tuple[int, ...]) -> Any:
    return axes if len(axes) != 1 else axes[0]


def _does_median(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: np.ndarray, axes: tuple[int, ...]) -> Any:
        return function(x, axis=_axes(axes), keepdims=True)

    return call


def _does_quantile(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: np.ndarray, q: np.ndarray, *rest: Any) -> Any:
        *weights, axes, method = rest
        q = q.item() if q.ndim == 0 and x.dtype.kind == "f" else q
        keywords = {"weights": weights[0]} if weights else {}
        return function(x, q, axis=_axes(axes), keepdims=True, method=method, **keywords)

    return call


def _nanarg(op: str) -> Callable[[Types, tuple], TensorType]:
    def rule(types: Types, attrs: tuple) -> TensorType:
        (axes,) = attrs
        need(all(types[0].shape[a] for a in axes), op, types, "there is no extreme among no values")
        return TensorType(INDEX_DTYPE, _kept(op, types, axes))

    return rule


# ---- counts


def histogram_types(types: Types, attrs: tuple) -> tuple[TensorType, list[TensorType]]:
    """Types of the counts and of the edges of every axis; the vector holds the counts and those edges that are not
    given. Arguments: the points (a matrix with one column per axis, or
    a vector), then the edges of axes for which `bins` has None, then perhaps weights."""
    points, (bins, ranges, density, weighted) = types[0], attrs
    argument_types = iter(types[1:])
    edges = []
    need(len(ranges) == len(bins), "histogram", types, "one range per axis")
    for count, limits in zip(bins, ranges, strict=True):
        if count is None:
            edges.append(next(argument_types))
            need(edges[-1].rank == 1 and edges[-1].size > 1, "histogram", types, "edges are a vector of two or more")
        else:
            edges.append(TensorType(_edge_dtype(points.dtype, len(bins), limits), (count + 1,)))
    weights = next(argument_types, None) if weighted else None
    counts = INDEX_DTYPE if weights is None else weights.dtype
    if len(bins) > 1:
        need(counts.kind != "c", "histogram", types, "bins of several axes do not take complex weights")
        counts = np.dtype(np.float64)
    elif density:
        counts = np.result_type(counts, np.float64)
    return TensorType(counts, tuple(e.size - 1 for e in edges)), edges


def _edge_dtype(points: np.dtype, axes: int, limits: tuple[float, float] | None = None) -> np.dtype:
    if axes > 1 and limits is not None:
        return np.dtype(np.float64)
    if axes > 1:
        return np.dtype(np.float64) if points.kind in "biu" else result_dtype(_edges_of_many, points)
    return result_dtype(_edges_of, points)


def _edges_of(x: np.ndarray) -> np.ndarray:
    return np.histogram_bin_edges(x.astype(np.uint8) if x.dtype.kind == "b" else x, 1)


def _edges_of_many(x: np.ndarray) -> np.ndarray:
    return np.histogramdd(x.reshape(1, 1), 1)[1][0]


def packed_dtype(counts: np.dtype, edges: list[np.dtype]) -> np.dtype:
    """A dtype that holds counts and edges exactly."""
    return reduce(np.promote_types, (counts, *edges), np.dtype(np.float64))


def _histogram(types: Types, attrs: tuple) -> TensorType:
    bins, *_ = attrs
    counts, edges = histogram_types(types, attrs)
    new_edges = [e for e, count in zip(edges, bins, strict=True) if count is not None]
    dtype = packed_dtype(counts.dtype, [e.dtype for e in new_edges])
    return TensorType(dtype, (counts.size + sum(e.size for e in new_edges),))


def _do_histogram(*arrays_then_attrs: Any) -> np.ndarray:
    x, *rest, bins, ranges, density, weighted = arrays_then_attrs
    weights = rest.pop() if weighted else None
    edges = iter(rest)
    chosen = [next(edges) if count is None else count for count in bins]
    if len(bins) == 1:
        counts, first = np.histogram(x, chosen[0], ranges[0], density, weights)
        all_edges: Any = [first]
    else:
        counts, all_edges = np.histogramdd(x, chosen, ranges, density, weights)
    new_edges = [e for e, count in zip(all_edges, bins, strict=True) if count is not None]
    dtype = packed_dtype(counts.dtype, [e.dtype for e in new_edges])
    return packed(*(np.asarray(part, dtype) for part in (counts, *new_edges)))


MOST_BINS = 1 << 20  # whose place is at most one from what it is in float32 by the distance from the first edge


class UniformBins(NamedTuple):
    """Bins of one width: all edges, the first, and how far one is from the next, which NumPy multiplies and adds in
    float64."""

    edges: np.ndarray
    start: np.float64
    step: np.float64


def uniform_bins(points: np.dtype, attrs: tuple) -> list[UniformBins] | None:
    """The bins of every axis of a ``histogram`` whose elements are counted in known bins of one width, if it is one."""
    counts, ranges, density, _weighted = attrs
    if density or None in counts or None in ranges or math.prod(counts) > MOST_BINS:
        return None
    if points.kind not in "iuf" or (points.kind == "f" and points.itemsize not in (4, 8)):
        return None
    by_axis = [_bins_of_axis(points, *axis, len(counts) > 1) for axis in zip(counts, ranges, strict=True)]
    return None if None in by_axis else [bins for bins in by_axis if bins is not None]


def _bins_of_axis(points: np.dtype, count: int, limits: tuple[float, float], is_of_many: bool) -> UniformBins | None:
    """Those of one axis. Of many the edges are those of `np.linspace`, in float64."""
    low, high = np.float64(limits[0]), np.float64(limits[1])
    first, last = (low, high) if low < high else (low - 0.5, high + 0.5)
    dtype = np.dtype(np.float64) if is_of_many or points.kind != "f" else points
    with np.errstate(all="ignore"):
        step = (last - first) / count
        starts = (np.arange(count) * step + first).astype(dtype)
        try:
            edges = np.histogram_bin_edges(np.empty(0, dtype if is_of_many else points), count, limits)
        except ValueError:
            return None
        scale = count / (edges[-1] - edges[0])
    fits = starts.dtype == edges.dtype and np.array_equal(starts, edges[:-1]) and bool((edges[:-1] < edges[1:]).all())
    return UniformBins(edges, first, step) if fits and 0 < scale < math.inf else None


def _bin_edges(types: Types, attrs: tuple) -> TensorType:
    bins, _range = attrs
    return TensorType(_edge_dtype(types[0].dtype, 1), (bins + 1,))


def _do_bin_edges(x: np.ndarray, bins: int, range: tuple[float, float] | None) -> np.ndarray:
    return np.histogram_bin_edges(x, bins, range)


def _bincount(types: Types, attrs: tuple) -> TensorType:
    (x, *weights), (length,) = types, attrs
    need(x.rank == 1 and x.dtype.kind in "biu", "bincount", types, "it counts a vector of integers")
    need(all(w.shape == x.shape for w in weights), "bincount", types, "one weight per value")
    return TensorType(np.dtype(np.float64) if weights else INDEX_DTYPE, (length,))


def _do_bincount(x: np.ndarray, *weights_then_length: Any) -> np.ndarray:
    *weights, length = weights_then_length
    counts = np.bincount(x, weights[0] if weights else None, length)
    if len(counts) > length:
        raise ValueError(
            f"bincount: the value {len(counts) - 1} lies beyond minlength={length}, so NumPy's result would be longer: "
            "its shape must not depend on data. Pass a minlength above the largest value"
        )
    return counts


def _sorted_steps(types: Types, _out: TensorType, _attrs: tuple) -> int:
    return 2 * types[0].size


def _steps(types: Types, _out: TensorType, _attrs: tuple) -> int:
    return types[0].size


def _bin_steps(types: Types, _out: TensorType, _attrs: tuple) -> int:
    """To find an element's bin and count it takes NumPy 2.5 times as long as to count alone (7 ns; 2.4 on Zen 5)."""
    return types[0].size * 5 // 2


_MEDIANS: dict[str, Callable[..., Any]] = {"median": np.median, "nanmedian": np.nanmedian}
_QUANTILES: dict[str, Callable[..., Any]] = {
    "quantile": np.quantile, "percentile": np.percentile, "nanquantile": np.nanquantile,
    "nanpercentile": np.nanpercentile,
}  # fmt: skip
_NANARGS: dict[str, Callable[..., Any]] = {"nanargmax": np.nanargmax, "nanargmin": np.nanargmin}
_L = Role.LIBRARY
_COUNTS, _QUANTILE = PriceClass.COUNTING, PriceClass.QUANTILE
ROWS = [
    *(Op(n, _L, 1, ("axes",), _median(n, f), _does_median(f), _sorted_steps, _QUANTILE) for n, f in _MEDIANS.items()),
    *(
        Op(n, _L, None, ("axes", "method"), _quantile(n, f), _does_quantile(f), _sorted_steps, _QUANTILE)
        for n, f in _QUANTILES.items()
    ),
    *(Op(n, _L, 1, ("axes",), _nanarg(n), arg_meaning(f), _steps, _COUNTS) for n, f in _NANARGS.items()),
    Op("histogram", _L, None, ("bins", "ranges", "density", "weighted"), _histogram, _do_histogram, _bin_steps,
       _COUNTS),
    Op("histogram_bin_edges", _L, 1, ("bins", "range"), _bin_edges, _do_bin_edges, _steps, _COUNTS),
    Op("bincount", _L, None, ("length",), _bincount, _do_bincount, _steps, _COUNTS),
]
