"""Reductions, scans, sorting and products: how their nodes are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqfuse import dtypes
from tests.frontends.onnx_random.draw import Draw
from tests.frontends.onnx_random.numbers import ABSOLUTE, EXACT
from tests.frontends.onnx_random.rows_manipulation import vector
from tests.frontends.onnx_random.run import DrawnValue
from tests.frontends.onnx_random.table import NodeSpec, row


def reduction(d: Draw, x: DrawnValue, by_input: int) -> NodeSpec:
    options: dict[str, Any] = d.optional(keepdims=d.integer(0, 1))
    if d.opset < by_input:
        axes = sorted(a if d.opset >= 11 else a % x.rank for a in d.axes(x, 1)) if x.rank else []
        return NodeSpec([x], {**options, **({"axes": axes} if axes and d.chance(0.8) else {})})
    if d.chance(0.3):
        options["noop_with_empty_axes"] = d.integer(0, 1)
    axes = d.axes(x) if d.chance(0.8) else None
    return NodeSpec([x, None if axes is None else vector(d, axes)], options)


def of_integers(opset: int, x: np.ndarray, *_: Any, **__: Any) -> str | None:
    """onnxruntime does not count modulo a power of two."""
    return "reference" if x.dtype.kind in "iu" else None


@row("ReduceMax", "ReduceMin", rounding=EXACT)
@row("ReduceMean", domain=lambda x, *_, **__: x.size and small(x), judge=of_integers)
@row("ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", judge=of_integers)
def reduced(d: Draw) -> NodeSpec:
    return reduction(d, d.value(), 18)


@row("ReduceLogSumExp", rounding=ABSOLUTE, judge="onnxruntime")  # the reference loses infinities
def of_floats(d: Draw) -> NodeSpec:
    return reduction(d, d.value(ok=lambda v: dtypes.kind(v.dtype) == "f"), 18)


@row("ReduceLogSum", rounding=ABSOLUTE)
def of_positive(d: Draw) -> NodeSpec:
    ok = lambda v: dtypes.kind(v.dtype) == "f" and (d.special or (v.array > 0).all())  # noqa: E731
    return reduction(d, d.value(ok=ok, low=0.1), 18)


@row("ReduceSum", judge=of_integers)
def reduce_sum(d: Draw) -> NodeSpec:
    return reduction(d, d.value(), 13)


@row("ArgMax", "ArgMin", rounding=EXACT)
def arg(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3), ok=lambda v: v.size)
    axis = d.axis(x) if d.opset >= 11 else d.integer(0, x.rank - 1)
    options = d.optional(axis=axis, keepdims=d.integer(0, 1))
    return NodeSpec([x], options | (d.optional(select_last_index=d.integer(0, 1)) if d.opset >= 12 else {}))


@row("CumSum", "CumProd")
def running(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3))
    axis = np.asarray(d.axis(x), d.pick(("int64", "int32")))
    return NodeSpec([x, d.const(axis)], d.optional(exclusive=d.integer(0, 1), reverse=d.integer(0, 1)))


@row("TopK", rounding=EXACT)
def top_k(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3), ok=lambda v: v.size)
    axis = d.axis(x) if d.opset >= 11 else d.integer(0, x.rank - 1)
    options = {"axis": axis} if axis % x.rank != x.rank - 1 or d.chance(0.5) else {}
    k = d.integer(1, x.shape[axis])
    if d.opset < 10:
        return NodeSpec([x], {**options, "k": k}, 2)
    options |= d.optional(largest=d.integer(0, 1)) if d.opset >= 11 else {}
    return NodeSpec([x, vector(d, [k])], options, 2)


def of_matrix(opset: int, *_: Any, **__: Any) -> str | None:
    """The reference knows the axis of version 13 alone."""
    return "onnxruntime" if opset < 13 else None


def attended(x: np.ndarray, **_: Any) -> bool:
    """Has no element the greatest weight of several, or none?"""
    wide = x.astype(np.float64)
    return not (np.isnan(wide) | (wide > 1e4)).any()


@row("Softmax", judge=of_matrix, domain=attended)
@row("LogSoftmax", rounding=ABSOLUTE, judge=of_matrix, domain=attended)
@row("Hardmax", rounding=EXACT, judge=of_matrix, domain=attended)
def over_an_axis(d: Draw) -> NodeSpec:
    x = d.value(rank=(1, 2, 3, 4))
    axis = d.axis(x) if d.opset >= 11 else d.integer(0, x.rank - 1)
    no_default = x.rank == 1 and d.opset < 13  # it would be the second one
    return NodeSpec([x], {"axis": axis} if no_default else d.optional(axis=axis))


# ---- products


def small(*xs: np.ndarray | None, **_: Any) -> bool:
    """Are all products within 32 bits?"""
    whole = [x for x in xs if x is not None and x.dtype.kind in "iu" and x.dtype.itemsize > 2]
    return all((x.astype(np.float64) ** 2 < 2**24).all() for x in whole)


@row("MatMul", finite=True, domain=small)
def matmul(d: Draw) -> NodeSpec:
    a = d.value(rank=(1, 2, 3, 4))
    columns = d.extent()
    inner = (a.shape[-1],) if d.chance(0.2) else (a.shape[-1], columns)
    lead = tuple(n if d.chance(0.7) else 1 for n in a.shape[:-2]) if d.chance(0.5) else ()
    return NodeSpec([a, d.like(a, inner if len(inner) == 1 else (*lead, *inner))], {})


@row("Gemm", finite=True, domain=small)
def gemm(d: Draw) -> NodeSpec:
    a = d.value(rank=2)
    turned = d.optional(transA=d.integer(0, 1), transB=d.integer(0, 1))
    m, k = a.shape[::-1] if turned.get("transA") else a.shape
    n = d.extent()
    b = d.like(a, (n, k) if turned.get("transB") else (k, n))
    whole = dtypes.kind(a.dtype) in "iu"
    alpha, beta = (
        (float(d.integer(0 if a.dtype.kind == "u" else -2, 3)) for _ in range(2))
        if whole
        else (d.real(-2, 2), d.real(-2, 2))
    )
    options = turned | d.optional(alpha=alpha, beta=beta)
    if d.opset >= 11 and d.chance(0.2):
        return NodeSpec([a, b], options)
    return NodeSpec([a, b, d.like(a, d.pick(((m, n), (1, n), (n,), (m, 1), (1,), ())))], options)


EQUATIONS = (
    ("ij,jk->ik", 2, 2), ("ij,jk", 2, 2), ("bij,bjk->bik", 3, 3), ("...ij,...jk->...ik", 3, 3), ("ij->ji", 2),
    ("ii->i", 2), ("ii", 2), ("ij->", 2), ("i,j->ij", 1, 1), ("bi,ij,bj->b", 2, 2, 2), (" i j k -> k i", 3),
    ("ij,ij->i", 2, 2), ("...i->...", 3), ("aB,Bc->ac", 2, 2),
)  # fmt: skip


@row("Einsum", finite=True, domain=small)
def einsum(d: Draw) -> NodeSpec:
    equation, *ranks = d.pick(EQUATIONS)
    extents: dict[str, int] = {}
    dtype = d.dtype()
    values = []
    for term, rank in zip(equation.split("->")[0].replace(" ", "").split(","), ranks, strict=True):
        letters = term.replace("...", "zyx"[: rank - len(term.replace("...", ""))])
        values.append(d.value(dtype=dtype, shape=tuple(extents.setdefault(c, d.integer(1, 3)) for c in letters)))
    return NodeSpec(values, {"equation": equation})


@row("Det")
def det(d: Draw) -> NodeSpec:
    n = d.integer(1, 3)
    return NodeSpec([d.value(dtype=d.dtype(), shape=(*d.shape(d.integer(0, 1)), n, n))], {})
