"""Quantisation, and products of quantised arrays: how their nodes are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse import dtypes
from tests.frontends.onnx_random.draw import F32, Draw, Shape
from tests.frontends.onnx_random.numbers import EXACT, QUANTISED, largest
from tests.frontends.onnx_random.rows_windows import image, window
from tests.frontends.onnx_random.run import DrawnValue
from tests.frontends.onnx_random.table import NodeSpec, row

I8, U8 = np.dtype(np.int8), np.dtype(np.uint8)
BYTES = (I8, U8)


def scales(d: Draw, shape: Shape, dtype: np.dtype) -> DrawnValue:
    return d.new(np.asarray(d.rng.choice([0.0625, 0.1, 0.25, 0.5, 1.0, 1.5], shape)).astype(dtype))


def spread(d: Draw, x: DrawnValue) -> tuple[Shape, dict[str, Any]]:
    """The shape of a scale of `x`, and its attributes: for the whole, per axis, or per block."""
    if d.opset < 13 or not x.rank or d.chance(0.4):
        return (), {}
    axis = d.axis(x)
    if d.opset >= 21 and d.chance(0.4):
        block = d.integer(1, 3)
        shape = list(x.shape)
        shape[axis] = -(-x.shape[axis] // block)
        return tuple(shape), {"axis": axis, "block_size": block}
    return (x.shape[axis],), {"axis": axis}


@row("QuantizeLinear", rounding=QUANTISED, finite=True, domain=lambda x, *_, **__: largest([x]) < 1e4)
def quantize_linear(d: Draw) -> NodeSpec:
    x = d.value(ok=lambda v: dtypes.kind(v.dtype) == "f" and np.isfinite(v.array.astype(float)).all(), special=False)
    shape, options = spread(d, x)
    dtype = d.pick([t for t in d.types(2) if t in BYTES] * 3 + d.types(2))
    zero = None
    if dtypes.kind(dtype) == "f":
        zero = d.new(np.zeros(shape, dtype))
        options |= d.optional(0.3, saturate=d.integer(0, 1))
    elif dtype != U8 or d.chance(0.5):
        zero = d.new(d.numbers(dtype, shape, special=False))
    return NodeSpec([x, scales(d, shape, x.dtype if x.dtype in d.types(1) else F32), zero], options)


@row("DequantizeLinear")
def dequantize_linear(d: Draw) -> NodeSpec:
    x = d.value(special=False)
    shape, options = spread(d, x)
    zero = None
    if dtypes.kind(x.dtype) == "f":
        zero = d.new(np.zeros(shape, x.dtype)) if d.chance(0.3) else None
    elif x.dtype.name != "int32" and d.chance(0.5):
        zero = d.new(d.numbers(x.dtype, shape, special=False))
    return NodeSpec([x, scales(d, shape, d.dtype(1)), zero], options)


@row("DynamicQuantizeLinear", rounding=QUANTISED, judge="reference")
def dynamic_quantize_linear(d: Draw) -> NodeSpec:
    return NodeSpec([d.value(ok=lambda v: v.size and np.isfinite(v.array).all(), special=False)], {}, 3)


def byte(d: Draw, shape: Shape, dtype: np.dtype | None = None) -> DrawnValue:
    return d.value(dtype=dtype or d.pick(BYTES), shape=shape, high=20)


def zero_point(d: Draw, x: DrawnValue, shape: Shape = ()) -> DrawnValue:
    return d.new(d.numbers(x.dtype, shape, low=0, high=9, special=False))


@row("MatMulInteger", rounding=EXACT)
def matmul_integer(d: Draw) -> NodeSpec:
    m, k, n = d.integer(1, 4), d.integer(1, 4), d.integer(1, 4)
    a, b = byte(d, (*d.shape(d.integer(0, 1)), m, k)), byte(d, (k, n))
    a_zero = zero_point(d, a, d.pick(((), (1,)) if a.rank == 2 else ((),))) if d.chance(0.6) else None
    b_zero = zero_point(d, b, d.pick(((), (1,), (n,)))) if d.chance(0.6) else None
    return NodeSpec([a, b, a_zero, b_zero], {})


@row("ConvInteger", rounding=EXACT)
def conv_integer(d: Draw) -> NodeSpec | None:
    x = image(d, most=2, dtype=U8)
    choice = window(d, x, True)
    if choice is None:
        return None
    kernel, options = choice
    filters = d.integer(1, 3)
    w = byte(d, (filters, x.shape[1], *kernel), U8)
    x_zero = zero_point(d, x) if d.chance(0.6) else None
    return NodeSpec([x, w, x_zero, zero_point(d, w) if d.chance(0.6) else None], options)


@row("QLinearMatMul", rounding=QUANTISED, judge="onnxruntime")  # the reference adds the zero point before it rounds
def qlinear_matmul(d: Draw) -> NodeSpec:
    m, k, n = d.integer(1, 4), d.integer(1, 4), d.integer(1, 4)
    a = byte(d, (m, k))
    b = byte(d, (k, n), a.dtype)
    a_scale, b_scale, y_scale = (scales(d, shape, F32) for shape in ((), d.pick(((), (n,))), ()))
    y = zero_point(d, a)
    return NodeSpec([a, a_scale, zero_point(d, a), b, b_scale, zero_point(d, b, b_scale.shape), y_scale, y], {})


@row("QLinearConv", rounding=QUANTISED, judge="onnxruntime")
def qlinear_conv(d: Draw) -> NodeSpec | None:
    x = image(d, most=2, dtype=d.pick(BYTES))
    choice = window(d, x, True)
    if choice is None:
        return None
    kernel, options = choice
    filters = d.integer(1, 3)
    w = byte(d, (filters, x.shape[1], *kernel), x.dtype)
    w_scale = scales(d, d.pick(((), (filters,))), F32)
    bias = d.new(d.rng.integers(-50, 50, filters).astype(np.int32)) if d.chance(0.5) else None
    y = zero_point(d, x)
    inputs = [x, scales(d, (), F32), zero_point(d, x), w, w_scale, zero_point(d, w), scales(d, (), F32), y, bias]
    return NodeSpec(inputs, options)
