"""Plans within a limit of memory: what to store, what to compute again, and when.

In: a `Space`, the covers chosen for its segments, and a `Limit`. Out: the plan of least predicted time, among those
found, whose calls stay within the limit. Each segment is made to keep the limit by itself; the peak of the whole, with
what crosses from one segment to others, is asked of the emitter. Timelines do not depend on the limit: a tighter one
never gives a faster plan, and the least peak of a refusal is one that can be had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from eqfuse.budget import Allowance
from eqfuse.cost.device import Device
from eqfuse.egraph.space import Segment, Space
from eqfuse.errors import MemoryLimitError
from eqfuse.extract.assemble import assemble
from eqfuse.extract.candidates.enumerate import Candidates
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.area_flow import counterparts
from eqfuse.extract.covers.cover import Cover, Group
from eqfuse.extract.memory.order import in_less_memory
from eqfuse.extract.memory.recompute import timelines
from eqfuse.extract.memory.timeline import SegmentMemory, Timeline
from eqfuse.extract.moves.merge import group as merged
from eqfuse.plan.memory import Needs
from eqfuse.plan.plan import Kernel, Plan

AMISS = 2  # times what a timeline's peak is said to be too high at most: values written in place, or in parts


@dataclass
class Limit:
    """At most `nbytes` held by a call beside arguments and results. `needs` tells what a kernel takes beside what it
    reads and writes, `peak` what a call of a plan holds. `exceeding`: the plan that would be chosen without a limit,
    where that does not keep it."""

    nbytes: int
    needs: Callable[[Kernel, Device], Needs]
    peak: Callable[[Plan], int]
    exceeding: Plan | None = None


def plan_within(
    space: Space, covers: list[Cover], device: Device, limit: Limit, allowance: Allowance
) -> tuple[Plan, list[Cover]]:
    """The plan, and its covers. Where the `allowance` ends, of the timelines found by then. MemoryLimitError when none
    was found."""
    plan = in_less_memory(assemble(space, covers, device))
    least = limit.peak(plan)
    if least <= limit.nbytes:
        return plan, covers
    limit.exceeding = plan
    by_cover = [_timelines(space, i, cover, device, limit, allowance) for i, cover in enumerate(covers)]
    ended = allowance.spent()
    for cover in covers:
        cover.cut = cover.cut or ended
    levels = sorted({s.peak for every in by_cover for s in every}, reverse=True)
    for level in [level for level in levels if level <= AMISS * max(limit.nbytes, levels[-1])]:
        chosen = [_of_peak(every, level) for every in by_cover]
        covers = [_of_timeline(*both) for both in zip(covers, chosen, strict=True)]
        plan = assemble(space, covers, device)
        peak = limit.peak(plan)
        if peak <= limit.nbytes:
            return plan, covers
        least = min(least, peak)
    raise MemoryLimitError(
        f"no plan was found that holds at most {limit.nbytes:,} bytes beside arguments and results: the least is "
        f"{least:,}; pass memory_limit={least} or more{_more_time(ended)}",
        least,
    )


def _more_time(ended: str | None) -> str:
    return f", or a larger ef.Budget({ended}=…), which ended the search" if ended is not None else ""


def _of_peak(every: list[Timeline], level: int) -> Timeline:
    """The fastest timeline within `level`, or else the one of least peak."""
    fitting = [s for s in every if s.peak <= level]
    return min(fitting, key=lambda s: s.seconds) if fitting else min(every, key=lambda s: s.peak)


def _of_timeline(cover: Cover, timeline: Timeline) -> Cover:
    """The `cover` whose kernels are those of its `timeline`."""
    new = Cover(timeline.held.grammar, timeline.held.roots)
    new.level, new.cut = cover.level, cover.cut
    new.is_proved = cover.is_proved and new.grammar is cover.grammar
    new.groups = tuple(step.group for step in timeline.steps)
    return new


def _over_laws(cover: Cover, segment: Segment, allowance: Allowance) -> Cover | None:
    """The kernels of a `cover` of the program as written, over the classes of the saturated `segment`, where other
    values may be stored in place of some, if they are all kernels there."""
    if cover.grammar.segment is segment or allowance.spent():
        return None
    grammar = Grammar(segment, cover.grammar.device, allowance=allowance)
    moved = counterparts((c for g in cover.groups for c in g.cuts), cover.grammar.segment, grammar)
    groups = [merged(grammar, tuple(moved[c] for c in g.cuts)) for g in cover.groups] if moved else [None]
    outputs = [c for g in groups if g is not None for c in g.outputs]
    if len(outputs) > len(set(outputs)) or not all(g is not None and g.runs for g in groups):
        return None
    new = Cover(grammar, segment.roots)
    new.groups = tuple(g for g in groups if g is not None)
    new.refs = dict(Counter(c for g in new.groups for c in g.leaves))
    return new


def _timelines(
    space: Space, number: int, cover: Cover, device: Device, limit: Limit, allowance: Allowance
) -> list[Timeline]:
    """The timelines of segment `number`, wherever it is used: over the classes of its cover, and over all."""
    own = _of_cover(space, number, cover, device, limit, allowance)
    over_laws = _over_laws(cover, space.segments[number], allowance)
    return own if over_laws is None else own + _of_cover(space, number, over_laws, device, limit, allowance)


def _of_cover(
    space: Space, number: int, cover: Cover, device: Device, limit: Limit, allowance: Allowance
) -> list[Timeline]:
    segment, grammar = space.segments[number], cover.grammar
    uses = [use for use in space.uses if use.segment == number]
    own = grammar.segment
    inputs = {c for use in uses for c, n in zip(own.inputs, use.inputs, strict=True) if n.args and c >= 0}
    last = space.uses[-1].segment == number and len(uses) == 1
    results = frozenset(own.roots) if last else frozenset()
    assert len(own.inputs) == len(segment.inputs)

    def needs(group: Group) -> Needs:
        if group.state.is_view:
            return Needs()
        body, reads = grammar.body(group.cuts)
        return limit.needs(Kernel(group.state.kind, body, reads, group.outputs, group.price), device)

    held = SegmentMemory(grammar, own.roots, frozenset(inputs), results, needs)
    start = Timeline(held, [held.step(g) for g in cover.groups])
    return timelines(start, Candidates(grammar, dict(cover.refs)), allowance)
