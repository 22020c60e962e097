"""Ablations: algebra and fusion each searched without the other, where `flow` searches both together.

In: a saturated `Segment`, a `Device`. Out: a `Cover`.
"""

from __future__ import annotations

from eqfuse.budget import UNLIMITED, Allowance
from eqfuse.cost.device import Device
from eqfuse.egraph.space import Segment
from eqfuse.extract import flow, greedy
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.cover import Cover
from eqfuse.extract.programs.as_written import without_laws
from eqfuse.extract.programs.cheapest_operators import cheapest_unfused


def fusion_only(segment: Segment, device: Device, allowance: Allowance = UNLIMITED) -> Cover:
    """`flow` over the program as it is written: no laws."""
    return flow.extract(without_laws(segment), device, allowance)


def algebra_first(segment: Segment, device: Device) -> Cover:
    """The cheapest program of the space with every operator priced alone, then the best of the greedy fusers on it."""
    program = cheapest_unfused(Grammar(segment, device))
    return min(greedy.plans(program, device), key=lambda cover: cover.cost)
