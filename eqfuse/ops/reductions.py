"""Rows of the reductions. Axes are negative and ascending, and are kept with extent 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.ops.row import Op, PriceClass, Role, Rounding, Types, need
from eqfuse.ops.types import TensorType

PLACES = {"argmax": "max", "argmin": "min"}  # what finds a place: the reduction that has the value there


def _type_rule(name: str, result: Callable[[np.dtype], np.dtype], empty: bool) -> Callable[[Types, tuple], TensorType]:
    def rule(types: Types, attrs: tuple) -> TensorType:
        need(len(types) == 1, name, types, "it takes one argument")
        (t,), (axes,) = types, attrs
        need(all(-t.rank <= a < 0 for a in axes), name, types, "axes {} are not all in -{}..-1", axes, t.rank)
        need(list(axes) == sorted(set(axes)), name, types, "axes {} must ascend without repeats", axes)
        need(bool(axes) or not t.rank, name, types, "a reduction over no axes is a cast")
        need(empty or all(t.shape[a] > 0 for a in axes), name, types, "a reduction over nothing has no value")
        shape = tuple(1 if i - t.rank in axes else n for i, n in enumerate(t.shape))
        return TensorType(result(t.dtype), shape)

    return rule


def _widened(dtype: np.dtype) -> np.dtype:
    """NumPy's accumulator: small integers and bool widen to the platform's integer, floats stay."""
    if dtype.kind in "bi" and dtype.itemsize < 8:
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" and dtype.itemsize < 8 else dtype


def _same(dtype: np.dtype) -> np.dtype:
    return dtype


def _index(_dtype: np.dtype) -> np.dtype:
    return np.dtype(np.intp)


def _boolean(_dtype: np.dtype) -> np.dtype:
    return np.dtype(np.bool_)


def _meaning(function: Any) -> Callable[[np.ndarray, tuple[int, ...]], Any]:
    def call(x: np.ndarray, axes: tuple[int, ...]) -> Any:
        return function(x, axis=axes, keepdims=True)

    return call


def arg_meaning(function: Any) -> Callable[[np.ndarray, tuple[int, ...]], Any]:
    """What an operator means that finds a place along one axis by NumPy's `function`."""
    def call(x: np.ndarray, axes: tuple[int, ...]) -> Any:
        return function(x, axis=axes[0], keepdims=True)

    return call


def _one_per_input(types: Types, _out: TensorType, _attrs: tuple) -> int:
    return types[0].size


_DTYPES: dict[str, Callable[[np.dtype], np.dtype]] = {}


def reduction_dtype(name: str, dtype: np.dtype) -> np.dtype:
    """Of the reduction `name` of values of `dtype`."""
    return _DTYPES[name](dtype)


def _row(name: str, meaning: Any, result: Callable[[np.dtype], np.dtype], empty: bool, **facts: Any) -> Op:
    _DTYPES[name] = result
    rule = _type_rule(name, result, empty)
    return Op(name, Role.REDUCTION, 1, ("axes",), rule, meaning, _one_per_input, PriceClass.REDUCTION, **facts)


ROWS = [
    _row("sum", _meaning(np.sum), _widened, True, joined_by="add"),
    _row("prod", _meaning(np.prod), _widened, True, joined_by="multiply"),
    _row("max", _meaning(np.max), _same, False, joined_by="maximum", rounding=Rounding.NEVER),
    _row("min", _meaning(np.min), _same, False, joined_by="minimum", rounding=Rounding.NEVER),
    _row("any", _meaning(np.any), _boolean, True, joined_by="logical_or"),
    _row("all", _meaning(np.all), _boolean, True, joined_by="logical_and"),
    _row("argmax", arg_meaning(np.argmax), _index, False),
    _row("argmin", arg_meaning(np.argmin), _index, False),
]
