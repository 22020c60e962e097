"""Algebra without fusion: the cheapest program of a Space when every operator is a kernel of its own.

In: the `Grammar` of a saturated segment. Out: the segment with that program as what was written; a fuser then fuses it.
So do TASO and TENSAT choose, whose prices are sums over operators, before a compiler fuses what they chose.
"""

from __future__ import annotations

from eqfuse.egraph.space import Segment
from eqfuse.extract.assemble import constant_body
from eqfuse.extract.candidates.cuts import below
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.candidates.grammars import OneOperator
from eqfuse.extract.covers.area_flow import area_flow
from eqfuse.extract.covers.cover import Cover
from eqfuse.extract.moves.improve import SearchState, improve
from eqfuse.extract.programs.as_written import rewritten
from eqfuse.extract.unfused import unfused_cover
from eqfuse.ir.graph import Graph, Node


def cheapest_unfused(grammar: Grammar) -> Segment:
    """The segment with its cheapest unfused program, as far as area flow and local moves find it."""
    segment, fewer = grammar.segment, OneOperator(grammar)
    candidates, starts = area_flow(fewer, [unfused_cover(fewer)])
    met: set[SearchState] = set()
    for start in starts:
        improve(start, candidates, met)
    return rewritten(segment, _program(min(starts, key=lambda cover: cover.cost), segment)) if starts else segment


def _program(cover: Cover, segment: Segment) -> Graph:
    """What `cover` computes, as a graph with the inputs of the segment's own."""
    value: dict[int, Node] = {c: n for c, n in zip(segment.inputs, segment.graph.inputs, strict=True) if c >= 0}

    for eclass in cover.stored():
        nodes: dict[int, Node] = {}
        for cut in below([cover.choice[eclass]]):
            if cut.enode is None:
                nodes[id(cut)] = _constants(segment, cut.eclass, value)
            else:
                nodes[id(cut)] = cut.enode.over(nodes[id(p)] for p in cut.parts)
        value[eclass] = nodes[id(cover.choice[eclass])]
    return Graph(segment.graph.inputs, tuple([_constants(segment, root, value) for root in segment.roots]))


def _constants(segment: Segment, eclass: int, value: dict[int, Node]) -> Node:
    """The value of a class that is known at build time, of `value` or new in it."""
    if eclass not in value:
        body, reads = constant_body(segment, eclass)
        nodes = {n: _constants(segment, read, value) for n, read in zip(body.inputs, reads, strict=True)}
        for n in body.nodes:
            if n not in nodes:
                nodes[n] = n.over(nodes[a] for a in n.args)
        value[eclass] = nodes[body.outputs[0]]
    return value[eclass]
