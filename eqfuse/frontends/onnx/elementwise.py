"""ONNX operators that work element by element: arithmetic, comparisons, activations, casts.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions and `eqfuse.functions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.dtypes import kind
from eqfuse.errors import UnsupportedOp
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import Tracer, lazy
from eqfuse.frontends.onnx.table import bare_numbers, dtype_of, one, one_of, operator

# ---- one argument


def _of_one(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def row(x: Any) -> Any:
        return function(x)

    return row


_UNARY: dict[str, Callable[..., Any]] = {
    "Abs": np.abs, "Acos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin, "Asinh": np.arcsinh, "Atan": np.arctan,
    "Atanh": np.arctanh, "BitwiseNot": np.invert, "Ceil": np.ceil, "Cos": np.cos, "Cosh": np.cosh, "Erf": f.erf,
    "Exp": np.exp, "Floor": np.floor, "Identity": lambda x: x, "IsNaN": np.isnan, "Log": np.log, "Neg": np.negative,
    "Not": np.logical_not, "Reciprocal": lambda x: 1 / x, "Relu": f.relu, "Round": np.rint, "Sigmoid": f.sigmoid,
    "Sign": np.sign, "Sin": np.sin, "Sinh": np.sinh, "Softplus": f.softplus, "Sqrt": np.sqrt, "Tan": np.tan,
    "Tanh": np.tanh, "Softsign": lambda x: x / (np.abs(x) + 1),
    "Mish": lambda x: x * np.tanh(f.softplus(x)),
    "HardSwish": lambda x: x * lazy.maximum(lazy.minimum(x * (1 / 6) + 0.5, 1), 0),
}  # fmt: skip
for _name, _function in _UNARY.items():
    operator(_name)(_of_one(_function))


@operator("Elu")
def elu(x: Any, *, alpha: float = 1.0) -> Any:
    return f.elu(x, alpha)


@operator("Selu", since=6)
def selu(x: Any, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Any:
    return f.elu(x, alpha) * gamma


@operator("Celu")
def celu(x: Any, *, alpha: float = 1.0) -> Any:
    if alpha < 0:
        return lazy.maximum(x, 0) + lazy.minimum(np.expm1(x / alpha) * alpha, 0)
    return f.elu(x) if alpha == 1 else f.elu(x / alpha) * alpha


@operator("LeakyRelu")
def leaky_relu(x: Any, *, alpha: float = 0.01) -> Any:
    return f.leaky_relu(x, alpha)


@operator("ThresholdedRelu")
def thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    return f.where(x > alpha, x, 0)


@operator("HardSigmoid", since=6)
def hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return lazy.maximum(lazy.minimum(x * alpha + beta, 1), 0)


@operator("Gelu")
def gelu(x: Any, *, approximate: str = "none") -> Any:
    return f.gelu(x, one_of(approximate, ("none", "tanh"), "approximate"))


@operator("Swish")
def swish(x: Any, *, alpha: float = 1.0) -> Any:
    return x * f.sigmoid(x if alpha == 1 else x * alpha)


@operator("SwiGLU")
def swiglu(a: Any, b: Any, *, alpha: float = 1.0) -> Any:
    return swish(a, alpha=alpha) * b


@operator("Shrink")
def shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    return f.where(x < -lambd, x + bias, f.where(x > lambd, x - bias, 0))


@operator("IsInf")
def is_inf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    if detect_negative and detect_positive:
        return np.isinf(x)
    if not detect_negative and not detect_positive:
        return lazy.logical_and(np.isinf(x), False)
    return x == (-math.inf if detect_negative else math.inf)


@operator("PRelu", since=7)
def prelu(x: Any, slope: Any) -> Any:
    return f.where(x < 0, x * slope, x)


@operator("PRelu")
def prelu_by_channel(x: Any, slope: Any) -> Any:
    return prelu(x, slope.reshape((-1,) + (1,) * (x.ndim - 2)) if slope.size > 1 else slope.reshape(()))


# ---- two and more arguments


def _binary(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def row(a: Any, b: Any) -> Any:
        return function(*bare_numbers(a, b))

    return row


for _name, _function in {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "And": np.logical_and, "Or": np.logical_or,
    "Xor": np.logical_xor, "Equal": np.equal, "Greater": np.greater, "Less": np.less,
    "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal, "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
}.items():  # fmt: skip
    operator(_name, since=7)(_binary(_function))


def _aligned(function: Callable[..., Any]) -> Callable[..., Any]:
    """Before version 7 the second argument broadcasts only if `broadcast` says so, its axes those from `axis` on."""

    def row(a: Any, b: Any, *, broadcast: int = 0, axis: int | None = None) -> Any:
        if broadcast and axis is not None:
            b = b.reshape(b.shape + (1,) * (a.ndim - axis % a.ndim - b.ndim))
        return function(a, b)

    return row


@operator("Div", since=7)
def div(a: Any, b: Any) -> Any:
    """Integers are divided towards zero."""
    a, b = bare_numbers(a, b)
    return towards_zero(a, b) if kind(a.dtype) in "iu" else a / b


def towards_zero(a: Any, b: Any) -> Any:
    """The quotient of integers, whose fraction is cut off."""
    quotient = a // b
    if kind(a.dtype) == "u":
        return quotient
    inexact = lazy.logical_and(quotient * b != a, lazy.logical_xor(a < 0, b < 0))
    return quotient + inexact.astype(a.dtype)


@operator("Mod")
def mod(a: Any, b: Any, *, fmod: int = 0) -> Any:
    return np.fmod(a, b) if fmod else np.mod(a, b)


@operator("Pow", since=7)
def power(x: Any, y: Any) -> Any:
    """The result has the dtype of `x`."""
    if kind(x.dtype) == "f":
        exponent = y.constant_value() if y.size == 1 and y.ndim <= x.ndim else None
        return x ** (y.astype(x.dtype) if exponent is None else exponent.reshape(-1)[0].item())
    return lazy.power(x, y).astype(x.dtype)


_ALIGNED: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": div, "Pow": power, "And": np.logical_and,
    "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal, "Greater": np.greater, "Less": np.less,
}  # fmt: skip
for _name, _function in _ALIGNED.items():
    operator(_name)(_aligned(_function))


@operator("BitShift")
def bit_shift(x: Any, y: Any, *, direction: str) -> Any:
    return np.left_shift(x, y) if one_of(direction, ("LEFT", "RIGHT"), "direction") == "LEFT" else np.right_shift(x, y)


def _folding(function: Callable[..., Any]) -> Callable[..., Any]:
    def row(*xs: Any) -> Any:
        return reduce(lambda a, b: function(*bare_numbers(a, b)), xs)

    return row


for _name, _function in {"Sum": np.add, "Max": np.maximum, "Min": np.minimum}.items():
    operator(_name)(_folding(_function))


@operator("Mean")
def mean(*xs: Any) -> Any:
    return reduce(lazy.add, xs) / len(xs)


@operator("Clip", since=11)
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x = lazy.maximum(x, low.reshape(()))
    return x if high is None else lazy.minimum(x, high.reshape(()))


@operator("Clip", since=1)
def clip_by_attributes(x: Any, *, min: float | None = None, max: float | None = None) -> Any:
    if min is not None:
        x = lazy.maximum(x, min)
    return x if max is None else lazy.minimum(x, max)


@operator("Where")
def where(condition: Any, x: Any, y: Any) -> Any:
    value = condition.constant_value()
    if value is not None and value.size and (value.all() or not value.any()):
        shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
        return lazy.broadcast_to(x if value.all() else y, shape)
    x, y, _ = bare_numbers(x, y, condition)
    return f.where(condition, x, y)


@operator("Dropout", since=12)
def dropout(x: Any, ratio: Any = None, training: Any = None, *, seed: int | None = None, outputs: int = 1) -> Any:
    if training is not None and one(training, "training_mode") and (ratio is None or one(ratio, "ratio")):
        raise UnsupportedOp("Dropout in training draws random numbers: load the model for inference")
    return (x, lazy.ones_like(x, dtype=bool)) if outputs > 1 else x


@operator("Dropout", since=7)
def dropout_by_attribute(x: Any, *, ratio: float = 0.5, outputs: int = 1) -> Any:
    return (x, lazy.ones_like(x, dtype=bool)) if outputs > 1 else x


# ---- dtypes


@operator("Cast", since=6)
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    return saturating_cast(x, dtype_of(to), saturate)


@operator("CastLike")
def cast_like(x: Any, target: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    return saturating_cast(x, target.dtype, saturate)


def saturating_cast(x: Tracer, dtype: np.dtype, saturate: int = 1) -> Any:
    """`x` in `dtype`. Unless `saturate` is 0, what is too large for float8 becomes its largest number."""
    import ml_dtypes

    if dtype.itemsize > 1 or kind(dtype) != "f" or not saturate:
        return x.astype(dtype)
    top = float(ml_dtypes.finfo(dtype).max)
    wide = x if x.dtype.itemsize >= 4 else x.astype(np.float32)
    return lazy.minimum(lazy.maximum(wide, -top), top).astype(dtype)


@operator("BitCast")
def bit_cast(x: Any, *, to: int) -> Any:
    return lift(x).view(dtype_of(to))
