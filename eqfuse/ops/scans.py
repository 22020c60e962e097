"""Rows of the library calls that fusion works around."""

from __future__ import annotations

import numpy as np

from eqfuse.ir import TensorType
from eqfuse.ops.reductions import _widened
from eqfuse.ops.row import Op, Role, Types, need


def _along(name: str, widen: bool) -> object:
    def rule(types: Types, attrs: tuple) -> TensorType:
        (t,), (axis,) = types, attrs
        need(-t.rank <= axis < 0, name, types, f"axis {axis} is not in -{t.rank}..-1")
        return TensorType(_widened(t.dtype) if widen else t.dtype, t.shape)

    return rule


def _per_element(types: Types, _out: TensorType, _attrs: tuple) -> int:
    return types[0].size


def _sort(x: np.ndarray, axis: int) -> np.ndarray:
    return np.sort(x, axis=axis)


def _cumsum(x: np.ndarray, axis: int) -> np.ndarray:
    return np.cumsum(x, axis=axis)


ROWS = [
    Op("cumsum", Role.LIBRARY, 1, ("axis",), _along("cumsum", True), _cumsum, _per_element),  # type: ignore[arg-type]
    Op("sort", Role.LIBRARY, 1, ("axis",), _along("sort", False), _sort, _per_element),  # type: ignore[arg-type]
]
