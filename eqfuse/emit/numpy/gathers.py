"""Gathers inside tiles: whole rows of an array by their numbers, or elements along the last axis.

In: a body with views on leaves only. Out: what lies in other axes than its values do, and which of the panel's axes
tiles may cut. Used by `tiling`, `scheduling` and `tile`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from eqfuse.cost.work import touches
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.ir.views import computes, leaf_chain
from eqfuse.ops import Role

if TYPE_CHECKING:
    from eqfuse.emit.numpy.tiling import Panel


def places_in_panel(n: Node) -> Node:
    """The row numbers that ``take`` reads, in the axes of its result."""
    table, places = n.args
    return node("reshape", (places,), ((*places.shape, *(1,) * (table.type.rank - 1)),))


def aside(body: Graph) -> set[Node]:
    """What only a ``take`` reads: it lies in other axes than the values of the body."""
    values = {m for n in body.nodes if n.op == "take" for a in n.args for m in (a, *leaf_chain(a)[1], leaf_chain(a)[0])}
    if not values:
        return values
    read = {a for n in body.nodes if n.op != "take" and n not in values for a in n.args}
    return {n for n in values if n not in read and n not in body.outputs}


def shares(body: Graph) -> dict[Node, float]:
    """The share that is read of arrays that nothing but one gather reads."""
    share_of: dict[Node, float] = {}
    for n in body.of_role(Role.GATHER):
        source = n.args[0]
        if source not in body.outputs and [m for m in body.nodes if source in m.args] == [n]:
            share_of |= share_read(n)
    return share_of


def share_read(n: Node) -> dict[Node, float]:
    """The share that a gather reads of its first argument, unless that is another one too."""
    source, *others = n.args
    if n.row.role is not Role.GATHER or not source.type.nbytes or source in others:
        return {}
    return {source: min(1.0, touches(n.op, n.attrs, source.type, n.type) / source.type.nbytes)}


def parts_last_axis(body: Graph) -> bool:
    """Are elements gathered along the last axis, where reductions go over others? No tile has both whole."""
    over = [n.attr("axes") for n in body.of_role(Role.REDUCTION)]
    return any(-1 not in axes for axes in over) and any(n.op == "take_along_axis" for n in body.nodes)


def may_cut(body: Graph, panel: Panel, axes: Collection[int]) -> bool:
    """May tiles take parts along these axes of the panel? Not along those within a row that is taken whole."""
    for n in body.nodes:
        if n.op == "take" and computes(n):
            inside = {panel.rank - a - 1 for a in range(n.args[0].type.rank - 1)}
            if any(inside & set(panel.groups[axis]) for axis in axes):
                return False
        if n.op == "take_along_axis" and any(panel.rank - 1 in panel.groups[axis] for axis in axes):
            return False
    return True


def take_along(x: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """The elements of `x` at `places` of its last axis, into `out`."""
    np.copyto(out, np.take_along_axis(x, places, -1))
