"""Merging: kernels over the same space that share what they read, or feed one another, become one with several outputs.

In: a `Cover`. Out: its `groups` (and `cost`), never costlier. A merge saves a launch, a shared read, or a read of what
the other kernel has just written. A merge that would close a circle through a third kernel is refused.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from eqfuse.extract.candidates.cuts import Cut, Grammar
from eqfuse.extract.candidates.work import union
from eqfuse.extract.covers.cover import WORTH, Cover, Group, alone, producers_first
from eqfuse.kinds import merge as merge_states

NEIGHBOURS = 24  # groups around one shared read that are tried with one another
EFFORT = 20_000  # operators of the kernels tried, after which no further pair is: long programs of one shape


def merge(cover: Cover, allowed: Callable[[Group], bool] = lambda made: True) -> None:
    """Merge the pair with the largest saving until none whose result is `allowed` saves anything."""
    pool = Pool(cover.grammar, cover.roots, cover.single_groups(), allowed)
    pool.settle(list(pool.alive))
    cover.groups = pool.ordered()
    cover.cost = sum(g.price.seconds for g in cover.groups)


class Pool:
    """The kernels that are left, by number, and which of them make and read each class; what was done can be undone."""

    def __init__(
        self,
        grammar: Grammar,
        roots: tuple[int, ...],
        groups: Iterable[Group],
        allowed: Callable[[Group], bool] = lambda made: True,
    ) -> None:
        self.grammar = grammar
        self.roots = roots
        self.allowed = allowed
        self.alive: dict[int, Group] = {}
        self.maker: dict[int, int] = {}
        self.readers: dict[int, dict[int, None]] = {}
        self.seconds = 0.0
        self.tried = 0
        self._next = 0
        self._done: list[tuple[int, Group | None]] = []
        self._above: dict[int, int] | None = None
        for group in groups:
            self.add(group)
        self._done.clear()

    def settle(self, numbers: Iterable[int]) -> None:
        """Merge the pair with the largest saving until none of `numbers`, or of what they become, saves anything."""
        queue: list[tuple[float, int, int, Group]] = []
        for pair in self._pairs(numbers):
            self._offer(queue, *pair)
        while queue:
            _, a, b, made = heapq.heappop(queue)
            if a in self.alive and b in self.alive and self._direct(a, b):
                new = self._replace(a, b, made)
                for pair in self._pairs([new]):
                    self._offer(queue, *pair)

    def add(self, group: Group) -> int:
        number, self._next = self._next, self._next + 1
        self._put(number, group)
        self._done.append((number, None))
        return number

    def drop(self, number: int) -> None:
        self._done.append((number, self._take(number)))

    def undo(self) -> None:
        """Back to where the pool was made."""
        while self._done:
            number, group = self._done.pop()
            if group is None:
                self._take(number)
                self._next = number
            else:
                self._put(number, group)

    def _put(self, number: int, group: Group) -> None:
        self.alive[number] = group
        self.seconds += group.price.seconds
        self._above = None
        for eclass in group.outputs:
            self.maker[eclass] = number
        for leaf in group.leaves:
            self.readers.setdefault(leaf, {})[number] = None

    def _take(self, number: int) -> Group:
        group = self.alive.pop(number)
        self.seconds -= group.price.seconds
        self._above = None
        for eclass in group.outputs:
            if self.maker[eclass] == number:
                del self.maker[eclass]
        for leaf in group.leaves:
            del self.readers[leaf][number]
        return group

    def _replace(self, a: int, b: int, made: Group) -> int:
        above = self._order()
        self.drop(a)
        self.drop(b)
        new = self.add(made)
        gone = 1 << a | 1 << b
        mine = (above.pop(a) | above.pop(b)) & ~gone
        for number, mask in above.items():
            if mask & gone:
                above[number] = mask & ~gone | mine | 1 << new
        above[new] = mine
        self._above = above
        return new

    def _pairs(self, numbers: Iterable[int]) -> list[tuple[int, int]]:
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

    def _offer(self, queue: list[tuple[float, int, int, Group]], a: int, b: int) -> None:
        if self.tried > EFFORT:
            return
        self.tried += self.alive[a].size + self.alive[b].size
        made = self._together(a, b)
        if made is not None and self.allowed(made):
            saving = self.alive[a].price.seconds + self.alive[b].price.seconds - made.price.seconds
            if saving > WORTH:
                heapq.heappush(queue, (-saving, a, b, made))

    def _together(self, first: int, second: int) -> Group | None:
        """One kernel for both groups, or None when they share nothing or no kind holds them."""
        a, b = self.alive[first], self.alive[second]
        if a.state.space != b.state.space or a.state.is_view or b.state.is_view:
            return None
        if any(c in a.leaves for c in b.outputs):
            a, b = b, a
        elif not any(c in b.leaves for c in a.outputs) and a.leaves.keys().isdisjoint(b.leaves):
            return None
        mine = (first, second)
        classes = {c.eclass for c in a.cuts}
        outside = {c for c in classes if c in self.roots or any(r not in mine for r in self.readers.get(c, ()))}
        return self.grammar.once(together, a.cuts, b.cuts, tuple([c for c in a.cuts if c.eclass in outside]))

    def _direct(self, a: int, b: int) -> bool:
        """Is there no path from one group to the other through a third?"""
        above = self._order()
        return not any(above[m] >> far & 1 for near, far in ((a, b), (b, a)) for m in self._makers(near) if m != far)

    def acyclic(self) -> bool:
        """Does no kernel need its own results, however far around?"""
        return not any(mask >> number & 1 for number, mask in self._order().items())

    def _order(self) -> dict[int, int]:
        """For each group the numbers of all that it needs, as bits."""
        if self._above is not None:
            return self._above
        above: dict[int, int] = {}
        missing = {i: len(self._makers(i)) for i in self.alive}
        ready = [i for i, n in missing.items() if not n]
        for i in ready:
            mask = 0
            for m in self._makers(i):
                mask |= above[m] | 1 << m
            above[i] = mask
            for eclass in self.alive[i].outputs:
                for reader in self.readers.get(eclass, ()):
                    missing[reader] -= 1
                    if not missing[reader]:
                        ready.append(reader)
        for i in self.alive:
            above.setdefault(i, -1)  # in a circle, or behind one: it needs everything
        self._above = above
        return above

    def _makers(self, number: int) -> list[int]:
        return [self.maker[leaf] for leaf in self.alive[number].leaves if leaf in self.maker]

    def ordered(self) -> tuple[Group, ...]:
        """Groups, producers first, otherwise in order of age."""
        return tuple(self.alive[i] for i in producers_first(sorted(self.alive), self._makers))


def together(grammar: Grammar, a: tuple[Cut, ...], b: tuple[Cut, ...], kept: tuple[Cut, ...]) -> Group | None:
    """One kernel for `kept`, which are cuts of `a` that others need, and `b`, which may read results of `a`."""
    results = {c.eclass: c for c in a}
    second: list[Cut] = []
    for cut in b:
        made = cut if results.keys().isdisjoint(cut.leaves) else grammar.inline(cut, results)
        if isinstance(made, str):
            return None
        second.append(made)
    return group(grammar, (*kept, *second))


def group(grammar: Grammar, cuts: tuple[Cut, ...]) -> Group | None:
    if len(cuts) == 1:
        return alone(cuts[0])
    state = cuts[0].state
    leaves: dict[int, int] = {}
    inside = 0
    for cut in cuts:
        if cut is not cuts[0]:
            joined = merge_states(state, cut.state, grammar.device)
            if isinstance(joined, str):
                return None
            state = joined
        for c, size in cut.leaves.items():
            leaves[c] = max(size, leaves.get(c, 0))
        inside |= cut.inside
    if any(c.eclass in leaves for c in cuts):
        return None
    works = union(cut.works for cut in cuts)
    return Group(cuts, state, leaves, grammar.prices.kernel(cuts, state, leaves, inside, works))
