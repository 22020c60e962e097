"""ONNX quantisation: to integers of a scale and back, and products of quantised arrays.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.errors import UnsupportedOp
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.elementwise import saturating_cast
from eqfuse.frontends.onnx.table import axis_of, dtype_of, operator
from eqfuse.frontends.onnx.windows import Ints, conv


def _spread(v: Any, x: Any, axis: int, block: int) -> Any:
    """A scale or zero point as it meets `x`: one number, one per index of `axis`, or one per block along it."""
    if v.size == 1 and not block:
        return v.reshape(())
    along = axis_of(axis, x.ndim)
    if not block:
        return v.reshape((-1,) + (1,) * (x.ndim - 1 - along))
    return lazy.repeat(v, block, along)[(slice(None),) * along + (slice(x.shape[along]),)]


def _to_integers(x: Any, zero: Any, dtype: np.dtype) -> Any:
    """Rounded, shifted by the zero point, and clipped to what `dtype` holds."""
    limits = np.iinfo(dtype)
    x = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    shifted = lazy.rint(x) if zero is None else lazy.rint(x) + zero.astype(x.dtype)
    return lazy.minimum(lazy.maximum(shifted, limits.min), limits.max).astype(dtype)


@operator("QuantizeLinear")
def quantize_linear(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype) if output_dtype else np.dtype(np.uint8)
    exact = dtype_of(precision) if precision else np.result_type(x.dtype, scale.dtype)
    scaled = x.astype(exact) / _spread(scale, x, axis, block_size).astype(exact)
    if kind(dtype) == "f":
        return saturating_cast(scaled, dtype, saturate)
    return _to_integers(scaled, None if zero is None else _spread(zero, x, axis, block_size), dtype)


@operator("DequantizeLinear")
def dequantize_linear(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    wide = x.astype(np.float32)
    if zero is not None and kind(x.dtype) in "iu":
        wide = wide - _spread(zero, x, axis, block_size).astype(np.float32)
    y = wide * _spread(scale, x, axis, block_size).astype(np.float32)
    return y.astype(dtype_of(output_dtype) if output_dtype else scale.dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Any) -> Any:
    high, low = lazy.maximum(lazy.max(x), 0), lazy.minimum(lazy.min(x), 0)
    scale = lazy.where(high == low, 1, high - low).astype(x.dtype) / 255
    zero = lazy.rint(lazy.minimum(lazy.maximum(-low / scale, 0), 255))
    y = lazy.minimum(lazy.maximum(lazy.rint(x / scale) + zero, 0), 255)
    return y.astype(np.uint8), scale, zero.astype(np.uint8)


def _centred(x: Any, zero: Any, along: int | None = None) -> Any:
    """`x` as int32, its zero point taken off; a vector of them belongs to axis `along`."""
    wide = x.astype(np.int32)
    if zero is None:
        return wide
    off = zero.astype(np.int32)
    if zero.size == 1:
        off = off.reshape(())
    elif along is not None and zero.ndim == 1:
        off = off.reshape((-1,) + (1,) * (x.ndim - 1 - along % x.ndim))
    return wide - off


@operator("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return _centred(a, a_zero, -2) @ _centred(b, b_zero, -1)


@operator("ConvInteger")
def conv_integer(
    x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *, auto_pad: str = "NOTSET", dilations: Ints = (),
    group: int = 1, kernel_shape: Ints = (), pads: Ints = (), strides: Ints = (),
) -> Any:  # fmt: skip
    return conv(
        _centred(x, x_zero), _centred(w, w_zero, 0), auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    if kind(a.dtype) == "f":
        raise UnsupportedOp("QLinearMatMul of float8")
    product = _centred(a, a_zero, -2) @ _centred(b, b_zero, -1)
    scales = (_spread(a_scale, product, -2, 0), _spread(b_scale, product, -1, 0), _spread(y_scale, product, -2, 0))
    factor = scales[0] * scales[1] / scales[2]
    exact = np.result_type(product.dtype, factor.dtype)
    return _to_integers(product.astype(exact) * factor.astype(exact), y_zero.reshape(()), y_zero.dtype)


@operator("QLinearConv")
def qlinear_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any,
    bias: Any = None, *, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1, kernel_shape: Ints = (),
    pads: Ints = (), strides: Ints = (),
) -> Any:  # fmt: skip
    product = conv(
        _centred(x, x_zero), _centred(w, w_zero, 0), bias, auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    factor = x_scale.reshape(()) * _spread(w_scale, product, 1, 0) / y_scale.reshape(())
    return _to_integers(product.astype(np.float32) * factor, y_zero.reshape(()), y_zero.dtype)
