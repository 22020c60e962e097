"""Merging: kernels over the same space that share what they read, or feed one another, become one with several outputs.

In: a `Cover`. Out: its `groups` (and `cost`), never dearer. The gain is a launch, a shared read, or a read of what the
other kernel has just written. A merge that would close a circle through a third kernel is refused.
"""

from __future__ import annotations

from eqfuse.cost import Work
from eqfuse.extract.cover import Cover, Group
from eqfuse.extract.cuts import Cut, Grammar
from eqfuse.kinds import merge as merge_states
from eqfuse.space import ENode

WORTH = 1e-12


def merge(cover: Cover) -> None:
    """Merge the pair with the largest saving until none saves anything."""
    groups = list(cover.single_groups())
    gains: dict[tuple[int, int], tuple[float, Group]] = {}
    alive = dict(enumerate(groups))
    needed = _needed(cover, alive)
    fresh = list(alive)
    number = len(groups)
    while True:
        for a in fresh:
            for b in alive:
                if a != b and (pair := (min(a, b), max(a, b))) not in gains:
                    made = _together(cover, alive[pair[0]], alive[pair[1]], needed)
                    if made is not None:
                        saving = alive[a].price.seconds + alive[b].price.seconds - made.price.seconds
                        if saving > WORTH:
                            gains[pair] = (saving, made)
        ranked = sorted(gains, key=lambda pair: (-gains[pair][0], pair))
        best = next((pair for pair in ranked if _acyclic(alive, *pair)), None)
        if best is None:
            break
        (a, b), (_, made) = best, gains[best]
        del alive[a], alive[b]
        gains = {pair: gain for pair, gain in gains.items() if a not in pair and b not in pair}
        alive[number] = made
        fresh = [number]
        number += 1
        needed = _needed(cover, alive)
    cover.groups = _ordered(alive)
    cover.cost = sum(g.price.seconds for g in cover.groups)


def _needed(cover: Cover, alive: dict[int, Group]) -> dict[int, set[int]]:
    """Which groups read each class (by their outputs' first class); roots are read by -1."""
    needed: dict[int, set[int]] = {r: {-1} for r in cover.roots}
    for group in alive.values():
        for leaf in group.leaves:
            needed.setdefault(leaf, set()).add(group.outputs[0])
    return needed


def _together(cover: Cover, a: Group, b: Group, needed: dict[int, set[int]]) -> Group | None:
    """One kernel for both groups, or None when they share nothing or no kind holds them."""
    if "view" in (a.state.kind, b.state.kind) or a.state.space != b.state.space:
        return None
    feeds_b = any(c in b.leaves for c in a.outputs)
    feeds_a = any(c in a.leaves for c in b.outputs)
    if feeds_a:
        a, b, feeds_b = b, a, True
    if not feeds_b and not any(leaf in b.leaves for leaf in a.leaves):
        return None
    grammar = cover.grammar
    second: list[Cut] = []
    for cut in b.cuts:
        made = grammar.inline(cut, {c.of: c for c in a.cuts}) if feeds_b else cut
        if isinstance(made, str):
            return None
        second.append(made)
    mine = {a.outputs[0], b.outputs[0]}
    kept = [c for c in a.cuts if needed.get(c.of, set()) - mine]
    return _group(grammar, (*kept, *second))


def _group(grammar: Grammar, cuts: tuple[Cut, ...]) -> Group | None:
    state = cuts[0].state
    leaves: dict[int, int] = {}
    works: dict[tuple[int, ENode], Work] = {}
    for cut in cuts:
        if cut is not cuts[0]:
            joined = merge_states(state, cut.state)
            if isinstance(joined, str):
                return None
            state = joined
        for c, size in cut.leaves.items():
            leaves[c] = max(size, leaves.get(c, 0))
        works |= cut.works
    if any(c.of in leaves for c in cuts):
        return None
    outputs = tuple(grammar.classes[c.of].type for c in cuts)
    return Group(cuts, state, leaves, grammar.price(state, leaves, works.values(), outputs))


def _acyclic(alive: dict[int, Group], a: int, b: int) -> bool:
    """No path from one group to the other through a third."""
    maker = {c: i for i, g in alive.items() for c in g.outputs}
    for start, goal in ((a, b), (b, a)):
        stack = [maker[leaf] for leaf in alive[start].leaves if leaf in maker and maker[leaf] != goal]
        seen: set[int] = set()
        while stack:
            i = stack.pop()
            if i == goal:
                return False
            if i not in seen:
                seen.add(i)
                stack.extend(maker[leaf] for leaf in alive[i].leaves if leaf in maker)
    return True


def _ordered(alive: dict[int, Group]) -> tuple[Group, ...]:
    """Groups, producers first, otherwise in order of age."""
    maker = {c: i for i, g in alive.items() for c in g.outputs}
    done: dict[int, Group] = {}
    for start in sorted(alive):
        stack = [(start, False)]
        while stack:
            i, ready = stack.pop()
            if i in done:
                continue
            if ready:
                done[i] = alive[i]
                continue
            stack.append((i, True))
            makers = [maker[c] for c in reversed(list(alive[i].leaves)) if c in maker]
            stack.extend((m, False) for m in makers if m not in done)
    return tuple(done.values())
