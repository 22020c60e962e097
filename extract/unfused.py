"""unfused: every operator of the program as written is a kernel of its own.

Promise: none. In: a saturated `Segment`, a `Device`. Out: a `Cover`. The other extractors are measured by it, and start
from it.
"""

from __future__ import annotations

from eqfuse.cost.device import Device
from eqfuse.egraph.segments import Use
from eqfuse.egraph.space import ENode, Segment, Space, as_written
from eqfuse.errors import UnsupportedOp
from eqfuse.extract.assemble import assemble
from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.cover import Cover, producers_first
from eqfuse.extract.programs.as_written import without_laws
from eqfuse.ir.graph import Graph
from eqfuse.plan.plan import Plan


def extract(segment: Segment, device: Device) -> Cover:
    """One kernel per operator; views cost nothing, as in NumPy."""
    return unfused_cover(Grammar(without_laws(segment), device))


def unfused_cover(grammar: Grammar) -> Cover:
    """Every operator of the program a kernel of its own, reading through views; the first of those in one class."""
    choice: dict[int, Cut] = {}
    cover = Cover(grammar, grammar.segment.roots)
    nodes: dict[int, ENode] = {}
    number = grammar.segment.origin
    for n in grammar.segment.graph.nodes:
        if number[n] not in nodes:
            nodes[number[n]] = ENode(n.op, tuple([number[a] for a in n.args]), n.attrs)
    for eclass in producers_first(cover.roots, lambda eclass: [a for a in nodes[eclass].args if a not in grammar.free]):
        enode = nodes[eclass]
        parts = tuple(
            choice[a] if a in choice and choice[a].state.is_view else grammar.leaf(a) for a in enode.args
        )
        cut = grammar.join(eclass, enode, parts)
        if isinstance(cut, str):
            cut = grammar.join(eclass, enode, tuple(grammar.leaf(a) for a in enode.args))
        if isinstance(cut, str):
            raise UnsupportedOp(cut)
        choice[eclass] = cut
    assert cover.take(choice)
    if grammar.prices.decide(cover.cost):
        assert cover.take(choice)
    cover.groups = cover.single_groups()
    return cover


def unfused_plan(graph: Graph, device: Device) -> Plan:
    """The plan of `graph` with one kernel per operator. Not proved: it is the measure of others."""
    segment = as_written(graph)
    space = Space(graph, (segment,), (Use(0, graph.inputs, graph.outputs),))
    return assemble(space, [extract(segment, device)], device)
