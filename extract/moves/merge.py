"""Merging: kernels over the same space that share what they read, or feed one another, become one with several outputs.

In: a `Cover`. Out: its `groups` (and `cost`), never costlier. A merge saves a launch, a shared read, or a read of what
the other kernel has just written. A merge that would close a circle through a third kernel is refused.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable
from itertools import islice

from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.candidates.trust import trusted
from eqfuse.extract.covers.cover import ROUNDOFF, Cover, Group, alone, producers_first

NEIGHBOURS = 24  # groups around one shared read that are tried with one another
# pairs looked at and operators of kernels made, after which no more are: long programs of one shape
MERGE_EFFORT = 20_000
LEAST_SHARE = 0.5  # of what a kernel takes roughly: less it seldom turns out to take when its schedule is made
_GAP = 1 << 20  # between the places of kernels that were there from the start


def merge_groups(cover: Cover, allowed: Callable[[Group], bool] = lambda group: True) -> None:
    """Merge the pair with the largest saving until none whose result is `allowed` saves anything, or the allowance of
    the cover's grammar is spent."""

    def settled() -> MergeState:
        pool = MergeState(cover.grammar, cover.roots, cover.single_groups(), allowed)
        pool.settle(list(pool.alive))
        return pool

    pool = trusted(cover.grammar.prices, settled, lambda pool: pool.alive.values())
    cover.groups = pool.ordered()
    cover.cost = sum(g.cost for g in cover.groups)


class MergeState:
    """The kernels that are left, by number, and which of them make and read each class; what was done can be undone.

    Each has a place above those of all kernels that it needs, so that a search for a path between two ends early. In a
    circle no places are kept.
    """

    def __init__(
        self,
        grammar: Grammar,
        roots: tuple[int, ...],
        groups: Iterable[Group],
        allowed: Callable[[Group], bool] = lambda group: True,
    ) -> None:
        self.grammar = grammar
        self.roots = frozenset(roots)
        self.allowed = allowed
        self.alive: dict[int, Group] = {}
        self.maker: dict[int, int] = {}
        self.readers: dict[int, dict[int, None]] = {}
        self.seconds = 0.0  # of all, or as little as kernels without a schedule may turn out to take
        self._counted: dict[int, float] = {}  # of each
        self.tried = 0
        self.is_circular = False
        self._next = 0
        self._undo_log: list[tuple[int, Group | None]] = []
        self._place: dict[int, int] = {}
        self._moved: list[tuple[int, int]] = []  # places before
        for group in groups:
            self._put(self._next, group)
            self._place[self._next] = self._next * _GAP
            self._next += 1
        for number in self.alive:
            self._lift(number)
        self._moved.clear()

    def settle(self, numbers: Collection[int], most: float = math.inf) -> bool:
        """Merge the pair with the largest saving until none of `numbers`, or of what they become, saves anything.

        False, and nothing is merged, where all kernels take more than `most` seconds even if all pairs save twice what
        they promise. No schedule is made where that is so by what is known without one, and no pair is looked at where
        they would without the `numbers`.
        """
        if self.seconds - sum([self.alive[n].rough for n in numbers]) > most:
            return False
        queue: list[tuple[float, int, int, bool, Group]] = []  # savings, by prices or roughly
        for pair in self._pairs(numbers):
            self._offer(queue, *pair)
        most -= 2 * sum([saving for saving, *_ in queue])
        if self.seconds > most or not self._prices(numbers, most):
            return False
        while queue:
            _, a, b, is_priced, merged = heapq.heappop(queue)
            if a not in self.alive or b not in self.alive or not self._direct(a, b):
                continue
            if not is_priced:
                saving = self.alive[a].cost + self.alive[b].cost - merged.cost
                if saving > ROUNDOFF and merged.runs:
                    heapq.heappush(queue, (-saving, a, b, True, merged))
                continue
            self.drop(a)
            self.drop(b)
            for pair in self._pairs([self.add(merged)]):
                self._offer(queue, *pair)
        return True

    def _prices(self, numbers: Iterable[int], most: float) -> bool:
        """Count `numbers` at what they cost, one after another; False as soon as all kernels take more than `most`."""
        for n in numbers:
            cost = self.alive[n].cost
            if self.seconds + cost - self._counted[n] > most:
                return False
            self.seconds += cost - self._counted[n]
            self._counted[n] = cost
        return True

    def add(self, group: Group) -> int:
        number, self._next = self._next, self._next + 1
        self._put(number, group)
        self._undo_log.append((number, None))
        self._place[number] = 1 + max([self._place[m] for m in self._makers(number)], default=0)
        self._lift(number)
        return number

    def _lift(self, number: int) -> None:
        """Move what needs kernel `number` above it, and so on. Does one need its own results? Then that is noted."""
        above = [number]
        while above and not self.is_circular:
            lower = above.pop()
            place = self._place[lower]
            for eclass in self.alive[lower].outputs:
                for reader in self.readers.get(eclass, ()):
                    if self._place[reader] <= place:
                        self.is_circular |= reader == number
                        self._moved.append((reader, self._place[reader]))
                        self._place[reader] = place + 1
                        above.append(reader)

    def drop(self, number: int) -> None:
        self._undo_log.append((number, self._take(number)))

    def undo(self) -> None:
        """Back to where the pool was made."""
        while self._undo_log:
            number, group = self._undo_log.pop()
            if group is None:
                self._take(number)
                self._next = number
            else:
                self._put(number, group)
        while self._moved:
            number, place = self._moved.pop()
            self._place[number] = place
        self.is_circular = False

    def changed(self) -> int:
        """The classes, a bit each, that kernels compute which were made here, or may merge with those, or fed those
        that were dropped."""
        fresh = [number for number, group in self._undo_log if group is None and number in self.alive]
        dropped = [group for number, group in self._undo_log if group is not None]
        feeding = [self.maker[leaf] for group in dropped for leaf in group.leaves if leaf in self.maker]
        return self._computed({*self._beside(fresh), *feeding})

    def near(self, groups: Collection[Group]) -> int:
        """The classes, a bit each, that these kernels compute, and those that share a read or an edge with one."""
        return self._computed(self._beside([number for number, group in self.alive.items() if group in groups]))

    def _beside(self, numbers: list[int]) -> set[int]:
        return {*numbers, *(other for number in numbers for other in self._near(number))}

    def _computed(self, numbers: set[int]) -> int:
        classes = 0
        for number in numbers:
            for cut in self.alive[number].cuts:
                classes |= cut.inside
        return classes

    def _put(self, number: int, group: Group) -> None:
        self.alive[number] = group
        self._counted[number] = group.cost if group.has_cost else LEAST_SHARE * group.rough
        self.seconds += self._counted[number]
        for eclass in group.outputs:
            self.maker[eclass] = number
        for leaf in group.leaves:
            self.readers.setdefault(leaf, {})[number] = None

    def _take(self, number: int) -> Group:
        group = self.alive.pop(number)
        self.seconds -= self._counted.pop(number)
        for eclass in group.outputs:
            if self.maker[eclass] == number:
                del self.maker[eclass]
        for leaf in group.leaves:
            del self.readers[leaf][number]
        return group

    def _pairs(self, numbers: Iterable[int]) -> list[tuple[int, int]]:
        """Pairs with one of `numbers` over the same space that share a read or an edge."""
        pairs: dict[tuple[int, int], None] = {}
        for number in numbers:
            space = self.alive[number].space
            for other in self._near(number) if space is not None else ():
                if self.alive[other].space == space:
                    pairs[min(number, other), max(number, other)] = None
        return list(pairs)

    def _near(self, number: int) -> dict[int, None]:
        """The kernels that share a read or an edge with that of this number."""
        group = self.alive[number]
        near = dict.fromkeys(self._makers(number))
        for c in (*group.leaves, *group.outputs):
            readers = self.readers.get(c)
            if readers:
                near.update(readers if len(readers) <= NEIGHBOURS else dict.fromkeys(islice(readers, NEIGHBOURS)))
        near.pop(number, None)
        return near

    def _offer(self, queue: list[tuple[float, int, int, bool, Group]], a: int, b: int) -> None:
        if self.tried > MERGE_EFFORT:
            return
        self.tried += 1
        merged = self._together(a, b)
        if merged is not None and self.allowed(merged):
            if merged.is_new:  # and the last one, where the allowance is spent
                self.tried += MERGE_EFFORT if self.grammar.allowance.spent() else merged.size
            saving = self.alive[a].rough + self.alive[b].rough - merged.rough
            if saving > ROUNDOFF:
                heapq.heappush(queue, (-saving, a, b, False, merged))

    def _together(self, first: int, second: int) -> Group | None:
        """One kernel for both groups, or None when no kind holds them."""
        a, b = self.alive[first], self.alive[second]
        if not a.leaves.keys().isdisjoint(b.outputs):
            a, b = b, a
        kept = []
        for cut in a.cuts:
            readers = self.readers.get(cut.eclass, ())
            if cut.eclass in self.roots or len(readers) > (first in readers) + (second in readers):
                kept.append(cut)
        return self.grammar.once(merged_group, a.cuts, b.cuts, tuple(kept))

    def _direct(self, a: int, b: int) -> bool:
        """Is there no path from one group to the other through a third?"""
        far, near = (a, b) if self._place[a] <= self._place[b] else (b, a)
        lowest = self._place[far]
        stack = [m for m in self._makers(near) if m != far]
        seen: set[int] = set()
        while stack:
            number = stack.pop()
            if number == far:
                return False
            if number not in seen and self._place[number] > lowest:
                seen.add(number)
                stack += self._makers(number)
        return True

    def _makers(self, number: int) -> list[int]:
        return [m for leaf in self.alive[number].leaves if (m := self.maker.get(leaf)) is not None]

    def ordered(self) -> tuple[Group, ...]:
        """Groups, producers first, otherwise in order of age."""
        return tuple(self.alive[i] for i in producers_first(sorted(self.alive), self._makers))


def merged_group(grammar: Grammar, a: tuple[Cut, ...], b: tuple[Cut, ...], kept: tuple[Cut, ...]) -> Group | None:
    """One kernel for `kept`, which are cuts of `a` that others need, and `b`, which may read results of `a`."""
    results = {c.eclass: c for c in a}
    second: list[Cut] = []
    for cut in b:
        inlined = cut if results.keys().isdisjoint(cut.leaves) else grammar.inline(cut, results)
        if isinstance(inlined, str):
            return None
        second.append(inlined)
    return group(grammar, (*kept, *second))


def group(grammar: Grammar, cuts: tuple[Cut, ...]) -> Group | None:
    if len(cuts) == 1:
        return alone(cuts[0])
    state = cuts[0].state
    leaves: dict[int, int] = {}
    for cut in cuts:
        if cut is not cuts[0]:
            joined = grammar.merged(state, cut.state)
            if isinstance(joined, str):
                return None
            state = joined
        for c, size in cut.leaves.items():
            leaves[c] = max(size, leaves.get(c, 0))
    if any(c.eclass in leaves for c in cuts):
        return None
    return Group(cuts, state, leaves)
