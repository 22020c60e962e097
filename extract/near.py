"""Nearness: of covers that cost about the same, the one that does least that the program as written does not.

In: the covers that a search has met. Out: one of them. Prices are not known to 3 %, so such a gain may well be a loss.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqfuse.extract.area import numbers
from eqfuse.extract.cover import Cover
from eqfuse.extract.cuts import below
from eqfuse.space import ENode, Segment

NEAR = 0.03  # above the cheapest


def nearest(covers: Sequence[Cover], segment: Segment) -> Cover:
    """Of the `covers` within NEAR of the cheapest the one with the fewest nodes that `segment` was not written with;
    of these the cheapest, and of these the first."""
    most = (1 + NEAR) * min(c.cost for c in covers)
    close = [c for c in covers if c.cost <= most]
    return min(close, key=lambda c: (added(c, segment), c.cost)) if len(close) > 1 else close[0]


def added(cover: Cover, segment: Segment) -> int:
    """How many nodes `cover` computes that the program as written has not."""
    origin = segment.origin
    written = {
        (c, ENode(n.op, tuple([origin[a] for a in n.args]), n.attrs)) for n, c in origin.items() if n.args
    }
    own = cover.grammar.segment
    at = dict(enumerate(range(len(own.classes)))) if own is segment else numbers(own, segment)

    def named(of: int) -> int:
        return at.get(of, -1 - of)  # below zero: a class that only the rewritten program has

    computed = {
        (named(cut.of), ENode(cut.enode.op, tuple(map(named, cut.enode.args)), cut.enode.attrs))
        for cut in below(c for g in cover.groups for c in g.cuts)
        if cut.enode is not None and cut.parts
    }
    return len(computed - written)
