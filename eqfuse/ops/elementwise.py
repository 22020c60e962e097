"""Rows of the elementwise operators: NumPy's ufuncs under their Array API names, where, cast, parts of complex numbers.

Arguments broadcast by rank-aligned rules and must already have the dtypes of the ufunc's loop (the tracer casts, as
NumPy does inside the call), so laws and kernels never meet an implicit conversion.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import scipy.special

from eqfuse.errors import DtypeError
from eqfuse.ops.row import BOOL, INT64, Op, PriceClass, Role, Rounding, Types, need, no_flops
from eqfuse.ops.special import COMMUTATIVE_SPECIAL, SPECIAL_BY_PRICE
from eqfuse.ops.types import TensorType

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def dtype_name(dtype: Any) -> str:
    return dtype.name if isinstance(dtype, np.dtype) else f"Python {dtype.__name__}"


@cache
def loop_dtypes(name: str, *dtypes: Any) -> tuple[np.dtype, ...]:
    """dtypes of the ufunc loop NumPy runs for arguments of `dtypes`: one per argument, then the result's.

    An argument may be `int`, `float` or `complex` instead, for a Python scalar.
    """
    ufunc = UFUNCS[name]
    try:
        return tuple(ufunc.resolve_dtypes((*dtypes, *[None] * ufunc.nout)))
    except TypeError as error:
        raise DtypeError(f"{name} is not defined for {', '.join(map(dtype_name, dtypes))}: {error}") from None


broadcast_shapes = lru_cache(10_000)(np.broadcast_shapes)


def joint_shape(op: str, types: Types) -> tuple[int, ...]:
    """The rank-aligned broadcast of the arguments' shapes."""
    try:
        return broadcast_shapes(*[t.shape for t in types])
    except ValueError:
        need(False, op, types, "these shapes do not broadcast together; align them from the right")
        raise


def _ufunc(name: str, ufunc: np.ufunc, price: PriceClass, complex_flops: int = 2, **facts: Any) -> Op:
    """`complex_flops`: of one complex operation, where that is not one on each part."""

    def type_rule(types: Types, _attrs: tuple) -> TensorType:
        need(len(types) == ufunc.nin, name, types, takes)
        dtypes = [t.dtype for t in types]
        *wanted, result = loop_dtypes(name, *dtypes)
        if dtypes != wanted[: len(dtypes)]:
            need(False, name, types, f"cast the arguments to {', '.join(d.name for d in wanted)} first")
        if name in COMPARISONS and dtypes[0] != dtypes[1]:
            need(False, name, types, "no target compares unsigned with signed integers: see promotion.elementwise")
        return TensorType(result, joint_shape(name, types))

    takes = f"it takes {ufunc.nin} argument(s)"
    facts |= {"own_dtypes": _own_dtypes(ufunc)}
    return Op(
        name, Role.ELEMENTWISE, ufunc.nin, (), type_rule, ufunc, partial(_flops, complex_flops), price, **facts
    )


def _own_dtypes(ufunc: np.ufunc) -> tuple[np.dtype | None, ...]:
    """Whole numbers, where each of its loops for floats takes them: exponents of ldexp, orders of polynomials."""
    floats = {*"efdg"}
    loops = [loop[: ufunc.nin] for loop in ufunc.types if not floats.isdisjoint(loop[: ufunc.nin])]
    return tuple([INT64 if floats.isdisjoint(taken) else None for taken in zip(*loops, strict=True)])


def _flops(complex_flops: int, types: Types, out: TensorType, _attrs: tuple) -> int:
    return out.size * (complex_flops if types[0].dtype.kind == "c" else 1)


def _one_per_element(_types: Types, out: TensorType, _attrs: tuple) -> int:
    return out.size


def _where(types: Types, _attrs: tuple) -> TensorType:
    need(len(types) == 3, "where", types, "it takes a condition and two values")
    condition, x, y = types
    need(condition.dtype == np.bool_, "where", types, "the condition must be bool")
    need(x.dtype == y.dtype, "where", types, "cast both values to one dtype first")
    return TensorType(x.dtype, joint_shape("where", types))


def _cast(types: Types, attrs: tuple) -> TensorType:
    need(len(types) == 1, "cast", types, "it takes one argument")
    (t,), (dtype,) = types, attrs
    need(t.dtype.kind != "c" or dtype.kind in "bc", "cast", types, f"take the real part first, then cast it to {dtype}")
    return TensorType(dtype, t.shape)


def _part(name: str) -> Callable[[Types, tuple], TensorType]:
    def rule(types: Types, _attrs: tuple) -> TensorType:
        need(len(types) == 1 and types[0].dtype.kind == "c", name, types, "it takes one complex argument")
        return TensorType(_PART[types[0].dtype], types[0].shape)

    return rule


_PART: dict[np.dtype, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
_WHOLE: dict[np.dtype, np.dtype] = {part: whole for whole, part in _PART.items()}


def _complex(types: Types, _attrs: tuple) -> TensorType:
    need(len(types) == 2, "complex", types, "it takes a real and an imaginary part")
    real, imag = types
    fit = real.dtype == imag.dtype and real.dtype in _WHOLE
    need(fit, "complex", types, "cast both parts to float32, or both to float64, first")
    return TensorType(_WHOLE[real.dtype], joint_shape("complex", types))


def complex_array(real: np.ndarray, imag: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The array with these parts, every bit kept: `real + 1j * imag` would lose infinities and signed zeros."""
    if out is None:
        out = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), _WHOLE[np.asarray(real).dtype])
    out.real, out.imag = real, imag
    return out


def cast_array(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`x.astype(dtype)`, without NumPy's warning for values that do not fit (the result is NumPy's all the same)."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        return (x.real if x.dtype.kind == "c" and dtype.kind not in "bc" else x).astype(dtype)


_LOGIC, _SIMPLE, _DIVISION, _EXP = PriceClass.LOGIC, PriceClass.SIMPLE, PriceClass.DIVISION, PriceClass.EXPONENTIAL
_TRIG, _INVERSE, _ERF, _POWER = PriceClass.TRIGONOMETRIC, PriceClass.INVERSE, PriceClass.ERF, PriceClass.POWER
_NEVER, _ONCE = Rounding.NEVER, Rounding.ONCE
_POSITIVE, _UNIT = (0.0, math.inf), (-1.0, 1.0)

_UFUNC_ROWS = [
    _ufunc("add", np.add, _SIMPLE, rounding=_ONCE, commutes=True),
    _ufunc("subtract", np.subtract, _SIMPLE, rounding=_ONCE),
    _ufunc("multiply", np.multiply, _SIMPLE, 6, rounding=_ONCE, commutes=True, twice="square"),
    _ufunc("divide", np.true_divide, _DIVISION, 10, rounding=_ONCE),
    _ufunc("floor_divide", np.floor_divide, PriceClass.FLOOR_DIVISION),
    _ufunc("remainder", np.remainder, PriceClass.FLOOR_DIVISION),
    _ufunc("fmod", np.fmod, PriceClass.FLOOR_DIVISION, rounding=_NEVER),
    _ufunc("power", np.power, _POWER),
    _ufunc("negative", np.negative, _SIMPLE, rounding=_NEVER),
    _ufunc("abs", np.absolute, _SIMPLE, 4, rounding=_NEVER),
    _ufunc("sign", np.sign, _SIMPLE, rounding=_NEVER),
    _ufunc("square", np.square, _SIMPLE, 6, rounding=_ONCE),
    _ufunc("sqrt", np.sqrt, _DIVISION, rounding=_ONCE, monotone=True, domain=_POSITIVE),
    _ufunc("cbrt", np.cbrt, _TRIG, monotone=True),
    _ufunc("reciprocal", np.reciprocal, _DIVISION, 7, rounding=_ONCE),
    _ufunc("conj", np.conjugate, _SIMPLE, 1, rounding=_NEVER),
    _ufunc("exp", np.exp, _EXP, monotone=True),
    _ufunc("exp2", np.exp2, _EXP, monotone=True),
    _ufunc("expm1", np.expm1, _EXP, monotone=True),
    _ufunc("log", np.log, _EXP, monotone=True, domain=_POSITIVE),
    _ufunc("log2", np.log2, _EXP, monotone=True, domain=_POSITIVE),
    _ufunc("log10", np.log10, _EXP, monotone=True, domain=_POSITIVE),
    _ufunc("log1p", np.log1p, _EXP, monotone=True, domain=(-1.0, math.inf)),
    _ufunc("logaddexp", np.logaddexp, _POWER, commutes=True),
    _ufunc("sin", np.sin, _TRIG, odd=True),
    _ufunc("cos", np.cos, _TRIG, even=True),
    _ufunc("tan", np.tan, _TRIG, odd=True),
    _ufunc("asin", np.arcsin, _INVERSE, monotone=True, odd=True, domain=_UNIT),
    _ufunc("acos", np.arccos, _INVERSE, domain=_UNIT),
    _ufunc("atan", np.arctan, _TRIG, monotone=True, odd=True),
    _ufunc("atan2", np.arctan2, _POWER),
    _ufunc("sinh", np.sinh, _TRIG, monotone=True, odd=True),
    _ufunc("cosh", np.cosh, _TRIG, even=True),
    _ufunc("tanh", np.tanh, _TRIG, monotone=True, odd=True),
    _ufunc("asinh", np.arcsinh, _TRIG, monotone=True, odd=True),
    _ufunc("acosh", np.arccosh, _INVERSE, monotone=True, domain=(1.0, math.inf)),
    _ufunc("atanh", np.arctanh, _INVERSE, monotone=True, odd=True, domain=_UNIT),
    _ufunc("hypot", np.hypot, _INVERSE, commutes=True),
    _ufunc("erf", scipy.special.erf, _ERF, monotone=True, odd=True),
    _ufunc("erfc", scipy.special.erfc, _ERF),
    _ufunc("maximum", np.maximum, _SIMPLE, rounding=_NEVER, commutes=True, either_zero=True),
    _ufunc("minimum", np.minimum, _SIMPLE, rounding=_NEVER, commutes=True, either_zero=True),
    _ufunc("fmax", np.fmax, _SIMPLE, rounding=_NEVER, commutes=True, either_zero=True),
    _ufunc("fmin", np.fmin, _SIMPLE, rounding=_NEVER, commutes=True, either_zero=True),
    _ufunc("floor", np.floor, _SIMPLE, rounding=_NEVER, monotone=True),
    _ufunc("ceil", np.ceil, _SIMPLE, rounding=_NEVER, monotone=True),
    _ufunc("trunc", np.trunc, _SIMPLE, rounding=_NEVER, monotone=True),
    _ufunc("round", np.rint, _SIMPLE, rounding=_NEVER, monotone=True),
    _ufunc("copysign", np.copysign, _SIMPLE, rounding=_NEVER, reads_bits=True),
    _ufunc("nextafter", np.nextafter, PriceClass.ONE_BY_ONE, rounding=_NEVER),
    _ufunc("signbit", np.signbit, _SIMPLE, reads_bits=True),
    _ufunc("ldexp", np.ldexp, PriceClass.ONE_BY_ONE, rounding=_ONCE),
    _ufunc("gcd", np.gcd, PriceClass.DIVISORS, commutes=True),
    _ufunc("lcm", np.lcm, PriceClass.DIVISORS, commutes=True),
    _ufunc("bitwise_count", np.bitwise_count, _SIMPLE),
    _ufunc("isnan", np.isnan, _SIMPLE),
    _ufunc("isinf", np.isinf, _SIMPLE),
    _ufunc("isfinite", np.isfinite, _SIMPLE),
    _ufunc("equal", np.equal, _SIMPLE, commutes=True),
    _ufunc("not_equal", np.not_equal, _SIMPLE, commutes=True),
    _ufunc("less", np.less, _SIMPLE),
    _ufunc("less_equal", np.less_equal, _SIMPLE),
    _ufunc("greater", np.greater, _SIMPLE),
    _ufunc("greater_equal", np.greater_equal, _SIMPLE),
    _ufunc("logical_and", np.logical_and, _LOGIC, commutes=True),
    _ufunc("logical_or", np.logical_or, _LOGIC, commutes=True),
    _ufunc("logical_xor", np.logical_xor, _LOGIC, commutes=True),
    _ufunc("logical_not", np.logical_not, _LOGIC),
    _ufunc("bitwise_and", np.bitwise_and, _SIMPLE, commutes=True),
    _ufunc("bitwise_or", np.bitwise_or, _SIMPLE, commutes=True),
    _ufunc("bitwise_xor", np.bitwise_xor, _SIMPLE, commutes=True),
    _ufunc("bitwise_invert", np.invert, _SIMPLE),
    _ufunc("bitwise_left_shift", np.left_shift, _SIMPLE),
    _ufunc("bitwise_right_shift", np.right_shift, _SIMPLE),
    *(_ufunc(name, ufunc, price, commutes=name in COMMUTATIVE_SPECIAL)
      for price, ufuncs in SPECIAL_BY_PRICE.items() for name, ufunc in ufuncs.items()),
]  # fmt: skip
UFUNCS: dict[str, np.ufunc] = {op.name: op.meaning for op in _UFUNC_ROWS}  # type: ignore[misc]
ROWS = [
    *_UFUNC_ROWS,
    Op("where", Role.ELEMENTWISE, 3, (), _where, np.where, _one_per_element, _SIMPLE, _NEVER, own_dtypes=(BOOL,)),
    Op("cast", Role.ELEMENTWISE, 1, ("dtype",), _cast, cast_array, no_flops, _SIMPLE, _ONCE),
    Op("real", Role.ELEMENTWISE, 1, (), _part("real"), np.real, no_flops, _SIMPLE, _NEVER),
    Op("imag", Role.ELEMENTWISE, 1, (), _part("imag"), np.imag, no_flops, _SIMPLE, _NEVER),
    Op("complex", Role.ELEMENTWISE, 2, (), _complex, complex_array, no_flops, _SIMPLE, _NEVER),
]
