"""What a backward pass in a program of its own keeps of the forward pass, and what it computes again.

In: the values that it reads, and what it costs to keep each and to compute it again. Out: those that are computed
again, by a minimal cut: a value that is needed is kept, or it is computed again and its arguments are needed. The
known policies are choices of the two costs (`POLICIES`).
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from eqfuse.ir.graph import Node, topological
from eqfuse.ops import Role

Cost = Callable[[Node], float]
CHEAP_ROLES = (Role.ELEMENTWISE, Role.VIEW, Role.PIECES)  # what fuses into any reader


def nbytes(n: Node) -> float:
    return 0.0 if n.op == "input" else float(n.type.nbytes)


def never(_n: Node) -> float:
    return math.inf


def free(_n: Node) -> float:
    return 0.0


def free_if_cheap(n: Node) -> float:
    return 0.0 if n.row.role in CHEAP_ROLES else math.inf


POLICIES: Mapping[str, tuple[Cost, Cost]] = {  # of keeping, of computing again: in bytes, the arguments' are there
    "store_all": (nbytes, never),
    "recompute_all": (nbytes, free),
    "min_cut": (nbytes, free_if_cheap),
}


def computed_again(read: Sequence[Node], keep: Cost, again: Cost, marked: Collection[Node] = ()) -> set[Node]:
    """Those of the values below `read`, with themselves, that are computed again; `marked` ones are not kept."""
    flow, end, begin = _Flow(), "backward", "forward"
    for n in topological(read):
        inside = n in marked or n.op == "const" or _is_view(n)
        flow.add((n, "in"), (n, "out"), math.inf if inside else keep(n))
        flow.add(begin, (n, "in"), 0.0 if inside else again(n) if n.args else math.inf)
        for a in dict.fromkeys(n.args):
            flow.add((a, "out"), (n, "in"), math.inf)
    for n in dict.fromkeys(read):
        flow.add((n, "out"), end, math.inf)
    before = flow.cut(begin, end)
    return {n for n in topological(read) if n.op != "input" and (n, "in") not in before}


def _is_view(n: Node) -> bool:
    """Does it show all of its argument, or repeat it? Such a one is the argument, not a value to keep."""
    return n.row.role is Role.VIEW and n.type.size >= n.args[0].type.size


class _Flow:
    """A network, and its minimal cut: by shortest paths, level by level (Dinic)."""

    def __init__(self) -> None:
        self.capacity: defaultdict[object, dict[object, float]] = defaultdict(dict)

    def add(self, a: object, b: object, capacity: float) -> None:
        self.capacity[a][b] = self.capacity[a].get(b, 0.0) + capacity
        self.capacity[b].setdefault(a, 0.0)

    def cut(self, source: object, sink: object) -> set[object]:
        """The side of `source`, the largest there is."""
        while sink in (level := self._levels(source)):
            rest = {a: list(ends) for a, ends in self.capacity.items()}
            while path := self._path(source, sink, level, rest):
                steps = list(pairwise(path))
                amount = min(self.capacity[a][b] for a, b in steps)
                for a, b in steps:
                    self.capacity[a][b] -= amount
                    self.capacity[b][a] += amount
        return self.capacity.keys() - self._reaching(sink)

    def _levels(self, source: object) -> dict[object, int]:
        """How far from `source` the others are."""
        level, queue = {source: 0}, deque([source])
        while queue:
            a = queue.popleft()
            for b, capacity in self.capacity[a].items():
                if capacity > 0 and b not in level:
                    level[b] = level[a] + 1
                    queue.append(b)
        return level

    def _path(
        self, source: object, sink: object, level: dict[object, int], rest: dict[object, list[object]]
    ) -> list[object]:
        """A shortest path with capacity, of steps that are left to `rest`; none where it is empty."""
        path = [source]
        while path[-1] != sink:
            a = path[-1]
            while rest[a] and not (self.capacity[a][rest[a][-1]] > 0 and level.get(rest[a][-1]) == level[a] + 1):
                rest[a].pop()
            if rest[a]:
                path.append(rest[a][-1])
                continue
            path.pop()
            if not path:
                break
            rest[path[-1]].pop()
        return path

    def _reaching(self, sink: object) -> set[object]:
        """What has capacity to go to `sink`."""
        sources, stack = {sink}, [sink]
        while stack:
            b = stack.pop()
            for a in self.capacity[b]:
                if a not in sources and self.capacity[a][b] > 0:
                    sources.add(a)
                    stack.append(a)
        return sources
