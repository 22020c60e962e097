"""What each NumPy ufunc is, in operators of the table: its own row, or a composition of rows.

In: ufunc calls on tracers. Out: tracers. A composition computes in the dtypes of the ufunc's own loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.special

from eqfuse.dtypes import FLOAT8, supported
from eqfuse.errors import DtypeError, UnsupportedOp
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.promotion import elementwise, lift, operand, promote, with_dtype
from eqfuse.frontends.numpy.registry import TRACED_METHODS, TRACED_UFUNCS
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.frontends.numpy.tracing import differentiated
from eqfuse.ir.graph import Node, const
from eqfuse.ops import elementwise as rows
from eqfuse.ops.elementwise import dtype_name
from eqfuse.ops.numpy_names import title


def _row(name: str, ufunc: np.ufunc) -> Callable[..., Tracer]:
    def call(*args: Any, order: str = "K", subok: bool = True, **chosen: Any) -> Tracer:
        if not chosen:
            return elementwise(name, *args)
        values, (result,) = to_loop(ufunc, args, **chosen)
        return elementwise(name, *values).astype(result)

    return call


def to_loop(
    ufunc: np.ufunc, args: tuple, dtype: Any = None, **chosen: Any
) -> tuple[list[Tracer], tuple[np.dtype, ...]]:
    """As `loop_nodes`, the arguments as tracers."""
    nodes, results = loop_nodes(ufunc, args, dtype, **chosen)
    return [wrap(n) for n in nodes], results


def loop_nodes(
    ufunc: np.ufunc, args: tuple, dtype: Any = None, **chosen: Any
) -> tuple[list[Node], tuple[np.dtype, ...]]:
    """`args` cast to the dtypes of the loop that `ufunc` runs for them, and the dtypes of its results."""
    operands = [operand(a) for a in args]
    seen = promote(operands)
    if dtype is not None:
        chosen["signature"] = (*[None] * ufunc.nin, *[np.dtype(dtype)] * ufunc.nout)
    loop = _loop(ufunc, *seen, **chosen)
    return [with_dtype(o, d) for o, d in zip(operands, loop, strict=False)], loop[ufunc.nin :]


@cache
def _loop(ufunc: np.ufunc, *seen: Any, **chosen: Any) -> tuple[np.dtype, ...]:
    try:
        loop = ufunc.resolve_dtypes((*seen, *[None] * ufunc.nout), **chosen)
    except TypeError as error:
        raise DtypeError(f"{title(ufunc)} is not defined for {', '.join(map(dtype_name, seen))}: {error}") from None
    return tuple(supported(d, f"the loop of {title(ufunc)}") for d in loop)


def _composition(ufunc: np.ufunc) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function of loop-typed tracers as the meaning of `ufunc`."""

    def register(compose: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, order: str = "K", subok: bool = True, **chosen: Any) -> Any:
            values, results = to_loop(ufunc, args, **chosen)
            composed = compose(*values)
            if ufunc.nout == 1:
                return wrap(tidy.cast(composed.node, results[0]))
            return tuple(wrap(tidy.cast(m.node, d)) for m, d in zip(composed, results, strict=True))

        TRACED_UFUNCS[ufunc] = call
        return compose

    return register


for _name, _ufunc in rows.UFUNCS.items():
    TRACED_UFUNCS[_ufunc] = _row(_name, _ufunc)
for _name in ("exp2", "expm1", "log1p", "cbrt"):
    _composition(getattr(scipy.special, _name))(partial(elementwise, _name))


@_composition(np.positive)
def _positive(x: Tracer) -> Tracer:
    return x.copy()


@_composition(np.conjugate)
def _conjugate(x: Tracer) -> Tracer:
    return elementwise("conj", x) if x.dtype.kind == "c" else x.copy()


@_composition(np.fabs)
def _fabs(x: Tracer) -> Tracer:
    return abs(x)


@_composition(np.float_power)
def _float_power(x: Tracer, y: Tracer) -> Tracer:
    return elementwise("power", x, y)


def _wide(x: Tracer) -> Tracer:
    """`x` as NumPy's own functions of halves compute with it."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _scaled(x: Tracer, by: float, over: float) -> Tracer:
    """`x` times ``by / over``, which NumPy rounds as numbers of the loop's own type."""
    x = _wide(x)
    number = x.dtype.type if x.dtype in (np.float32, np.float64) else float
    return x * (number(by) / number(over))


@_composition(np.deg2rad)
@_composition(np.radians)
def _deg2rad(x: Tracer) -> Tracer:
    return _scaled(x, math.pi, 180)


@_composition(np.rad2deg)
@_composition(np.degrees)
def _rad2deg(x: Tracer) -> Tracer:
    return _scaled(x, 180, math.pi)


@_composition(np.divmod)
def _divmod(x: Tracer, y: Tracer) -> tuple[Tracer, Tracer]:
    return x // y, x % y


@_composition(np.modf)
def _modf(x: Tracer) -> tuple[Tracer, Tracer]:
    whole = elementwise("trunc", x)
    part = elementwise("where", elementwise("isinf", x), 0.0, x - whole)
    if differentiated():  # it changes as x does where it is 0 too, whatever the sign of that
        return part, whole
    return elementwise("copysign", part, x), whole


@_composition(np.heaviside)
def _heaviside(x: Tracer, at_zero: Tracer) -> Tracer:
    above = elementwise("where", x > 0, 1.0, x)
    return elementwise("where", x < 0, 0.0, elementwise("where", x == 0, at_zero, above))


@_composition(np.logaddexp2)
def _logaddexp2(x: Tracer, y: Tracer) -> Tracer:
    x, y = _wide(x), _wide(y)
    if differentiated():  # where both are equal it has slopes as well
        return elementwise("logaddexp", x * math.log(2), y * math.log(2)) * math.log2(math.e)
    apart = elementwise("maximum", x, y) + elementwise("log1p", elementwise("exp2", -abs(x - y))) * math.log2(math.e)
    return elementwise("where", x == y, x + 1, apart)


@_composition(scipy.special.expit)
def _expit(x: Tracer) -> Tracer:
    return 1 / (1 + elementwise("exp", -x))


@_composition(scipy.special.logit)
def _logit(x: Tracer) -> Tracer:
    return elementwise("log", x / (1 - x))


@_composition(scipy.special.ndtr)
def _ndtr(x: Tracer) -> Tracer:
    if x.dtype.kind == "c":  # where x is infinite, the product below is NaN
        raise UnsupportedOp("scipy.special.ndtr of complex numbers cannot be traced; use scipy.special.erfc")
    return elementwise("erfc", x * -math.sqrt(0.5)) * 0.5


@_composition(scipy.special.xlogy)
def _xlogy(x: Tracer, y: Tracer) -> Tracer:
    zero = (x == 0) & ~elementwise("isnan", y)
    if differentiated():  # in x by log(y), where there is one
        zero = zero & ~elementwise("isfinite", elementwise("log", y))
    return elementwise("where", zero, 0.0, x * elementwise("log", elementwise("where", zero, 1.0, y)))


@_composition(np._core.umath.clip)  # type: ignore[attr-defined]
def _clip(x: Tracer, low: Tracer, high: Tracer) -> Tracer:
    return elementwise("minimum", elementwise("maximum", x, low), high)


@_composition(np._core.umath._ones_like)  # type: ignore[attr-defined]
def _ones_like(x: Tracer) -> Tracer:
    return lazy.ones_like(x)


@_composition(np.spacing)
def _spacing(x: Tracer) -> Tracer:
    """The distance to the next value away from zero; for float16, to the next greater one."""
    if x.dtype == FLOAT8[0]:
        raise UnsupportedOp(f"np.spacing of {x.dtype.name}, which has no infinity, cannot be traced; cast to float32")
    if x.dtype == np.float16:
        above = elementwise("nextafter", x, np.float16(math.inf))
        return elementwise("where", elementwise("isfinite", x), above - x, math.nan)
    unsigned = elementwise("where", x == 0, 0.0, x)
    away = elementwise("copysign", wrap(const(math.inf, x.dtype)), unsigned)
    return elementwise("nextafter", unsigned, away) - unsigned


@_composition(np.frexp)
def _frexp(x: Tracer) -> tuple[Tracer, Tracer]:
    """A logarithm gives the exponent up to one; the significand it leaves tells the rest."""
    usual = elementwise("isfinite", x) & (x != 0)
    size = elementwise("where", usual, abs(x), 0.5).astype(np.float64 if x.dtype == np.float64 else np.float32)
    near = elementwise("floor", elementwise("log2", size)).astype(np.int32) + 1
    left = elementwise("ldexp", size, -near)
    exponent = near + (left >= 1) - (left < 0.5)
    return elementwise("ldexp", x, -exponent), exponent


# ---- ufunc methods


def _outer(ufunc: np.ufunc) -> Callable[..., Any]:
    def outer(a: Any, b: Any, **chosen: Any) -> Any:
        a, b = lift(a), lift(b)
        return ufunc(a.reshape(a.shape + (1,) * b.ndim), b, **chosen)

    return outer


for _ufunc in tuple(TRACED_UFUNCS):
    if _ufunc.nin == 2 and _ufunc.signature is None:
        TRACED_METHODS[_ufunc, "outer"] = _outer(_ufunc)
