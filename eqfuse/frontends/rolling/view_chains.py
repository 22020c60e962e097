"""Chains of views: slices, transposes and flips one after another are one of each, before the search.

In: a graph. Out: the graph in which the views of long chains stand on what the chain begins with: a transpose of a flip
of a slice of it. The search would keep every order of them: a chain of n is n^2 nodes. Next stop: `egraph.saturate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqfuse.frontends.numpy import tidy
from eqfuse.ir.graph import Graph, Node
from eqfuse.summary import count

LONG_VIEWS = 8  # views of a chain that is not left to the search


def views_met(graph: Graph) -> Graph:
    """`graph` with its long chains of views merged; what was done stands in `rolled`."""
    length: dict[Node, int] = {}
    for n in graph.nodes:
        length[n] = 1 + length[n.args[0]] if n.op in _ON else 0
    long = _long(length)
    if not long:
        return graph
    new: dict[Node, Node] = {}
    for n in graph.nodes:
        args = [new[a] for a in n.args]
        new[n] = _ON[n.op](args[0], n) if n in long else n if args == [*n.args] else n.over(args)
    met = replace(graph, outputs=tuple([new[o] for o in graph.outputs]))
    gone = len(graph.operators) - len(met.operators)
    if gone <= 0:
        return graph
    return replace(met, rolled=(*(graph.rolled or ()), f"{count(gone, 'view')} met others of one array"))


def _long(length: dict[Node, int]) -> set[Node]:
    """The views of chains of at least `LONG_VIEWS`, all of them."""
    views: set[Node] = set()
    for n in reversed(length):
        if length[n] >= LONG_VIEWS or n in views:
            views.add(n)
            if length[n] > 1:
                views.add(n.args[0])
    return views


def _transposed(x: Node, n: Node) -> Node:
    return tidy.transpose(x, n.attr("axes"))


def _sliced(x: Node, n: Node) -> Node:
    return _slice(x, n.attr("ranges"))


def _slice(x: Node, ranges: Sequence[tuple[int, int, int]]) -> Node:
    if x.op == "transpose":
        axes: Sequence[int] = x.attr("axes")
        below = [r for _, r in sorted(zip(axes, ranges, strict=True))]
        return tidy.transpose(_slice(x.args[0], below), axes)
    if x.op == "flip":
        flipped: Sequence[int] = x.attr("axes")
        rank = len(ranges)
        below = [_mirrored(r, x.shape[i]) if i - rank in flipped else r for i, r in enumerate(ranges)]
        return tidy.flip(_slice(x.args[0], below), flipped)
    return tidy.slice_(x, ranges)


def _mirrored(r: tuple[int, int, int], extent: int) -> tuple[int, int, int]:
    """The places of a reversed axis that `r` takes, counted from its other end."""
    places = range(*r)
    return tidy.canonical_range(range(extent - 1 - places[-1], extent - places[0], r[2])) if places else r


def _flipped(x: Node, n: Node) -> Node:
    axes: Sequence[int] = n.attr("axes")
    if x.op == "transpose":
        order: Sequence[int] = x.attr("axes")
        rank = len(order)
        return tidy.transpose(tidy.flip(x.args[0], [order[a] - rank for a in axes]), order)
    return tidy.flip(x, axes)


_ON = {"transpose": _transposed, "slice": _sliced, "flip": _flipped}
