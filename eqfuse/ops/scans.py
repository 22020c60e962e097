"""Rows of the scans and of what ufuncs do along an axis: running sums, and reductions without a kernel of their own.

A ufunc is an attribute, by NumPy's name for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from eqfuse.errors import DtypeError
from eqfuse.ops.reductions import _widened
from eqfuse.ops.row import INT64, Op, PriceClass, Role, Types, need
from eqfuse.ops.types import TensorType

# by NumPy's names, from before a trace puts stand-ins there
_UFUNCS = {name: f for name, f in vars(np).items() if isinstance(f, np.ufunc)}


def folds(name: str) -> np.ufunc | None:
    """NumPy's ufunc `name`, when it takes two values of one dtype (unlike ldexp) to one."""
    ufunc = _UFUNCS.get(name)
    if ufunc is None or (ufunc.nin, ufunc.nout, ufunc.signature) != (2, 1, None):
        return None
    return ufunc if any(t[0] == t[1] for t in ufunc.types) else None


@cache
def reduction_loop(function: str, dtype: np.dtype, wanted: np.dtype | None = None) -> tuple[np.dtype, np.dtype]:
    """The dtype to which NumPy casts values of `dtype` before it folds them by the ufunc `function`, and the result's.
    `wanted`: the user's ``dtype=``."""
    ufunc = _UFUNCS[function]
    if wanted is None and function in ("add", "multiply"):
        dtype = _widened(dtype)
    chosen = {} if wanted is None else {"signature": (wanted, None, None)}
    try:
        loop = ufunc.resolve_dtypes((None, dtype, None), casting="unsafe", reduction=True, **chosen)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"{ufunc.__name__} cannot fold {dtype.name}: {error}") from None
    return loop[1], loop[2]


def _axis(op: str, types: Types, axis: int) -> None:
    rank = types[0].rank
    need(-rank <= axis < 0, op, types, f"axis {axis} is not in -{rank}..-1")


def _folded(op: str, types: Types, function: str) -> np.dtype:
    need(folds(function) is not None, op, types, f"{function!r} takes no two values")
    expected, result = reduction_loop(function, types[0].dtype)
    need(expected == types[0].dtype, op, types, f"cast the argument to {expected.name} first")
    return result


def _accumulate(types: Types, attrs: tuple) -> TensorType:
    function, axis = attrs
    _axis("accumulate", types, axis)
    return TensorType(_folded("accumulate", types, function), types[0].shape)


def _reduceat(types: Types, attrs: tuple) -> TensorType:
    (t, indices), (function, axis) = types, attrs
    _axis("reduceat", types, axis)
    vector = indices.rank == 1 and indices.dtype.kind in "iu"
    need(vector, "reduceat", types, "the indices must be a vector of integers")
    shape = tuple(indices.size if i - t.rank == axis else n for i, n in enumerate(t.shape))
    return TensorType(_folded("reduceat", types[:1], function), shape)


def _fold(types: Types, attrs: tuple) -> TensorType:
    (t,), (function, axes) = types, attrs
    need(all(-t.rank <= a < 0 for a in axes), "fold", types, f"axes {axes} are not all in -{t.rank}..-1")
    empty = any(t.shape[a] == 0 for a in axes)
    need(not empty or _UFUNCS[function].identity is not None, "fold", types, f"{function} over nothing has no value")
    shape = tuple(1 if i - t.rank in axes else n for i, n in enumerate(t.shape))
    return TensorType(_folded("fold", types, function), shape)


def _do_accumulate(x: np.ndarray, function: str, axis: int) -> np.ndarray:
    return _UFUNCS[function].accumulate(x, axis)


def _do_reduceat(x: np.ndarray, indices: np.ndarray, function: str, axis: int) -> np.ndarray:
    return _UFUNCS[function].reduceat(x, indices, axis)


def _do_fold(x: np.ndarray, function: str, axes: tuple[int, ...]) -> np.ndarray:
    axis = axes if len(axes) != 1 else axes[0]
    return _UFUNCS[function].reduce(x, axis=axis, keepdims=True)


def _running(name: str) -> Callable[[Types, tuple], TensorType]:
    def rule(types: Types, attrs: tuple) -> TensorType:
        (axis,) = attrs
        _axis(name, types, axis)
        return TensorType(_widened(types[0].dtype), types[0].shape)

    return rule


def _cumsum(x: np.ndarray, axis: int) -> np.ndarray:
    return np.cumsum(x, axis=axis)


def _cumprod(x: np.ndarray, axis: int) -> np.ndarray:
    return np.cumprod(x, axis=axis)


def _per_element(types: Types, _out: TensorType, _attrs: tuple) -> int:
    return types[0].size


_PRICE = PriceClass.ONE_BY_ONE
ROWS = [
    Op("cumsum", Role.SCAN, 1, ("axis",), _running("cumsum"), _cumsum, _per_element, _PRICE),
    Op("cumprod", Role.SCAN, 1, ("axis",), _running("cumprod"), _cumprod, _per_element, _PRICE),
    Op("accumulate", Role.SCAN, 1, ("ufunc", "axis"), _accumulate, _do_accumulate, _per_element, _PRICE),
    Op("reduceat", Role.LIBRARY, 2, ("ufunc", "axis"), _reduceat, _do_reduceat, _per_element, _PRICE,
       own_dtypes=(None, INT64)),
    Op("fold", Role.LIBRARY, 1, ("ufunc", "axes"), _fold, _do_fold, _per_element, _PRICE),
]  # fmt: skip
