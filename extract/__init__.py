"""Extraction: the cheapest fused program of a Space, one algorithm per file behind one signature.

In: a `Space`, a device and the name of an algorithm. Out: a `Plan`. Next stop: `emit`.
"""

from __future__ import annotations

from collections.abc import Callable

from eqfuse.budget import Meter, worst
from eqfuse.cost.device import Device
from eqfuse.egraph.space import Segment, Space
from eqfuse.errors import TargetUnavailable
from eqfuse.extract import ablations, exact, flow, greedy, unfused
from eqfuse.extract.assemble import assemble, prove_covers
from eqfuse.extract.candidates.prices import schedules_shared
from eqfuse.extract.covers.cover import Cover
from eqfuse.extract.families import Search, by_families
from eqfuse.extract.horizontal import fused_horizontally
from eqfuse.extract.memory.limit import Limit, plan_within
from eqfuse.extract.memory.order import in_less_memory
from eqfuse.extract.programs.simplify import simplified
from eqfuse.extract.space_json import load_space
from eqfuse.extract.view_reads import views_inside
from eqfuse.machine.gc_pause import gc_paused
from eqfuse.plan.plan import Plan

KEEPING = 0.5  # of the time left, which a search leaves for keeping a limit of memory

Extractor = Search
_Fuser = Callable[[Segment, Device], Cover]
_FUSERS: dict[str, _Fuser] = dict(zip(greedy.GREEDY, greedy.FUSERS, strict=True))


def _whole(fuser: _Fuser) -> Extractor:
    """An algorithm that takes the time it takes."""
    return lambda segment, device, allowance: fuser(segment, device)


def _after_algebra(fuser: _Fuser) -> Extractor:
    return lambda segment, device, allowance: fuser(simplified(segment, allowance), device)


EXTRACTORS: dict[str, Extractor] = {
    "flow": flow.extract,
    "exact": exact.extract,
    "fusion-only": ablations.fusion_only,
    "algebra-first": _whole(ablations.algebra_first),
    "unfused": _whole(unfused.extract),
    **{name: _whole(fuser) for name, fuser in _FUSERS.items()},
    **{f"{name}+algebra": _after_algebra(fuser) for name, fuser in _FUSERS.items()},
}


@gc_paused()
@schedules_shared()
def chosen_plan(
    space: Space,
    device: Device,
    extractor: str = "flow",
    proved: bool = True,
    limit: Limit | None = None,
    meter: Meter | None = None,
) -> Plan:
    """The plan that `extractor` chooses from `space` for `device`; each distinct segment is solved once.

    What the `meter` does not allow to search is fused greedily, or not at all; it notes how much.

    A plan that will not run, such as the baseline of a report, need not be `proved` equal to the program. Raises
    TargetUnavailable for an unknown extractor, EqfuseError when egglog cannot prove the plan, MemoryLimitError when no
    plan within the `limit` was found.
    """
    meter = meter or Meter()
    algorithm = extractor_named(extractor)
    if proved or algorithm is not EXTRACTORS["unfused"]:
        searching = meter if limit is None else meter.within(1 - KEEPING)
        space, covers = by_families(space, algorithm, device, searching)
    else:
        covers = [algorithm(segment, device, meter.allowance) for segment in space.segments]
    if limit is not None:
        plan, covers = plan_within(space, covers, device, limit, meter.allowance)
    else:
        plan = assemble(space, covers, device)
        plan = in_less_memory(fused_horizontally(views_inside(plan)) if extractor in ("flow", "exact") else plan)
    if proved:
        prove_covers(space, covers)
    for use in space.uses:
        segment, cover = space.segments[use.segment], covers[use.segment]
        meter.searched[worst(segment.level, cover.level)] += len(segment.graph.operators)
        meter.ended(cover.cut)
    return plan


def extractor_named(extractor: str) -> Extractor:
    """The algorithm called `extractor`. Raises TargetUnavailable where there is none."""
    if not isinstance(extractor, str) or extractor not in EXTRACTORS:
        raise TargetUnavailable(f"no extractor {extractor!r}; there are {', '.join(EXTRACTORS)}")
    return EXTRACTORS[extractor]


__all__ = ["EXTRACTORS", "Cover", "Limit", "chosen_plan", "extractor_named", "load_space"]
