"""NumPy on sampled signals and polynomials: convolution, interpolation, differences, fits.

In: array-function calls on tracers. Out: library calls, or elementwise work on shifted slices.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.polynomial import polynomial

from eqfuse.errors import DtypeError, ShapeError, TraceError
from eqfuse.frontends.numpy import reductions, tidy
from eqfuse.frontends.numpy.linalg import inv, lstsq
from eqfuse.frontends.numpy.manipulation import concatenate
from eqfuse.frontends.numpy.promotion import elementwise, lift
from eqfuse.frontends.numpy.reductions import negative_axes
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.scans import accumulated
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.graph import const, node


def _vector(function: str, a: Any) -> Tracer:
    x = lift(a)
    if x.ndim > 1:
        raise ShapeError(f"np.{function}: object too deep for desired array: the shape is {x.shape}")
    if x.size == 0:
        raise ShapeError(f"np.{function}: an array is empty")
    return x.reshape(-1)


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Tracer:
    return wrap(node("convolve", (_vector("convolve", a).node, _vector("convolve", v).node), (mode,)))


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Tracer:
    if 0 in (np.ndim(a), np.ndim(v)):
        raise ShapeError("np.correlate: object of too small depth for desired array")
    return wrap(node("correlate", (_vector("correlate", a).node, _vector("correlate", v).node), (mode,)))


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tracer:
    points, xs, ys = lift(x), lift(xp), lift(fp)
    if points.dtype.kind == "c" or xs.dtype.kind == "c":
        raise DtypeError("np.interp: Cannot cast array data from complex to float64 according to the rule 'safe'")
    if period is not None:
        if float(period) == 0:
            raise ShapeError("period must be a non-zero value")
        return wrap(node("interp", (points.node, xs.node, ys.node), (float(period),)))
    args = [points, xs, ys]
    if left is not None or right is not None:
        dtype = np.dtype(np.complex128 if ys.dtype.kind == "c" else np.float64)
        ends = [ys[0] if left is None else lift(left), ys[-1] if right is None else lift(right)]
        args += [e.astype(dtype, casting="safe") for e in ends]
    return wrap(node("interp", [a.node for a in args], (None,)))


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Tracer:
    x = lift(x)
    extents = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    if axis is None:
        chosen: tuple[int, ...] = tuple(range(x.ndim))
    else:
        chosen = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    if len(chosen) != len(extents):
        raise ShapeError(f"sliding_window_view: {len(extents)} extents of windows for {len(chosen)} axes")
    windows = tuple((a - x.ndim, operator.index(n)) for a, n in zip(chosen, extents, strict=True))
    return x.viewed(("sliding_window", windows), access=Rights.WRITABLE if writeable else Rights.READ_ONLY)


# ---- differences


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Tracer | tuple[Tracer, ...]:
    x = lift(f)
    axes = negative_axes(tuple(axis) if isinstance(axis, (tuple, list)) else axis, x.ndim)
    if edge_order > 2:
        raise ShapeError("'edge_order' greater than 2 not supported")
    spacings = _spacings(x, axes, varargs)
    dtype = x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64)
    if x.dtype.kind in "iu":
        x = x.astype(dtype)
    slopes = tuple(_slope(x, along, dx, edge_order).astype(dtype) for along, dx in zip(axes, spacings, strict=True))
    return slopes[0] if len(axes) == 1 else slopes


def _spacings(x: Tracer, axes: tuple[int, ...], distances: tuple) -> list[Any]:
    """Per axis a number, or the distances between neighbours."""
    if not distances:
        return [1.0] * len(axes)
    if len(distances) == 1 and np.ndim(distances[0]) == 0:
        return [distances[0]] * len(axes)
    if len(distances) != len(axes):
        raise ShapeError("np.gradient: invalid number of arguments")
    return [_spacing(g, x.shape[along]) for g, along in zip(distances, axes, strict=True)]


def _spacing(distances: Any, extent: int) -> Any:
    if np.ndim(distances) == 0:
        return distances
    if np.ndim(distances) != 1:
        raise ShapeError("distances must be either scalars or 1d")
    if len(distances) != extent:
        raise ShapeError("when 1d, distances must match the length of the corresponding dimension")
    points = lift(distances)
    apart = lazy.diff(points.astype(np.float64) if points.dtype.kind in "iu" else points)
    values = apart.constant_value()
    return apart if values is None or not (values == values[0]).all() else values[0]


def _slope(x: Tracer, along: int, dx: Any, edge_order: int) -> Tracer:
    n = x.shape[along]
    if n < edge_order + 1:
        raise ShapeError(
            f"np.gradient of order {edge_order} at the edges needs {edge_order + 1} elements or more, not {n}"
        )

    def part(start: int | None, stop: int | None) -> Tracer:
        return x[(..., slice(start, stop), *(slice(None),) * (-along - 1))]

    def aligned(values: Any) -> Any:
        return values.reshape([-1, *(1,) * (-along - 1)])

    if np.ndim(dx) == 0:
        inner = (part(2, None) - part(None, -2)) / (2.0 * dx)
        first, last = dx, dx
    else:
        d1, d2 = aligned(dx[:-1]), aligned(dx[1:])
        inner = (
            -d2 / (d1 * (d1 + d2)) * part(None, -2)
            + (d2 - d1) / (d1 * d2) * part(1, -1)
            + d1 / (d2 * (d1 + d2)) * part(2, None)
        )
        first, last = dx[0], dx[-1]
    if edge_order == 1:
        start, stop = (part(1, 2) - part(0, 1)) / first, (part(-1, None) - part(-2, -1)) / last
        return concatenate((start, inner, stop), along)
    if np.ndim(dx) == 0:
        a, b, c = -1.5 / dx, 2.0 / dx, -0.5 / dx
        d, e, f = 0.5 / dx, -2.0 / dx, 1.5 / dx
    else:
        d1, d2 = dx[0], dx[1]
        a, b, c = -(2.0 * d1 + d2) / (d1 * (d1 + d2)), (d1 + d2) / (d1 * d2), -d1 / (d2 * (d1 + d2))
        d1, d2 = dx[-2], dx[-1]
        d, e, f = d2 / (d1 * (d1 + d2)), -(d2 + d1) / (d1 * d2), (2.0 * d2 + d1) / (d2 * (d1 + d2))
    start = a * part(0, 1) + b * part(1, 2) + c * part(2, 3)
    stop = d * part(-3, -2) + e * part(-2, -1) + f * part(-1, None)
    return concatenate((start, inner, stop), along)


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tracer:
    values = lift(y)
    (along,) = negative_axes(axis, values.ndim)
    apart: Any = dx
    if x is not None:
        points = lift(x)
        if points.ndim == 1:
            apart = lazy.diff(points).reshape([-1, *(1,) * (-along - 1)])
        else:
            apart = lazy.diff(points, axis=axis)
    rest = (slice(None),) * (-along - 1)
    both = values[(..., slice(1, None), *rest)] + values[(..., slice(None, -1), *rest)]
    return reductions.sum(apart * both / 2.0, along)


@implements(np.unwrap)
def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tracer:
    x = lift(p)
    (along,) = negative_axes(axis, x.ndim)
    rest = (slice(None),) * (-along - 1)
    step = lazy.diff(x, axis=along)
    dtype = lazy.result_type(step, period)
    if dtype.kind in "iu":
        high, odd = divmod(period, 2)
        ambiguous = odd == 0
    else:
        high, ambiguous = period / 2, True
    low = -high
    folded = (step - low) % period + low
    if ambiguous:
        folded = elementwise("where", (folded == low) & (step > 0), high, folded).astype(folded.dtype)
    correct = folded - step
    limit = period / 2 if discont is None else discont
    correct = elementwise("where", abs(step) < limit, 0, correct).astype(correct.dtype)
    later = x[(..., slice(1, None), *rest)] + accumulated("add", correct, along, None)
    return concatenate((x[(..., slice(None, 1), *rest)].astype(dtype), later.astype(dtype)), along)


# ---- polynomials


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tracer:
    x = lift(x)
    if x.ndim != 1:
        raise ShapeError("x must be a one-dimensional array or sequence.")
    columns = x.shape[0] if N is None else operator.index(N)
    dtype = np.promote_types(x.dtype, int)
    ones = wrap(tidy.broadcast_to(const(1, dtype), (x.shape[0], min(columns, 1))))
    if columns < 2:
        return ones.copy()
    powers = accumulated("multiply", lazy.broadcast_to(x.astype(dtype)[:, None], (x.shape[0], columns - 1)), 1, None)
    matrix = concatenate((ones, powers), 1)
    return matrix if increasing else matrix[:, ::-1]


@implements(np.polyfit)
def polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    x, y = lift(x) + 0.0, lift(y) + 0.0
    if np.ndim(deg):
        raise ShapeError("np.polyfit: the degree must be a number")
    order = operator.index(deg) + 1
    if order < 1:
        raise ShapeError("expected deg >= 0")
    if x.ndim != 1 or x.size == 0 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise ShapeError(f"np.polyfit takes a vector x and as many values or rows y, not {x.shape} and {y.shape}")
    if rcond is None:
        rcond = x.shape[0] * np.finfo(x.dtype).eps
    left, right = vander(x, order), y
    if w is not None:
        weights = lift(w) + 0.0
        if weights.ndim != 1 or weights.shape[0] != y.shape[0]:
            raise ShapeError("expected w and y to have the same length")
        left = (left * weights[:, None]).astype(left.dtype)
        right = (right * (weights[:, None] if right.ndim == 2 else weights)).astype(right.dtype)
    scale = elementwise("sqrt", reductions.sum(left * left, 0))
    c, residuals, rank, s = lstsq(left / scale, right, rcond)
    c = (c.T / scale).T
    if full:
        return c, residuals, rank, s, rcond
    if not cov:
        return c
    left = left / scale
    base = inv(lazy.dot(left.T, left)) / lazy.outer(scale, scale)
    if cov == "unscaled":
        factor: Any = 1
    elif x.shape[0] <= order:
        raise ShapeError("the number of data points must exceed order to scale the covariance matrix")
    else:
        factor = residuals / (x.shape[0] - order)
    return c, (base if y.ndim == 1 else base[:, :, None]) * factor


def _added(name: str, a1: Any, a2: Any) -> Tracer:
    a, b = (lazy.atleast_1d(lift(p)) for p in (a1, a2))
    short = len(b) - len(a)
    zeros = lift(np.zeros(abs(short), (a if short > 0 else b).dtype))
    if short > 0:
        a = concatenate((zeros, a))
    elif short < 0:
        b = concatenate((zeros, b))
    return elementwise(name, a, b)


@implements(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Tracer:
    return _added("add", a1, a2)


@implements(np.polysub)
def polysub(a1: Any, a2: Any) -> Tracer:
    return _added("subtract", a1, a2)


@implements(np.polyder)
def polyder(p: Any, m: int = 1) -> Tracer:
    m = operator.index(m)
    if m < 0:
        raise ShapeError("Order of derivative must be positive (see polyint)")
    x = lift(p)
    if x.ndim != 1:
        raise ShapeError(f"np.polyder takes a vector of coefficients, the shape is {x.shape}")
    for _ in range(m):
        n = len(x) - 1
        x = x[:-1] * np.arange(n, 0, -1)
    return x


@implements(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Tracer:
    m = operator.index(m)
    if m < 0:
        raise ShapeError("Order of integral must be positive (see polyder)")
    constants = lazy.atleast_1d(lift(np.zeros(m) if k is None else k))
    if len(constants) == 1 and m > 1:
        constants = lazy.broadcast_to(constants, (m,))
    if len(constants) < m:
        raise ShapeError("k must be a scalar or a rank-1 array of length 1 or >m.")
    x = lift(p)
    for i in range(m):
        x = concatenate((x / np.arange(len(x), 0, -1), constants[i : i + 1]))
    return x


@implements(np.poly)
def poly(seq_of_zeros: Any) -> Tracer:
    zeros = lazy.atleast_1d(lift(seq_of_zeros))
    if zeros.ndim != 1 or zeros.dtype.kind == "c":
        raise TraceError(
            "np.poly of a matrix or of complex zeros gives real or complex values, as the data decides. Pass real zeros"
        )
    zeros = zeros.astype(np.mintypecode(zeros.dtype.char))
    coefficients = lift(np.ones(1, zeros.dtype))
    for zero in zeros:
        coefficients = convolve(coefficients, lazy.stack((lift(np.ones((), zeros.dtype)), -zero)))
    return coefficients


def _ascending(x: Any, c: Any, apart: bool = True) -> Tracer:
    """The polynomials with coefficients along the first axis of `c`, that of the lowest power first: each at every one
    of `x`, or, unless they are taken `apart`, as `x` broadcasts with the other axes of `c`."""
    c = lazy.atleast_1d(lift(c))
    c = c + 0.0 if c.dtype.kind in "biu" else c
    if apart:
        c = c.reshape(c.shape + (1,) * np.ndim(x))
    value = c[-1] + x * 0
    for i in range(2, len(c) + 1):
        value = c[-i] + value * x
    return value


@implements(polynomial.polyval2d)
def polyval2d(x: Any, y: Any, c: Any) -> Tracer:
    x, y = lift(x), lift(y)
    if x.shape != y.shape:
        raise ShapeError(f"x, y are incompatible: their shapes are {x.shape} and {y.shape}")
    return _ascending(y, _ascending(x, c), apart=False)


@implements(polynomial.polygrid2d)
def polygrid2d(x: Any, y: Any, c: Any) -> Tracer:
    x, y = (lift(along) if isinstance(along, (tuple, list)) else along for along in (x, y))  # numbers have no dtype
    return _ascending(y, _ascending(x, c))


@implements(np.i0)
def i0(x: Any) -> Tracer:
    x = lift(x)
    if x.dtype.kind == "c":
        raise ShapeError("i0 not supported for complex values")
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    return wrap(elementwise("i0", x).astype(x.dtype).node, Rights.WRITABLE)  # an array even of rank 0
