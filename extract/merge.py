"""Merging: kernels over the same space that share what they read, or feed one another, become one with several outputs.

In: a `Cover`. Out: its `groups` (and `cost`), never dearer. The gain is a launch, a shared read, or a read of what the
other kernel has just written. A merge that would close a circle through a third kernel is refused.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from eqfuse.extract.cover import WORTH, Cover, Group, producers_first
from eqfuse.extract.cuts import Cut, Grammar
from eqfuse.extract.ledger import count, together
from eqfuse.kinds import merge as merge_states

NEIGHBOURS = 24  # groups around one shared read that are tried with one another
EFFORT = 20_000  # operators of the kernels tried, after which no further pair is: long programs of one shape


def merge(cover: Cover) -> None:
    """Merge the pair with the largest saving until none saves anything."""
    pool = _Pool(cover)
    queue: list[tuple[float, int, int, Group]] = []
    for pair in pool.pairs(pool.alive):
        pool.offer(queue, *pair)
    while queue:
        _, a, b, made = heapq.heappop(queue)
        if a in pool.alive and b in pool.alive and pool.acyclic(a, b):
            new = pool.replace(a, b, made)
            for pair in pool.pairs([new]):
                pool.offer(queue, *pair)
    cover.groups = pool.ordered()
    cover.cost = sum(g.price.seconds for g in cover.groups)


class _Pool:
    """The kernels that are left, by number, and which of them make and read each class."""

    def __init__(self, cover: Cover) -> None:
        self.cover = cover
        self.alive: dict[int, Group] = {}
        self.maker: dict[int, int] = {}
        self.readers: dict[int, dict[int, None]] = {}
        self.next = 0
        self.tried = 0
        for group in cover.single_groups():
            self._add(group)

    def _add(self, group: Group) -> int:
        number, self.next = self.next, self.next + 1
        self.alive[number] = group
        self.maker |= dict.fromkeys(group.outputs, number)
        for leaf in group.leaves:
            self.readers.setdefault(leaf, {})[number] = None
        return number

    def replace(self, a: int, b: int, made: Group) -> int:
        for number in (a, b):
            for leaf in self.alive.pop(number).leaves:
                del self.readers[leaf][number]
        return self._add(made)

    def pairs(self, numbers: Iterable[int]) -> list[tuple[int, int]]:
        """Pairs with one of `numbers` that share a read or an edge."""
        found: dict[tuple[int, int], None] = {}
        for number in numbers:
            group = self.alive[number]
            near = [self.maker[leaf] for leaf in group.leaves if leaf in self.maker]
            for c in (*group.leaves, *group.outputs):
                near += list(self.readers.get(c, ()))[:NEIGHBOURS]
            for other in near:
                if other != number and other in self.alive:
                    found[min(number, other), max(number, other)] = None
        return list(found)

    def offer(self, queue: list[tuple[float, int, int, Group]], a: int, b: int) -> None:
        if self.tried > EFFORT:
            return
        self.tried += sum(count(cut.works) for number in (a, b) for cut in self.alive[number].cuts)
        made = self._together(self.alive[a], self.alive[b])
        if made is not None:
            saving = self.alive[a].price.seconds + self.alive[b].price.seconds - made.price.seconds
            if saving > WORTH:
                heapq.heappush(queue, (-saving, a, b, made))

    def needed_outside(self, of: int, a: Group, b: Group) -> bool:
        """Is class `of` read by a third kernel, or a result of the program?"""
        mine = {self.maker[a.outputs[0]], self.maker[b.outputs[0]]}
        return of in self.cover.roots or any(r not in mine for r in self.readers.get(of, ()))

    def _together(self, a: Group, b: Group) -> Group | None:
        """One kernel for both groups, or None when they share nothing or no kind holds them."""
        if "view" in (a.state.kind, b.state.kind) or a.state.space != b.state.space:
            return None
        feeds_b = any(c in b.leaves for c in a.outputs)
        feeds_a = any(c in a.leaves for c in b.outputs)
        if feeds_a:
            a, b, feeds_b = b, a, True
        if not feeds_b and not any(leaf in b.leaves for leaf in a.leaves):
            return None
        grammar = self.cover.grammar
        second: list[Cut] = []
        for cut in b.cuts:
            made = grammar.inline(cut, {c.of: c for c in a.cuts}) if feeds_b else cut
            if isinstance(made, str):
                return None
            second.append(made)
            kept = [c for c in a.cuts if self.needed_outside(c.of, a, b)]
        return group(grammar, (*kept, *second))

    def acyclic(self, a: int, b: int) -> bool:
        """No path from one group to the other through a third."""
        for start, goal in ((a, b), (b, a)):
            stack = [m for m in self._makers(start) if m != goal]
            seen: set[int] = set()
            while stack:
                i = stack.pop()
                if i == goal:
                    return False
                if i not in seen:
                    seen.add(i)
                    stack.extend(self._makers(i))
        return True

    def _makers(self, number: int) -> list[int]:
        return [self.maker[leaf] for leaf in self.alive[number].leaves if leaf in self.maker]

    def ordered(self) -> tuple[Group, ...]:
        """Groups, producers first, otherwise in order of age."""
        return tuple(self.alive[i] for i in producers_first(sorted(self.alive), self._makers))


def group(grammar: Grammar, cuts: tuple[Cut, ...]) -> Group | None:
    state = cuts[0].state
    leaves: dict[int, int] = {}
    for cut in cuts:
        if cut is not cuts[0]:
            joined = merge_states(state, cut.state)
            if isinstance(joined, str):
                return None
            state = joined
        for c, size in cut.leaves.items():
            leaves[c] = max(size, leaves.get(c, 0))
    if any(c.of in leaves for c in cuts):
        return None
    outputs = tuple(grammar.classes[c.of].type for c in cuts)
    works = together(cut.works for cut in cuts)
    return Group(cuts, state, leaves, grammar.price(state, leaves, works, outputs))
