"""Exact area: local moves on a cover, priced by what they really change.

In: a `Cover` and `Candidates`. Out: the same cover, never dearer. Moves: another cut for one class; store a class for
all kernels that compute it; compute a class inside all kernels that read it. Single moves stick; the last two unstick.
"""

from __future__ import annotations

from eqfuse.extract.cover import Cover
from eqfuse.extract.cuts import Cut
from eqfuse.extract.enumerate import Candidates
from eqfuse.extract.greedy import fuse

ROUNDS = 4
WORTH = 1e-12  # seconds; smaller gains are rounding


def improve(cover: Cover, candidates: Candidates) -> None:
    """Apply moves until none helps, at most ROUNDS times over all classes."""
    for _ in range(ROUNDS):
        before = cover.cost
        _other_cuts(cover, candidates)
        _store_or_inline(cover, candidates)
        if cover.cost > before - WORTH:
            return


def _other_cuts(cover: Cover, candidates: Candidates) -> None:
    for of in reversed(cover.order()):
        if of not in cover.choice:
            continue
        for cut in candidates.cuts.get(of, ()):
            if cut is not cover.choice[of]:
                _attempt(cover, candidates, {of: cut})


def _store_or_inline(cover: Cover, candidates: Candidates) -> None:
    computed = sorted({c for cut in cover.choice.values() for c in cut.inside})
    for of in computed:
        users = [u for u, cut in cover.choice.items() if u != of and of in cut.inside]
        changed = {u: best for u in users if (best := _best(candidates, u, reads=of)) is not None}
        if users and len(changed) == len(users):
            _attempt(cover, candidates, changed)
    for of in cover.order():
        if of in cover.choice and of not in cover.roots:
            readers = [u for u, cut in cover.choice.items() if of in cut.leaves]
            inlined = fuse(cover, of, readers)
            if inlined is not None:
                _attempt(cover, candidates, inlined)


def _best(candidates: Candidates, user: int, reads: int) -> Cut | None:
    """The user's cheapest cut that reads class `reads` instead of computing it."""
    fitting = [c for c in candidates.cuts.get(user, ()) if reads in c.leaves and reads not in c.inside]
    return min(fitting, key=candidates.total, default=None)


def _attempt(cover: Cover, candidates: Candidates, changed: dict[int, Cut]) -> bool:
    """Take the changed cuts, and the cheapest cut of every class they newly need, if that is cheaper and acyclic."""
    old_choice, old_cost = cover.choice, cover.cost
    choice = dict(old_choice)
    choice.update(changed)
    stack = [leaf for cut in changed.values() for leaf in cover.reads(cut)]
    while stack:
        of = stack.pop()
        if of not in choice:
            options = candidates.cuts.get(of)
            if not options:
                return False
            choice[of] = min(options, key=candidates.total)
            stack.extend(cover.reads(choice[of]))
    trial = Cover(cover.grammar, cover.roots)
    if trial.take(choice) and trial.cost < old_cost - WORTH:
        cover.choice, cover.refs, cover.cost = trial.choice, trial.refs, trial.cost
        return True
    return False
