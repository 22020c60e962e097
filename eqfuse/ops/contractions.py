"""Rows of the products: matrix product and convolution."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqfuse.dtypes import ADDED, moved
from eqfuse.ops.elementwise import broadcast_shapes
from eqfuse.ops.row import Op, PriceClass, Role, Types, need
from eqfuse.ops.types import TensorType

_PER_TERM = {"c": 8}  # flops of one product added to a sum; 2 where it is not complex


def _matmul(types: Types, _attrs: tuple) -> TensorType:
    """[..., m, k] @ [..., k, n]; leading axes broadcast. The tracer reshapes vectors to rank 2."""
    need(len(types) == 2, "matmul", types, "it takes two arguments")
    a, b = types
    need(a.rank >= 2 and b.rank >= 2, "matmul", types, "both arguments need rank 2 or more")
    need(a.dtype == b.dtype, "matmul", types, "cast both arguments to one dtype first")
    need(a.dtype not in ADDED, "matmul", types, "NumPy multiplies them as float32: cast both arguments first")
    need(a.shape[-1] == b.shape[-2], "matmul", types, "inner extents {} and {} differ", a.shape[-1], b.shape[-2])
    try:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        need(False, "matmul", types, f"leading axes {a.shape[:-2]} and {b.shape[:-2]} do not broadcast")
        raise
    return TensorType(a.dtype, (*batch, a.shape[-2], b.shape[-1]))


def _matmul_flops(types: Types, out: TensorType, _attrs: tuple) -> int:
    return _PER_TERM.get(out.dtype.kind, 2) * out.size * types[0].shape[-1]


def _conv(types: Types, attrs: tuple) -> TensorType:
    """x[n, c, *spatial], w[o, c / groups, *kernel]; attrs: strides, padding (before, after), dilations, groups."""
    need(len(types) == 2, "conv", types, "it takes an image batch and a weight")
    (x, w), (strides, padding, dilations, groups) = types, attrs
    spatial = x.rank - 2
    need(spatial >= 1 and w.rank == x.rank, "conv", types, "both need rank 2 + number of spatial axes")
    need(x.dtype == w.dtype, "conv", types, "cast both arguments to one dtype first")
    per_axis = len(strides) == len(padding) == len(dilations) == spatial
    need(per_axis, "conv", types, "one stride, padding, dilation per axis")
    need(x.shape[1] == w.shape[1] * groups, "conv", types, f"channels do not fit with groups={groups}")
    need(w.shape[0] % groups == 0, "conv", types, f"{w.shape[0]} filters do not divide into {groups} groups")
    extents = window_extents("conv", types, w.shape[2:], strides, padding, dilations)
    return TensorType(x.dtype, (x.shape[0], w.shape[0], *extents))


def window_extents(
    op: str, types: Types, window: tuple, strides: tuple, padding: tuple, dilations: tuple
) -> tuple[int, ...]:
    """How often a window fits along each trailing axis of `types[0]`."""
    extents = []
    axes = zip(types[0].shape[-len(window) :], window, strides, padding, dilations, strict=True)
    for n, k, stride, (before, after), dilation in axes:
        room = n + before + after - ((k - 1) * dilation + 1)
        need(room >= 0 and stride > 0 and dilation > 0, op, types, f"window {window} does not fit")
        extents.append(room // stride + 1)
    return tuple(extents)


def _conv_flops(types: Types, out: TensorType, _attrs: tuple) -> int:
    return _PER_TERM.get(out.dtype.kind, 2) * out.size * math.prod(types[1].shape[1:])


def windows(x: np.ndarray, window: tuple, strides: tuple, padding: tuple, dilations: tuple, fill: object) -> np.ndarray:
    """A view [..., *positions, *window] of the sliding windows over the trailing axes of padded `x`."""
    k = len(window)
    if any(p != (0, 0) for p in padding):
        x = np.pad(x, [(0, 0)] * (x.ndim - k) + list(padding), constant_values=fill)  # type: ignore[call-overload]
    reach = tuple((n - 1) * d + 1 for n, d in zip(window, dilations, strict=True))
    view = moved(sliding_window_view, x, reach, axis=tuple(range(-k, 0)))
    steps = [slice(None)] * (x.ndim - k) + [slice(None, None, s) for s in strides]
    return view[(*steps, *(slice(None, None, d) for d in dilations))]


def _do_conv(x: np.ndarray, w: np.ndarray, strides: tuple, padding: tuple, dilations: tuple, groups: int) -> np.ndarray:
    k = x.ndim - 2
    view = windows(x, w.shape[2:], strides, padding, dilations, 0)
    filters, channels = w.shape[0] // groups, w.shape[1]
    view = np.moveaxis(view, 1, 1 + k)  # [n, *positions, c, *kernel]
    parts = []
    for g in range(groups):
        columns = view[(slice(None),) * (1 + k) + (slice(g * channels, (g + 1) * channels),)]
        rows = w[g * filters : (g + 1) * filters].reshape(filters, -1)
        # (not np.dot, which for arrays of one element takes 0 * NaN to be 0)
        parts.append(columns.reshape(*columns.shape[: 1 + k], rows.shape[1]) @ rows.T)
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1).astype(x.dtype, copy=False)  # bfloat16 as float32


ROWS = [
    Op("matmul", Role.CONTRACTION, 2, (), _matmul, np.matmul, _matmul_flops, PriceClass.PRODUCT),
    Op("conv", Role.CONTRACTION, 2, ("strides", "padding", "dilations", "groups"), _conv, _do_conv, _conv_flops,
       PriceClass.PRODUCT, partial=True),
]  # fmt: skip
