"""The order of a plan's kernels: one in which the values that lie in memory at a time take less of it.

In: a `Plan`. Out: a `Plan` of the same kernels. Next stop: `limit.py`. What kernels read and write is counted, not what
they work in. Kernels that update an array, run loops or call the user's functions stay where they are, and others on
their side of them: where an update may write depends on what has run before.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from eqfuse.ops import Role
from eqfuse.ops.loops import LOOPS
from eqfuse.plan.memory import OWN_PLACE
from eqfuse.plan.plan import Kernel, Plan

LESS = 0.9  # of what is held at most: for a smaller gain kernels stay beside those whose results are near
READY = 64  # kernels that are looked at, of those that may be next


def in_less_memory(plan: Plan) -> Plan:
    """The `plan`, its kernels in another order where clearly less is held at a time."""
    values = _Values(plan)
    before = _needed(plan)
    after: list[set[int]] = [set() for _ in before]
    for i, needed in enumerate(before):
        for j in needed:
            after[j].add(i)
    number = range(len(before))
    best = min((number, values.order(before, after), values.order(after, before)[::-1]), key=values.most)
    if values.most(best) > LESS * values.most(number):
        return plan
    return replace(plan, kernels=tuple([plan.kernels[i] for i in best]))


def _needed(plan: Plan) -> list[set[int]]:
    """Per kernel, the numbers of those that run before it in any order."""
    maker: dict[int, int] = {}
    needed: list[set[int]] = []
    barrier = -1
    for i, k in enumerate(plan.kernels):
        needed.append({maker[v] for v in k.reads if v in maker} | ({barrier} - {-1}))
        if _stays(k):
            needed[i].update(range(barrier + 1, i))
            barrier = i
        maker.update(dict.fromkeys(k.writes, i))
    return needed


def _stays(k: Kernel) -> bool:
    updates = k.template.updates and k.body.outputs[0].row.role is Role.UPDATE
    return updates or any(n.op in LOOPS or n.op == "pure_callback" for n in k.body.nodes)


class _Values:
    """The values that are held, but for results, and which kernels use them: make, read, or read a view of them."""

    def __init__(self, plan: Plan) -> None:
        root: dict[int, int] = {}  # of a view
        for k in plan.kernels:
            if k.is_view:
                root[k.writes[0]] = root.get(k.reads[0], k.reads[0])
        results = {root.get(v, v) for v in plan.outputs}
        own = {v for k in plan.kernels for v in k.writes} - root.keys() - results
        self.nbytes = {v: plan.types[v].nbytes for v in own if plan.types[v].nbytes > OWN_PLACE}
        self.used = [
            sorted({root.get(v, v) for v in (*k.reads, *k.writes)} & self.nbytes.keys()) for k in plan.kernels
        ]
        self.uses = Counter(v for used in self.used for v in used)

    def most(self, order: Sequence[int]) -> int:
        """The most bytes that are held at a time."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for place, i in enumerate(order):
            for v in self.used[i]:
                first.setdefault(v, place)
                last[v] = place
        change = [0] * (len(order) + 1)
        for v, nbytes in self.nbytes.items():
            change[first[v]] += nbytes
            change[last[v] + 1] -= nbytes
        return max(accumulate(change))

    def order(self, before: Sequence[set[int]], after: Sequence[set[int]]) -> list[int]:
        """Kernels by number, each behind those `before` it: next is the one that adds least to what is held. It holds
        for the reverse order too, in which a value is held from its first reader to its maker."""
        waiting = [len(needed) for needed in before]
        left = self.uses.copy()
        backward = any(j > i for i, needed in enumerate(before) for j in needed)
        place = (lambda i: -i) if backward else (lambda i: i)
        ready = sorted([i for i, count in enumerate(waiting) if not count], key=place)
        order: list[int] = []
        while ready:
            chosen = min(ready[:READY], key=lambda i: self._growth(i, left))
            ready.remove(chosen)
            order.append(chosen)
            left.subtract(self.used[chosen])
            for i in after[chosen]:
                waiting[i] -= 1
                if not waiting[i]:
                    insort(ready, i, key=place)
        return order

    def _growth(self, i: int, left: Counter[int]) -> int:
        """Bytes held after kernel `i` less those before it, where values have so many uses `left`."""
        return sum(self.nbytes[v] * ((left[v] == self.uses[v]) - (left[v] == 1)) for v in self.used[i])
