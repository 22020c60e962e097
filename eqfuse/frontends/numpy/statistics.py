"""NumPy's order statistics, statistics that leave out NaN, and covariances.

In: array-function calls on tracers. Out: library calls for what sorts, reductions for the rest.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends.numpy import reductions, tidy
from eqfuse.frontends.numpy.manipulation import broadcast_to, concatenate
from eqfuse.frontends.numpy.number import number_kind
from eqfuse.frontends.numpy.promotion import elementwise, lift, with_dtype
from eqfuse.frontends.numpy.reductions import AxisArg, finish, negative_axes
from eqfuse.frontends.numpy.registry import TRACED_METHODS, implements
from eqfuse.frontends.numpy.scans import without_nan
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.graph import node


def _keeps(keepdims: Any) -> bool:
    """What `keepdims` says, whose default is np._NoValue in some of NumPy's functions."""
    return keepdims is not np._NoValue and bool(keepdims)


# ---- order statistics


def _rows(x: Tracer, axis: AxisArg) -> tuple[Tracer, tuple[int, ...]]:
    """`x` and the axes to reduce, at least one."""
    if axis is None:
        return x.reshape(-1), (-1,)
    axes = tuple(sorted(negative_axes(axis, x.ndim)))
    return (x, axes) if axes else (x[..., None], (-1,))


def _left(x: Tracer, axis: AxisArg, reduced: Tracer, axes: tuple[int, ...], keepdims: bool) -> Tracer:
    """`reduced`, where reduced axes stay with extent 1, in the shape the user asked for."""
    of_none = isinstance(axis, tuple) and not axis
    lead = reduced.shape[: reduced.ndim - (1 if axis is None else x.ndim + of_none)]
    if axis is None:
        return wrap(tidy.reshape(reduced.node, (*lead, *(1,) * x.ndim) if keepdims else lead))
    if of_none:
        return wrap(tidy.reshape(reduced.node, (*lead, *x.shape)))
    return reduced if keepdims else finish(reduced.node, axes, False)


def _median(op: str, a: Any, axis: AxisArg, keepdims: bool) -> Tracer:
    x = lift(a)
    rows, axes = _rows(x, axis)
    result = wrap(_left(x, axis, wrap(node(op, (rows.node,), (axes,))), axes, keepdims).node)
    if result.scalar and keepdims:
        result.as_array()
    return result


@implements(np.median)
def median(
    a: Any, axis: AxisArg = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tracer:
    return _median("median", a, axis, keepdims)


@implements(np.nanmedian)
def nanmedian(
    a: Any, axis: AxisArg = None, out: None = None, overwrite_input: bool = False, keepdims: Any = False
) -> Tracer:
    return _median("nanmedian", a, axis, _keeps(keepdims))


def _quantile(op: str, a: Any, q: Any, axis: AxisArg, method: str, keepdims: Any, weights: Any) -> Tracer:
    x = lift(a)
    if op.startswith("nan") and x.size == 0 and x.dtype.kind != "c":
        return nanmean(x, axis, keepdims=keepdims)  # as NumPy, for any number of quantiles
    weak = number_kind(q) in (int, float) and x.dtype.kind == "f"
    if number_kind(q) is int and not weak and method != "linear":
        q = 1.0 * q  # NumPy interpolates between the values, by a weight of 0.0
    if weak and isinstance(q, int) and op.endswith("percentile"):
        q = float(q)  # as NumPy, which divides it
    share = wrap(with_dtype(q, np.dtype(number_kind(q)))) if weak else lift(q)
    if op.endswith("percentile") and share.dtype.kind in "iu":
        share = share.astype(np.float64)
    if share.ndim > 1 and op.startswith("nan"):
        raise UnsupportedOp(f"np.{op} with quantiles of shape {share.shape} cannot be traced; pass a vector of them")
    if share.node.op == "const":
        _check_share(op, share.node.literal.array)
    rows, axes = _rows(x, axis)
    args = [rows.node, (share if weak or share.ndim == 1 else share.reshape(-1)).node]
    if weights is not None:
        args.append(_weights(lift(weights), x, axis, rows).node)
    quantiles = wrap(node(op, args, (axes, method)))
    if not weak:
        quantiles = quantiles.reshape((*share.shape, *quantiles.shape[1:]))
    result = _left(x, axis, quantiles, axes, _keeps(keepdims))
    if result.scalar and (_keeps(keepdims) or weights is not None):
        result.as_array()
    return result


def _check_share(op: str, share: np.ndarray) -> None:
    largest = 100 if op.endswith("percentile") else 1
    if not ((share >= 0) & (share <= largest)).all():
        raise ShapeError(f"np.{op} takes {op.removeprefix('nan')}s from 0 to {largest}, not {share.tolist()}")


def _weights(w: Tracer, x: Tracer, axis: AxisArg, rows: Tracer) -> Tracer:
    """Weights of every value; those of one axis are the same along the others."""
    if w.shape == x.shape:
        return w.reshape(rows.shape)
    if isinstance(axis, int) and w.ndim == 1 and w.shape[0] == x.shape[axis]:
        (along,) = negative_axes(axis, x.ndim)
        return broadcast_to(w.reshape([-1 if i - x.ndim == along else 1 for i in range(x.ndim)]), x.shape)
    raise ShapeError(f"weights of shape {w.shape} fit neither {x.shape} nor axis {axis} of it")


def _implement_quantile(name: str) -> None:
    def call(
        a: Any, q: Any, axis: AxisArg = None, out: None = None, overwrite_input: bool = False, method: str = "linear",
        keepdims: Any = False, *, weights: Any = None,
    ) -> Tracer:  # fmt: skip
        return _quantile(name, a, q, axis, method, keepdims, weights)

    implements(getattr(np, name))(call)


for _name in ("quantile", "percentile", "nanquantile", "nanpercentile"):
    _implement_quantile(_name)


# ---- without NaN


def _is_nan(x: Tracer) -> Tracer:
    return elementwise("isnan", x)


def _nanmax(ufunc: np.ufunc, function: Any, a: Any, axis: AxisArg, keepdims: Any, initial: Any) -> Tracer:
    x = lift(a)
    keywords = {} if initial is np._NoValue else {"initial": initial}
    if x.dtype.kind in "biu":
        return function(x, axis=axis, keepdims=_keeps(keepdims), **keywords)
    return TRACED_METHODS[ufunc, "reduce"](x, axis=axis, keepdims=_keeps(keepdims), **keywords)


@implements(np.nanmax)
def nanmax(a: Any, axis: AxisArg = None, out: None = None, keepdims: Any = False, initial: Any = np._NoValue) -> Tracer:
    return _nanmax(np.fmax, reductions.max, a, axis, keepdims, initial)


@implements(np.nanmin)
def nanmin(a: Any, axis: AxisArg = None, out: None = None, keepdims: Any = False, initial: Any = np._NoValue) -> Tracer:
    return _nanmax(np.fmin, reductions.min, a, axis, keepdims, initial)


def _nanarg(name: str, a: Any, axis: int | None, keepdims: Any) -> Tracer:
    x = lift(a)
    axis = axis if axis is None else operator.index(axis)
    if x.dtype.kind not in "fc":
        return getattr(reductions, name)(x, axis, keepdims=_keeps(keepdims))
    if x.ndim == 0 and axis in (0, -1):
        axis = None
    rows, axes = _rows(x, axis)
    return _left(x, axis, wrap(node("nan" + name, (rows.node,), (axes,))), axes, _keeps(keepdims))


@implements(np.nanargmax)
def nanargmax(a: Any, axis: int | None = None, out: None = None, *, keepdims: Any = False) -> Tracer:
    return _nanarg("argmax", a, axis, keepdims)


@implements(np.nanargmin)
def nanargmin(a: Any, axis: int | None = None, out: None = None, *, keepdims: Any = False) -> Tracer:
    return _nanarg("argmin", a, axis, keepdims)


def _inexact(dtype: Any) -> None:
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        raise ShapeError("If a is inexact, then dtype must be inexact")


def _shared(total: Tracer, count: Tracer) -> Tracer:
    """`total` divided by `count`, in the dtype of `total`."""
    return (total / count).astype(total.dtype)


@implements(np.nanmean)
def nanmean(a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, keepdims: Any = False) -> Tracer:
    x = lift(a)
    if x.dtype.kind not in "fc":
        return reductions.mean(x, axis, dtype, keepdims=_keeps(keepdims))
    _inexact(dtype)
    count = reductions.sum(~_is_nan(x), axis, np.intp, keepdims=True)
    total = reductions.sum(without_nan(x, 0), axis, dtype, keepdims=True)
    return _finished(_shared(total, count), axis, _keeps(keepdims))


def _finished(kept: Tracer, axis: AxisArg, keepdims: bool) -> Tracer:
    axes = () if kept.ndim == 0 and axis in (0, -1) else negative_axes(axis, kept.ndim)
    return finish(kept.node, axes, keepdims)


@implements(np.nanvar)
def nanvar(
    a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, ddof: float = 0, keepdims: Any = False, *,
    mean: Any = np._NoValue, correction: Any = np._NoValue,
) -> Tracer:  # fmt: skip
    return _finished(_nanvar(lift(a), axis, dtype, ddof, mean, correction), axis, _keeps(keepdims))


@implements(np.nanstd)
def nanstd(
    a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, ddof: float = 0, keepdims: Any = False, *,
    mean: Any = np._NoValue, correction: Any = np._NoValue,
) -> Tracer:  # fmt: skip
    spread = _nanvar(lift(a), axis, dtype, ddof, mean, correction)
    return _finished(elementwise("sqrt", spread).astype(spread.dtype), axis, _keeps(keepdims))


def _nanvar(x: Tracer, axis: AxisArg, dtype: Any, ddof: float, mean: Any, correction: Any) -> Tracer:
    """The variance, reduced axes kept."""
    if correction is not np._NoValue:
        if ddof != 0:
            raise ShapeError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    if x.dtype.kind not in "fc":
        keywords = {} if mean is np._NoValue else {"mean": mean}
        return reductions.var(x, axis, dtype, ddof=ddof, keepdims=True, **keywords)
    _inexact(dtype)
    mask = ~_is_nan(x)
    count = reductions.sum(mask, axis, np.intp, keepdims=True)
    if mean is np._NoValue:
        centre = _shared(reductions.sum(without_nan(x, 0), axis, dtype, keepdims=True), count)
    else:
        centre = lift(mean)
    distance = elementwise("where", mask, (without_nan(x, 0) - centre).astype(x.dtype), 0).astype(x.dtype)
    squares = distance * distance if x.dtype.kind == "f" else (distance * distance.conj()).real
    freedom = count - ddof
    spread = _shared(reductions.sum(squares, axis, dtype, keepdims=True), freedom)
    return elementwise("where", freedom <= 0, math.nan, spread).astype(spread.dtype)


# ---- covariances


@implements(np.cov)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Tracer:  # fmt: skip
    if ddof is not None and ddof != int(ddof):
        raise ShapeError("ddof must be integer")
    m, more = lift(m), None if y is None else lift(y)
    if m.ndim > 2 or (more is not None and more.ndim > 2):
        raise ShapeError("m or y has more than 2 dimensions")
    if dtype is None:
        dtype = np.result_type(m.dtype, np.float64, *(() if more is None else (more.dtype,)))
    x = lazy.atleast_2d(m).astype(dtype)
    if not rowvar and m.ndim != 1:
        x = x.T
    if x.shape[0] == 0:
        return lift(np.empty((0, 0)))
    if more is not None:
        more = lazy.atleast_2d(more).astype(dtype)
        x = concatenate((x, more.T if not rowvar and more.shape[0] != 1 else more), 0)
    freedom = ddof if ddof is not None else 0 if bias else 1
    w = _constant_weights(fweights, aweights, x.shape[1])
    mean, _ = reductions.average(x, 1, w, True)
    if w is None:
        factor: Any = x.shape[1] - freedom
    elif freedom == 0:
        factor = w.sum()
    elif aweights is None:
        factor = w.sum() - freedom
    else:
        factor = w.sum() - freedom * (w * lift(aweights).constant_value()).sum() / w.sum()
    x = (x - mean[:, None]).astype(x.dtype)
    weighted = x if w is None else x * w
    product = lazy.dot(x, weighted.T.conj())
    return lazy.squeeze((product * np.true_divide(1, max(factor, 0.0))).astype(product.dtype))


def _constant_weights(fweights: Any, aweights: Any, count: int) -> np.ndarray | None:
    """The product of both weights. NumPy looks at their values, so they must be known."""
    product = None
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        constant = lift(weights).constant_value()
        if constant is None:
            raise TraceError(f"np.cov: {name} is a traced value, whose sign NumPy checks; name it in static_argnames")
        values = constant.astype(float)
        if name == "fweights" and not np.all(values == np.around(values)):
            raise ShapeError("fweights must be integer")
        if values.shape != (count,) or (values < 0).any():
            raise ShapeError(f"{name} must be one number, not negative, for each of {count} observations")
        product = values if product is None else product * values
    return product


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tracer:
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    spread = elementwise("sqrt", lazy.diag(c).real)
    c = c / spread[:, None] / spread[None, :]
    if c.dtype.kind != "c":
        return lazy.clip(c, -1, 1)
    parts = [lazy.clip(part, -1, 1) for part in (c.real, c.imag)]
    return (parts[0] + parts[1] * 1j).astype(c.dtype)
