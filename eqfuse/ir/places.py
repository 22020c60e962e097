"""Where in the user's files the values of a graph are made.

In: the places of some nodes. Out: those of others, by these: of what is computed on the way to one, and of the nodes
of a graph that was made of another. Next stop: `eqfuse/show/lines.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eqfuse.ir.graph import CodePlace, Graph, Node, topological


def spread(places: Mapping[Node, CodePlace | None], outputs: Sequence[Node]) -> dict[Node, CodePlace]:
    """`places`, and of the other nodes below `outputs` that of what they were made on the way to."""
    complete = {n: place for n, place in places.items() if place is not None}
    order = topological(outputs)
    for n in reversed(order):
        if n in complete:
            for a in n.args:
                complete.setdefault(a, complete[n])
    return {n: complete[n] for n in order if n in complete}


def carried_over(graph: Graph, source: Graph) -> Graph:
    """`graph`, which was made of `source`, with the places of the nodes that its own stand for."""
    if source.places is None or graph is source:
        return graph
    places: dict[Node, CodePlace | None] = dict(source.places)
    pairs = [*zip(graph.outputs, source.outputs, strict=True)]
    seen: set[Node] = set()
    while pairs:
        new, old = pairs.pop()
        if new is old or new in seen:
            continue
        seen.add(new)
        places.setdefault(new, source.places.get(old))
        if new.op == old.op and len(new.args) == len(old.args):
            pairs += zip(new.args, old.args, strict=True)
    return replace(graph, places=spread(places, graph.outputs))
