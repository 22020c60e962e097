"""NumPy's functions of numbers that are no ufuncs: differences, products of vectors, bits, special values, rounding.

In: array-function calls on tracers. Out: elementwise work, with a reduction or a join where the function has one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.dtypes import inexact
from eqfuse.errors import DtypeError, ShapeError, TraceError
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.manipulation import broadcast_to, concatenate, moveaxis
from eqfuse.frontends.numpy.number import computed_number, number_kind
from eqfuse.frontends.numpy.promotion import elementwise, lift
from eqfuse.frontends.numpy.reductions import negative_axes
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.traced_bool import TracedBool, traced_bool
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.frontends.numpy.tracing import differentiated
from eqfuse.frontends.numpy.writes import copied
from eqfuse.ir.graph import node

_MISSING = np._NoValue


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _MISSING, append: Any = _MISSING) -> Tracer:
    x = lift(a)
    if n < 0:
        raise ShapeError(f"np.diff: the order must not be negative, it is {n}")
    if n == 0:
        return x
    (along,) = negative_axes(axis, x.ndim)
    one = tuple(1 if i - x.ndim == along else m for i, m in enumerate(x.shape))
    pieces = [lift(piece) for piece in (prepend, x, append) if piece is not _MISSING]
    x = concatenate([piece if piece.ndim else broadcast_to(piece, one) for piece in pieces], axis)
    after, before = ((*[slice(None)] * (x.ndim + along), s) for s in (slice(1, None), slice(None, -1)))
    for _ in range(n):
        x = elementwise("not_equal" if x.dtype.kind == "b" else "subtract", x[after], x[before])
    return x


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tracer:
    x = lift(ary).reshape(-1)
    pieces = [x[1:] - x[:-1]]
    for place, extra in ((0, to_begin), (2, to_end)):
        if extra is not None:
            more = lift(extra).reshape(-1)
            if not np.can_cast(more.dtype, x.dtype, "same_kind"):
                raise ShapeError(f"np.ediff1d: {more.dtype} at an end does not fit {x.dtype}")
            pieces.insert(place, more.astype(x.dtype))
    return concatenate(pieces)


# ---- special values


@implements(np.isposinf)
def isposinf(x: Any, out: None = None) -> Tracer:
    return elementwise("isinf", x) & ~elementwise("signbit", x)


@implements(np.isneginf)
def isneginf(x: Any, out: None = None) -> Tracer:
    return elementwise("isinf", x) & elementwise("signbit", x)


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tracer:
    x = lift(x)
    if not inexact(x.dtype):
        return (x.copy() if copy else x) if x.ndim else wrap(x.node)
    clear = _in_parts(lambda part: _finite(part, nan, posinf, neginf), x)
    if copy:
        return clear
    x.assign(clear)
    return x


def _finite(x: Tracer, nan: Any, posinf: Any, neginf: Any) -> Tracer:
    info = np.finfo(x.dtype)
    high = float(info.max) if posinf is None else posinf
    low = float(info.min) if neginf is None else neginf
    for mask, value in ((elementwise("isnan", x), nan), (isposinf(x), high), (isneginf(x), low)):
        x = elementwise("where", mask, copied(value, x), x)
    return x


def _in_parts(function: Callable[[Tracer], Tracer], x: Tracer) -> Tracer:
    """`function` of a real array, or of the real and the imaginary part of a complex one."""
    if x.dtype.kind != "c":
        return function(x)
    return wrap(node("complex", (function(wrap(tidy.complex_part(name, x.node))).node for name in ("real", "imag"))))


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Tracer:
    x, y, atol, rtol = (v if number_kind(v) is not None else lift(v) for v in (a, b, atol, rtol))
    if isinstance(y, Tracer):
        y = y.astype(np.result_type(y.dtype, 1.0))
    elif number_kind(y) in (bool, int):
        y = computed_number("add", y, 0.0)
    near = elementwise("less_equal", abs(x - y), atol + rtol * abs(y))
    result = elementwise("logical_or", near & elementwise("isfinite", y), elementwise("equal", x, y))
    both_nan = elementwise("isnan", x) & elementwise("isnan", y)
    return result | both_nan if equal_nan else result


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> TracedBool:
    return traced_bool(isclose(a, b, rtol, atol, equal_nan).all())


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> TracedBool | bool:
    x, y = lift(a1), lift(a2)
    if x.shape != y.shape:
        return False
    same = x == y
    if equal_nan:
        same |= elementwise("isnan", x) & elementwise("isnan", y)
    return traced_bool(same.all())


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> TracedBool | bool:
    x, y = lift(a1), lift(a2)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return traced_bool((x == y).all())


@implements(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Tracer:
    x = lift(a)
    if x.dtype.kind == "c":
        raise TraceError("np.real_if_close of a traced complex array: its dtype would depend on data; use .real")
    return x


# ---- single values to others


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: None = None) -> Tracer:
    x, decimals = lift(a), operator.index(decimals)
    if x.dtype.kind in "iu" and decimals >= 0:
        return x.copy() if x.ndim else wrap(x.node)
    if x.dtype.kind == "b" and decimals != 0:
        raise ShapeError("np.round of bool to decimals is not defined; use .astype first")
    if decimals == 0:
        return elementwise("round", x)
    return _in_parts(lambda part: _rounded(part, decimals), x)


def _rounded(x: Tracer, decimals: int) -> Tracer:
    step = 10.0 ** abs(decimals)
    if x.dtype.kind in "iu":
        return (elementwise("round", x / step) * step).astype(x.dtype)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    rounded = elementwise("round", elementwise(there, x, step).astype(x.dtype))
    return elementwise(back, rounded, step).astype(x.dtype)


@implements(np.fix)
def fix(x: Any, out: None = None) -> Tracer:
    return elementwise("trunc", x)


@implements(np.sinc)
def sinc(x: Any) -> Tracer:
    y = np.pi * lift(x)
    none, at_none = y == 0, 1.0
    if differentiated():  # near 0 by its series: all slopes of the quotient are differences of large numbers there
        none, square = abs(y) < 0.1, y * y
        at_none = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    safe = elementwise("where", none, 1.0, y)
    return elementwise("where", none, at_none, elementwise("sin", safe) / safe)


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Tracer:
    x = lift(z)
    a = lazy.arctan2(x.imag, x.real) if x.dtype.kind == "c" else lazy.arctan2(0, x)
    return (a * (180 / math.pi)).astype(a.dtype) if deg else a


# ---- bits


@implements(np.packbits)
def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> Tracer:
    x = lift(a)
    if x.dtype.kind not in "biu":
        raise DtypeError(f"np.packbits takes integers or bools, not {x.dtype}")
    x, weights = x.reshape(-1) if axis is None or x.ndim == 0 else x, _bits(bitorder, 1 << np.arange(8))
    x = moveaxis(x != 0, -1 if axis is None else axis, -1)
    n = x.shape[-1]
    x = lazy.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -n % 8)]).reshape((*x.shape[:-1], -(-n // 8), 8))
    packed = lazy.sum(x * weights, axis=-1, dtype=np.uint8)
    return moveaxis(packed, -1, -1 if axis is None else axis)


@implements(np.unpackbits)
def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Tracer:
    x = lift(a)
    if x.dtype != np.uint8:
        raise DtypeError(f"np.unpackbits takes uint8, not {x.dtype}")
    x = moveaxis(x.reshape(-1) if axis is None or x.ndim == 0 else x, -1 if axis is None else axis, -1)
    bits = (x[..., None] >> _bits(bitorder, np.arange(8))) & np.uint8(1)
    bits = bits.reshape((*x.shape[:-1], x.shape[-1] * 8))
    if count is not None and count < -bits.shape[-1]:
        raise ShapeError(f"np.unpackbits: count {count} leaves less than none of {bits.shape[-1]} bits")
    if count is not None and count > bits.shape[-1]:
        bits = lazy.pad(bits, [(0, 0)] * (x.ndim - 1) + [(0, count - bits.shape[-1])])
    bits = bits[..., :count]
    return moveaxis(bits, -1, -1 if axis is None else axis).copy()


def _bits(bitorder: str, of_little: np.ndarray) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise ShapeError(f"bitorder must be 'big' or 'little', not {bitorder!r}")
    return (of_little if bitorder == "little" else of_little[::-1]).astype(np.uint8)
