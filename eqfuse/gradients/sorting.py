"""Derivatives of sorting, searching, order statistics and counts: what is chosen changes, the choice does not."""

from __future__ import annotations

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import Expr, cast, reshape, where
from eqfuse.gradients.row import Changes, DerivativeRow, refused, zero_derivative
from eqfuse.ir.graph import Node, const, node
from eqfuse.ops.sorting import INDEX_DTYPE

OF_PLACES = "argsort argpartition lexsort searchsorted digitize isin nanargmax nanargmin"


def _sorted_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    axis = n.attr("axis")
    return node("take_along_axis", (d[0], node("argsort", n.args, (axis, True))), (axis,))


def _parted_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    return node("take_along_axis", (d[0], node("argpartition", n.args, n.attrs)), (n.attr("axis"),))


def _weights_tangent(n: Node, d: Changes) -> Node | None:
    return None if d[1] is None else n.over([n.args[0], d[1]])


def _weights_transpose(n: Node, _position: int, ct: Expr) -> Expr:
    x, weights = n.args
    return cast(Expr(node("take", (ct.node, cast(Expr(x), INDEX_DTYPE).node), (-1,))), weights.dtype)


def _edges(n: Node) -> Node:
    """Evenly between the smallest and the largest value, or as they are given."""
    bins, limits = n.attr("bins"), n.attr("range")
    shares = Expr(const(np.arange(bins + 1) / bins, n.dtype))
    if limits is not None:
        return (shares * (limits[1] - limits[0]) + limits[0]).node
    x = cast(Expr(n.args[0]), n.dtype)
    flat = reshape(x, (x.node.type.size,))
    lowest, highest = (Expr(tidy.reduce(name, flat.node, [-1])) for name in ("min", "max"))
    half = where(lowest.equals(highest), 0.5, 0, n.dtype)
    return (lowest - half + shares * (highest - lowest + half * 2)).node


ROWS: dict[str, DerivativeRow] = {
    **{name: zero_derivative() for name in OF_PLACES.split()},
    "sort": DerivativeRow(_sorted_tangent),
    "partition": DerivativeRow(_parted_tangent),
    "bincount": DerivativeRow(_weights_tangent, transpose=_weights_transpose, linear=(1,)),
    "histogram": refused("of weights it is that of np.add.at(counts, places, weights)"),
    "histogram_bin_edges": DerivativeRow(formula=_edges),
}
