"""torch's operators that work element by element: arithmetic, comparisons, activations, casts, selections.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions and `eqfuse.functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.dtypes import kind
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import Tracer, lazy
from eqfuse.frontends.torch.table import OPERANDS, RESULT, aten, insist, wide

# ---- one argument


def _of_one(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def row(x: Any) -> Any:
        return function(x)

    return row


def _sign(x: Any) -> Any:
    """0 for NaN, as torch has it."""
    if kind(x.dtype) != "f":
        return x if kind(x.dtype) == "b" else np.sign(x)
    return f.where(np.isnan(x), 0, np.sign(x))


def _rounded(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: x if kind(x.dtype) in "biu" else function(x)


_UNARY: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "ceil": _rounded(np.ceil), "cos": np.cos, "cosh": np.cosh, "erf": f.erf, "erfc": f.erfc,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "floor": _rounded(np.floor), "log": np.log, "log10": np.log10,
    "log1p": np.log1p, "log2": np.log2, "neg": np.negative, "reciprocal": lambda x: 1 / x, "relu": f.relu,
    "round": _rounded(np.rint), "rsqrt": lambda x: 1 / lazy.sqrt(x), "sigmoid": f.sigmoid, "sign": _sign,
    "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh, "trunc": _rounded(np.trunc),
    "_conj": np.conjugate, "_conj_physical": np.conjugate,
}  # fmt: skip
for _name, _function in _UNARY.items():
    aten(_name, computes_in=RESULT)(_of_one(_function))

_QUESTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "isnan": np.isnan, "isinf": np.isinf, "logical_not": np.logical_not,
    "signbit": np.signbit,
}  # fmt: skip
for _name, _function in _QUESTIONS.items():
    aten(_name, computes_in=OPERANDS)(_of_one(_function))


@aten("bitwise_not", computes_in=RESULT)
def bitwise_not(x: Any) -> Any:
    return np.invert(x)


@aten("gelu", computes_in=RESULT)
def gelu(x: Any, *, approximate: str = "none") -> Any:
    return f.gelu(x, approximate)


@aten("elu", computes_in=RESULT)
def elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    low = np.expm1(lazy.minimum(x, 0) * input_scale) * alpha
    y = f.where(x > 0, x, low)
    return y if scale == 1 else y * scale


@aten("leaky_relu", computes_in=RESULT)
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    return f.where(x > 0, x, x * negative_slope)


@aten("hardtanh", computes_in=RESULT)
def hardtanh(x: Any, min_val: float = -1, max_val: float = 1) -> Any:
    return lazy.minimum(lazy.maximum(x, min_val), max_val)


@aten("clamp", computes_in=RESULT)
def clamp(x: Any, min: float | None = None, max: float | None = None) -> Any:
    if min is not None:
        x = lazy.maximum(x, min)
    return x if max is None else lazy.minimum(x, max)


aten("clamp.Tensor", computes_in=RESULT)(clamp)

# ---- two and more arguments


def _scaled(function: Callable[..., Any], logical: Callable[..., Any] | None) -> Callable[..., Any]:
    """``function(x, alpha * y)``, of booleans `logical`."""

    def row(x: Any, y: Any, *, alpha: Any = 1, result: np.dtype) -> Any:
        if result == np.bool_ and logical is not None:
            return logical(x, y) if alpha else x
        return function(x, y if alpha == 1 else y * alpha)

    return row


for _name in ("add.Tensor", "add.Scalar"):
    aten(_name, computes_in=RESULT)(_scaled(lazy.add, lazy.logical_or))
for _name in ("sub.Tensor", "sub.Scalar"):
    aten(_name, computes_in=RESULT)(_scaled(lazy.subtract, None))


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    def row(x: Any, y: Any) -> Any:
        return function(x, y)

    return row


_SAME_DTYPE: dict[str, Callable[..., Any]] = {
    "mul.Tensor": lazy.multiply, "mul.Scalar": lazy.multiply, "div.Tensor": lazy.true_divide,
    "div.Scalar": lazy.true_divide, "maximum": lazy.maximum, "minimum": lazy.minimum, "fmax": lazy.fmax,
    "fmin": lazy.fmin, "atan2": lazy.arctan2, "hypot": lazy.hypot, "copysign.Tensor": lazy.copysign,
    "remainder.Tensor": lazy.remainder, "fmod.Tensor": lazy.fmod,
    "bitwise_and.Tensor": lazy.bitwise_and, "bitwise_or.Tensor": lazy.bitwise_or,
    "bitwise_xor.Tensor": lazy.bitwise_xor, "bitwise_and.Scalar": lazy.bitwise_and,
    "bitwise_or.Scalar": lazy.bitwise_or, "bitwise_xor.Scalar": lazy.bitwise_xor,
}  # fmt: skip
for _name, _function in _SAME_DTYPE.items():
    aten(_name, computes_in=RESULT)(_binary(_function))


def _of_rounded_number(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch rounds the number to the dtype of the result before."""

    def row(x: Any, y: Any, *, result: np.dtype) -> Any:
        return function(x, lift(np.asarray(y).astype(result).astype(wide(result))))

    return row


aten("remainder.Scalar", computes_in=RESULT)(_of_rounded_number(lazy.remainder))
aten("fmod.Scalar", computes_in=RESULT)(_of_rounded_number(lazy.fmod))

_COMPARISONS = {
    "eq": lazy.equal, "ne": lazy.not_equal, "lt": lazy.less, "le": lazy.less_equal, "gt": lazy.greater,
    "ge": lazy.greater_equal,
}  # fmt: skip
for _name, _function in _COMPARISONS.items():
    aten(f"{_name}.Tensor", f"{_name}.Scalar", computes_in=OPERANDS)(_binary(_function))
for _name in ("logical_and", "logical_or", "logical_xor"):
    aten(_name, computes_in=OPERANDS)(_binary(getattr(lazy, _name)))


@aten("div.Tensor_mode", "div.Scalar_mode", computes_in=RESULT)
def div_rounded(x: Any, y: Any, *, rounding_mode: str | None, result: np.dtype) -> Any:
    if rounding_mode is None:
        return lazy.true_divide(x, y)
    if kind(x.dtype) == "f":
        quotient = (x / y).astype(result)  # which torch rounds before it cuts the fraction off
        return lazy.trunc(quotient) if rounding_mode == "trunc" else _floor_quotient(x, y)
    quotient = lazy.floor_divide(x, y)
    if rounding_mode == "floor" or kind(x.dtype) == "u":
        return quotient
    remains = lazy.logical_and(quotient * y != x, lazy.logical_xor(x < 0, lazy.less(y, 0)))
    return quotient + remains.astype(quotient.dtype)


def _floor_quotient(x: Any, y: Any) -> Any:
    """Infinite where a number is divided by zero, as torch has it."""
    return f.where(lazy.equal(y, 0), x / y, lazy.floor_divide(x, y))


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", computes_in=RESULT)
def power(x: Any, y: Any, *, result: np.dtype) -> Any:
    if kind(result) in "iu":
        insist(isinstance(y, int) and y >= 0, "integers to a power that is an array, or negative")
    x, y = (v if isinstance(v, Tracer) else lift(np.asarray(v, wide(result))) for v in (x, y))
    return lazy.power(x, y)


@aten("where.self")
def where(condition: Any, x: Any, y: Any, *, result: np.dtype) -> Any:
    return f.where(condition.astype(np.bool_), x.astype(result), y.astype(result))


# ---- dtypes


@aten("_to_copy", "prims.convert_element_type")
def to_copy(x: Any, dtype: np.dtype | None = None) -> Any:
    if dtype is None:
        return x
    return (x != 0) if dtype == np.bool_ and kind(x.dtype) != "b" else x.astype(dtype)


@aten("clone", "lift_fresh_copy")
def clone(x: Any) -> Any:
    return x


@aten("alias", is_view=True)
def alias(x: Any) -> Any:
    return x
