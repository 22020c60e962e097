"""Rows of one-dimensional signals: convolution, correlation, interpolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.ops.probe import result_dtype
from eqfuse.ops.row import Op, PriceClass, Role, Types, need
from eqfuse.ops.sorting import search_levels
from eqfuse.ops.types import TensorType


def _slid(op: str, function: Callable[..., Any]) -> Callable[[Types, tuple], TensorType]:
    def rule(types: Types, attrs: tuple) -> TensorType:
        (a, v), (mode,) = types, attrs
        need(a.rank == v.rank == 1, op, types, "both must be vectors")
        need(a.size > 0 and v.size > 0, op, types, "a vector is empty")
        need(mode in ("full", "same", "valid"), op, types, f"mode {mode!r}: full, same or valid")
        long, short = max(a.size, v.size), min(a.size, v.size)
        extent = {"full": long + short - 1, "same": long, "valid": long - short + 1}[mode]
        return TensorType(result_dtype(function, a.dtype, v.dtype), (extent,))

    return rule


def _flops(types: Types, out: TensorType, _attrs: tuple) -> int:
    return (8 if out.dtype.kind == "c" else 2) * out.size * min(types[0].size, types[1].size)


def _interp(types: Types, _attrs: tuple) -> TensorType:
    """x, xp, fp, and then perhaps the values left and right of xp."""
    x, xp, fp, *ends = types
    need(xp.rank == fp.rank == 1 and xp.shape == fp.shape, "interp", types, "xp and fp must be vectors of one length")
    need(xp.size > 0, "interp", types, "there is nothing to interpolate")
    need(len(ends) in (0, 2) and all(e.shape == () for e in ends), "interp", types, "left and right must be scalars")
    return TensorType(np.dtype(np.complex128 if fp.dtype.kind == "c" else np.float64), x.shape)


def _do_interp(x: np.ndarray, xp: np.ndarray, fp: np.ndarray, *ends_then_period: Any) -> np.ndarray:
    *ends, period = ends_then_period
    left, right = (e[()] for e in ends) if ends else (None, None)
    return np.asarray(np.interp(x, xp, fp, left, right, period))


def _searches(types: Types, out: TensorType, _attrs: tuple) -> int:
    return out.size * search_levels(types[1].size)


_PRICE = PriceClass.TRANSFORM
ROWS = [
    Op("convolve", Role.LIBRARY, 2, ("mode",), _slid("convolve", np.convolve), np.convolve, _flops, _PRICE),
    Op("correlate", Role.LIBRARY, 2, ("mode",), _slid("correlate", np.correlate), np.correlate, _flops, _PRICE),
    Op("interp", Role.LIBRARY, None, ("period",), _interp, _do_interp, _searches, PriceClass.SORTING),
]
