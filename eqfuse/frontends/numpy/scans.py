"""Scans, and what ufuncs do along an axis: accumulate, reduce and reduceat of every ufunc of two values.

In: array-function calls and ufunc methods on tracers. Out: library calls, or a kernel's own reduction where it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.promotion import elementwise, lift, operand, with_dtype
from eqfuse.frontends.numpy.reductions import finish, negative_axes
from eqfuse.frontends.numpy.registry import TRACED_METHODS, implements
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.graph import const, node
from eqfuse.ops.scans import folds, reduction_loop

RUNNING = {"add": "cumsum", "multiply": "cumprod"}  # the scans with rows of their own
BOOLEAN = {"add": "logical_or", "multiply": "logical_and"}
REDUCES = {
    "add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min,
    "logical_and": np.all, "logical_or": np.any,
}  # fmt: skip


def _loop(ufunc: str, dtype: np.dtype, wanted: Any) -> tuple[str, np.dtype, np.dtype]:
    """The ufunc to fold with, the dtype to fold in, and the result's. Sums of bool are unions, if the user wants bool;
    of small integers they are taken in wide ones, where only the low bits of a result matter."""
    loop_dtype, result = reduction_loop(ufunc, dtype, None if wanted is None else np.dtype(wanted))
    if ufunc in BOOLEAN and loop_dtype.kind == "b":
        return BOOLEAN[ufunc], loop_dtype, result
    return ufunc, reduction_loop(ufunc, loop_dtype)[0], result


def accumulated(ufunc: str, x: Tracer, axis: int, dtype: Any) -> Tracer:
    """``ufunc.accumulate`` along one axis."""
    if x.ndim == 0:
        raise ShapeError("cannot accumulate on a scalar")
    (along,) = negative_axes(axis, x.ndim)
    ufunc, loop_dtype, result = _loop(ufunc, x.dtype, dtype)
    if ufunc in RUNNING:
        prefixes = node(RUNNING[ufunc], (x.astype(loop_dtype).node,), (along,))
    else:
        prefixes = node("accumulate", (x.astype(loop_dtype).node,), (ufunc, along))
    return wrap(prefixes).astype(result)


def _cumulative(ufunc: str, a: Any, axis: Any, dtype: Any) -> Tracer:
    x = lift(a)
    if axis is None or x.ndim == 0:
        if axis not in (None, 0, -1):
            raise ShapeError(f"axis {axis} is out of bounds for array of dimension {x.ndim}")
        x, axis = x.reshape(-1), 0
    return accumulated(ufunc, x, axis, dtype)


@implements(np.cumsum)
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Tracer:
    return _cumulative("add", a, axis, dtype)


@implements(np.cumprod)
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Tracer:
    return _cumulative("multiply", a, axis, dtype)


def _with_initial(ufunc: str, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Tracer:
    x = lift(x)
    if x.ndim == 0:
        x = x.reshape(1)
    if axis is None:
        if x.ndim > 1:
            raise ShapeError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    prefixes = accumulated(ufunc, x, axis, dtype)
    if not include_initial:
        return prefixes
    (along,) = negative_axes(axis, x.ndim)
    shape = tuple(1 if i - x.ndim == along else n for i, n in enumerate(x.shape))
    first = tidy.broadcast_to(const(0 if ufunc == "add" else 1, prefixes.dtype), shape)
    return lazy.concatenate((wrap(first), prefixes), axis)


@implements(np.cumulative_sum)
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: None = None, include_initial: bool = False
) -> Tracer:
    return _with_initial("add", x, axis, dtype, include_initial)


@implements(np.cumulative_prod)
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: None = None, include_initial: bool = False
) -> Tracer:
    return _with_initial("multiply", x, axis, dtype, include_initial)


def without_nan(a: Any, value: int) -> Tracer:
    x = lift(a)
    return elementwise("where", elementwise("isnan", x), value, x) if x.dtype.kind in "fc" else x


@implements(np.nancumsum)
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Tracer:
    return cumsum(without_nan(a, 0), axis, dtype)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Tracer:
    return cumprod(without_nan(a, 1), axis, dtype)


# ---- ufunc methods


def _reduce(ufunc: np.ufunc) -> Callable[..., Tracer]:
    name = ufunc.__name__

    def reduce(
        array: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = np._NoValue,
    ) -> Tracer:  # fmt: skip
        x = lift(array)
        if isinstance(axis, list):
            raise ShapeError("'list' object cannot be interpreted as an integer")
        axes = () if x.ndim == 0 and axis in (0, -1, None) else negative_axes(axis, x.ndim)
        absent = initial is np._NoValue or (initial is None and ufunc.identity is not None)
        if initial is None and any(x.shape[a] == 0 for a in axes):
            raise ShapeError(f"zero-size array to reduction operation {name} which has no identity")
        folded, loop_dtype, result = _loop(name, x.dtype, dtype)
        if len(axes) > 1 and not _in_any_order(folded, loop_dtype):
            raise ShapeError(f"reduction operation {name!r} is not reorderable, so at most one axis may be given")
        x = x.astype(loop_dtype)
        if not absent and initial is not None:
            return _started(folded, x, axes, initial, keepdims).astype(result)
        return finish(_fold(folded, x, axes).node, axes, keepdims).astype(result)

    return reduce


@cache
def _in_any_order(ufunc: str, dtype: np.dtype) -> bool:
    """Does NumPy reduce over several axes at once?"""
    try:
        getattr(np, ufunc).reduce(np.ones((1, 1), dtype), axis=(0, 1))
    except ValueError:
        return False
    return True


def _fold(ufunc: str, x: Tracer, axes: tuple[int, ...]) -> Tracer:
    """`x` reduced over `axes`, which stay with extent 1."""
    return wrap(node("fold", (x.node,), (ufunc, tuple(sorted(axes)))))


def _started(ufunc: str, x: Tracer, axes: tuple[int, ...], initial: Any, keepdims: bool) -> Tracer:
    """`x` reduced from `initial` on: one more value along an axis, before all others."""
    first = wrap(with_dtype(operand(initial), x.dtype))
    if not axes:
        return finish(_fold(ufunc, lazy.stack((lazy.broadcast_to(first, x.shape), x), -1), (-1,)).node, (-1,), False)
    along, *others = axes
    if others:
        x = _fold(ufunc, x, tuple(others))
    shape = tuple(1 if i - x.ndim == along else n for i, n in enumerate(x.shape))
    x = lazy.concatenate((lazy.broadcast_to(first, shape), x), along)
    return finish(_fold(ufunc, x, (along,)).node, axes, keepdims)


def _reduce_as(ufunc: np.ufunc, function: Any) -> Callable[..., Tracer]:
    """The reduction that has a kernel of its own."""

    def reduce(
        array: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = np._NoValue,
    ) -> Tracer:  # fmt: skip
        summed = function in (np.sum, np.prod)
        special = (initial is not np._NoValue and not summed) or initial is None or (dtype is not None and not summed)
        if special:
            return _reduce(ufunc)(array, axis, dtype, None, keepdims, initial)
        kwargs = {"dtype": dtype} if dtype is not None else {}
        if initial is not np._NoValue:
            kwargs["initial"] = initial
        return function(lift(array), axis=axis, keepdims=keepdims, **kwargs)

    return reduce


def _accumulate(ufunc: np.ufunc) -> Callable[..., Tracer]:
    def accumulate(array: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Tracer:
        return accumulated(ufunc.__name__, lift(array), axis, dtype)

    return accumulate


def _reduceat(ufunc: np.ufunc) -> Callable[..., Tracer]:
    name = ufunc.__name__

    def reduceat(array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Tracer:
        x, places = lift(array), lift(indices)
        if places.ndim != 1 or (places.dtype.kind not in "iub" and places.size):
            raise ShapeError(f"np.{name}.reduceat takes a vector of integer indices, not {places.dtype} {places.shape}")
        (along,) = negative_axes(axis, x.ndim)
        folded, loop_dtype, result = _loop(name, x.dtype, dtype)
        reduced = node("reduceat", (x.astype(loop_dtype).node, places.astype(np.intp).node), (folded, along))
        return wrap(reduced).astype(result)

    return reduceat


for _name in dir(np):
    _ufunc = folds(_name)
    if _ufunc is not None and _ufunc.__name__ == _name:
        TRACED_METHODS[_ufunc, "reduce"] = _reduce_as(_ufunc, REDUCES[_name]) if _name in REDUCES else _reduce(_ufunc)
        TRACED_METHODS[_ufunc, "accumulate"] = _accumulate(_ufunc)
        TRACED_METHODS[_ufunc, "reduceat"] = _reduceat(_ufunc)
