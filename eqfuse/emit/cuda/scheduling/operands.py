"""How a tiled product reads its operands: along which index neighbours lie, and how many are read at once.

In: a matmul or conv. Out: a `Reading` of each operand, in the names `m`, `n` and `k` of rows and columns of the result
and of terms. Next stop: `contract.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.view_strides import contiguous, view_strides
from eqfuse.kinds.product import Product
from eqfuse.ops import Role, row
from eqfuse.ops.types import Shape, TensorType

ACCESS = 16  # bytes that a thread reads at once, at most

Strides = tuple[int, ...]
Lying = set[tuple[Node, Strides]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Elements of an operand that differ in `fast` alone are neighbours, of which `width` are read at once."""

    slow: str
    fast: str
    width: int


def readings(operands: tuple[Node, Node], product: Product, kept: np.dtype) -> tuple[Reading, Reading]:
    """Of the left and the right operand, whose elements are kept as `kept` on chip."""
    a, b = operands
    if product.windows:
        inside = math.prod(a.shape[2:])
        places = _wide("k", "n", inside, _in_order(a, range(a.type.rank)), kept)
        return _own_order(b, "m", "k", product.depth, kept), places if product.is_plain else Reading("k", "n", 1)
    is_tall = product.rows != a.shape[-2]
    return (
        _own_order(a, "m", "k", product.depth, kept) if is_tall else _either_order(a, "m", "k", kept),
        _either_order(b, "k", "n", kept),
    )


def _own_order(operand: Node, slow: str, fast: str, run: int, kept: np.dtype) -> Reading:
    return _wide(slow, fast, run, _in_order(operand, range(operand.type.rank)), kept)


def _either_order(operand: Node, slow: str, fast: str, kept: np.dtype) -> Reading:
    """In the order of its axes, or with the last two exchanged: that in which more bytes of arrays are neighbours."""
    *batch, rows, columns = range(operand.type.rank)
    own, other = _in_order(operand, (*batch, rows, columns)), _in_order(operand, (*batch, columns, rows))
    if sum(a.nbytes for a in other) > sum(a.nbytes for a in own):
        return _wide(fast, slow, operand.shape[-2], other, kept)
    return _wide(slow, fast, operand.shape[-1], own, kept)


def _wide(slow: str, fast: str, run: int, arrays: Sequence[TensorType], kept: np.dtype) -> Reading:
    """As many of a `run` of neighbours as an access takes of the widest array, as far as they divide it."""
    widest = max(kept.itemsize, *(a.dtype.itemsize for a in arrays)) if arrays else ACCESS
    return Reading(slow, fast, math.gcd(ACCESS // widest, run))


def _in_order(operand: Node, axes: Sequence[int]) -> list[TensorType]:
    """The arrays that lie in memory in the order of the elements of `operand`, its axes taken in the order `axes`."""
    size, order = operand.type.size, contiguous(tuple(operand.shape[a] for a in axes))
    wanted = [(a, s) for a, s in zip(axes, order, strict=True) if operand.shape[a] != 1]
    arrays = {a for a, strides in _arrays(operand) if all(strides[axis] == s for axis, s in wanted)}
    return [a.type for a in arrays if a.type.size == size != 1]


def _arrays(operand: Node) -> Lying:
    """The arrays that `operand` is computed from, and how far apart its elements lie there along each axis of it."""
    lying: dict[Node, Lying] = {}
    for n in Graph((), (operand,)).nodes:
        if row(n.op).role is Role.LEAF:
            lying[n] = {(n, contiguous(n.shape))}
        elif row(n.op).role is Role.VIEW:
            (x,) = n.args
            found = ((a, view_strides(n.op, n.attrs, x.shape, s)) for a, s in lying[x])
            lying[n] = {(a, s) for a, s in found if s is not None}
        else:  # what a gather takes does not lie in order, but the places may, where there is one for each element
            gathered = [a for a in n.args[1:] if a.shape == n.shape]
            args = gathered if row(n.op).role is Role.GATHER else n.args
            lying[n] = {(a, _broadcast(s, x.shape, n.type.rank)) for x in args for a, s in lying[x]}
    return lying[operand]


def _broadcast(strides: Strides, shape: Shape, rank: int) -> Strides:
    found = (0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
    return (*[0] * (rank - len(shape)), *found)
