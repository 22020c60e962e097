"""How a tiled product reads its operands: along which index neighbours lie, and how many are read at once.

In: a matmul or conv. Out: a `Reading` of each operand, in the names `m`, `n` and `k` of rows and columns of the result
and of terms. Next stop: `contract.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.view_strides import contiguous, view_strides
from eqfuse.kinds.product import Product
from eqfuse.ops import Role
from eqfuse.ops.index_map import ORIGIN
from eqfuse.ops.types import Shape, TensorType

ACCESS = 16  # bytes that a thread reads at once, at most

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StridedElements:
    """Where the elements of a value lie in the array `node`: the first one, and how far apart they are by axis."""

    node: Node
    strides: Strides
    offset: int


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
        right = places if product.is_matrix_product else Reading("k", "n", 1)
        return _own_order(b, product.depth, kept), right
    is_tall = product.rows != a.shape[-2]
    return (
        _own_order(a, product.depth, kept) if is_tall else _either_order(a, "m", "k", kept),
        _either_order(b, "k", "n", kept),
    )


def is_copied(operand: Node, reading: Reading) -> bool:
    """Does it come into shared memory as it lies, 16 bytes at a time?"""
    array = operand
    while array.row.role is Role.VIEW:
        (array,) = array.args
    return array.row.role is Role.LEAF and reading.width * operand.dtype.itemsize == ACCESS


def _own_order(operand: Node, run: int, kept: np.dtype) -> Reading:
    return _wide("m", "k", run, _in_order(operand, range(operand.type.rank)), kept)


def _either_order(operand: Node, slow: str, fast: str, kept: np.dtype) -> Reading:
    """Along the last axis or the one before: that along which more bytes of arrays are neighbours."""
    own, other = (_along(operand, axis, kept) for axis in (-1, -2))
    return Reading(fast, slow, other.width) if other.nbytes > own.nbytes else Reading(slow, fast, own.width)


@dataclass(frozen=True, slots=True)
class _Run:
    """`nbytes` of the arrays whose neighbours are those along an axis, `width` of them in one access."""

    nbytes: int
    width: int


def _along(operand: Node, axis: int, kept: np.dtype) -> _Run:
    """Of an operand along `axis`; the largest array says how many neighbours are read at once."""
    arrays = [a for a in arrays_of(operand) if a.strides[axis] == 1 != operand.shape[axis]]
    if not arrays:
        return _Run(0, 1 if arrays_of(operand) else math.gcd(ACCESS // kept.itemsize, operand.shape[axis]))
    largest = max(arrays, key=lambda a: a.node.type.nbytes)
    access = ACCESS // max(kept.itemsize, largest.node.dtype.itemsize)
    across = [s for a, (s, n) in enumerate(zip(largest.strides, operand.shape, strict=True))
              if n != 1 and a != operand.type.rank + axis]  # fmt: skip
    return _Run(sum(a.node.type.nbytes for a in arrays),
                math.gcd(access, operand.shape[axis], largest.offset, *across))  # fmt: skip


def _wide(slow: str, fast: str, run: int, arrays: Sequence[TensorType], kept: np.dtype) -> Reading:
    """As many of a `run` of neighbours as an access takes of the widest array, as far as they divide it."""
    widest = max(kept.itemsize, *(a.dtype.itemsize for a in arrays)) if arrays else ACCESS
    return Reading(slow, fast, math.gcd(ACCESS // widest, run))


def _in_order(operand: Node, axes: Sequence[int]) -> list[TensorType]:
    """The arrays that lie in memory in the order of the elements of `operand`, its axes taken in the order `axes`."""
    size, order = operand.type.size, contiguous(tuple(operand.shape[a] for a in axes))
    wanted = [(a, s) for a, s in zip(axes, order, strict=True) if operand.shape[a] != 1]
    arrays = {a.node for a in arrays_of(operand) if all(a.strides[axis] == s for axis, s in wanted)}
    return [a.type for a in arrays if a.type.size == size != 1]


def arrays_of(operand: Node) -> set[StridedElements]:
    """The arrays that `operand` is computed from, as its elements lie in them."""
    return arrays_of_each([operand])[operand]


def arrays_of_each(operands: Sequence[Node]) -> dict[Node, set[StridedElements]]:
    """The same of several operands, and of all values below them, each looked at once."""
    elements: dict[Node, set[StridedElements]] = {}
    for n in Graph((), tuple(operands)).nodes:
        if n.row.role is Role.LEAF:
            elements[n] = {StridedElements(n, contiguous(n.shape), 0)}
        elif n.row.role is Role.VIEW:
            (x,) = n.args
            elements[n] = {seen for a in elements[x] if (seen := _seen(n, a)) is not None}
        elif n.row.pieces is not None:  # each element has an array of its own
            elements[n] = set()
        else:  # what a gather takes does not lie in order, but the places may, where there is one for each element
            gathered = [a for a in n.args[1:] if a.shape == n.shape]
            args = gathered if n.row.role is Role.GATHER else n.args
            elements[n] = set().union(*[_spread(elements[x], x.shape, n.type.rank) for x in args])
    return elements


def _spread(arrays: set[StridedElements], shape: Shape, rank: int) -> set[StridedElements]:
    """`arrays`, of a value of this shape, as one of that rank has them which it is broadcast to."""
    if len(shape) == rank and 1 not in shape:
        return arrays
    return {replace(a, strides=_broadcast(a.strides, shape, rank)) for a in arrays}


def _seen(view: Node, a: StridedElements) -> StridedElements | None:
    """`a`, of the argument of `view`, as the view has it; None where strides do not express it."""
    (x,) = view.args
    strides = view_strides(view.op, view.attrs, x.shape, a.strides)
    places = view.index_map or (ORIGIN,) * x.type.rank
    offset = a.offset + sum(place.start * s for place, s in zip(places, a.strides, strict=True))
    return None if strides is None else StridedElements(a.node, strides, offset)


def _broadcast(strides: Strides, shape: Shape, rank: int) -> Strides:
    steps = (0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
    return (*[0] * (rank - len(shape)), *steps)
