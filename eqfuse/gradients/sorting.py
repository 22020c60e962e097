"""Derivatives of sorting, searching, order statistics and counts: what is chosen changes, the choice does not."""

from __future__ import annotations

from eqfuse.gradients.row import Changes, Row, constant, refused
from eqfuse.gradients.terms import Term, cast
from eqfuse.ir.graph import Node, node
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


ROWS: dict[str, Row] = {
    **{name: constant() for name in PLACES.split()},
    "sort": Row(_sorted_tangent),
    "partition": Row(_parted_tangent),
    "bincount": Row(_weights_tangent, transpose=_weights_transpose, linear=(1,)),
    "histogram": refused("of weights it is that of np.add.at(counts, places, weights)"),
    "histogram_bin_edges": refused("compute the edges from the smallest and the largest value"),
}
