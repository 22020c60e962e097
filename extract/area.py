"""Area flow: covers from the roots by the cheapest cuts, over several passes; and covers taken over from a program.

In: a `Grammar`, covers to start from. Out: `Candidates`, covers. After ABC's `if` mapper, as in `enumerate`.
"""

from __future__ import annotations

import math
from graphlib import CycleError, TopologicalSorter

from eqfuse.extract.cover import Cover
from eqfuse.extract.cuts import Cut, Grammar, below
from eqfuse.extract.enumerate import Candidates
from eqfuse.rewrites import COMMUTATIVE
from eqfuse.space import ENode, Segment

PASSES = 2  # with the reference counts of the cover before


def area_flow(grammar: Grammar, starts: list[Cover]) -> tuple[Candidates, list[Cover]]:
    """The candidates of the last pass, those of `starts` among them, and `starts` with the cover of each pass."""
    references = _references(min(starts, key=lambda c: c.cost, default=None))
    found = list(starts)
    candidates: Candidates | None = None
    for _ in range(PASSES):
        candidates = Candidates(grammar, references, candidates)
        for start in starts:
            for cut in start.choice.values():
                candidates.add(cut)
        cover = _cheapest(candidates)
        if cover is not None:
            found.append(cover)
            references = _references(cover)
    assert candidates is not None
    return candidates, found


def _references(cover: Cover | None) -> dict[int, int]:
    return dict(cover.refs) if cover is not None else {}


def _cheapest(candidates: Candidates) -> Cover | None:
    """A cover from the roots by the cheapest cut of each class that does not depend on what is being covered."""
    cover = Cover(candidates.grammar, candidates.grammar.segment.roots)
    choice = _chosen(cover, candidates, None)
    if choice is not None and _is_circular(cover, choice):
        choice = _chosen(cover, candidates, candidates.untangled())
    return cover if choice is not None and cover.take(choice) else None


def _chosen(cover: Cover, candidates: Candidates, rank: dict[int, int] | None) -> dict[int, Cut] | None:
    """The cheapest cut of each class that is needed; of those that read classes of lower `rank`, if that is given."""
    choice: dict[int, Cut] = {}
    stack = list(cover.roots)
    while stack:
        of = stack.pop()
        if of in choice:
            continue
        usable = candidates.cuts.get(of, [])
        if rank is not None:
            usable = [c for c in usable if all(rank.get(a, math.inf) < rank.get(of, -1) for a in c.reads)]
        if not usable:
            return None
        choice[of] = min(usable, key=lambda c: candidates.total(c) - c.price.seconds + cover.seconds(of, c))
        stack.extend(choice[of].reads)
    return choice


def _is_circular(cover: Cover, choice: dict[int, Cut]) -> bool:
    """Do classes of `choice` read one another in a circle?"""
    sorter = TopologicalSorter({of: cut.reads for of, cut in choice.items()})
    try:
        sorter.prepare()
    except CycleError:
        return True
    return False


def transplant(cover: Cover, segment: Segment, grammar: Grammar) -> Cover | None:
    """A greedy plan over the classes of the saturated segment; None when classes merged or vanished under it."""
    number = _numbers(cover.grammar.segment, segment)
    moved: dict[int, Cut] = {}
    choice: dict[int, Cut] = {}
    for old in below(cover.choice[c] for c in cover.order()):
        if old.of not in number or not all(a in number for a in (old.enode.args if old.enode else ())):
            return None
        of = number[old.of]
        if not old.parts:
            moved[id(old)] = grammar.leaf(of)
            continue
        assert old.enode is not None
        enode = ENode(old.enode.op, tuple(number[a] for a in old.enode.args), old.enode.attrs)
        parts = tuple(moved[id(p)] for p in old.parts)
        if of in grammar.free or of in grammar.scalars:
            moved[id(old)] = grammar.leaf(of)  # a law found that this is known
            continue
        made = grammar.join(of, enode, parts)
        if isinstance(made, str) or made.price.seconds == math.inf:
            return None
        moved[id(old)] = made
    for c, cut in cover.choice.items():
        if number[c] not in grammar.free:
            choice[number[c]] = moved[id(cut)]
    new = Cover(grammar, segment.roots)
    return new if new.take(choice) else None


def _numbers(program: Segment, segment: Segment) -> dict[int, int]:
    """The class of `segment` for each class of a program that it holds, where there is one."""
    owner = {enode: i for i, c in enumerate(segment.classes) for enode in c.nodes}
    number: dict[int, int] = {}
    for n, i in program.origin.items():
        if n in segment.origin:
            number[i] = segment.origin[n]
        elif all(program.origin[a] in number for a in n.args):
            args = tuple(number[program.origin[a]] for a in n.args)
            orders = (args, args[::-1]) if n.op in COMMUTATIVE else (args,)
            found = next((owner[e] for order in orders if (e := ENode(n.op, order, n.attrs)) in owner), None)
            if found is not None:
                number[i] = found
    return number
