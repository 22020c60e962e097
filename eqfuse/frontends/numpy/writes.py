"""NumPy's functions that write into their first argument.

In: array-function calls on tracers. Out: nothing; the array, and all views of it, hold the new values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.errors import DtypeError, ShapeError, TraceError
from eqfuse.frontends.numpy.indexing import assign_items
from eqfuse.frontends.numpy.number import number_kind
from eqfuse.frontends.numpy.promotion import as_dtype, elementwise, fitted, lift
from eqfuse.frontends.numpy.reductions import negative_axes
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.selection import Selection
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap

_KINDS = {bool: 0, int: 1, float: 3, complex: 4}  # the least kind of dtype that takes them


def _written(array: Any, function: str) -> Tracer:
    if isinstance(array, Tracer):
        return array
    raise TraceError(
        f"{function} would write a traced value into a {type(array).__name__} k of plain numbers. Make it an array "
        "that takes traced values: k = np.array(k). One made outside of the traced function stays as it is: pass it as "
        "an argument, if it is to change"
    )


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    x = _written(dst, "np.copyto")
    x.become(elementwise("where", where, copied(src, x, casting), x))


def copied(src: Any, x: Tracer, casting: str = "same_kind") -> Tracer:
    """`src` as np.copyto writes it into `x`."""
    scalar_type = number_kind(src)
    if scalar_type is not None and casting != "unsafe" and _KINDS[scalar_type] > "biufc".index(kind(x.dtype)):
        raise DtypeError(f"np.copyto: cannot cast a Python {scalar_type.__name__} to {x.dtype} by the rule {casting!r}")
    as_array = scalar_type in (float, complex) or x.dtype.kind == "b"
    return wrap(fitted(lift(src) if as_array else src, x.tensor_type, casting))


@implements(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    x, chosen, new = _masked(a, mask, values, "np.putmask")
    if new.size:
        x.assign(elementwise("where", chosen, lazy.resize(new, x.shape) if new.ndim else new, x))


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    if isinstance(vals, Selection):
        _fits(vals.dtype, _written(arr, "np.place").dtype, "np.place")
        arr[lift(mask).astype(bool)] = vals
        return
    x, chosen, new = _masked(arr, mask, vals, "np.place")
    if not new.size and x.size:
        raise ShapeError("np.place: there are no values to place")
    if new.size > 1:
        order = lazy.cumsum(chosen.reshape(-1)) - 1  # which of the values each element takes
        new = lazy.take(new.reshape(-1), order % new.size).reshape(x.shape)
    x.assign(elementwise("where", chosen, new, x))


def _masked(array: Any, mask: Any, values: Any, function: str) -> tuple[Tracer, Tracer, Tracer]:
    """The array, the mask in its shape, and the values in its dtype."""
    x, chosen, new = _written(array, function), lift(mask).astype(bool), lift(values)
    if chosen.size != x.size:
        raise ShapeError(f"{function}: a mask of shape {chosen.shape} does not fit an array of shape {x.shape}")
    is_array = not values.scalar if isinstance(values, Tracer) else isinstance(values, np.ndarray)
    if is_array:
        _fits(new.dtype, x.dtype, function)
    return x, chosen.reshape(x.shape), wrap(as_dtype(values, x.dtype))


def _fits(values: np.dtype, place: np.dtype, function: str) -> None:
    if not np.can_cast(values, place):
        raise DtypeError(f"{function}: {values} does not fit {place}; cast the values first")


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    x, places = _written(a, "np.put"), lift(ind).reshape(-1)
    if x.scalar:
        return  # NumPy writes into a copy of it
    new = wrap(as_dtype(v, x.dtype))
    if mode == "wrap":
        places = places % x.size
    elif mode == "clip":
        places = lazy.clip(places, 0, x.size - 1)
    elif mode != "raise":
        raise ShapeError(f"np.put: mode must be raise, wrap or clip, not {mode!r}")
    if places.size and not x.size:
        raise ShapeError("np.put: an empty array has no place to put values")
    if new.size and places.size:
        assign_items(x.flattened(), places, lazy.resize(new, places.shape))


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    x, places = _written(arr, "np.put_along_axis"), lift(indices)
    if axis is None:
        x, axis = x.flattened(), 0
    if places.ndim != x.ndim:
        raise ShapeError(f"np.put_along_axis: indices of shape {places.shape} and an array of shape {x.shape}")
    (along,) = negative_axes(axis, x.ndim)
    key = [np.arange(n).reshape([-1 if j == i else 1 for j in range(x.ndim)]) for i, n in enumerate(x.shape)]
    assign_items(x, tuple(places if i - x.ndim == along else k for i, k in enumerate(key)), values)


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    x, new = _written(a, "np.fill_diagonal"), lift(val)
    if x.ndim < 2:
        raise ShapeError(f"np.fill_diagonal needs two axes or more, the shape is {x.shape}")
    if x.ndim > 2 and len(set(x.shape)) != 1:
        raise ShapeError(f"np.fill_diagonal: beyond two axes, all extents must be equal; the shape is {x.shape}")
    step = 1 + sum(math.prod(x.shape[i:]) for i in range(1, x.ndim))
    end = x.shape[1] ** 2 if x.ndim == 2 and not wrap else x.size
    count = len(range(0, min(end, x.size), step))
    if new.size and count:
        x.flattened()[0 : min(end, x.size) : step] = lazy.resize(new, (count,)) if new.ndim else val
