"""The evaluation order of a kernel body: a topological order that keeps few values live at a time.

In: a body. Out: its nodes, arguments first. The graph follows its outputs one by one: all that the first one needs is
computed, and kept, before anything of the second.
"""

from __future__ import annotations

from functools import lru_cache

from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import computes


@lru_cache(maxsize=256)  # a schedule asks several times, and the text that follows it again
def evaluation_order(body: Graph) -> tuple[Node, ...]:
    """The nodes of `body`, in its own order or in one that frees values early: whichever keeps fewest elements live."""
    orders = [body.nodes, _largest_first(body)]
    if len(body.outputs) > 1:
        orders.append(tuple(_freeing(body)))
    return min(orders, key=lambda nodes: _waiting(nodes, body))


def _largest_first(body: Graph) -> tuple[Node, ...]:
    """Of the arguments of a node the one first that keeps most elements live while it is computed (R. Sethi and J. D.
    Ullman, "The generation of optimal code for arithmetic expressions", 1970)."""
    most: dict[Node, int] = {}
    for n in body.nodes:
        held = peak = 0
        for a in _by_need(n, most):
            peak = max(peak, held + most[a])
            held += a.type.size * computes(a)
        most[n] = max(peak, n.type.size * computes(n))
    order: dict[Node, None] = {}
    stack = list(reversed(body.outputs))
    while stack:
        n = stack[-1]
        waiting = [a for a in _by_need(n, most) if a not in order]
        if waiting and n not in order:
            stack.append(waiting[0])
        else:
            order.setdefault(stack.pop())
    order.update(dict.fromkeys(n for n in body.nodes if n not in order))
    return tuple(order)


def _by_need(n: Node, most: dict[Node, int]) -> list[Node]:
    return sorted(dict.fromkeys(n.args), key=lambda a: a.type.size * computes(a) - most[a])


def _freeing(body: Graph) -> list[Node]:
    """Greedily the node after which fewest elements are live; of these the shallowest."""
    outputs = set(body.outputs)
    args = {n: dict.fromkeys(n.args) for n in body.nodes}
    readers: dict[Node, list[Node]] = {n: [] for n in body.nodes}
    for n in body.nodes:
        for a in args[n]:
            readers[a].append(n)
    unread = {n: len(nodes) for n, nodes in readers.items()}
    missing = {n: len(nodes) for n, nodes in args.items()}
    depth: dict[Node, int] = {}
    for n in body.nodes:
        depth[n] = max((depth[a] for a in args[n]), default=0) + computes(n)

    def growth(n: Node) -> tuple[int, int]:
        freed = sum(a.type.size for a in args[n] if unread[a] == 1 and computes(a) and a not in outputs)
        return n.type.size * computes(n) - freed, depth[n]

    ready = [n for n in body.nodes if not n.args]
    order = []
    while ready:
        n = min(ready, key=growth)
        ready.remove(n)
        order.append(n)
        for a in args[n]:
            unread[a] -= 1
        for reader in readers[n]:
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return order


def _waiting(nodes: tuple[Node, ...], body: Graph) -> int:
    """The most elements that are live (computed and still to be read) at any time."""
    last = {a: n for n in nodes for a in n.args}
    kept = set(body.outputs)
    now = most = 0
    for n in nodes:
        now += n.type.size * computes(n)
        most = max(most, now)
        now -= sum(a.type.size for a in set(n.args) if last[a] is n and computes(a) and a not in kept)
    return most
