"""Reductions with ``where=``: the elements a mask leaves out count as the reduction's identity.

In: calls that `dispatch` meets with a mask. Out: tracers, by the same functions without one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError
from eqfuse.frontends.numpy.promotion import elementwise, lift
from eqfuse.frontends.numpy.tracer import Tracer, lazy

_MISSING = object()


def _filled(function: Any, identity: Any, a: Any, *args: Any, where: Any, initial: Any = _MISSING, **kw: Any) -> Tracer:
    """A reduction of which `initial`, or else `identity`, changes nothing."""
    x = lift(a)
    if initial is not _MISSING:
        kw["initial"] = initial
    if identity is None:
        if initial is _MISSING:
            name = function.__name__
            raise ShapeError(
                f"np.{name} with where= needs initial=: a mask may choose nothing, and {name} has no identity"
            )
        identity = initial
    reduced: Tracer = function(elementwise("where", where, x, lift(identity).astype(x.dtype)), *args, **kw)
    return reduced


def _mean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *, where: Any
) -> Tracer:
    x = lift(a)
    result = np.dtype(dtype) if dtype is not None else np.dtype(float) if x.dtype.kind in "biu" else x.dtype
    accumulator = np.dtype(np.float32) if result == np.float16 and dtype is None else result
    total = lazy.sum(x, axis, accumulator, keepdims=keepdims, where=where)
    return (total / _count(x, axis, keepdims, where)).astype(accumulator).astype(result)


def _var(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0, keepdims: bool = False, *,
    where: Any, mean: Any = None, correction: float | None = None,
) -> Tracer:  # fmt: skip
    x = lift(a)
    centre = _mean(x, axis, dtype, keepdims=True, where=where) if mean is None else lift(mean)
    distance = abs(x - centre)
    squares = lazy.sum(distance * distance, axis, dtype, keepdims=keepdims, where=where)
    left = _count(x, axis, keepdims, where) - (ddof if correction is None else correction)
    return (squares / elementwise("maximum", left, 0)).astype(squares.dtype)


def _std(*args: Any, **kwargs: Any) -> Tracer:
    spread = _var(*args, **kwargs)
    return elementwise("sqrt", spread)


def _count(x: Tracer, axis: Any, keepdims: bool, where: Any) -> Tracer:
    """How many elements `where` chooses along `axis`."""
    chosen = lazy.broadcast_to(lift(where), x.shape)
    count: Tracer = lazy.sum(chosen, axis, np.intp, keepdims=keepdims)
    return count


def _among_nan(function: Any, counterpart: Any, a: Any, *args: Any, where: Any, **kw: Any) -> Tracer:
    """A function that leaves out NaN leaves out what is masked, as NaN; integers are no NaN."""
    x = lift(a)
    if x.dtype.kind in "biu":
        return MASKED[counterpart](x, *args, where=where, **kw)
    left: Tracer = function(elementwise("where", where, x, lift(np.nan).astype(x.dtype)), *args, **kw)
    return left


MASKED: dict[Callable[..., Any], Callable[..., Tracer]] = {
    np.sum: partial(_filled, np.sum, 0), np.prod: partial(_filled, np.prod, 1),
    np.any: partial(_filled, np.any, False), np.all: partial(_filled, np.all, True),
    np.max: partial(_filled, np.max, None), np.min: partial(_filled, np.min, None),
    np.amax: partial(_filled, np.max, None), np.amin: partial(_filled, np.min, None),
    np.mean: _mean, np.var: _var, np.std: _std,
    np.nansum: partial(_among_nan, np.nansum, np.sum), np.nanprod: partial(_among_nan, np.nanprod, np.prod),
    np.nanmax: partial(_among_nan, np.nanmax, np.max), np.nanmin: partial(_among_nan, np.nanmin, np.min),
    np.nanmean: partial(_among_nan, np.nanmean, np.mean), np.nanvar: partial(_among_nan, np.nanvar, np.var),
    np.nanstd: partial(_among_nan, np.nanstd, np.std),
}  # fmt: skip
