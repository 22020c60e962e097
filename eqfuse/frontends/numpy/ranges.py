"""NumPy's evenly spaced numbers between ends that may be traced.

In: array-function calls on tracers. Out: tracers; the steps of the computation are NumPy's own.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from eqfuse.dtypes import kind, tensor_dtype
from eqfuse.errors import ShapeError
from eqfuse.frontends.numpy.manipulation import moveaxis
from eqfuse.frontends.numpy.promotion import common_dtype, elementwise, lift
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer


@implements(np.linspace)
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    axis: int = 0, *, device: None = None,
) -> Any:  # fmt: skip
    count = _count(num)
    first, last = lift(start), lift(stop)
    inexact = common_dtype((start, stop))
    inexact = inexact if kind(inexact) in "fc" else np.dtype(np.float64)
    wanted = inexact if dtype is None else tensor_dtype(dtype, "np.linspace")
    distance = last.astype(inexact) - first.astype(inexact)
    place = lift(np.arange(count).reshape((-1,) + (1,) * distance.ndim)).astype(inexact)
    parts = count - 1 if endpoint else count
    if parts > 0:
        step = distance / parts
        values = elementwise("where", (step == 0).any(), place / parts * distance, place * step) + first
    else:
        step, values = np.nan, place * distance + first
    if endpoint and count > 1:
        values = elementwise("where", place == count - 1, last, values)
    if wanted.kind in "iu":
        values = elementwise("floor", values)
    values = moveaxis(values.astype(wanted), 0, axis)
    return (values, step) if retstep else values


@implements(np.logspace)
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Tracer:
    exponents = moveaxis(linspace(start, stop, num, endpoint), 0, axis)
    if np.ndim(base):
        raise ShapeError("np.logspace of several bases cannot be traced; write base ** np.linspace(...)")
    powers = elementwise("power", base, exponents)
    return powers if dtype is None else powers.astype(dtype)


@implements(np.geomspace)
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tracer:
    """An end that is zero, which NumPy refuses, gives NaN."""
    count = _count(num)
    first, last = lift(start), lift(stop)
    inexact = np.result_type(first.dtype, last.dtype, 1.0, np.dtype(float if dtype is None else dtype))
    first, last = first.astype(inexact), last.astype(inexact)
    sign = elementwise("sign", first)
    low, high = first / sign, last / sign
    points = logspace(elementwise("log10", low), elementwise("log10", high), count, endpoint).astype(inexact)
    place = lift(np.arange(count).reshape((-1,) + (1,) * (points.ndim - 1)))
    points = elementwise("where", place == 0, low, points)
    if endpoint and count > 1:
        points = elementwise("where", place == count - 1, high, points)
    points = moveaxis(points * sign, 0, axis)
    return points if dtype is None else points.astype(dtype)


def _count(num: Any) -> int:
    count = operator.index(num)
    if count < 0:
        raise ShapeError(f"the number of samples must not be negative, it is {count}")
    return count
