"""How arrays with some elements replaced are written in ONNX.

In: a node whose arguments are values of a `Builder`. Out: the value of the node. Rows of the table in `table.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.emit.onnx.body import I64, Builder, OnnxValue, computed_in
from eqfuse.emit.onnx.table import Range, writer_of
from eqfuse.emit.onnx.views import gathered, reshaped, transposed
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node
from eqfuse.ops.literal import Literal


@writer_of("slice_scatter")
def slice_scatter(b: Builder, n: Node, args: Sequence[OnnxValue], slices: Sequence[Sequence[Range]]) -> OnnxValue:
    base, *values = args
    for value, ranges in zip(values, slices, strict=True):
        base = _written(b, base, value, n.shape, ranges, 0)
    return base if values else b.uncast("Identity", base)


def _written(
    b: Builder, base: OnnxValue, value: OnnxValue, shape: Sequence[int], ranges: Sequence[Range], axis: int
) -> OnnxValue:
    """`base` with its slice by the `ranges` from `axis` on replaced, one axis after the other."""
    while axis < len(shape) and ranges[axis] == (0, shape[axis], 1):
        axis += 1
    if axis == len(shape):
        return value
    places = np.arange(*ranges[axis])
    inner = [len(places) if i == axis else e for i, e in enumerate(shape)]
    inside = _written(b, gathered(b, base, places, axis), value, inner, ranges, axis + 1)
    order = [axis, *(i for i in range(len(shape)) if i != axis)]
    first = transposed(b, base, order), transposed(b, inside, order)
    updated = b.uncast("ScatterND", first[0], b.constant(places[:, None], I64), first[1])
    return transposed(b, updated, [order.index(i) for i in range(len(shape))])


_REDUCTIONS = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}


@writer_of("scatter")
def scatter(b: Builder, n: Node, args: Sequence[OnnxValue], axis: int, mode: str) -> OnnxValue:
    x, indices, values = args
    if mode == "set" and not _distinct(n.args[1], n.shape[axis]):
        raise UnsupportedOp("ONNX leaves open which of several values lands in one place: the places must be constants")
    if mode != "set" and (mode not in _REDUCTIONS or (kind(n.dtype) == "f" and mode in ("maximum", "minimum"))):
        raise UnsupportedOp(f"ONNX's ScatterND has no {mode} that is NumPy's")
    if n.args[2].dtype != n.dtype:
        raise UnsupportedOp(f"the values are {n.args[2].dtype}, the array is {n.dtype}: cast them first")
    first, rank, more = n.type.rank + axis, n.type.rank, n.args[1].type.rank
    order = [first, *(i for i in range(rank) if i != first)]
    places = [*range(first, first + more), *(i for i in range(rank - 1 + more) if not first <= i < first + more)]
    wider = x.dtype if mode == "set" else computed_in("ScatterND", x.dtype)
    updated = b.uncast(
        "ScatterND",
        transposed(b, b.cast(x, wider), order),
        reshaped(b, b.cast(indices, I64), (*n.args[1].shape, 1)),
        transposed(b, b.cast(values, wider), places),
        reduction="none" if mode == "set" else _REDUCTIONS[mode],
    )
    return b.cast(transposed(b, updated, [order.index(i) for i in range(rank)]), x.dtype)


def _distinct(indices: Node, extent: int) -> bool:
    """Are these for sure all different places?"""
    literal = indices.literal if indices.op == "const" else None
    if not isinstance(literal, Literal):
        return indices.type.size <= 1
    return len(np.unique(literal.array % max(extent, 1))) == literal.array.size
