"""The covers of a space, of which families of segments are searched once.

In: a `Space`, an extractor, a device. Out: a cover for each segment, and the space in which they are. Next stop:
`extract.assemble`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from eqfuse.budget import AS_WRITTEN, Allowance, Meter
from eqfuse.cost.device import Device
from eqfuse.egraph.saturate import saturate_segment
from eqfuse.egraph.space import Segment, Space
from eqfuse.extract.cover_transfer import CoverTransfer
from eqfuse.extract.covers.cover import Cover
from eqfuse.ir.correspondence import NoTransfer
from eqfuse.ir.graph import Graph

Search = Callable[[Segment, Device, Allowance], Cover]
TRANSFERRED = 4  # covers of a family that are tried for each of its segments


def by_families(space: Space, search: Search, device: Device, meter: Meter) -> tuple[Space, list[Cover]]:
    """The covers of all segments, and the space in which they are. A segment that is like another takes its cover, at
    its own extents; where that is none for it, it is saturated and searched as the other was."""
    segments = list(space.segments)
    covers: dict[int, Cover] = {}
    left = sum(s.n_nodes for s in segments if s.like is None)

    def searched(number: int) -> None:
        nonlocal left
        meter.say(f"extracting segment {len(covers) + 1} of {len(segments)}")
        size = segments[number].n_nodes
        covers[number] = search(segments[number], device, meter.allowance.part(min(1.0, size / max(1, left))))
        left -= size

    for first, segment in enumerate(space.segments):
        if segment.like is None:
            searched(first)
    for first in dict.fromkeys(s.like for s in space.segments if s.like is not None):
        waiting = [i for i, s in enumerate(space.segments) if s.like == first]
        source, tried = first, 0
        while waiting:
            pairs = _transferred(segments[source], covers[source], [segments[i].graph for i in waiting], device, tried)
            for i, pair in zip(waiting, pairs, strict=True):
                if pair is not None:
                    segments[i], covers[i] = pair
            waiting = [i for i in waiting if i not in covers]
            if waiting:
                source, tried = waiting.pop(0), tried + 1
                segments[source] = saturated_like(segments[source].graph, segments[first], meter)
                searched(source)
    return replace(space, segments=tuple(segments)), [covers[i] for i in range(len(segments))]


def _transferred(
    segment: Segment, cover: Cover, graphs: Sequence[Graph], device: Device, tried: int
) -> Sequence[tuple[Segment, Cover] | None]:
    """What `cover` is for each of `graphs`, unless so many covers were `tried` that no other will do."""
    if tried < TRANSFERRED:
        with suppress(NoTransfer):
            return CoverTransfer(segment, cover, segment.laws).to(graphs, device)
    return [None] * len(graphs)


def saturated_like(graph: Graph, first: Segment, meter: Meter) -> Segment:
    """`graph` saturated as `first` was, of whose family it is."""
    allowance = meter.allowance.part(0.5)
    level = AS_WRITTEN if allowance.spent() else first.level
    segment = saturate_segment(graph, first.laws, meter.budget, allowance, level)
    meter.ended(segment.stop_reason)
    return replace(segment, strict=first.strict)
