"""Chains in a graph: values of which each is computed from the one before, in what looks like the same way.

In: the nodes of a graph. Out: chains that may be a carry of a loop. Next stop: `alignment`, which tells whether one is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from eqfuse.frontends.numpy.bodies import CONSTANT_BYTES
from eqfuse.ir.graph import Node, topological
from eqfuse.ops import Role

FEWEST_STEPS = 16  # steps of a loop
LOOK_DEPTH = 4  # operators above a node that decide what it looks like: the first steps may look otherwise
NEAREST = 4  # members that one is computed from, at most, of which chains through each are looked for
VISITS = 2_000_000  # of nodes, at most, in search of chains


def chains(nodes: Sequence[Node]) -> Iterator[list[list[Node]]]:
    """Chains of many nodes that look alike, first what needs most; with each, others that end in the same node.
    `nodes`: arguments first."""
    position = {n: place for place, n in enumerate(nodes)}
    reads = [[position[a] for a in n.args] for n in nodes]
    groups = sorted(_groups(nodes), key=lambda members: -members[-1])
    paths = [_paths(reads, members) for members in groups[: max(FEWEST_STEPS, VISITS // max(len(nodes), 1))]]
    long = [path for path in paths if len(path[0]) >= FEWEST_STEPS - LOOK_DEPTH]
    for path in sorted(long, key=lambda path: -len(topological([nodes[path[0][-1]]]))):
        yield [[nodes[place] for place in each] for each in path]


def is_small(n: Node) -> bool:
    """Is `n` a constant that may differ from step to step?"""
    return n.op == "const" and n.type.nbytes <= CONSTANT_BYTES


def _groups(nodes: Sequence[Node]) -> list[list[int]]:
    """The places of operators that look alike, many at least."""
    numbers: dict[Any, int] = {}
    first = [numbers.setdefault(likeness(n), len(numbers)) for n in nodes]
    looks = dict(zip(nodes, first, strict=True))
    for _ in range(LOOK_DEPTH):
        numbers = {}
        looks = {
            n: numbers.setdefault((own, *(looks[a] for a in n.args)), len(numbers))
            for n, own in zip(nodes, first, strict=True)
        }
    groups: dict[int, list[int]] = defaultdict(list)
    for place, n in enumerate(nodes):
        if n.args and n.row.role is not Role.VIEW:
            groups[looks[n]].append(place)
    return [members for members in groups.values() if len(members) >= FEWEST_STEPS - LOOK_DEPTH]


def likeness(n: Node) -> tuple:
    """What `n` shares with its like in other steps: of a slice its extents, of a small constant its type."""
    if n.op == "slice":
        return "slice", n.type, tuple([step for _, _, step in n.attr("ranges")])
    if n.op == "slice_scatter":
        return n.op, n.type, tuple([step for ranges in n.attr("slices") for _, _, step in ranges])
    return ("const", n.type) if is_small(n) else (n.op, n.attrs, n.type)


def _paths(reads: Sequence[Sequence[int]], members: Sequence[int]) -> list[list[int]]:
    """Chains among `members`, of which each is computed from the one before and none between: the longest one through
    the latest of these, and others to its end.

    What a loop within a loop computes is a chain by either. A member that is computed from several has one of them by
    the inner loop and one by the outer: each of the others goes through the same one of these, in the order in which
    they are read.
    """
    inside = {*members}
    near: list[tuple[int, ...]] = []  # the members that a node is computed from, as it reads them
    length: dict[int, int] = {}
    for place, args in enumerate(reads):
        own = [(a,) if a in inside else near[a] for a in args]
        sources = own[0] if len(own) == 1 else tuple(dict.fromkeys([m for each in own for m in each]))
        near.append(sources if len(sources) <= NEAREST else (max(sources),))
        if place in inside:
            length[place] = length.get(max(sources, default=-1), 0) + 1
    end = max(members, key=lambda m: (length[m], m))
    latest = _path(near, end, max)
    ways = range(len(near[end])) if len(near[end]) > 1 else ()
    others = [_path(near, end, partial(_source, way)) for way in ways]
    return [latest, *(path for path in others if path != latest and len(path) >= FEWEST_STEPS - LOOK_DEPTH)]


def _source(way: int, sources: tuple[int, ...]) -> int:
    return sources[way] if way < len(sources) else -1


def _path(near: Sequence[tuple[int, ...]], end: int, choice: Callable[[tuple[int, ...]], int]) -> list[int]:
    """From `end` back through the `choice` of what each is computed from."""
    path = [end]
    while (sources := near[path[-1]]) and (place := choice(sources)) >= 0:
        path.append(place)
    return path[::-1]
