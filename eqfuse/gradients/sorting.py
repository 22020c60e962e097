"""Derivatives of sorting, searching, order statistics and counts: what is chosen changes, the choice does not."""

from __future__ import annotations

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.row import Changes, Row, constant, refused
from eqfuse.gradients.terms import Term, cast, reshape, where
from eqfuse.ir.graph import Node, const, node
from eqfuse.ops.sorting import INDEX

PLACES = "argsort argpartition lexsort searchsorted digitize isin nanargmax nanargmin"


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


def _weights_transpose(n: Node, _at: int, ct: Term) -> Term:
    x, weights = n.args
    return cast(Term(node("take", (ct.node, cast(Term(x), INDEX).node), (-1,))), weights.dtype)


def _edges(n: Node) -> Node:
    """Evenly between the smallest and the largest value, or as they are given."""
    bins, limits = n.attr("bins"), n.attr("range")
    shares = Term(const(np.arange(bins + 1) / bins, n.dtype))
    if limits is not None:
        return (shares * (limits[1] - limits[0]) + limits[0]).node
    x = cast(Term(n.args[0]), n.dtype)
    flat = reshape(x, (x.node.type.size,))
    lowest, highest = (Term(tidy.reduce(name, flat.node, [-1])) for name in ("min", "max"))
    half = where(lowest.equals(highest), 0.5, 0, n.dtype)
    return (lowest - half + shares * (highest - lowest + half * 2)).node


ROWS: dict[str, Row] = {
    **{name: constant() for name in PLACES.split()},
    "sort": Row(_sorted_tangent),
    "partition": Row(_parted_tangent),
    "bincount": Row(_weights_tangent, transpose=_weights_transpose, linear=(1,)),
    "histogram": refused("of weights it is that of np.add.at(counts, places, weights)"),
    "histogram_bin_edges": Row(formula=_edges),
}
