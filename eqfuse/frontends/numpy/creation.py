"""NumPy's functions that make arrays like another, choose between arrays, or only ask about an array.

In: array-function calls on tracers. Out: tracers, or plain Python answers where shape and dtype decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import tensor_dtype
from eqfuse.errors import ShapeError, TraceError
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.manipulation import broadcast_arrays, broadcast_to, diagonal
from eqfuse.frontends.numpy.number import Number, computed_number, number_kind
from eqfuse.frontends.numpy.promotion import as_operand, common_dtype, elementwise, lift
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.frontends.numpy.ufuncs import to_loop
from eqfuse.ir.arithmetic import conversion_error, number_text, wrapped
from eqfuse.ir.graph import const


def _filled(like: Any, value: Any, dtype: Any, shape: Any) -> Tracer:
    x = lift(like)
    wanted = x.dtype if dtype is None else tensor_dtype(dtype, "the new array")
    extents = x.shape if shape is None else tuple(shape) if isinstance(shape, Sequence) else (shape,)
    source = as_operand(value if number_kind(value) in (bool, int) else lift(value), wanted)
    return wrap(tidy.broadcast_to(source, extents))


@implements(np.zeros_like)
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: None = None
) -> Tracer:
    return _filled(a, False, dtype, shape)


@implements(np.empty_like)
def empty_like(
    prototype: Any,
    /,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: None = None,
) -> Tracer:
    return _filled(prototype, False, dtype, shape)


@implements(np.ones_like)
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: None = None
) -> Tracer:
    return _filled(a, True, dtype, shape)


@implements(np.full_like)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: None = None,
) -> Tracer:
    return _filled(a, fill_value, dtype, shape)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tracer, ...]:
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"np.meshgrid: indexing must be 'xy' or 'ij', not {indexing!r}")
    rank = len(xi)
    places = list(range(rank))
    if indexing == "xy" and rank > 1:
        places[:2] = [1, 0]
    axes = [lift(x).reshape([-1 if i == axis else 1 for i in range(rank)]) for x, axis in zip(xi, places, strict=True)]
    grids = axes if sparse else broadcast_arrays(*axes)
    return tuple(x.copy() for x in grids) if copy else tuple(grids)


def _masked(m: Any, mask: np.ndarray) -> Tracer:
    x = lift(m)
    return elementwise("where", mask, x, wrap(const(0, x.dtype)))


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Tracer:
    x = lift(m)
    x = x if x.ndim > 1 else broadcast_to(x, x.shape * 2)
    return _masked(x, np.tri(x.shape[-2], x.shape[-1], k, bool))


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Tracer:
    x = lift(m)
    x = x if x.ndim > 1 else broadcast_to(x, x.shape * 2)
    return _masked(x, ~np.tri(x.shape[-2], x.shape[-1], k - 1, bool))


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Tracer:
    x = lift(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"np.diag takes rank 1 or 2, the shape is {x.shape}")
    n = x.shape[0] + abs(k)
    padded = lazy.pad(x, (max(k, 0), max(-k, 0)))
    return _masked(broadcast_to(padded, (n, n)), np.eye(n, k=k, dtype=bool))


# ---- choosing


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Tracer:
    if x is None or y is None:
        raise TraceError(
            "np.where with a condition alone gives indices, whose number would depend on data. "
            "Use np.where(condition, x, y) with all three arguments"
        )
    # unlike the ufuncs, np.where lets a Python integer wrap around that does not fit the other's dtype
    dtype = common_dtype((x, y))
    return elementwise("where", condition, *(_wrapped(v, dtype) if number_kind(v) is int else v for v in (x, y)))


def _wrapped(value: Any, dtype: np.dtype) -> Tracer:
    if isinstance(value, Number):
        return wrap(value.array(dtype, "wrapped"))
    try:
        return wrap(const(wrapped(dtype, value)))
    except OverflowError as error:
        raise conversion_error(error, dtype.name, number_text(value)) from None


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: None = None,
    *,
    min: Any = None,
    max: Any = None,
    dtype: Any = None,
) -> Tracer:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    x = lift(a) if dtype is None else lift(a).astype(dtype, casting="same_kind")
    if x.dtype.kind in "iu":  # a Python int beyond the dtype is no limit
        limits = np.iinfo(x.dtype)
        low = _limit("max", low, int(limits.min))
        high = _limit("min", high, int(limits.max))
    if low is None and high is None:
        return lazy.positive(x)
    if low is None or high is None:
        return elementwise("minimum" if low is None else "maximum", x, high if low is None else low)
    loop = to_loop(np._core.umath.clip, (x, low, high))[1][0]  # type: ignore[attr-defined]
    x = x.astype(loop)
    if _bounds_first(x, low, high):
        return elementwise("minimum", high, elementwise("maximum", low, x))
    return elementwise("minimum", elementwise("maximum", x, low), high)


def _bounds_first(x: Tracer, low: Any, high: Any) -> bool:
    """Are bounds the first operands of the maximum and minimum that are NumPy's clip, zeros' signs included?

    Of two zeros, maximum takes the second, but of float16 and complex ones the first. Clip takes the array's of
    float16, and where both bounds are single numbers, else the bound's; of complex ones always the bound's.
    """
    if x.dtype == np.float16 or x.dtype.kind == "c":
        return x.dtype.kind == "c"
    bounds = [lift(bound) for bound in (low, high)]
    if not all(bound.size == 1 for bound in bounds):
        return False
    one_shape = len({part.shape for part in (x, *bounds)} - {()}) <= 1
    return x.size != 1 or not one_shape or all(bound.shape == () for bound in bounds)  # one number is stepped over


def _limit(op: str, limit: Any, least: int) -> Any:
    """The limit `limit` of a clip of integers; None where it is a Python int that limits nothing."""
    if number_kind(limit) is not int:
        return limit
    near = computed_number(op, limit, least)
    return near if isinstance(near, Number) or near != least else None


@implements(np.real)
def real(val: Any) -> Tracer:
    return lift(val).real


@implements(np.imag)
def imag(val: Any) -> Tracer:
    return lift(val).imag


@implements(np.iscomplex)
def iscomplex(x: Any) -> Tracer:
    return lift(x).imag != 0


@implements(np.isreal)
def isreal(x: Any) -> Tracer:
    return lift(x).imag == 0


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Tracer:
    coefficients = lift(p)
    if not len(coefficients):
        return lazy.zeros_like(x)
    result = zeros_like(x)
    for coefficient in coefficients:
        result = result * x + coefficient
    return result


# ---- asking


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    return lift(a).shape


@implements(np.ndim)
def ndim(a: Any) -> int:
    return lift(a).ndim


@implements(np.size)
def size(a: Any, axis: int | None = None) -> int:
    x = lift(a)
    return x.size if axis is None else x.shape[axis]


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return lift(x).dtype.kind == "c"


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    return np.result_type(*(a.kind() if isinstance(a, Number) else _dtype(a) for a in arrays_and_dtypes))


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(_dtype(from_), to, casting)


def _dtype(array: Any) -> Any:
    return array.dtype if isinstance(array, Tracer) else array
