"""The order of a plan's kernels: one in which the values that lie in memory at a time take less of it.

In: a `Plan`. Out: a `Plan` of the same kernels. Next stop: `limit.py`, or `emit`. What kernels read and write is
counted, not what they work in. Kernels that update an array, run loops or call the user's functions stay where they
are, and others on their side of them: where an update may write depends on what has run before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import accumulate

from eqfuse.ops import Role
from eqfuse.ops.loops import LOOPS
from eqfuse.plan.memory import OWN_PLACE
from eqfuse.plan.plan import Kernel, Plan

LESS = 0.9  # of what is held at most: for a smaller gain kernels stay beside those whose results are near


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
        self.users: dict[int, list[int]] = {v: [] for v in self.nbytes}
        for i, used in enumerate(self.used):
            for v in used:
                self.users[v].append(i)

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
        left = {v: len(users) for v, users in self.users.items()}
        backward = any(j > i for i, needed in enumerate(before) for j in needed)
        ready: list[tuple[int, int, int]] = []  # growth, what comes first of equal ones, number; or what was so once
        placed: set[int] = set()
        order: list[int] = []

        def stand(i: int) -> None:
            heappush(ready, (self._growth(i, left), -i if backward else i, i))

        for i, count in enumerate(waiting):
            if not count:
                stand(i)
        while ready:
            growth, _, chosen = heappop(ready)
            if chosen in placed or growth != self._growth(chosen, left):
                continue
            placed.add(chosen)
            order.append(chosen)
            for v in self.used[chosen]:
                left[v] -= 1
            for i in after[chosen]:
                waiting[i] -= 1
            changed = [v for v in self.used[chosen] if left[v] in (1, len(self.users[v]) - 1)]
            for i in {*after[chosen]}.union(*[self.users[v] for v in changed]) - placed:
                if not waiting[i]:
                    stand(i)
        return order

    def _growth(self, i: int, left: Mapping[int, int]) -> int:
        """Bytes held after kernel `i` less those before it, where values have so many uses `left`."""
        return sum(self.nbytes[v] * ((left[v] == len(self.users[v])) - (left[v] == 1)) for v in self.used[i])
