"""Rows of the sliding-window reductions (pooling) over the trailing axes of one tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqfuse.dtypes import lowest
from eqfuse.ops.contractions import window_extents, windows
from eqfuse.ops.row import Op, PriceClass, Role, Rounding, Types, need
from eqfuse.ops.types import TensorType


def _type(name: str) -> Any:
    def rule(types: Types, attrs: tuple) -> TensorType:
        (t,), (window, strides, padding) = types, attrs
        need(len(window) == len(strides) == len(padding) <= t.rank, name, types, "one window, stride, padding per axis")
        need(
            all(before < k and after < k for k, (before, after) in zip(window, padding, strict=True)),
            name, types, "padding must be smaller than the window",
        )  # fmt: skip
        ones = (1,) * len(window)
        extents = window_extents(name, types, window, strides, padding, ones)
        return TensorType(t.dtype, (*t.shape[: t.rank - len(window)], *extents))

    return rule


def _flops(_types: Types, out: TensorType, attrs: tuple) -> int:
    window, _strides, _padding = attrs
    return out.size * math.prod(window)


def _axes(window: tuple) -> tuple[int, ...]:
    return tuple(range(-len(window), 0))


def _window_max(x: np.ndarray, window: tuple, strides: tuple, padding: tuple) -> np.ndarray:
    return windows(x, window, strides, padding, (1,) * len(window), lowest(x.dtype)).max(axis=_axes(window))


def _window_sum(x: np.ndarray, window: tuple, strides: tuple, padding: tuple) -> np.ndarray:
    return windows(x, window, strides, padding, (1,) * len(window), 0).sum(axis=_axes(window), dtype=x.dtype)


_ATTRS = ("window", "strides", "padding")
_PRICE = PriceClass.SIMPLE
ROWS = [
    Op("window_max", Role.WINDOW, 1, _ATTRS, _type("window_max"), _window_max, _flops, _PRICE, Rounding.NEVER),
    Op("window_sum", Role.WINDOW, 1, _ATTRS, _type("window_sum"), _window_sum, _flops, _PRICE),
]
