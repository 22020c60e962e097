"""Families of segments: the same operators on arrays of other extents, as the steps of a loop that shrinks make them.

In: graphs, and how often each is used. Out: which of them takes the plan of which other. Next stop: `egraph.saturate`,
which searches the first of a family, and `extract.cover_transfer`, which transfers its plan to the others.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

from eqfuse.ir.correspondence import NO_EXTENTS
from eqfuse.ir.graph import Graph, Node

FEWEST_ALIKE = 4  # of a family: fewer are searched one by one
SMALL_EXTENT = 48  # extents up to this are one to the price: launches decide
NEAR_EXTENTS = 4  # times which an extent may be of another, for a plan to be transferred


def alike_graphs(graphs: Sequence[Graph], times: Mapping[int, int]) -> dict[int, int]:
    """For each of `graphs`, by number, whose plan is another's: that other. `times`: how often each is used."""
    families: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number, graph in enumerate(graphs):
        families[outline(graph)].append(number)
    others: dict[int, int] = {}
    for members in families.values():
        if len(members) >= FEWEST_ALIKE:
            middle = len(members) // 2
            first = max(members, key=lambda number: (times[number], -abs(members.index(number) - middle)))
            others |= dict.fromkeys((number for number in members if number != first), first)
    return others


def outline(graph: Graph) -> Hashable:
    """What alike graphs share: operators in their order, about how large their arrays are, and no other number."""
    place = {n: i for i, n in enumerate(graph.inputs)}
    lines: list[Hashable] = [(n.dtype, n.is_constant_leaf, _sizes(n)) for n in graph.inputs]
    for n in graph.nodes:
        if n not in place:
            place[n] = len(place)
            lines.append((look(n), _sizes(n), tuple([place[a] for a in n.args])))
    return tuple(lines), tuple([place[o] for o in graph.outputs])


def look(n: Node) -> Hashable:
    """What `n` shares with its like in other steps: its operator, what is broadcast, and no extent."""
    shape = tuple([min(extent, 2) for extent in n.shape])
    if n.op == "const":
        return n.op, n.dtype, shape
    named = zip(n.row.attrs, n.attrs, strict=True)
    return n.op, n.dtype, shape, tuple([a if name in NO_EXTENTS else _without_numbers(a) for name, a in named])


def _without_numbers(value: Hashable) -> Hashable:
    if isinstance(value, tuple):
        return tuple([_without_numbers(v) for v in value])
    return int if type(value) is int else value


def _sizes(n: Node) -> tuple[int, ...]:
    """About how large each extent is: those within a factor of `NEAR_EXTENTS` are the same."""
    return tuple([e if e < 2 else 2 + max(0, math.ceil(math.log(e / SMALL_EXTENT, NEAR_EXTENTS))) for e in n.shape])


def operators(graphs: Sequence[Graph]) -> int:
    """How many operators are searched for plans of all `graphs`."""
    taken = alike_graphs(graphs, Counter())
    return sum(len(graph.operators) for number, graph in enumerate(graphs) if number not in taken)


def repetitions(looks: Sequence[Hashable], longest: int = 16, fewest: int = 6) -> list[tuple[int, int, int]]:
    """Where `looks` repeat themselves: (first place, places in each turn, turns), in order and apart from one another.

    A turn has up to `longest` places, and there are `fewest` turns at least.
    """
    repeats = []
    start = 0
    while start < len(looks):
        best = (0, 0)  # places covered, less those of a turn: of equals the shorter turn
        for period in range(1, min(longest, (len(looks) - start) // fewest) + 1):
            end = start + period
            while end < len(looks) and looks[end] == looks[end - period]:
                end += 1
            turns = (end - start) // period
            if turns >= fewest:
                best = max(best, (turns * period, -period))
        covered, period = best[0], -best[1]
        if covered:
            repeats.append((start, period, covered // period))
        start += max(covered, 1)
    return repeats
