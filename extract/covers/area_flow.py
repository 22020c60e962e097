"""Area flow: covers from the roots by the cheapest cuts, over several passes; and covers taken over from a program.

In: a `Grammar`, covers to start from. Out: `Candidates`, covers. After ABC's `if` mapper, as in `enumerate`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from eqfuse.egraph.space import ENode, Segment
from eqfuse.extract.candidates.cuts import Cut, below
from eqfuse.extract.candidates.enumerate import Candidates, least
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.candidates.trust import trusted
from eqfuse.extract.covers.cover import Cover

# Classes, up to which there is a pass without reference counts besides those with some; none where no calls pay for it.
UNCOUNTED_PASS = 250


def area_flow(grammar: Grammar, starts: list[Cover]) -> tuple[Candidates, list[Cover]]:
    """The candidates of the last pass, those of `starts` among them, and `starts` with the cover of each pass.

    A pass shares the flow of a class among as many readers as it has in the cheapest start, then among none, as a
    search without starts begins, and at last among those in the cover before: each finds covers that others miss.
    """
    covers = list(starts)
    passes: list[dict[int, int] | None] = [None]  # the counts of the cover before
    if not starts or (len(grammar.classes) <= UNCOUNTED_PASS and not grammar.prices.goes_by_estimates):
        passes.insert(0, {})
    if starts:
        passes.insert(0, dict(min(starts, key=lambda c: c.cost).refs))
    candidates: Candidates | None = None
    for references in passes:
        if references is None:
            references = dict(covers[-1].refs) if covers else {}
        candidates = Candidates(grammar, references, candidates)
        for start in starts:
            for cut in start.choice.values():
                candidates.add(cut)
        cover = cheapest(candidates)
        if cover is not None:
            covers.append(cover)
    assert candidates is not None
    return candidates, covers


def cheapest(candidates: Candidates) -> Cover | None:
    """A cover from the roots by the cheapest cut of each class that does not depend on what is being covered."""
    cover = Cover(candidates.grammar, candidates.grammar.segment.roots)
    choice = _chosen_kernels(cover, candidates, None)
    if choice is not None and _is_circular(choice):
        choice = _chosen_kernels(cover, candidates, candidates.untangled())
    return cover if choice is not None and cover.take(choice) else None


def _chosen_kernels(cover: Cover, candidates: Candidates, rank: dict[int, int] | None) -> dict[int, Cut] | None:
    """What is `_chosen`, where all of it runs."""
    prices = candidates.grammar.prices
    return trusted(prices, lambda: _chosen(cover, candidates, rank), lambda choice: (choice or {}).values())


def _chosen(cover: Cover, candidates: Candidates, rank: dict[int, int] | None) -> dict[int, Cut] | None:
    """The cheapest cut of each class that is needed; of those that read classes of lower `rank`, if that is given."""
    choice: dict[int, Cut] = {}
    stack = list(cover.roots)
    while stack:
        eclass = stack.pop()
        if eclass in choice:
            continue
        usable = candidates.cuts.get(eclass, [])
        if rank is not None:
            usable = [c for c in usable if all(rank.get(a, math.inf) < rank.get(eclass, -1) for a in c.reads)]
        cut = _least_read(cover, candidates, eclass, usable)
        if cut is None:
            return None
        choice[eclass] = cut
        stack.extend(cut.reads)
    return choice


def _least_read(cover: Cover, candidates: Candidates, eclass: int, cuts: Sequence[Cut]) -> Cut | None:
    """The one of `cuts`, of class `eclass`, that costs `cover` least with all that it reads."""

    def about(cut: Cut) -> float:
        return candidates.read(cut) + cover.about(eclass, cut)

    def total(cut: Cut) -> float:
        return candidates.read(cut) + cover.seconds(eclass, cut)

    return least(_compared(candidates, cuts), about, total)


def _compared(candidates: Candidates, cuts: Sequence[Cut]) -> list[Cut]:
    """The cuts that are compared. When the allowance is spent, no more are priced than must be: those with a price, or
    else the first that runs, the smallest before larger ones, as these are refused more often."""
    if candidates.grammar.prices.goes_by_estimates or not candidates.grammar.allowance.spent():
        return [*cuts]
    priced = [cut for cut in cuts if cut.is_priced and cut.runs]
    return priced or next(([cut] for cut in sorted(cuts, key=lambda c: c.size) if cut.runs), [])


def _is_circular(choice: dict[int, Cut]) -> bool:
    """Do classes of `choice` read one another in a circle?"""
    sorter = TopologicalSorter({eclass: cut.reads for eclass, cut in choice.items()})
    try:
        sorter.prepare()
    except CycleError:
        return True
    return False


def transplants(covers: Sequence[Cover], grammar: Grammar) -> list[Cover]:
    """Plans of one program over the classes of the saturated segment, but for those under which classes vanished."""
    moved_covers = []
    for cover in covers:
        stored = [cover.choice[c] for c in cover.stored()]
        moved = counterparts(stored, cover.grammar.segment, grammar)
        if moved is None:
            continue
        kernels = [moved[cut] for cut in reversed(stored)]  # the first to compute a class reads none made later
        choice = {cut.eclass: cut for cut in kernels if cut.eclass not in cut.reads}
        new = Cover(grammar, grammar.segment.roots)
        if all(cut.runs for cut in choice.values()) and new.take(choice):
            moved_covers.append(new)
    return moved_covers


def counterparts(cuts: Iterable[Cut], segment: Segment, grammar: Grammar) -> dict[Cut, Cut] | None:
    """The `cuts` of a program, and what they are made of, over the classes of the saturated segment, if they are all
    kernels there."""
    number = _numbers(segment, grammar.segment)
    moved: dict[Cut, Cut] = {}
    for cut in below(cuts):
        counterpart = _moved(cut, moved, number, grammar)
        if counterpart is None:
            return None
        moved[cut] = counterpart
    return moved


def _moved(cut: Cut, moved: dict[Cut, Cut], number: dict[int, int], grammar: Grammar) -> Cut | None:
    """`cut` over the classes of `grammar`, as the cuts that it is made of were moved before it."""
    eclass = number.get(cut.eclass)
    parts = tuple([moved[p] for p in cut.parts])
    if eclass is None:
        return None
    if cut.enode is None or not parts or eclass in grammar.free:  # a law may have found that it is known
        return grammar.leaf(eclass)
    if any((p.inside | p.outside) >> eclass & 1 for p in parts):  # or equal to what it is made of
        return next(c for c in below(parts) if c.eclass == eclass)
    joined = grammar.join(eclass, ENode(cut.enode.op, tuple([p.eclass for p in parts]), cut.enode.attrs), parts)
    return None if isinstance(joined, str) else joined


def _numbers(program: Segment, segment: Segment) -> dict[int, int]:
    """The class of `segment` for each class of a program that it holds, where there is one."""
    owner = {enode: i for i, c in enumerate(segment.classes) for enode in c.nodes}
    number: dict[int, int] = {}
    for n, i in program.origin.items():
        if n in segment.origin:
            number[i] = segment.origin[n]
        elif all(program.origin[a] in number for a in n.args):
            args = tuple(number[program.origin[a]] for a in n.args)
            orders = (args, args[::-1]) if n.row.commutes else (args,)
            eclass = next((owner[e] for order in orders if (e := ENode(n.op, order, n.attrs)) in owner), None)
            if eclass is not None:
                number[i] = eclass
    return number
