"""Rows of numpy.fft: the transforms along one axis. `n` is the extent NumPy cuts or pads that axis to before (after,
for `irfft`); more axes are one row after another, as NumPy itself does it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.ops.probe import result_dtype
from eqfuse.ops.row import Op, PriceClass, Role, Types, need
from eqfuse.ops.types import TensorType

TRANSFORMS: dict[str, Callable[..., Any]] = {
    "fft": np.fft.fft, "ifft": np.fft.ifft, "rfft": np.fft.rfft, "irfft": np.fft.irfft,
}  # fmt: skip


def _rule(op: str, function: Callable[..., Any]) -> Callable[[Types, tuple], TensorType]:
    def two(x: np.ndarray) -> np.ndarray:
        return function(np.repeat(x, 2))

    def rule(types: Types, attrs: tuple) -> TensorType:
        (t,), (n, axis, norm) = types, attrs
        need(-t.rank <= axis < 0, op, types, f"axis {axis} is not in -{t.rank}..-1")
        need(n >= 1, op, types, f"invalid number of data points ({n}) specified")
        need(norm in (None, "backward", "ortho", "forward"), op, types, f"norm {norm!r}: backward, ortho or forward")
        need(op != "rfft" or t.dtype.kind != "c", op, types, "it transforms real values")
        extent = n // 2 + 1 if op == "rfft" else n
        shape = tuple(extent if i - t.rank == axis else e for i, e in enumerate(t.shape))
        return TensorType(result_dtype(two, t.dtype), shape)

    return rule


def _flops(types: Types, out: TensorType, attrs: tuple) -> int:
    """Of real numbers: half where one side is real."""
    n, _axis, _norm = attrs
    size = max(types[0].size, out.size)
    each = 5 if types[0].dtype.kind == out.dtype.kind == "c" else 2.5
    return int(each * size * math.log2(max(n, 2)))


ROWS = [
    Op(name, Role.LIBRARY, 1, ("n", "axis", "norm"), _rule(name, function), function, _flops, PriceClass.TRANSFORM)
    for name, function in TRANSFORMS.items()
]
