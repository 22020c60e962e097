"""Chains in a graph: values of which each is computed from the one before, in what looks like the same way.

In: the nodes of a graph. Out: chains that may be a carry of a loop. Next stop: `alignment`, which tells whether one is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from eqfuse.frontends.numpy.bodies import CONSTANT_BYTES
from eqfuse.ir.graph import Node, topological
from eqfuse.ops import Role

FEWEST_STEPS = 16  # steps of a loop
LOOK_DEPTH = 4  # operators above a node that decide what it looks like: the first steps may look otherwise
VISITS = 2_000_000  # of nodes, at most, in search of chains


def chains(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Chains of many nodes that look alike, first what needs most. `nodes`: arguments first."""
    position = {n: place for place, n in enumerate(nodes)}
    reads = [[position[a] for a in n.args] for n in nodes]
    groups = sorted(_groups(nodes), key=lambda members: -members[-1])
    paths = [_path(reads, members) for members in groups[: max(FEWEST_STEPS, VISITS // max(len(nodes), 1))]]
    long = [path for path in paths if len(path) >= FEWEST_STEPS - LOOK_DEPTH]
    for path in sorted(long, key=lambda path: -len(topological([nodes[path[-1]]]))):
        yield [nodes[place] for place in path]


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


def _path(reads: Sequence[Sequence[int]], members: Sequence[int]) -> list[int]:
    """The longest chain among `members`, of which each is computed from the one before and none between."""
    inside = {*members}
    near = [-1] * len(reads)  # the latest member that a node is computed from
    length: dict[int, int] = {}
    for place, args in enumerate(reads):
        near[place] = max([a if a in inside else near[a] for a in args], default=-1)
        if place in inside:
            length[place] = length.get(near[place], 0) + 1
    place = max(members, key=lambda m: (length[m], m))
    path = []
    while place >= 0:
        path.append(place)
        place = near[place]
    return path[::-1]
