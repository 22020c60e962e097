"""NumPy's sorting, searching and set functions whose result has a static shape; the others are refused by name.

In: array-function calls on tracers. Out: library calls.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from eqfuse.errors import DtypeError, ShapeError, UnsupportedOp
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.promotion import common, lift
from eqfuse.frontends.numpy.reductions import negative_axes, one_axis
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.selection import Selection
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.accepted import constant_of
from eqfuse.ir.graph import node


def _axis(x: Tracer, axis: int | None) -> tuple[Tracer, int]:
    """`x` and the one axis to work along; all of `x` in one row when `axis` is None."""
    if axis is None:
        x, axis = x.reshape(-1), -1
    (along,) = negative_axes(operator.index(axis), x.ndim)
    return x, along


def _stable(kind: str | None, order: Any, stable: bool | None) -> bool:
    if order is not None:
        raise UnsupportedOp("order= sorts structured arrays, which eqfuse does not have")
    if kind is not None and stable is not None:
        raise ShapeError("`kind` and `stable` parameters can't be provided at the same time. Use only one of them.")
    if kind not in (None, "quicksort", "heapsort", "mergesort", "stable"):
        raise ShapeError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got {kind!r})")
    if kind == "heapsort":
        raise UnsupportedOp("kind='heapsort' cannot be traced; use kind='stable' or none")
    return bool(stable) or kind in ("mergesort", "stable")


@implements(np.sort)
def sort(
    a: Any, axis: int | None = -1, kind: str | None = None, order: Any = None, *, stable: bool | None = None
) -> Tracer:
    x, along = _axis(lift(a), axis)
    return wrap(node("sort", (x.node,), (along, _stable(kind, order, stable))))


@implements(np.argsort)
def argsort(
    a: Any, axis: int | None = -1, kind: str | None = None, order: Any = None, *, stable: bool | None = None
) -> Tracer:
    x = lift(a)
    if x.ndim == 0 and axis in (0, -1):
        x, axis = x.reshape(1), 0
    x, along = _axis(x, axis)
    return wrap(node("argsort", (x.node,), (along, _stable(kind, order, stable))))


@implements(np.sort_complex)
def sort_complex(a: Any) -> Tracer:
    x = sort(lift(a))
    if x.dtype.kind == "c":
        return x
    return x.astype(np.complex64 if x.dtype.char in "bhBH" else np.complex128)


def _kth(kth: Any) -> tuple[int, ...]:
    chosen = np.atleast_1d(constant_of(kth, "kth"))
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
        raise ShapeError("Partition index must be integer")
    return tuple(map(int, chosen))


def _parted(op: str, a: Any, kth: Any, axis: int | None, kind: str, order: Any) -> Tracer:
    if order is not None:
        raise UnsupportedOp("order= sorts structured arrays, which eqfuse does not have")
    if kind != "introselect":
        raise ShapeError(f"np.{op}: select kind must be 'introselect', not {kind!r}")
    x, along = _axis(lift(a), axis)
    places = _kth(kth)
    if x.size == 0:  # of which NumPy takes any place
        return x.copy() if op == "partition" else lift(np.empty(x.shape, np.intp))
    return wrap(node(op, (x.node,), (along, places)))


@implements(np.partition)
def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Tracer:
    return _parted("partition", a, kth, axis, kind, order)


@implements(np.argpartition)
def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Tracer:
    return _parted("argpartition", a, kth, axis, kind, order)


@implements(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Tracer:
    rows = [lift(k) for k in keys]
    if not rows:
        raise ShapeError("np.lexsort: need sequence of keys with len > 0")
    if rows[0].ndim == 0:
        return wrap(tidy.reshape(node("lexsort", [r.reshape(1).node for r in rows], (-1,)), ()))
    (along,) = negative_axes(axis, rows[0].ndim)
    return wrap(node("lexsort", [r.node for r in rows], (along,)))


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tracer:
    x = lift(a)
    if x.ndim != 1:
        raise ShapeError(f"np.searchsorted: object of too small or too great depth: the shape of a is {x.shape}")
    if side not in ("left", "right"):
        raise ShapeError(f"np.searchsorted: side must be 'left' or 'right' (got {side!r})")
    if sorter is not None:
        order = lift(sorter)
        if order.shape != x.shape:
            raise ShapeError("np.searchsorted: sorter.size must equal a.size")
        x = lazy.take(x, order)
    return wrap(node("searchsorted", common((x, lift(v))), (side,)))


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Tracer:
    values, edges = lift(x), lift(bins)
    if "c" in (values.dtype.kind, edges.dtype.kind):
        raise DtypeError("np.digitize takes real numbers")
    return wrap(node("digitize", (values.node, edges.node), (bool(right),)))


@implements(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None
) -> Tracer:
    """`kind` and `assume_unique` choose NumPy's algorithm; where they do not change the result they are not needed."""
    x, among = lift(element), lift(test_elements)
    if kind not in (None, "sort", "table"):
        raise ShapeError(f"np.isin: Invalid kind: {kind!r}. Please use None, 'sort' or 'table'.")
    if kind == "table" and (x.dtype.kind not in "iub" or among.dtype.kind not in "iub"):
        raise ShapeError("The 'table' method is only supported for boolean or integer arrays.")
    if assume_unique:
        raise UnsupportedOp("np.isin with assume_unique=True depends on whether the values are; leave it out")
    membership = wrap(node("isin", (x.node, among.node)))
    return ~membership if invert else membership


# ---- masks

_INSTEAD = "use np.where(mask, x, fill), or multiply by the mask before a reduction"


@implements(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None, out: None = None) -> Tracer | Selection:
    x, along = one_axis(lift(a), axis)
    if (mask := _mask(condition)) is not None and mask.shape == x.shape[:1] and along == -x.ndim:
        return x[mask]
    chosen = constant_of(condition, "the condition of np.compress", _INSTEAD)
    if chosen.ndim != 1:
        raise ShapeError("condition must be a 1-d array")
    return lazy.take(x, np.flatnonzero(chosen), along)


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Tracer | Selection:
    x = lift(arr)
    if (mask := _mask(condition)) is not None and mask.size == x.size:
        return x[mask] if mask.shape == x.shape else x.reshape(-1)[mask.reshape(-1)]
    chosen = constant_of(condition, "the condition of np.extract", _INSTEAD)
    return lazy.take(x.reshape(-1), np.flatnonzero(chosen))


def _mask(condition: Any) -> Tracer | None:
    """Where `condition` is true, if that is not known."""
    traced = isinstance(condition, Tracer) and condition.constant_value() is None
    return condition.astype(bool) if traced else None
