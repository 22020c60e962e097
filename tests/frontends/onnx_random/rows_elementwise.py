"""Operators that work element by element: how their nodes are drawn."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx

from eqfuse import dtypes
from tests.frontends.onnx_random.draw import BOOL, Draw
from tests.frontends.onnx_random.numbers import ABSOLUTE, COARSE, EXACT, ROUNDED
from tests.frontends.onnx_random.run import DrawnValue
from tests.frontends.onnx_random.table import NodeSpec, row

# ---- one argument


@row("Abs", "BitwiseNot", "Ceil", "Floor", "Identity", "IsNaN", "Neg", "Not", "Relu", "Round", "Sign", rounding=EXACT)
@row(
    "Atan",
    "Asinh",
    "Cos",
    "Cosh",
    "Exp",
    "Sin",
    "Sinh",
    "Softsign",
    "Tan",
)
@row("Mish", "Sigmoid", "Tanh", rounding=ABSOLUTE)
@row("Softplus", rounding=ABSOLUTE, judge="reference")  # of half floats onnxruntime has infinities
@row("HardSwish", rounding=COARSE)
def unary(d: Draw) -> NodeSpec:
    return NodeSpec([d.value()], {})


@row("Erf", rounding=COARSE)
def erf(d: Draw) -> NodeSpec:
    return NodeSpec([d.value(dtype=[t for t in d.types(0) if dtypes.kind(t) == "f"])], {})


@row("Reciprocal", rounding=ROUNDED)
def reciprocal(d: Draw) -> NodeSpec:
    return NodeSpec([d.value(ok=lambda v: (v.array != 0).all())], {})


@row("Log", "Sqrt")
def of_positive(d: Draw) -> NodeSpec:
    return NodeSpec([d.value(ok=lambda v: d.special or (v.array > 0).all(), low=0.1)], {})


@row("Acos", "Asin", "Atanh")
def of_small(d: Draw) -> NodeSpec:
    return NodeSpec([d.value(ok=lambda v: d.special or (abs(v.array) < 1).all(), low=-0.9, high=0.9)], {})


@row("Acosh")
def of_large(d: Draw) -> NodeSpec:
    return NodeSpec([d.value(ok=lambda v: d.special or (v.array >= 1).all(), low=1.1, high=9)], {})


@row("Elu", judge="reference")  # onnxruntime loses small numbers
@row("LeakyRelu", "ThresholdedRelu", rounding=ROUNDED)
def with_alpha(d: Draw) -> NodeSpec:
    return NodeSpec([d.value()], d.optional(alpha=d.real(-0.5, 2)))


@row("Celu", judge="reference")
@row("Swish", rounding=ABSOLUTE)
def with_divisor(d: Draw) -> NodeSpec:
    return NodeSpec([d.value()], d.optional(alpha=d.pick((0.5, 1.0, 2.25, -1.5))))


@row("Selu", judge="reference")
def selu(d: Draw) -> NodeSpec:
    return NodeSpec([d.value()], d.optional(alpha=d.real(0.5, 2), gamma=d.real(0.5, 2)))


@row("HardSigmoid")
def hard_sigmoid(d: Draw) -> NodeSpec:
    return NodeSpec([d.value()], d.optional(alpha=d.real(-0.5, 1), beta=d.real(-1, 1)))


@row("Gelu", rounding=COARSE)
def gelu(d: Draw) -> NodeSpec:
    return NodeSpec([d.value()], d.optional(approximate=d.pick(("none", "tanh"))))


@row("SwiGLU", rounding=ABSOLUTE)
def swiglu(d: Draw) -> NodeSpec:
    a = d.value()
    return NodeSpec([a, d.like(a, a.shape)], d.optional(alpha=d.real(-1, 2)))


@row("Shrink", rounding=ABSOLUTE, judge="reference")
def shrink(d: Draw) -> NodeSpec:
    x = d.value()
    whole = dtypes.kind(x.dtype) in "iu"
    bias, bound = (float(d.integer(0, 3)), float(d.integer(0, 3))) if whole else (d.real(-1, 1), d.real(0, 2))
    return NodeSpec([x], d.optional(bias=bias, lambd=bound))


@row("IsInf", rounding=EXACT)
def is_inf(d: Draw) -> NodeSpec:
    return NodeSpec([d.value()], d.optional(detect_negative=d.integer(0, 1), detect_positive=d.integer(0, 1)))


@row("PRelu", rounding=ROUNDED, finite=True)
def prelu(d: Draw) -> NodeSpec:
    x = d.value()
    shape = [n if d.chance(0.6) else 1 for n in x.shape]
    return NodeSpec([x, d.like(x, shape[d.integer(0, x.rank) :])], {})


# ---- two and more


def two(d: Draw, low: float | None = None, **numbers: Any) -> tuple[DrawnValue, DrawnValue]:
    """Arguments that broadcast."""
    a = d.value(low=low, **numbers)
    return (a, beside(d, a, low=low, **numbers)) if d.chance(0.5) else (beside(d, a, low=low, **numbers), a)


def beside(d: Draw, a: DrawnValue, dtype: np.dtype | None = None, **numbers: Any) -> DrawnValue:
    """Something that broadcasts with `a`."""

    def fits(v: DrawnValue) -> bool:
        return all(m == n or 1 in (m, n) for m, n in zip(v.shape[::-1], a.shape[::-1], strict=False))

    if d.chance(0.6):
        candidates = [v for v in map(d.run.values.__getitem__, d.pool) if v.is_tensor and v.dtype == (dtype or a.dtype)]
        candidates = [v for v in candidates if fits(v) and np.broadcast(v.array, a.array).size <= 800]
        if candidates:
            return d.pick(candidates)
    shape = [n if d.chance(0.7) else 1 for n in a.shape]
    shape = shape[d.integer(0, len(shape)) :] if d.chance(0.4) else shape
    if d.chance(0.1):
        shape = [2, *([1] * (a.rank - len(shape))), *shape]
    return d.like(a, tuple(shape), dtype, **numbers)


@row("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "GreaterOrEqual", "Less",
     "LessOrEqual", rounding=EXACT)  # fmt: skip
@row("Add", "Sub", "Mul", rounding=ROUNDED)
def binary(d: Draw) -> NodeSpec:
    return NodeSpec(two(d), {})


def divides(a: np.ndarray, b: np.ndarray, **_: Any) -> bool:
    """Is every quotient of whole numbers defined?"""
    if dtypes.kind(b.dtype) == "f":
        return True
    return not (b == 0).any() and not (b.dtype.kind == "i" and (a == np.iinfo(a.dtype).min).any() and (b == -1).any())


@row("Div", rounding=ROUNDED, domain=divides)
def div(d: Draw) -> NodeSpec:
    a = d.value()
    b = beside(d, a) if d.special else beside(d, a, low=1)
    return NodeSpec([a, b], {})


@row("Mod", rounding=EXACT, domain=divides)
def mod(d: Draw) -> NodeSpec:
    a = d.value()
    floats = dtypes.kind(a.dtype) == "f"
    fmod = 1 if floats and d.opset < 28 else d.integer(0, 1)
    return NodeSpec([a, beside(d, a)], {"fmod": fmod} if fmod or d.chance(0.5) else {})


def powers(x: np.ndarray, y: np.ndarray) -> bool:
    """Whole numbers have no negative powers, and those that do not fit are left open; roots of negatives are NaN."""
    if dtypes.kind(x.dtype) == "f":
        return True
    with np.errstate(all="ignore"):
        wide = np.power(x.astype(np.float64), y.astype(np.float64))
    return bool((y >= 0).all() and (np.abs(wide) < min(np.iinfo(x.dtype).max, 2.0**50)).all())


@row("Pow", domain=powers)
def power(d: Draw) -> NodeSpec:
    x = d.value()
    dtype = x.dtype if d.opset < 12 else d.dtype(1)
    if dtypes.kind(dtype) in "iu":
        return NodeSpec([x, beside(d, x, dtype, low=0, high=3)], {})
    whole = dtypes.kind(x.dtype) in "iu"
    y = d.const(np.asarray(d.pick((0, 1, 2, 3) if whole else (-2, -1, 0, 0.5, 1, 2, 3))).astype(dtype))
    return NodeSpec([x, y if d.chance(0.5) else beside(d, x, dtype, low=0, high=3)], {})


def shifts(x: np.ndarray, y: np.ndarray, **_: Any) -> bool:
    return bool((y >= 0).all() and (y < 8 * x.dtype.itemsize).all())


@row("BitShift", rounding=EXACT, domain=shifts)
def bit_shift(d: Draw) -> NodeSpec:
    x = d.value()
    return NodeSpec([x, beside(d, x, low=0, high=7)], {"direction": d.pick(("LEFT", "RIGHT"))})


@row("Max", "Min", rounding=EXACT)
@row("Sum", "Mean")
def several(d: Draw) -> NodeSpec:
    a = d.value()
    return NodeSpec([a, *(beside(d, a) for _ in range(d.pick((0, 1, 2, 3), (1, 4, 2, 1))))], {})


@row("Clip", rounding=EXACT)
def clip(d: Draw) -> NodeSpec:
    x = d.value()
    bounds = sorted((d.integer(-3, 3), d.integer(-3, 3)), reverse=d.opset >= 13 and d.chance(0.2))
    if x.dtype.kind == "u":
        bounds = [abs(b) for b in bounds]
    if d.opset < 11:
        return NodeSpec([x], d.optional(0.7, min=float(bounds[0]), max=float(bounds[1])))
    low, high = (d.const(np.asarray(b).astype(x.dtype)) if d.chance(0.7) else None for b in bounds)
    return NodeSpec([x, low, high], {})


@row("Where", rounding=EXACT)
def where(d: Draw) -> NodeSpec:
    x = d.value(1)
    return NodeSpec([beside(d, x, BOOL), x, beside(d, x)], {})


@row("Dropout", rounding=EXACT, judge="reference")
def dropout(d: Draw) -> NodeSpec:
    x, outputs = d.value(), d.integer(1, 2)
    if d.opset < 12:
        return NodeSpec([x], d.optional(ratio=d.real(0, 0.9)), outputs)
    if d.chance(0.3):  # with nothing to drop
        return NodeSpec([x, d.const(np.float32(0)), d.const(np.bool_(True))], {}, outputs)
    ratio = d.const(np.float32(d.real(0, 0.9))) if d.chance(0.5) else None
    training = d.const(np.bool_(False)) if d.chance(0.4) else None
    return NodeSpec([x, ratio, training], d.optional(0.2, seed=3), outputs)


# ---- dtypes


def fits(x: np.ndarray, dtype: np.dtype) -> bool:
    """Does every element have a value in `dtype`?"""
    if dtypes.kind(x.dtype) != "f" or dtypes.kind(dtype) not in "iu":
        return True
    info, wide = np.iinfo(dtype), np.trunc(x.astype(np.float64))
    return bool(np.isfinite(wide).all() and (wide >= info.min).all() and (wide <= info.max).all())


def casts(x: np.ndarray, to: int, **_: Any) -> bool:
    return fits(x, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(to)))


def targets(d: Draw) -> list[np.dtype]:
    schema = onnx.defs.get_schema("Cast", d.opset)
    names = next(c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == "T2")
    return [t for name, t in _NAMED.items() if name in names]


_NAMED = {
    "tensor(float)": np.dtype("f4"), "tensor(double)": np.dtype("f8"), "tensor(float16)": np.dtype("f2"),
    "tensor(bool)": np.dtype("?"), "tensor(int8)": np.dtype("i1"), "tensor(int16)": np.dtype("i2"),
    "tensor(int32)": np.dtype("i4"), "tensor(int64)": np.dtype("i8"), "tensor(uint8)": np.dtype("u1"),
    "tensor(uint16)": np.dtype("u2"), "tensor(uint32)": np.dtype("u4"), "tensor(uint64)": np.dtype("u8"),
    "tensor(bfloat16)": np.dtype(ml_dtypes.bfloat16), "tensor(float8e4m3fn)": np.dtype(ml_dtypes.float8_e4m3fn),
    "tensor(float8e5m2)": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip


@row("Cast", rounding=EXACT, domain=casts)
def cast(d: Draw) -> NodeSpec:
    x = d.value()
    to = d.pick(targets(d))
    options = d.optional(saturate=d.integer(0, 1)) if d.opset >= 19 and to in dtypes.FLOAT8 else {}
    return NodeSpec([x], {"to": onnx.helper.np_dtype_to_tensor_dtype(to), **options})


@row("CastLike", rounding=EXACT, domain=lambda x, like, **_: fits(x, like.dtype))
def cast_like(d: Draw) -> NodeSpec:
    return NodeSpec([d.value(), d.value(1)], {})


@row("BitCast", rounding=EXACT)
def bit_cast(d: Draw) -> NodeSpec:
    x = d.value(ok=lambda v: v.dtype != BOOL)
    to = d.pick([t for t in targets(d) if t.itemsize == x.dtype.itemsize and t != BOOL])
    return NodeSpec([x], {"to": onnx.helper.np_dtype_to_tensor_dtype(to)})
