"""NumPy's histograms and counts.

In: array-function calls on tracers. Out: library calls: how many bins there are is known, what they hold is counted.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.frontends.numpy.unpack import unpack
from eqfuse.ir.accepted import constant_of
from eqfuse.ir.graph import node
from eqfuse.ops.statistics import histogram_types


def _number_of_bins(bins: Any) -> int:
    try:
        count = operator.index(bins)
    except TypeError:
        raise ShapeError("`bins` must be an integer, a string, or an array") from None
    if count < 1:
        raise ShapeError("`bins` must be positive, when an integer")
    return count


def _range(limits: Any) -> tuple[float, float] | None:
    if limits is None:
        return None
    low, high = constant_of(limits, "the range of a histogram", "name it in static_argnames, or give edges").tolist()
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ShapeError(f"supplied range of [{low}, {high}] is not finite")
    if low > high:
        raise ShapeError("max must be larger than min in range parameter.")
    return low, high


def _with_range(x: Tracer, limits: Any) -> Tracer:
    """`x` as it is compared with these `limits`: NumPy's own numbers have a dtype, Python's take that of `x`."""
    if limits is None or not any(isinstance(v, np.generic) for v in limits):
        return x
    dtype = np.result_type(x.dtype, *limits)
    return x.astype(dtype) if dtype.kind == "f" else x


def _narrow_edges(x: Tracer, bins: Any, limits: Any) -> np.ndarray | None:
    """The edges of `bins` equal bins, where one of the `limits` is a float16 or float32: NumPy computes edges in the
    precision of the limits, and a pair of Python's numbers does not have it."""
    if limits is None or not any(isinstance(v, np.float16 | np.float32) for v in limits):
        return None
    _range(limits)
    return np.histogram_bin_edges(np.empty(0, x.dtype), _number_of_bins(bins), tuple(limits))


def _refuse_estimator(function: str, bins: Any) -> None:
    if isinstance(bins, str):
        raise TraceError(
            f"{function} with bins={bins!r}: the number of bins depends on data. Give a number of bins, or edges"
        )


def _counted(x: Tracer, bins: Sequence[Any], ranges: Sequence[Any], density: Any, weights: Any) -> list[Tracer]:
    """Counts, and the edges of every axis."""
    edges = [None if np.ndim(b) == 0 else lift(b) for b in bins]
    counts = tuple(_number_of_bins(b) if e is None else None for b, e in zip(bins, edges, strict=True))
    args = [x.node, *(e.node for e in edges if e is not None)]
    if weights is not None:
        args.append(lift(weights).reshape(-1).node)
    attrs = (counts, tuple(map(_range, ranges)), bool(density), weights is not None)
    packed = node("histogram", args, attrs)
    histogram, types = histogram_types([a.type for a in args], attrs)
    fresh = [t for t, count in zip(types, counts, strict=True) if count is not None]
    frequencies, *new_edges = unpack(packed, [t.shape for t in (histogram, *fresh)])
    rest = iter(p.astype(t.dtype) if t.dtype.kind == "c" else p.real.astype(t.dtype)
                for p, t in zip(new_edges, fresh, strict=True))  # fmt: skip
    first = frequencies if histogram.dtype.kind == "c" else frequencies.real
    return [first.astype(histogram.dtype), *(next(rest) if e is None else e for e in edges)]


@implements(np.histogram)
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tracer, Tracer]:
    _refuse_estimator("np.histogram", bins)
    x = lift(a)
    if weights is not None and lift(weights).shape != x.shape:
        raise ShapeError("weights should have the same shape as a.")
    if np.ndim(bins) == 0:
        narrow = _narrow_edges(x, bins, range)
        if narrow is None:
            x = _with_range(x, range)
        else:
            bins, range = narrow, None
    counts, edges = _counted(x.reshape(-1), [bins], [range], density, weights)
    return counts, edges


@implements(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tracer:
    _refuse_estimator("np.histogram_bin_edges", bins)
    if np.ndim(bins):
        return lift(bins)
    narrow = _narrow_edges(lift(a), bins, range)
    if narrow is not None:
        return lift(narrow)
    x = _with_range(lift(a), range).reshape(-1)
    return wrap(node("histogram_bin_edges", (x.node,), (_number_of_bins(bins), _range(range))))


@implements(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tracer, list[Tracer]]:
    points = lift(sample)
    if points.ndim != 2 or not isinstance(sample, (Tracer, np.ndarray)):
        points = lazy.atleast_2d(points).T
    axes = points.shape[1]
    every = list(bins) if hasattr(bins, "__len__") else [bins] * axes
    if len(every) != axes:
        raise ShapeError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = [None] * axes if range is None else list(range)
    if len(ranges) != axes:
        raise ShapeError("range argument must have one entry per dimension")
    if axes == 1:
        raise UnsupportedOp("np.histogramdd of one axis cannot be traced; use np.histogram")
    counts, *edges = _counted(points, every, ranges, density, weights)
    return counts, edges


@implements(np.histogram2d)
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tracer, Tracer, Tracer]:
    if lift(x).shape != lift(y).shape:
        raise ShapeError("x and y must have the same length.")
    if hasattr(bins, "__len__") and len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, edges = histogramdd([x, y], bins, range, density, weights)
    return counts, edges[0], edges[1]


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Tracer:
    """With a traced x the result has `minlength` counts, and a larger value is an error when the program runs. NumPy
    counts an empty x in integers, be there weights or not."""
    length = operator.index(minlength)
    if length < 0:
        raise ShapeError("'minlength' must not be negative")
    values = lift(x)
    counted = values.constant_value()
    if counted is not None:
        length = max(length, int(counted.max()) + 1 if counted.size else 0)
    elif not length:
        raise TraceError(
            "np.bincount of a traced array: the length of its result depends on data. Pass minlength=, above the "
            "largest value"
        )
    args = [values.node] if weights is None else [values.node, lift(weights).astype(np.float64, casting="safe").node]
    return wrap(node("bincount", args if values.size else args[:1], (length,)))
