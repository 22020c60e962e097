"""Rows of sorting and searching."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.ops.row import Op, PriceClass, Role, Rounding, Types, need
from eqfuse.ops.types import TensorType

INDEX_DTYPE = np.dtype(np.intp)


def _along(op: str, indices: bool) -> Callable[[Types, tuple], TensorType]:
    """Values along one axis in another order, or their indices. The axis comes first among the attributes."""

    def rule(types: Types, attrs: tuple) -> TensorType:
        (t,), (axis, _) = types, attrs
        need(-t.rank <= axis < 0, op, types, f"axis {axis} is not in -{t.rank}..-1")
        return TensorType(INDEX_DTYPE if indices else t.dtype, t.shape)

    return rule


def _partition(op: str, indices: bool) -> Callable[[Types, tuple], TensorType]:
    along = _along(op, indices)

    def rule(types: Types, attrs: tuple) -> TensorType:
        result_type = along(types, attrs)
        axis, kth = attrs
        n = types[0].shape[axis]
        need(all(-n <= k < n for k in kth), op, types, f"kth {kth} is out of bounds ({n})")
        return result_type

    return rule


def _lexsort(types: Types, attrs: tuple) -> TensorType:
    (axis,), first = attrs, types[0]
    need(all(t.shape == first.shape for t in types), "lexsort", types, "the keys must have one shape")
    need(-first.rank <= axis < 0, "lexsort", types, f"axis {axis} is not in -{first.rank}..-1")
    return TensorType(INDEX_DTYPE, first.shape)


def _searchsorted(types: Types, attrs: tuple) -> TensorType:
    (a, v), (side,) = types, attrs
    need(a.rank == 1, "searchsorted", types, "the sorted values must be a vector")
    need(a.dtype == v.dtype, "searchsorted", types, "cast both arguments to one dtype first")
    need(side in ("left", "right"), "searchsorted", types, "side is left or right")
    return TensorType(INDEX_DTYPE, v.shape)


def _digitize(types: Types, _attrs: tuple) -> TensorType:
    x, bins = types
    need(bins.rank == 1 and x.dtype.kind != "c", "digitize", types, "it takes real values and a vector of bins")
    return TensorType(INDEX_DTYPE, x.shape)


def _isin(types: Types, _attrs: tuple) -> TensorType:
    return TensorType(np.dtype(bool), types[0].shape)


def search_levels(count: int) -> int:
    """Of a search tree of so many values."""
    return max(1, math.ceil(math.log2(max(count, 1))))


def _steps(types: Types, _out: TensorType, attrs: tuple) -> int:
    """One step for each value and level of the tree that sorts it."""
    return sum(t.size for t in types) * search_levels(types[0].extent(attrs[0]))


def _steps_to_part(types: Types, _out: TensorType, _attrs: tuple) -> int:
    """To find a median takes (2 + 2 ln 2) n comparisons (Knuth, Mathematical Analysis of Algorithms, 1971)."""
    return int((2 + 2 * math.log(2)) * types[0].size)


def _searches(types: Types, _out: TensorType, _attrs: tuple) -> int:
    places, values = types
    return values.size * search_levels(places.size)


def _steps_to_bins(types: Types, _out: TensorType, _attrs: tuple) -> int:
    values, bins = types
    return values.size * search_levels(bins.size)


def _steps_of_both(types: Types, _out: TensorType, _attrs: tuple) -> int:
    both = sum(t.size for t in types)
    return both * search_levels(both)


def _kind(stable: bool) -> Any:
    return "stable" if stable else None


def _do_sort(x: np.ndarray, axis: int, stable: bool) -> np.ndarray:
    return np.sort(x, axis, _kind(stable))


def _do_argsort(x: np.ndarray, axis: int, stable: bool) -> np.ndarray:
    return np.argsort(x, axis, _kind(stable))


def _do_partition(x: np.ndarray, axis: int, kth: tuple[int, ...]) -> np.ndarray:
    return np.partition(x, kth, axis)


def _do_argpartition(x: np.ndarray, axis: int, kth: tuple[int, ...]) -> np.ndarray:
    return np.argpartition(x, kth, axis)


def _do_lexsort(*keys_then_axis: Any) -> np.ndarray:
    *keys, axis = keys_then_axis
    return np.lexsort(keys, axis)


_L = Role.LIBRARY
_PRICE = PriceClass.SORTING
ROWS = [
    Op("sort", _L, 1, ("axis", "stable"), _along("sort", False), _do_sort, _steps, _PRICE, Rounding.NEVER),
    Op("argsort", _L, 1, ("axis", "stable"), _along("argsort", True), _do_argsort, _steps, _PRICE),
    Op("partition", _L, 1, ("axis", "kth"), _partition("partition", False), _do_partition, _steps_to_part,
       _PRICE, Rounding.NEVER),
    Op("argpartition", _L, 1, ("axis", "kth"), _partition("argpartition", True), _do_argpartition, _steps_to_part,
       _PRICE),
    Op("lexsort", _L, None, ("axis",), _lexsort, _do_lexsort, _steps, _PRICE),
    Op("searchsorted", _L, 2, ("side",), _searchsorted, np.searchsorted, _searches, _PRICE),
    Op("digitize", _L, 2, ("right",), _digitize, np.digitize, _steps_to_bins, _PRICE),
    Op("isin", _L, 2, (), _isin, np.isin, _steps_of_both, _PRICE),
]  # fmt: skip
