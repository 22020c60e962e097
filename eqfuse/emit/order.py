"""The order in which a kernel computes its values: few of them wait to be read at once.

In: a body. Out: its nodes, arguments first. The graph follows its outputs one by one: all that the first one needs is
computed, and kept, before anything of the second.
"""

from __future__ import annotations

import heapq

from eqfuse.emit.numpy_ops import computes
from eqfuse.ir import Graph, Node


def frugal(body: Graph) -> tuple[Node, ...]:
    """The nodes of `body`, in its own order or in one by depth, whichever keeps fewer values waiting."""
    if len(body.outputs) == 1 and len(body.operators) < 3:
        return body.nodes
    depth: dict[Node, int] = {}
    for n in body.nodes:
        depth[n] = max((depth[a] for a in n.args), default=0) + computes(n)
    flat = tuple(_by_depth(body, depth))
    return min((body.nodes, flat), key=lambda nodes: _waiting(nodes, body))


def _by_depth(body: Graph, depth: dict[Node, int]) -> list[Node]:
    """Shallow nodes first, but what reads a value last soon after it."""
    place = {n: i for i, n in enumerate(body.nodes)}
    missing = {n: len(set(n.args)) for n in body.nodes}
    readers: dict[Node, list[Node]] = {n: [] for n in body.nodes}
    for n in body.nodes:
        for a in set(n.args):
            readers[a].append(n)
    ready = [(depth[n], place[n]) for n in body.nodes if not n.args]
    heapq.heapify(ready)
    made = []
    while ready:
        n = body.nodes[heapq.heappop(ready)[1]]
        made.append(n)
        for reader in readers[n]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (depth[reader], place[reader]))
    return made


def _waiting(nodes: tuple[Node, ...], body: Graph) -> int:
    """The most elements that are computed and still to be read, at any time."""
    last = {a: n for n in nodes for a in n.args}
    kept = set(body.outputs)
    now = most = 0
    for n in nodes:
        now += n.type.size * computes(n)
        most = max(most, now)
        now -= sum(a.type.size for a in set(n.args) if last[a] is n and computes(a) and a not in kept)
    return most
