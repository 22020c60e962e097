"""Exact area: local moves on a cover, priced by what they really change.

In: a `Cover` and `Candidates`. Out: the same cover, never costlier. Moves: another cut for one class; store a class for
all kernels that compute it, or that need parts of it; compute a class inside all kernels that read it. Single moves
stick; the others unstick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.enumerate import Candidates
from eqfuse.extract.covers.cover import Cover
from eqfuse.extract.greedy import fuse

IMPROVEMENTS = 4  # over all classes

Moves = Callable[[Cover, Candidates], Iterator[bool]]  # each tells whether it was taken
SearchState = tuple[Moves, frozenset[Cut]]  # a cover about to be changed


def improve(cover: Cover, candidates: Candidates, met: set[SearchState]) -> bool:
    """Apply moves until none helps or the allowance ends, at most IMPROVEMENTS times over all classes.

    `met`: where other covers came by, to which is added where this one does. False where it comes to one of these, as
    it would end as the other did.
    """
    own: set[SearchState] = set()
    for _ in range(IMPROVEMENTS):
        for moves in (_other_cuts, _store_or_inline, _share, _take_parts):
            state = moves, frozenset(cover.choice.values())
            if state in met:
                return False
            if state not in own:  # or else nothing has changed since they were tried
                own.add(state)
                for _ in moves(cover, candidates):
                    if cover.grammar.allowance.spent():
                        return True
    met |= own
    return True


def _other_cuts(cover: Cover, candidates: Candidates) -> Iterator[bool]:
    for eclass in reversed(cover.stored()):
        if eclass not in cover.choice:
            continue
        for cut in candidates.cuts.get(eclass, ()):
            if cut is not cover.choice.get(eclass, cut):
                yield cover.attempt({eclass: cut}, candidates.cheapest)


def _store_or_inline(cover: Cover, candidates: Candidates) -> Iterator[bool]:
    users_of = cover.users()
    for eclass in sorted(users_of):
        users = [u for u in users_of[eclass] if u != eclass and u in cover.choice and cover.choice[u].computes(eclass)]
        changed = {u: best for u in users if (best := _best(candidates, u, reads=eclass)) is not None}
        if users and len(changed) == len(users):
            yield cover.attempt(changed, candidates.cheapest)
    readers_of = cover.readers()
    for eclass in cover.stored():
        if eclass in cover.choice and eclass not in cover.roots:
            readers = [u for u in readers_of.get(eclass, ()) if u in cover.choice and eclass in cover.choice[u].leaves]
            inlined = None if _is_read_as_well(cover, eclass, readers) else fuse(cover, eclass, readers)
            if inlined is not None:
                yield cover.attempt(inlined, candidates.cheapest)


def _is_read_as_well(cover: Cover, view: int, readers: list[int]) -> bool:
    """Is `view` a view that library calls alone read, which take it as they find it?"""
    return cover.choice[view].state.at_leaf and all(cover.choice[u].state.template.is_library for u in readers)


def _share(cover: Cover, candidates: Candidates) -> Iterator[bool]:
    """Store a class that nothing reads yet for all kernels that could read it: one product instead of several."""
    free = cover.grammar.free
    users_of: dict[int, dict[int, None]] = {}
    for u in cover.choice:
        for cut in candidates.cuts.get(u, ()):
            for leaf in cut.leaves:
                if leaf not in cover.choice and leaf not in free:
                    users_of.setdefault(leaf, {})[u] = None
    for eclass, users in sorted(users_of.items()):
        best = {u: _best(candidates, u, reads=eclass) for u in users if u in cover.choice}
        changed = {u: cut for u, cut in best.items() if cut is not None}
        if len(changed) > 1:
            yield cover.attempt(changed, candidates.cheapest)


def _take_parts(cover: Cover, candidates: Candidates) -> Iterator[bool]:
    """Store a class for all kernels that need parts of it, which were computed one by one: one product for several."""
    for whole, parts in candidates.parts.items():
        if whole not in cover.choice:
            taken = {user: cover.grammar.taking(cut, parts) for user, cut in cover.choice.items()}
            changed = {u: cut for u, cut in taken.items() if isinstance(cut, Cut) and cut is not cover.choice[u]}
            yield cover.attempt(changed, candidates.cheapest)


def _best(candidates: Candidates, user: int, reads: int) -> Cut | None:
    """The user's cheapest cut that reads class `reads` instead of computing it."""
    fitting = [c for c in candidates.cuts.get(user, ()) if reads in c.leaves and not c.computes(reads)]
    return candidates.best(fitting)
