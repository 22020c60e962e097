"""ONNX reductions, scans, sorting and products.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions and `eqfuse.functions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.dtypes import ADDED, kind, lowest
from eqfuse.errors import ShapeError, UnsupportedOp
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.elementwise import towards_zero
from eqfuse.frontends.onnx.table import axis_of, ints, matrix_product, need_shape, one, operator


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return lazy.sum(x, axes, keepdims=True, dtype=x.dtype)


def _mean(x: Any, axes: tuple[int, ...]) -> Any:
    if kind(x.dtype) in "iu":
        count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
        return towards_zero(_sum(x, axes), lift(np.asarray(count, x.dtype)))
    return lazy.mean(x, axes, keepdims=True)


def _extreme(name: str) -> Callable[[Any, tuple[int, ...]], Any]:
    def of_axes(x: Any, axes: tuple[int, ...]) -> Any:
        if all(x.shape[a] for a in axes):
            return getattr(lazy, name)(x, axes, keepdims=True)
        least = lowest(x.dtype)
        most = {"b": True, "f": -least}.get(kind(x.dtype)) if kind(x.dtype) in "bf" else np.iinfo(x.dtype).max
        return getattr(lazy, name)(x, axes, keepdims=True, initial=least if name == "max" else most)

    return of_axes


def _log_sum_exp(x: Any, axes: tuple[int, ...]) -> Any:
    if not axes:
        return x
    if not all(x.shape[a] for a in axes):
        return lazy.log(_sum(lazy.exp(x), axes))
    top = lazy.max(x, axes, keepdims=True)
    return f.where(np.isinf(top), top, f.logsumexp(x, axes))


def _reduction(of_axes: Callable[[Any, tuple[int, ...]], Any]) -> Callable[..., Any]:
    """A row around `of_axes(x, axes)`, which keeps the axes."""

    def row(
        x: Any, axes_input: Any = None, *, axes: tuple[int, ...] = (), keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        if axes_input is not None:
            axes = ints(axes_input, "axes")
        if not axes and not noop_with_empty_axes:
            axes = tuple(range(x.ndim))
        axes = tuple(sorted(axis_of(a, x.ndim) for a in axes))
        y = of_axes(x, axes)
        return y if keepdims else y.reshape(tuple(n for a, n in enumerate(x.shape) if a not in axes))

    return row


for _name, _function in {
    "ReduceSum": _sum, "ReduceMean": _mean, "ReduceMax": _extreme("max"), "ReduceMin": _extreme("min"),
    "ReduceProd": lambda x, axes: lazy.prod(x, axes, keepdims=True, dtype=x.dtype),
    "ReduceL1": lambda x, axes: _sum(np.abs(x), axes),
    "ReduceL2": lambda x, axes: lazy.sqrt(_sum(x * x, axes)),
    "ReduceSumSquare": lambda x, axes: _sum(x * x, axes),
    "ReduceLogSum": lambda x, axes: lazy.log(_sum(x, axes)),
    "ReduceLogSumExp": _log_sum_exp,
}.items():  # fmt: skip
    operator(_name)(_reduction(_function))


def _place(name: str) -> Callable[..., Any]:
    def row(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        if select_last_index:
            place = x.shape[axis] - 1 - getattr(lazy, name)(lazy.flip(x, axis), axis, keepdims=bool(keepdims))
        else:
            place = getattr(lazy, name)(x, axis, keepdims=bool(keepdims))
        return place.astype(np.int64)

    return row


operator("ArgMax")(_place("argmax"))
operator("ArgMin")(_place("argmin"))


def _running(name: str) -> Callable[..., Any]:
    def row(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
        along = axis_of(one(axis, "the axis"), x.ndim)
        x = lazy.flip(x, along) if reverse else x
        if exclusive:
            first = [(int(a == along), 0) for a in range(x.ndim)]
            kept = tuple(slice(x.shape[a] if a == along else None) for a in range(x.ndim))
            x = lazy.pad(x, first, constant_values=0 if name == "cumsum" else 1)[kept]
        y = getattr(lazy, name)(x, along, dtype=x.dtype)
        return lazy.flip(y, along) if reverse else y

    return row


operator("CumSum")(_running("cumsum"))
operator("CumProd")(_running("cumprod"))


@operator("TopK", since=10)
def top_k(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """The first of equal values comes first, in either order."""
    n, first = x.shape[axis], one(k, "K")
    if not 0 <= first <= n:
        raise ShapeError(f"K is {first}, axis {axis} has {n} elements")
    along = axis_of(axis, x.ndim)
    if largest:  # a stable sort of the flipped array puts the last of equal values first
        order = n - 1 - lazy.flip(lazy.argsort(lazy.flip(x, along), along, kind="stable"), along)
    else:
        order = lazy.argsort(x, along, kind="stable")
    order = order[(slice(None),) * along + (slice(first),)]
    return lazy.take_along_axis(x, order, along), order.astype(np.int64)


@operator("TopK")
def top_k_by_attribute(x: Any, *, k: int, axis: int = -1) -> Any:
    return top_k(x, lift(np.int64(k)), axis=axis)


@operator("Hardmax", since=13)
def hardmax(x: Any, *, axis: int = -1) -> Any:
    if not x.size:
        return x
    top = lazy.argmax(x, axis, keepdims=True)
    places = np.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - 1 - axis_of(axis, x.ndim)))
    return (top == places).astype(x.dtype)


@operator("Softmax", since=13)
def softmax(x: Any, *, axis: int = -1) -> Any:
    return f.softmax_in_steps(x, axis) if x.size else x


@operator("LogSoftmax", since=13)
def log_softmax(x: Any, *, axis: int = -1) -> Any:
    return f.log_softmax(x, axis) if x.size else x


def _of_matrix(function: Callable[..., Any]) -> Callable[..., Any]:
    """Before version 13 the axes from `axis` on are one."""

    def row(x: Any, *, axis: int = 1) -> Any:
        along = axis_of(axis, x.ndim)
        return function(x.reshape(math.prod(x.shape[:along]), math.prod(x.shape[along:])), axis=-1).reshape(x.shape)

    return row


operator("Softmax")(_of_matrix(softmax))
operator("LogSoftmax")(_of_matrix(log_softmax))
operator("Hardmax")(_of_matrix(hardmax))


# ---- products


operator("MatMul")(matrix_product)


@operator("Gemm", since=7)
def gemm(
    a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> Any:
    y = matrix_product(a.T if transA else a, b.T if transB else b)
    y = y if alpha == 1 else y * _number(alpha, y)
    if c is None:
        return y
    result = y + (c if beta == 1 else c * _number(beta, c))
    need_shape(result, y.shape, "with C, which is broadcast to A x B and never the other way, the result")
    return result if beta else y  # as BLAS has it, whatever C holds


@operator("Gemm")
def gemm_with_broadcast(
    a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 1.0, broadcast: int = 0, transA: int = 0,
    transB: int = 0,
) -> Any:  # fmt: skip
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


def _number(value: float, like: Any) -> float | int:
    if kind(like.dtype) == "f":
        return value
    if value != int(value):
        raise UnsupportedOp(f"a factor of {value} for integers")
    return int(value)


@operator("Einsum")
def einsum(*xs: Any, equation: str) -> Any:
    dtype = xs[0].dtype
    wide = xs if dtype not in ADDED else [x.astype(np.float32) for x in xs]
    return lazy.einsum("".join(equation.split()), *wide).astype(dtype)


@operator("Det")
def det(x: Any) -> Any:
    return lazy.linalg.det(x.astype(np.float32) if x.dtype.itemsize < 4 else x)
