"""Rows of the elementwise operators: NumPy's ufuncs under their Array API names, where, cast, parts of complex numbers.

Arguments broadcast by rank-aligned rules and must already have the dtypes of the ufunc's loop (the tracer casts, as
NumPy does inside the call), so laws and kernels never meet an implicit conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import scipy.special

from eqfuse.errors import DtypeError
from eqfuse.ops.row import Op, Role, Types, need
from eqfuse.ops.special import SPECIAL
from eqfuse.ops.types import TensorType

UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.true_divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": np.power,
    "negative": np.negative, "abs": np.absolute, "sign": np.sign, "square": np.square, "sqrt": np.sqrt,
    "cbrt": np.cbrt, "reciprocal": np.reciprocal, "conj": np.conjugate,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "logaddexp": np.logaddexp,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "hypot": np.hypot, "erf": scipy.special.erf, "erfc": scipy.special.erfc,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
    "copysign": np.copysign, "nextafter": np.nextafter, "signbit": np.signbit,
    "ldexp": np.ldexp, "gcd": np.gcd, "lcm": np.lcm, "bitwise_count": np.bitwise_count,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_invert": np.invert, "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift,
    **SPECIAL,
}  # fmt: skip
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


def broadcast(op: str, types: Types) -> tuple[int, ...]:
    """The rank-aligned broadcast of the arguments' shapes."""
    try:
        return broadcast_shapes(*[t.shape for t in types])
    except ValueError:
        need(False, op, types, "these shapes do not broadcast together; align them from the right")
        raise


def _ufunc_row(name: str, ufunc: np.ufunc) -> Op:
    def type_rule(types: Types, _attrs: tuple) -> TensorType:
        need(len(types) == ufunc.nin, name, types, takes)
        dtypes = [t.dtype for t in types]
        *wanted, result = loop_dtypes(name, *dtypes)
        if dtypes != wanted[: len(dtypes)]:
            need(False, name, types, f"cast the arguments to {', '.join(d.name for d in wanted)} first")
        if name in COMPARISONS and dtypes[0] != dtypes[1]:
            need(False, name, types, "no target compares unsigned with signed integers: see promotion.elementwise")
        return TensorType(result, broadcast(name, types))

    takes = f"it takes {ufunc.nin} argument(s)"
    return Op(name, Role.ELEMENTWISE, ufunc.nin, (), type_rule, ufunc, partial(_flops, _COMPLEX_FLOPS.get(name, 2)))


# flops of one complex operation, where it is not one on each part
_COMPLEX_FLOPS = {"multiply": 6, "square": 6, "divide": 10, "reciprocal": 7, "abs": 4, "conj": 1}


def _flops(complex_flops: int, types: Types, out: TensorType, _attrs: tuple) -> int:
    return out.size * (complex_flops if types[0].dtype.kind == "c" else 1)


def _one_per_element(_types: Types, out: TensorType, _attrs: tuple) -> int:
    return out.size


def _where(types: Types, _attrs: tuple) -> TensorType:
    need(len(types) == 3, "where", types, "it takes a condition and two values")
    condition, x, y = types
    need(condition.dtype == np.bool_, "where", types, "the condition must be bool")
    need(x.dtype == y.dtype, "where", types, "cast both values to one dtype first")
    return TensorType(x.dtype, broadcast("where", types))


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
    return TensorType(_WHOLE[real.dtype], broadcast("complex", types))


def complex_array(real: np.ndarray, imag: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The array with these parts, every bit kept: `real + 1j * imag` would lose infinities and signed zeros."""
    if out is None:
        out = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), _WHOLE[np.asarray(real).dtype])
    out.real, out.imag = real, imag
    return out


def _no_arithmetic(_types: Types, _out: TensorType, _attrs: tuple) -> int:
    return 0


def cast_array(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`x.astype(dtype)`, without NumPy's warning for values that do not fit (the result is NumPy's all the same)."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        return (x.real if x.dtype.kind == "c" and dtype.kind not in "bc" else x).astype(dtype)


ROWS = [
    *(_ufunc_row(name, ufunc) for name, ufunc in UFUNCS.items()),
    Op("where", Role.ELEMENTWISE, 3, (), _where, np.where, _one_per_element),
    Op("cast", Role.ELEMENTWISE, 1, ("dtype",), _cast, cast_array, _no_arithmetic),
    Op("real", Role.ELEMENTWISE, 1, (), _part("real"), np.real, _no_arithmetic),
    Op("imag", Role.ELEMENTWISE, 1, (), _part("imag"), np.imag, _no_arithmetic),
    Op("complex", Role.ELEMENTWISE, 2, (), _complex, complex_array, _no_arithmetic),
]
