"""flow: area flow, exact area with compound moves, merging and regrouping; from every greedy plan as well.

Promise: never worse in predicted time than the best plan of the fusers of `greedy.py` for the program as written, nor
than a kernel per operator; nor, by more than `nearest.ABOVE_CHEAPEST`, than theirs for it simplified (of a small one,
for the one whose operators cost least as well); no bound on the gap to the optimum.
In: a saturated `Segment`, a `Device`. Out: a `Cover`. The recipe is technology mapping with choices.
"""

from __future__ import annotations

import math

from eqfuse.budget import AS_WRITTEN, FUSION_ONLY, UNLIMITED, Allowance
from eqfuse.cost.device import Device
from eqfuse.egraph.space import Segment
from eqfuse.extract import greedy
from eqfuse.extract.candidates.enumerate import Candidates
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.area_flow import area_flow, transplants
from eqfuse.extract.covers.cover import Cover
from eqfuse.extract.covers.nearest import nearest
from eqfuse.extract.moves.improve import SearchState, improve
from eqfuse.extract.moves.merge import merge_groups
from eqfuse.extract.moves.regroup import regroup
from eqfuse.extract.programs.as_written import without_laws_together
from eqfuse.extract.programs.cheapest_operators import cheapest_unfused
from eqfuse.extract.programs.simplify import simplified
from eqfuse.extract.unfused import extract as one_by_one
from eqfuse.extract.unfused import unfused_cover

REGROUPED = 2  # of the cheapest covers
MISJUDGED = 0.05  # of an estimate: moves are tried again near a kernel whose price differs from it by more
# times the cheapest, above which a cover of many classes is given up, and none is regrouped by prices: few become a
# fifth cheaper
GIVEN_UP_ABOVE = 1.25
# operators, from which on not every greedy plan is a start, and one cover alone is regrouped by prices
LARGE_SPACE = 150
# classes, up to which the program whose operators cost least is a start as well, and no cover is given up
SMALL_SPACE = 500


def extract(segment: Segment, device: Device, allowance: Allowance = UNLIMITED) -> Cover:
    """The best cover over all starts: area flow from each pass, each greedy plan, and the fusers' plans as they are.
    Of those that cost about the same, the nearest to the program as written.

    When the `allowance` ends, the best so far: at the least the program fused greedily, or as written.
    """
    if segment.level == AS_WRITTEN or allowance.spent():
        return noted(one_by_one(segment, device), AS_WRITTEN, allowance)
    _, candidates, covers = search(segment, device, allowance)
    return noted(nearest(covers, segment), segment.level if candidates else FUSION_ONLY, allowance)


def noted(cover: Cover, level: str, allowance: Allowance) -> Cover:
    """`cover`, which notes that it was found at `level`, and what is spent of the `allowance`."""
    cover.level, cover.cut = level, allowance.spent()
    return cover


def search(
    segment: Segment, device: Device, allowance: Allowance = UNLIMITED
) -> tuple[Cover, Candidates | None, list[Cover]]:
    """The cheapest cover, the candidates that it was chosen from, and all covers that were met and not given up. No
    candidates where the `allowance` ended before they were found."""
    grammar = Grammar(segment, device, allowance=allowance)
    unfused_cover(grammar)  # decides what kernels are judged by
    equal = {s.graph.outputs: s for s in (segment, simplified(segment, allowance))}
    if len(segment.classes) <= SMALL_SPACE and any(len(c.nodes) > 1 for c in segment.classes):
        cheapest_program = cheapest_unfused(grammar)
        equal.setdefault(cheapest_program.graph.outputs, cheapest_program)
    segments = without_laws_together(tuple(equal.values()))
    shared = Grammar(segments[0], device, grammar, allowance)
    unfused = [unfused_cover(shared.for_segment(program)) for program in segments]
    plans = [greedy.starts(cover) for cover in unfused]
    by_saving = [of_program[greedy.BY_SAVING] for of_program in plans]
    if allowance.spent():
        finished = [_merged(plan) for of_program in plans for plan in of_program]
        return min(finished, key=lambda c: c.cost), None, finished
    written = [plan for of_program in plans for plan in _distinct(_worthwhile(of_program))]
    candidates, starts = area_flow(grammar, transplants(written, grammar))
    met: set[SearchState] = set()  # most starts come to the same
    finished = [start for start in _distinct(starts) if allowance.spent() or improve(start, candidates, met)]
    for cover in finished:
        merge_groups(cover)
    finished += [_merged(cover) for cover in (unfused[0], *by_saving)]
    if not allowance.spent():
        finished += greedy.one_level(unfused)
    for cover in transplants(unfused[:1], grammar) or unfused[:1]:
        if not allowance.spent():
            finished.append(_merged(greedy.pointwise_inlined(cover)))
    finished = _within_reach(finished, len(segment.classes))
    for cover in [c for c in _distinct(finished) if c.grammar is grammar][:REGROUPED]:
        regroup(cover, candidates, allowance)
    if grammar.prices.goes_by_estimates:
        regrouped = REGROUPED if len(unfused[0].choice) <= LARGE_SPACE else 1
        finished += _settled(finished, candidates, allowance, regrouped)
    for cover in finished:
        cover.settle()
    return min(finished, key=lambda c: c.cost), candidates, finished


def _settled(covers: list[Cover], candidates: Candidates, allowance: Allowance, most: int) -> list[Cover]:
    """What becomes of the best of `covers`, `most` of them, which were found by estimates, when kernels are judged by
    their schedules. One that is far above what became of the first is left as it is."""
    grammar = candidates.grammar
    grammar.prices.stage.by_estimates = False
    for cover in covers:
        cover.settle()
    settled: list[Cover] = []
    for best in [c for c in _distinct(covers) if c.grammar is grammar][:most]:
        is_far = bool(settled) and best.cost > GIVEN_UP_ABOVE * settled[0].cost
        if not is_far and not allowance.spent():
            again = best.copy()
            again.groups = best.groups
            misjudged = [g for g in best.groups if abs(g.price.seconds - g.estimate) > MISJUDGED * g.estimate]
            regroup(again, candidates, allowance, misjudged)
            settled.append(again)
    return settled


def _worthwhile(covers: list[Cover]) -> list[Cover]:
    """All greedy plans of a small program; of a large one that of fusing by saving, as it is one to be beaten, and the
    cheapest."""
    if len(covers[0].choice) <= LARGE_SPACE:
        return covers
    return list(dict.fromkeys((covers[greedy.BY_SAVING], min(covers, key=lambda c: c.cost))))


def _within_reach(covers: list[Cover], classes: int) -> list[Cover]:
    most = GIVEN_UP_ABOVE * min(c.cost for c in covers)
    return covers if classes <= SMALL_SPACE else [c for c in covers if c.cost <= most]


def _merged(cover: Cover) -> Cover:
    new = cover.copy()
    merge_groups(new)
    return new


def _distinct(covers: list[Cover]) -> list[Cover]:
    """Covers that run, without repeats of the same price and stored classes of one program, cheapest first."""
    distinct: dict[tuple, Cover] = {}
    for cover in sorted([c for c in covers if c.cost < math.inf], key=lambda c: c.cost):
        stored = [eclass for group in cover.groups for eclass in group.outputs] or cover.choice
        distinct.setdefault((id(cover.grammar), tuple(sorted(stored)), round(cover.cost * 1e12)), cover)
    return list(distinct.values())
