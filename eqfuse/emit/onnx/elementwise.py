"""How the elementwise operators are written in ONNX.

In: a node whose arguments are values of a `Builder`. Out: the value of the node. The rows keep to what the evaluator
means where ONNX or onnxruntime leave it open: a division by zero, the least integer over -1, NaN. Only the sign of a
zero may be lost: onnxruntime's Where does not keep it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.emit.onnx.body import F32, I64, U64, Builder, OnnxValue
from eqfuse.emit.onnx.table import ONNX_WRITERS, NodeWriter, writer_of
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node
from eqfuse.ops.literal import Literal
from eqfuse.ops.row import BOOL

# ---- element by element


def _same(op: str) -> NodeWriter:
    def write_same(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
        return b(op, *args)

    return write_same


for _name, _op in {
    "subtract": "Sub", "divide": "Div", "negative": "Neg", "sqrt": "Sqrt", "exp": "Exp", "log": "Log", "sin": "Sin",
    "cos": "Cos", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh",
    "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "reciprocal": "Reciprocal",
}.items():  # fmt: skip
    ONNX_WRITERS[_name] = _same(_op)


def _of_bools(op: str, logical: str) -> NodeWriter:
    def write_either(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
        return b.uncast(logical, *args) if n.dtype == BOOL else b(op, *args)

    return write_either


for _name, (_op, _bools) in {
    "add": ("Add", "Or"), "multiply": ("Mul", "And"), "bitwise_and": ("BitwiseAnd", "And"),
    "bitwise_or": ("BitwiseOr", "Or"), "bitwise_xor": ("BitwiseXor", "Xor"), "bitwise_invert": ("BitwiseNot", "Not"),
}.items():  # fmt: skip
    ONNX_WRITERS[_name] = _of_bools(_op, _bools)


@writer_of("maximum", "minimum")
def larger_or_smaller(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    """By comparison in int64, of which onnxruntime's Max and Min may compare the lower half."""
    largest = n.op in ("maximum", "fmax")
    if n.dtype == BOOL:
        return b.uncast("Or" if largest else "And", *args)
    if n.dtype == I64:
        return b.where(b("Greater" if largest else "Less", *args, dtype=BOOL), *args)
    return b("Max" if largest else "Min", *args)


def _comparison(op: str) -> NodeWriter:
    def write_comparison(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
        return b(op, *args, dtype=BOOL)

    return write_comparison


for _name, _op in {
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}.items():  # fmt: skip
    ONNX_WRITERS[_name] = _comparison(_op)


@writer_of("not_equal")
def not_equal(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return b.uncast("Not", b("Equal", *args, dtype=BOOL))


def _logical(op: str) -> NodeWriter:
    def write_logical(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
        return b.uncast(op, *(b.cast(a, BOOL) for a in args))

    return write_logical


for _name, _op in {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not"}.items():
    ONNX_WRITERS[_name] = _logical(_op)


@writer_of("where")
def where(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return b.where(*args)


@writer_of("cast")
def cast(b: Builder, n: Node, args: Sequence[OnnxValue], dtype: np.dtype) -> OnnxValue:
    return b.uncast("Identity", args[0]) if args[0].dtype == dtype else b.cast(args[0], dtype)


@writer_of("abs")
def absolute(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return b.uncast("Identity", args[0]) if n.dtype == BOOL else b("Abs", args[0])


@writer_of("conj")
def conj(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return b.uncast("Identity", args[0])


@writer_of("square")
def square(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return b("Mul", args[0], args[0])


@writer_of("sign")
def sign(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    (x,) = args
    if x.dtype == I64:  # of which onnxruntime's Sign may look at the lower half
        zero = b.constant(0, I64)
        below = b.cast(b("Less", x, zero, dtype=BOOL), I64)
        return b("Sub", b.cast(b("Greater", x, zero, dtype=BOOL), I64), below)
    return b.where(nan(b, x), x, b("Sign", x)) if kind(x.dtype) == "f" else b("Sign", x)


def _rounding(op: str) -> NodeWriter:
    def write_rounding(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
        return b(op, args[0]) if kind(n.dtype) == "f" else b.uncast("Identity", args[0])

    return write_rounding


for _name, _op in {"floor": "Floor", "ceil": "Ceil", "round": "Round"}.items():
    ONNX_WRITERS[_name] = _rounding(_op)


@writer_of("trunc")
def trunc(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    (x,) = args
    if kind(x.dtype) != "f":
        return b.uncast("Identity", x)
    return b.where(b("Less", x, b.constant(0, x.dtype), dtype=BOOL), b("Ceil", x), b("Floor", x))


def nan(b: Builder, x: OnnxValue) -> OnnxValue:
    """Which elements are NaN."""
    return b("IsNaN", x, dtype=BOOL)


@writer_of("isnan")
def isnan(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return nan(b, args[0]) if kind(args[0].dtype) == "f" else _never(b, args[0])


@writer_of("isinf")
def isinf(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return b("IsInf", args[0], dtype=BOOL) if kind(args[0].dtype) == "f" else _never(b, args[0])


@writer_of("isfinite")
def isfinite(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    return b.uncast("Not", b.uncast("Or", isnan(b, n, args), isinf(b, n, args)))


def _never(b: Builder, x: OnnxValue) -> OnnxValue:
    """False for every element of `x`, which has no NaN."""
    return b.uncast("Not", b("Equal", x, x, dtype=BOOL))


@writer_of("fmax", "fmin")
def of_numbers(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    x, y = args
    best = larger_or_smaller(b, n, args)
    return b.where(nan(b, x), y, b.where(nan(b, y), x, best)) if kind(x.dtype) == "f" else best


@writer_of("tan")
def tan(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    (x,) = args
    return b("Div", b("Sin", x), b("Cos", x)) if x.dtype == np.float64 else b("Tan", x)


def _wide(function: Callable[..., OnnxValue]) -> NodeWriter:
    """`function` in float32 where the dtype has fewer bits, rounded once at the end: what NumPy does."""

    def write_wide(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
        narrow = n.dtype.itemsize < 4
        return b.cast(function(b, *(b.cast(a, F32) if narrow else a for a in args)), n.dtype)

    return write_wide


def _exp2(b: Builder, x: OnnxValue) -> OnnxValue:
    return b("Pow", b.constant(2, x.dtype), x)


def _logarithm(base: float) -> Callable[[Builder, OnnxValue], OnnxValue]:
    def log(b: Builder, x: OnnxValue) -> OnnxValue:
        return b("Mul", b("Log", x), b.constant(1 / math.log(base), x.dtype))

    return log


def _cbrt(b: Builder, x: OnnxValue) -> OnnxValue:
    root = b("Pow", b("Abs", x), b.constant(1 / 3, x.dtype))
    return b.where(b("Less", x, b.constant(0, x.dtype), dtype=BOOL), b("Neg", root), root)


def _expm1(b: Builder, x: OnnxValue) -> OnnxValue:
    """Kahan's: (e^x - 1) x / log(e^x), whose rounding errors cancel."""
    one = b.constant(1, x.dtype)
    u = b("Exp", x)
    less = b("Sub", u, one)
    ratio = b("Div", b("Mul", less, x), b("Log", u))
    ends = b.uncast("Or", b("Equal", less, b.constant(-1, x.dtype), dtype=BOOL), b("IsInf", u, dtype=BOOL))
    return b.where(b("Equal", u, one, dtype=BOOL), x, b.where(ends, less, ratio))


def _log1p(b: Builder, x: OnnxValue) -> OnnxValue:
    """Kahan's: log(u) x / (u - 1) for u = 1 + x."""
    one = b.constant(1, x.dtype)
    u = b("Add", x, one)
    log = b("Log", u)
    ratio = b("Div", b("Mul", log, x), b("Sub", u, one))
    near = b.where(b("Equal", u, one, dtype=BOOL), x, ratio)
    return b.where(b("IsInf", u, dtype=BOOL), log, near)


def _logaddexp(b: Builder, x: OnnxValue, y: OnnxValue) -> OnnxValue:
    far = b("Neg", b("Abs", b("Sub", x, y)))
    logarithm = b("Add", b("Max", x, y), _log1p(b, b("Exp", far)))
    return b.where(b("Equal", x, y, dtype=BOOL), b("Add", x, b.constant(math.log(2), x.dtype)), logarithm)


def _hypot(b: Builder, x: OnnxValue, y: OnnxValue) -> OnnxValue:
    x, y = b("Abs", x), b("Abs", y)
    large, one = b("Max", x, y), b.constant(1, x.dtype)
    ratio = b("Div", b("Min", x, y), large)
    length = b("Mul", large, b("Sqrt", b("Add", b("Mul", ratio, ratio), one)))
    infinite = b.uncast("Or", b("IsInf", x, dtype=BOOL), b("IsInf", y, dtype=BOOL))
    zero = b("Equal", large, b.constant(0, x.dtype), dtype=BOOL)
    return b.where(infinite, b.constant(np.inf, x.dtype), b.where(zero, large, length))


def _below_zero(b: Builder, x: OnnxValue) -> OnnxValue:
    """Is `x` negative, -0.0 included? NaN is not."""
    zero = b.constant(0, x.dtype)
    sign = b.where(b("Equal", x, zero, dtype=BOOL), b("Reciprocal", x), x)
    return b("Less", sign, zero, dtype=BOOL)


def _atan2(b: Builder, y: OnnxValue, x: OnnxValue) -> OnnxValue:
    rise, run = b("Abs", y), b("Abs", x)
    zero = b("Equal", x, b.constant(0, x.dtype), dtype=BOOL)
    corner = b.where(zero, b.constant(0, x.dtype), b.constant(math.pi / 4, x.dtype))
    t = b.where(b("Equal", rise, run, dtype=BOOL), corner, b("Atan", b("Div", rise, run)))
    t = b.where(_below_zero(b, x), b("Sub", b.constant(math.pi, x.dtype), t), t)
    return b.where(_below_zero(b, y), b("Neg", t), t)


_WIDE: dict[str, Callable[..., OnnxValue]] = {
    "exp2": _exp2, "log2": _logarithm(2), "log10": _logarithm(10), "cbrt": _cbrt, "expm1": _expm1, "log1p": _log1p,
    "logaddexp": _logaddexp, "hypot": _hypot, "atan2": _atan2,
}  # fmt: skip
ONNX_WRITERS.update({name: _wide(function) for name, function in _WIDE.items()})


# ---- division and powers


@writer_of("remainder")
def remainder(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    if kind(n.dtype) != "f":
        return _of_integers(b, n, args)[1]
    return _wide(lambda b, x, y: _of_floats(b, x, y)[1])(b, n, args)


@writer_of("fmod")
def fmod(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    if kind(n.dtype) == "f":
        return _wide(lambda b, x, y: b("Mod", x, y, fmod=1))(b, n, args)
    x, y = args
    zero, rest = b.constant(0, n.dtype), _of_integers(b, n, args)[1]
    differ = b.uncast("Xor", b("Less", x, zero, dtype=BOOL), b("Less", y, zero, dtype=BOOL))
    inexact = b.uncast("Not", b("Equal", rest, zero, dtype=BOOL))
    return b.where(b.uncast("And", inexact, differ), b("Sub", rest, y), rest)


@writer_of("floor_divide")
def floor_divide(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    if kind(n.dtype) != "f":
        return _of_integers(b, n, args)[0]
    return _wide(lambda b, x, y: _of_floats(b, x, y)[0])(b, n, args)


def _of_integers(b: Builder, n: Node, args: Sequence[OnnxValue]) -> tuple[OnnxValue, OnnxValue]:
    """Quotient and remainder, both 0 where the divisor is. The least integer over -1 is itself."""
    x, y = args
    zero, one = b.constant(0, n.dtype), b.constant(1, n.dtype)
    by_zero = b("Equal", y, zero, dtype=BOOL)
    if n.dtype.kind == "u":
        divisor = b.where(by_zero, one, y)
        return b.where(by_zero, zero, b("Div", x, divisor)), b.where(by_zero, zero, b("Mod", x, divisor))
    minus = b("Equal", y, b.constant(-1, n.dtype), dtype=BOOL)
    divisor = b.where(b.uncast("Or", by_zero, minus), one, y)
    rest, quotient = b("Mod", x, divisor), b("Div", x, divisor)
    differ = b.uncast("Xor", b("Less", x, zero, dtype=BOOL), b("Less", y, zero, dtype=BOOL))
    inexact = b.uncast("Not", b("Equal", rest, zero, dtype=BOOL))
    quotient = b.where(b.uncast("And", inexact, differ), b("Sub", quotient, one), quotient)
    return b.where(by_zero, zero, b.where(minus, b("Neg", x), quotient)), rest


def _of_floats(b: Builder, x: OnnxValue, y: OnnxValue) -> tuple[OnnxValue, OnnxValue]:
    """As NumPy's npy_divmod: the remainder has the sign of the divisor, the quotient is a whole number."""
    zero, one = b.constant(0, x.dtype), b.constant(1, x.dtype)
    rest = b("Mod", x, y, fmod=1)
    differ = b.uncast("Xor", b("Less", rest, zero, dtype=BOOL), b("Less", y, zero, dtype=BOOL))
    shift = b.uncast("And", b.uncast("Not", b("Equal", rest, zero, dtype=BOOL)), differ)
    exact = b("Div", b("Sub", x, rest), y)
    exact = b.where(shift, b("Sub", exact, one), exact)
    floor = b("Floor", exact)
    half = b("Greater", b("Sub", exact, floor), b.constant(0.5, x.dtype), dtype=BOOL)
    floor = b.where(half, b("Add", floor, one), floor)
    quotient = b.where(b("Equal", y, zero, dtype=BOOL), b("Div", x, y), floor)
    return quotient, b.where(shift, b("Add", rest, y), rest)


@writer_of("bitwise_left_shift", "bitwise_right_shift")
def bit_shift(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    """By 64 bits without a sign; what is shifted out is gone, however far (by a negative number: all of it)."""
    x, by = args
    negative = b("Less", x, b.constant(0, x.dtype), dtype=BOOL) if n.dtype.kind == "i" else None
    right = n.op == "bitwise_right_shift"
    if right and negative:  # ~(~x >> by)
        x = b.where(negative, b("BitwiseNot", x), x)
    bits = b.constant(8 * n.dtype.itemsize, U64)
    wide = b.cast(by, U64)
    inside = b("Less", wide, bits, dtype=BOOL)
    amount = b("Min", wide, b.constant(63, U64))
    shifted = b.uncast("BitShift", b.cast(x, U64), amount, direction="RIGHT" if right else "LEFT")
    shifted = b.where(inside, b.cast(shifted, n.dtype), b.constant(0, n.dtype))
    return b.where(negative, b("BitwiseNot", shifted), shifted) if right and negative else shifted


@writer_of("power")
def power(b: Builder, n: Node, args: Sequence[OnnxValue]) -> OnnxValue:
    x, y = args
    if kind(n.dtype) == "f":
        return b("Pow", x, y)
    literal = n.args[1].literal if n.args[1].op == "const" else None
    if not isinstance(literal, Literal) or literal.array.size != 1 or literal.array.item() < 0:
        raise UnsupportedOp("onnxruntime rounds powers of integers, as floats: only a constant exponent is exact")
    left, product, base = int(literal.array.item()), b.uncast("Mul", x, b.constant(0, n.dtype)), x
    product = b("Add", product, b.constant(1, n.dtype))
    while left:
        if left & 1:
            product = b("Mul", product, base)
        base, left = b("Mul", base, base), left >> 1
    return b.uncast("Expand", product, b.ints(*n.shape))
