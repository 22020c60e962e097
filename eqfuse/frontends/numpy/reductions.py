"""NumPy's reductions and statistics, scans and sorting, in operators of the table.

In: array-function calls on tracers. Out: tracers. Accumulator dtypes and the order of steps are NumPy's own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from eqfuse.dtypes import BFLOAT16, FLOAT16, FLOAT32, inexact, kind
from eqfuse.errors import ShapeError, as_ours
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.number import Number, computed_number
from eqfuse.frontends.numpy.promotion import elementwise, lift, operand, with_dtype
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.ir.graph import Node, node
from eqfuse.ops.reductions import reduction_dtype

AxisArg = int | tuple[int, ...] | None


def is_sequence(value: Any) -> bool:
    """Is it several axes, or extents, and not one, which may be one of NumPy's integers?"""
    return isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _reduced_axes(axis: AxisArg, rank: int) -> tuple[int, ...]:
    """As `negative_axes`; a reduction of a 0-d array takes axis 0 or -1 for none at all."""
    return () if rank == 0 and axis in (0, -1) else negative_axes(axis, rank)


def negative_axes(axis: AxisArg, rank: int) -> tuple[int, ...]:
    """`axis` as NumPy reads it, counted from the right."""
    if axis is None:
        return tuple(range(-rank, 0))
    if type(axis) is int and -rank <= axis < rank:
        return (axis if axis < 0 else axis - rank,)
    try:
        return tuple(a - rank for a in normalize_axis_tuple(axis, rank))  # which asks a traced axis for its value
    except (np.exceptions.AxisError, ValueError) as error:
        raise as_ours(error) from None


def one_axis(x: Tracer, axis: int | None) -> tuple[Tracer, int]:
    """`x` and the one axis to work along; all of `x` in one row without an axis, or when it is 0-d."""
    if axis is None or (x.ndim == 0 and axis in (0, -1)):
        x, axis = x.reshape(-1), -1
    (along,) = negative_axes(operator.index(axis), x.ndim)
    return x, along


def finish(kept: Node, axes: tuple[int, ...], keepdims: bool) -> Tracer:
    """A reduction's result with or without the axes of extent 1 it left."""
    rank = len(kept.shape)
    shape = kept.shape if keepdims else tuple(n for i, n in enumerate(kept.shape) if i - rank not in axes)
    return wrap(tidy.reshape(kept, shape))


def reduced_array(name: str, array: Any, axis: AxisArg, keepdims: bool) -> Tracer:
    x = lift(array)
    axes = _reduced_axes(axis, x.ndim)
    if not axes:
        x = x.astype(reduction_dtype(name, x.dtype))
        from_zero = name == "sum" and x.dtype.kind not in "iu"  # as NumPy's sums are, which makes 0 of -0
        return wrap((x + x.dtype.type(0) if from_zero else x).node)
    return finish(node(name, (x.node,), (tuple(sorted(axes)),)), axes, keepdims)


def _folded(name: str, x: Tracer, axis: AxisArg, keepdims: bool, initial: Any, dtype: Any, combine: str) -> Tracer:
    """A sum or product, in `dtype` when given."""
    if dtype is not None:
        wanted = np.dtype(dtype)
        if wanted.kind == "b":
            name = "any" if name == "sum" else "all"
        else:
            x = x.astype(wanted)
        result = reduced_array(name, x, axis, keepdims).astype(wanted)
    else:
        result = reduced_array(name, x, axis, keepdims)
    return result if initial is None else elementwise(combine, result, wrap(with_dtype(operand(initial), result.dtype)))


@implements(np.sum)
def sum(
    a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None
) -> Tracer:
    return _folded("sum", lift(a), axis, keepdims, initial, dtype, "add")


@implements(np.prod)
def prod(
    a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None
) -> Tracer:
    return _folded("prod", lift(a), axis, keepdims, initial, dtype, "multiply")


def _extreme(name: str, a: Any, axis: AxisArg, keepdims: bool, initial: Any, combine: str) -> Tracer:
    x = lift(a)
    if initial is None:
        return reduced_array(name, x, axis, keepdims)
    first = wrap(with_dtype(operand(initial), x.dtype))
    axes = _reduced_axes(axis, x.ndim)
    if any(x.shape[i] == 0 for i in axes):
        shape = finish(node("any", (x.node,), (tuple(sorted(axes)),)), axes, keepdims).shape
        return wrap(tidy.broadcast_to(first.node, shape))
    return elementwise(combine, reduced_array(name, x, axis, keepdims), first)


@implements(np.max, np.amax)
def max(a: Any, axis: AxisArg = None, out: None = None, keepdims: bool = False, initial: Any = None) -> Tracer:
    return _extreme("max", a, axis, keepdims, initial, "maximum")


@implements(np.min, np.amin)
def min(a: Any, axis: AxisArg = None, out: None = None, keepdims: bool = False, initial: Any = None) -> Tracer:
    return _extreme("min", a, axis, keepdims, initial, "minimum")


@implements(np.any)
def any_(a: Any, axis: AxisArg = None, out: None = None, keepdims: bool = False) -> Tracer:
    return reduced_array("any", a, axis, keepdims)


@implements(np.all)
def all_(a: Any, axis: AxisArg = None, out: None = None, keepdims: bool = False) -> Tracer:
    return reduced_array("all", a, axis, keepdims)


def _arg(name: str, a: Any, axis: int | None, keepdims: bool) -> Tracer:
    x = lift(a)
    if axis is not None and x.ndim:
        return reduced_array(name, x, operator.index(axis), keepdims)
    flat = reduced_array(name, x.reshape(-1), 0, keepdims=False)
    return flat.reshape((1,) * x.ndim) if keepdims else flat


@implements(np.argmax)
def argmax(a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Tracer:
    return _arg("argmax", a, axis, keepdims)


@implements(np.argmin)
def argmin(a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Tracer:
    return _arg("argmin", a, axis, keepdims)


def _finished(kept: Tracer, axis: AxisArg, keepdims: bool) -> Tracer:
    """`kept` without the reduced axes, unless `keepdims`: the last step, so that arithmetic meets kept axes."""
    return finish(kept.node, _reduced_axes(axis, kept.ndim), keepdims)


def _count(x: Tracer, axis: AxisArg) -> int:
    return math.prod(x.shape[a] for a in negative_axes(axis, x.ndim))


def _shared(total: Tracer, count: Any) -> Tracer:
    """`total / count` of its own dtype, where the count may be no number of that: NumPy divides in float64."""
    if total.dtype in (FLOAT16, BFLOAT16) and isinstance(count, (int, float)):
        with np.errstate(over="ignore"):
            is_exact = float(total.dtype.type(count)) == count
        if not is_exact:
            return (total.astype(FLOAT32) / count).astype(total.dtype)
    return (total / count).astype(total.dtype)


@implements(np.mean)
def mean(a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, keepdims: bool = False) -> Tracer:
    x = lift(a)
    result = accumulator = np.dtype(dtype) if dtype is not None else x.dtype
    if dtype is None and x.dtype.kind in "biu":
        result = accumulator = np.dtype(np.float64)
    elif dtype is None and x.dtype == np.float16:
        accumulator = np.dtype(np.float32)
    total = sum(x, axis, accumulator, keepdims=True)
    return _finished(_shared(total, _count(x, axis)).astype(accumulator).astype(result), axis, keepdims)


@implements(np.var)
def var(
    a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, ddof: float = 0, keepdims: bool = False, *,
    mean: Any = None, correction: float | None = None,
) -> Tracer:  # fmt: skip
    """NumPy's two passes: the mean first, then the mean of squared distances."""
    x = lift(a)
    accumulator = np.dtype(np.float64) if dtype is None and x.dtype.kind in "biu" else dtype
    n = _count(x, axis)
    if mean is None:
        total = sum(x, axis, accumulator, keepdims=True)
        centre = _shared(total, n)
    else:
        centre = lift(mean)
    distance = x - centre
    squares = sum(squared(distance), axis, accumulator, keepdims=True)
    left = _not_negative(n - (ddof if correction is None else correction))
    return _finished(_shared(squares, left), axis, keepdims)


def _not_negative(left: Any) -> Any:
    if isinstance(left, Tracer):
        return elementwise("maximum", left, 0)
    return computed_number("max", left, left.kind(0)) if isinstance(left, Number) else left if left > 0 else 0


@implements(np.std)
def std(
    a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, ddof: float = 0, keepdims: bool = False, *,
    mean: Any = None, correction: float | None = None,
) -> Tracer:  # fmt: skip
    if dtype is not None and kind(np.dtype(dtype)) not in "fc":
        raise ShapeError(f"np.std: square roots do not fit dtype {np.dtype(dtype)}; use a floating one")
    spread = var(a, axis, dtype, ddof=ddof, keepdims=True, mean=mean, correction=correction)
    return _finished(elementwise("sqrt", spread).astype(spread.dtype), axis, keepdims)


@implements(np.average)
def average(
    a: Any, axis: AxisArg = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Tracer | tuple[Tracer, Tracer]:
    x = lift(a)
    negative_axes(axis, x.ndim)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        total = result.dtype.type(x.size / result.size)
    else:
        w = lift(weights)
        dtype = np.result_type(x.dtype, w.dtype, *([np.float64] if x.dtype.kind in "biu" else []))
        if w.shape != x.shape:
            if axis is None or w.shape != tuple(x.shape[i] for i in negative_axes(axis, x.ndim)):
                raise ShapeError(f"np.average: weights of shape {w.shape} do not fit axis {axis} of shape {x.shape}")
            w = w.transpose(np.argsort(np.argsort(negative_axes(axis, x.ndim))).tolist() if w.ndim > 1 else (0,))
            w = w.reshape([x.shape[i] if i - x.ndim in negative_axes(axis, x.ndim) else 1 for i in range(x.ndim)])
        total = sum(w, axis, dtype, keepdims=True)
        result = sum(x.astype(dtype) * w.astype(dtype), axis, keepdims=True) / total
        result, total = _finished(result, axis, keepdims), _finished(total, axis, keepdims)
    if not returned:
        return result
    return result, lift(np.broadcast_to(total, result.shape))


@implements(np.ptp)
def ptp(a: Any, axis: AxisArg = None, out: None = None, keepdims: bool = False) -> Tracer:
    spread = elementwise("subtract", max(a, axis, keepdims=True), min(a, axis, keepdims=True))
    return _finished(spread, axis, keepdims)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: AxisArg = None, *, keepdims: bool = False) -> Tracer:
    return sum(lift(a).astype(bool), axis, np.intp, keepdims=keepdims)


@implements(np.nansum)
def nansum(
    a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None
) -> Tracer:
    return sum(_nan_as(a, 0), axis, dtype, keepdims=keepdims, initial=initial)


@implements(np.nanprod)
def nanprod(
    a: Any, axis: AxisArg = None, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = None
) -> Tracer:
    return prod(_nan_as(a, 1), axis, dtype, keepdims=keepdims, initial=initial)


def _nan_as(a: Any, value: int) -> Tracer:
    x = lift(a)
    return elementwise("where", elementwise("isnan", x), value, x) if inexact(x.dtype) else x


def squared(x: Tracer) -> Tracer:
    """The squared absolute values of `x`, which are real."""
    if x.dtype.kind != "c":
        return x * x
    real, imag = (wrap(tidy.complex_part(name, x.node)) for name in ("real", "imag"))
    return real * real + imag * imag
