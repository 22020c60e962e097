"""Regrouping: moves on kernels of several outputs, each followed by merging anew what it touches.

In: a merged `Cover` and `Candidates`. Out: its `groups` (and `cost`), never costlier. Moves on single kernels miss what
pays only together, such as to store a row's sum because the kernel that writes the row computes it on the way.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from eqfuse.budget import UNLIMITED, Allowance
from eqfuse.extract.candidates.cuts import Cut, below
from eqfuse.extract.candidates.enumerate import Candidates
from eqfuse.extract.candidates.trust import trusted
from eqfuse.extract.covers.cover import ROUNDOFF, Cover, Group
from eqfuse.extract.greedy import fuse
from eqfuse.extract.moves.merge import MergeState, group

# kernels looked at, and operators of those made, all moves together, for each kernel of the cover
REGROUP_EFFORT = 6_000
MOST_EFFORT = 300_000  # and in all, however large the program: it takes seconds
# ... and for each second that the kernels take: one takes some 10 us, so that all take no longer than 100,000 calls
EFFORT_OF_CALLS = 1e10
REGROUPINGS = 3  # over all kernels
NEARLY = 1.05  # times as long as before, and a move is one that another may complete


def regroup(
    cover: Cover, candidates: Candidates, allowance: Allowance = UNLIMITED, only: Collection[Group] | None = None
) -> None:
    """Apply moves until none helps, or the effort or the `allowance` is spent: all moves, or those of what the kernels
    `only` and those beside them compute, and of what moves change then."""
    state = _Grouping(cover, candidates)
    if only is not None:
        near = state.pool.near(only)
        state.in_vain = {eclass for eclass in state.cover.choice if not near >> eclass & 1}
    for _ in range(REGROUPINGS):
        for eclass in sorted(state.cover.choice, reverse=True):
            if state.left > 0 and eclass not in state.in_vain and not allowance.spent():
                state.in_vain.add(eclass)
                state.other_cuts(eclass)
                state.store(eclass)
                state.inline(eclass)
    cover.groups = state.pool.ordered()
    cover.cost = sum(g.cost for g in cover.groups)


class _UnpricedCover(Cover):
    """A cover whose kernels are priced as groups alone."""

    def seconds(self, eclass: int, cut: Cut) -> float:
        return 0.0


class _Grouping:
    """A cover whose choice is that of its groups' outputs, so that any of them can be taken apart."""

    def __init__(self, cover: Cover, candidates: Candidates) -> None:
        self.candidates = candidates
        self.grammar = cover.grammar
        self.cover = _UnpricedCover(cover.grammar, cover.roots)
        self.in_vain: set[int | Cut] = set()  # classes, and cuts to be stored, tried since a move helped near them
        seconds = sum(g.cost for g in cover.groups)
        self.left = min(REGROUP_EFFORT * len(cover.groups), MOST_EFFORT, round(EFFORT_OF_CALLS * seconds))
        self.pool = MergeState(cover.grammar, cover.roots, cover.groups)
        self._settled()

    def _settled(self) -> None:
        near = self.pool.changed()
        self.in_vain = {c for c in self.in_vain if not near >> (c.eclass if isinstance(c, Cut) else c) & 1}
        self.pool = MergeState(self.grammar, self.cover.roots, self.pool.ordered())
        taken = self.cover.take({c.eclass: c for g in self.pool.alive.values() for c in g.cuts})
        assert taken
        self.readers = self.cover.readers()
        self.users = self.cover.users()

    def other_cuts(self, eclass: int) -> None:
        for cut in self.candidates.cuts.get(eclass, ()):
            if cut is not self.choice.get(eclass, cut):
                self._attempt({eclass: cut})

    def store(self, eclass: int) -> None:
        """Store a value that the kernel of `eclass` computes on the way, for all kernels that compute it."""
        for inner in list(below([self.choice[eclass]])) if eclass in self.choice else ():
            if self.left <= 0:
                return
            if inner in self.in_vain or inner.state.at_leaf:
                continue
            users = self.users.get(inner.eclass)  # none, where a move has changed the kernel of `eclass`
            if users and eclass in self.choice and inner.eclass not in self.choice:
                self.in_vain.add(inner)
                changed = {u: cut for u in users if (cut := self._reading(inner.eclass, self.choice[u])) is not None}
                if not self._attempt(changed, inner):
                    running = {u: cut for u, cut in changed.items() if not cut.is_priced or cut.runs}
                    if 0 < len(running) < len(changed):
                        self._attempt(running, inner)
                    elif running and inner.state.template.reduces and eclass in self.choice:
                        self._store_both(inner, running)

    def _store_both(self, inner: Cut, readers: dict[int, Cut]) -> None:
        """Store with a reduction one that it is made of, where its `readers` need that alone again: mean and variance
        of rows, of which one saves no pass over them. Where to store the first costs little."""
        before = sum(self.choice[u].about for u in readers)
        after = inner.about + sum(cut.about for cut in readers.values())
        if after > NEARLY * before or not all(cut.state.template.reduces for cut in readers.values()):
            return
        for deeper in below([inner]):
            if deeper.eclass in (inner.eclass, *self.choice) or not deeper.state.template.reduces:
                continue
            changed = {u: self._reading(deeper.eclass, cut) for u, cut in readers.items()}
            both = {u: cut for u, cut in changed.items() if cut is not None and not cut.state.template.reduces}
            if len(both) == len(readers) and self._attempt(both, inner):
                return

    def _reading(self, eclass: int, user: Cut) -> Cut | None:
        """The user's kernel with class `eclass` read instead of computed."""
        self.left -= user.size
        cut = self.grammar.reading(user, eclass)
        return None if isinstance(cut, str) or cut.about == math.inf else cut

    def inline(self, eclass: int) -> None:
        """Compute a value in all kernels that read it, and in each of them alone."""
        readers = self.readers.get(eclass, []) if eclass in self.choice else []
        each = [changed for u in readers if (changed := fuse(self.cover, eclass, [u])) is not None]
        if len(each) < len(readers) or not self._attempt({u: cut for changed in each for u, cut in changed.items()}):
            for changed in each if len(readers) > 1 else ():
                self._attempt(changed)

    @property
    def choice(self) -> dict[int, Cut]:
        return self.cover.choice

    def _attempt(self, changed: dict[int, Cut], stored: Cut | None = None) -> bool:
        """Carry the move out if the kernels are cheaper after merging anew those that it touches."""
        if self.left <= 0 or any(cut.about == math.inf for cut in changed.values()):
            return False
        cover, pool = self.cover, self.pool
        pool.tried = 0
        if cover.move(changed, lambda c: stored if stored and c == stored.eclass else self.candidates.cheapest(c)):
            kernels = pool.alive.values()
            is_cheaper = trusted(
                self.grammar.prices, self._is_cheaper, lambda is_cheaper: kernels if is_cheaper else ()
            )
            if is_cheaper and all(g.runs for g in kernels):
                cover.keep()
                self._settled()
                return True
        self.left -= 8 * len(pool.alive) + pool.tried
        pool.undo()
        cover.undo()
        return False

    def _is_cheaper(self) -> bool:
        """Are the kernels cheaper when what the move touches is merged anew? What it leaves as it was of a kernel of
        several outputs stays one kernel."""
        cover, pool = self.cover, self.pool
        pool.undo()
        before, loose = pool.seconds, dict.fromkeys(cover.touched())
        hit = {pool.maker[c] for c in loose if c in pool.maker}
        added = []
        for number in sorted(hit):
            left = tuple([cut for cut in pool.alive[number].cuts if cut.eclass not in loose])
            pool.drop(number)
            kernel = self.grammar.once(group, left) if len(left) > 1 else None
            if kernel is None:
                loose |= dict.fromkeys([cut.eclass for cut in left])
            else:
                added.append(pool.add(kernel))
        added += [pool.add(cover.alone_or_alias(cover.choice[c])) for c in loose if c in cover.choice]
        return not pool.is_circular and pool.settle(added, before) and pool.seconds < before - ROUNDOFF
