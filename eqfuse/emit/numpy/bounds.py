"""Bounds: ``maximum`` and ``minimum`` with one constant, for which NumPy has no SIMD loop, unlike for two arrays.

In: the nodes of a kernel. Out: what each one's statement reads instead. A bound from below and one from above become
one ``clip``, which has such a loop; any other bound is repeated to a row: a quarter of the time, the same bits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from eqfuse.ir.graph import Node, const
from eqfuse.ir.views import leaf_chain

BOUNDING = ("maximum", "minimum", "fmax", "fmin")
LEAST_ROW, MOST_ROW = 16, 1 << 16  # elements


def clipped(nodes: Sequence[Node], kept: Collection[Node]) -> dict[Node, tuple[Node, ...]]:
    """What the statements read, in order: of a minimum that is a ``clip``, the array and both bounds.

    `kept`: nodes that must be computed, whoever reads them.
    """
    readers: dict[Node, int] = {}
    for n in nodes:
        for a in n.args:
            readers[a] = readers.get(a, 0) + 1
    reads = {n: n.args for n in nodes}
    for n in nodes:
        upper = _bound(n, "minimum")
        lower = _bound(upper[0], "maximum") if upper else None
        if upper and lower and upper[0] in reads and upper[0] not in kept and readers[upper[0]] == 1:
            reads[n] = (lower[0], lower[1], upper[1])
            del reads[upper[0]]
    return reads


def _bound(n: Node, op: str) -> tuple[Node, Node] | None:
    """The array and its bound, where ``clip`` does to them what `n` does, zeros' signs included."""
    if n.op != op or n.dtype.kind not in "iuf" or n.dtype == np.float16:
        return None
    for i, (bound, array) in enumerate((n.args, n.args[::-1])):
        value = leaf_chain(bound)[0].number
        if value is not None and array.type == n.type and bound.type.size < n.type.size:
            # of equal values clip takes the array's, and maximum and minimum their second argument
            return (array, bound) if value == value and (value != 0 or i == 0) else None
    return None


def repeated(n: Node, length: int) -> tuple[Node, ...]:
    """The arguments of `n`, a bound among them as a row of `length` elements where that is faster."""
    is_ordered = n.dtype.kind in "biuf" and n.dtype != np.float16
    if n.op not in BOUNDING or not is_ordered or not LEAST_ROW <= length <= MOST_ROW:
        return n.args
    values = [leaf_chain(a)[0].number if a.type.size < n.type.size else None for a in n.args]
    if all(a.type.rank < n.type.rank for a, value in zip(n.args, values, strict=True) if value is None):
        return n.args  # the bound has more axes than the array, which a row has not
    return tuple(
        a if value is None else const(np.full(length, value, n.dtype)) for a, value in zip(n.args, values, strict=True)
    )
