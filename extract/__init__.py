"""Extraction: the cheapest fused program of a Space, one algorithm per file behind one signature.

In: a `Space`, a device and the name of an algorithm. Out: a `Plan`. Next stop: `emit`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from eqfuse.cost.device import Device
from eqfuse.egraph.space import Segment, Space
from eqfuse.errors import TargetUnavailable
from eqfuse.extract import ablations, exact, flow, greedy, unfused
from eqfuse.extract.assemble import assemble
from eqfuse.extract.covers.cover import Cover
from eqfuse.extract.memory.limit import Limit, within
from eqfuse.extract.programs.simplify import simplified
from eqfuse.extract.space_json import load_space
from eqfuse.machine.gc_pause import gc_paused
from eqfuse.plan.plan import Plan

Extractor = Callable[[Segment, Device], Cover]
_FUSERS: dict[str, Extractor] = dict(zip(greedy.GREEDY, greedy.FUSERS, strict=True))


def _after_algebra(fuser: Extractor) -> Extractor:
    return lambda segment, device: fuser(simplified(segment), device)


EXTRACTORS: dict[str, Extractor] = {
    "flow": flow.extract,
    "exact": exact.extract,
    "fusion-only": ablations.fusion_only,
    "algebra-first": ablations.algebra_first,
    "unfused": unfused.extract,
    **_FUSERS,
    **{f"{name}+algebra": _after_algebra(fuser) for name, fuser in _FUSERS.items()},
}


@gc_paused()
def choose(
    space: Space,
    device: Device,
    extractor: str = "flow",
    proved: bool = True,
    limit: Limit | None = None,
    seconds: float = exact.SECONDS,
) -> Plan:
    """The plan that `extractor` chooses from `space` for `device`; each distinct segment is solved once.

    `seconds` of one core are for "exact" to spend on each, beside what "flow" takes.

    A plan that will not run, such as the baseline of a report, need not be `proved` equal to the program. Raises
    TargetUnavailable for an unknown extractor, EqfuseError when egglog cannot prove the plan, MemoryLimitError when no
    plan within the `limit` was found.
    """
    algorithm = partial(exact.extract, seconds=seconds) if extractor == "exact" else named(extractor)
    covers = [algorithm(segment, device) for segment in space.segments]
    if limit is not None:
        return within(space, covers, device, limit, proved)
    return assemble(space, covers, device, proved)


def named(extractor: str) -> Extractor:
    """The algorithm called `extractor`. Raises TargetUnavailable where there is none."""
    if not isinstance(extractor, str) or extractor not in EXTRACTORS:
        raise TargetUnavailable(f"no extractor {extractor!r}; there are {', '.join(EXTRACTORS)}")
    return EXTRACTORS[extractor]


__all__ = ["EXTRACTORS", "Cover", "Limit", "choose", "load_space", "named"]
