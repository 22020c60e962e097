"""Nearness: of covers that cost about the same, the one with the fewest operators that were not written.

In: the covers that a search has met. Out: one of them. Prices are not known to 3 %, so such a gain may well be a loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from eqfuse.egraph.space import Segment
from eqfuse.extract.candidates.cuts import below
from eqfuse.extract.covers.cover import Cover
from eqfuse.ops import Role, row
from eqfuse.ops.types import TensorType

ABOVE_CHEAPEST = 0.03  # above the cheapest


def nearest(covers: Sequence[Cover], segment: Segment) -> Cover:
    """Of the `covers` within NEAR of the cheapest the one with the fewest operators that `segment` was not written
    with; of these the cheapest, and of these the first."""
    most = (1 + ABOVE_CHEAPEST) * min(c.cost for c in covers)
    close = [c for c in covers if c.cost <= most]
    return min(close, key=lambda c: (added_operators(c, segment), c.cost)) if len(close) > 1 else close[0]


def added_operators(cover: Cover, segment: Segment) -> int:
    """How many operators `cover` runs beside those of the program as written, whatever they are applied to. Views, and
    what shape a value has, count for nothing: they cost nothing."""
    classes = cover.grammar.classes
    cuts = below(c for g in cover.groups for c in g.cuts)
    nodes = {(cut.eclass, cut.enode) for cut in cuts if cut.enode is not None and cut.parts}
    runs = Counter(_sort(enode.op, classes[eclass].type) for eclass, enode in nodes if _works(enode.op))
    written = Counter(_sort(n.op, n.type) for n in segment.graph.operators if _works(n.op))
    return (runs - written).total()


def _works(op: str) -> bool:
    return row(op).role is not Role.VIEW


def _sort(op: str, t: TensorType) -> tuple[str, object, int]:
    return op, t.dtype, t.size
