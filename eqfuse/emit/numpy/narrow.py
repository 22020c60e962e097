"""Narrow arrays: columns one by one where rows are short, because NumPy takes 3 ns to begin a row of an elementwise
operator, 11 of a sum and 25 of a maximum (60,000 x 2 float64: 0.67 ms to add the rows or the columns, 0.03 by columns).

In: a statement on whole arrays or a tile. Out: its lines, a loop over the last axis; None where NumPy walks long runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from eqfuse.emit.numpy.cost.figures import LEAST_ROWS, NARROW, NARROW_EXTREME, NARROW_SUM
from eqfuse.emit.numpy.ops import JOINS, ONE_RUN, into
from eqfuse.ir.graph import Node
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import computes, leaf_chain, strides_after
from eqfuse.ops import Role
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.types import Shape

FEW_FAR, FEW_FROM = 3, 8 << 20  # the same for arrays of so many bytes: every column passes through the cache


def column_calls(
    n: Node,
    read: Sequence[Node],
    axes: tuple[int, ...] = (),
    shape: Callable[[Node], Shape] = lambda a: a.shape,
) -> int:
    """In how many calls `n` is computed column by column; 0 where NumPy walks long runs.

    `axes`: those reduced; `shape`: that of a value where it lies, which may be a tile's.
    """
    reduces = n.row.role is Role.REDUCTION
    extents = shape(read[0] if reduces else n)
    if len(extents) < 2 or extents[-1] < 2 or math.prod(extents[:-1]) < LEAST_ROWS:
        return 0
    width, size = extents[-1], math.prod(extents) * n.dtype.itemsize
    most = FEW_FAR if size > FEW_FROM else NARROW if not reduces else NARROW_SUM if n.op == "sum" else NARROW_EXTREME
    if width > most:
        return 0
    if not reduces:
        ufunc = n.op in UFUNCS and n.op not in ONE_RUN and n.dtype != np.float16
        return width if ufunc and not all(_is_run(a, n) for a in read) else 0
    exact = read[0].dtype == n.dtype and n.dtype.kind in "biufc" and n.dtype != np.float16  # which adds in float32
    if n.op not in JOINS or not exact:
        return 0
    reduced = _from_right(axes, extents)
    whole_columns = -1 not in reduced and -2 in reduced and extents[-2] >= LEAST_ROWS
    return width if reduced == (-1,) or whole_columns else 0


def by_columns(
    n: Node,
    read: Sequence[Node],
    args: Sequence[str],
    out: str,
    axes: tuple[int, ...] = (),
    shape: Callable[[Node], Shape] = lambda a: a.shape,
) -> list[str] | None:
    """Lines that compute `n`, whose operands `read` are named `args`, into the array `out`, if by columns it is."""
    width = column_calls(n, read, axes, shape)
    if not width:
        return None
    if n.row.role is not Role.REDUCTION:
        extents = shape(n)
        columns = [_column(name, shape(a), len(extents)) for a, name in zip(read, args, strict=True)]
        return [f"for q in range({width}):", "    " + into(n, columns, f"{out}[..., q]")]
    reduced = _from_right(axes, shape(read[0]))
    if reduced == (-1,):
        joined = f"    {JOINS[n.op]}({out}[..., 0], {args[0]}[..., q], out={out}[..., 0])"
        return [f"copyto({out}[..., 0], {args[0]}[..., 0])", f"for q in range(1, {width}):", joined]
    left = tuple(a + 1 for a in reduced)
    return [f"for q in range({width}):", "    " + into(n, [f"{args[0]}[..., q]"], f"{out}[..., q]", left)]


def _from_right(axes: tuple[int, ...], extents: Shape) -> tuple[int, ...]:
    return tuple(a - len(extents) if a >= 0 else a for a in axes)


def _column(name: str, extents: Shape, rank: int) -> str:
    """Column `q` of what lies in `name`: one number is read as it is, unless it has axes that the column has not."""
    if math.prod(extents) == 1 and len(extents) < rank:
        return name
    return f"{name}[..., {'0' if extents[-1] == 1 else 'q'}]"


def _is_run(a: Node, n: Node) -> bool:
    """Does the operand `a` of `n` lie so that rows follow each other, or is it one number?"""
    if a.type.size == 1:
        return True
    if a.shape != n.shape:
        return False
    if computes(a):
        return True
    leaf, chain = leaf_chain(a)
    strides = strides_after(leaf.type, chain)
    return strides is None or strides == contiguous(a.shape)
