"""Kernels that are given rather than chosen: their prices, and the plan of one kernel per operator.

In: a kernel's body, or a traced graph. Out: its state and `Price`, or a `Plan`. Prices are those of the search.
"""

from __future__ import annotations

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.egraph.segments import Use
from eqfuse.egraph.space import ENode, Space
from eqfuse.extract import greedy
from eqfuse.extract.as_written import as_written
from eqfuse.extract.assemble import assemble
from eqfuse.extract.candidates.cuts import Cut, Grammar
from eqfuse.extract.moves.merge import group
from eqfuse.ir.graph import Graph
from eqfuse.kinds import State
from eqfuse.plan.plan import Plan


def priced(body: Graph, device: Device) -> tuple[State, Price] | str:
    """The state and the price of a kernel that computes `body`, or why there is no such kernel.

    A body that is no more than a view is priced as the copy it becomes where its result is stored.
    """
    grammar = Grammar(as_written(body), device)
    cuts: list[Cut] = []
    for eclass, found in enumerate(grammar.classes):
        (enode,) = found.nodes
        made = _join(grammar, eclass, enode, cuts)
        if isinstance(made, str):
            return made
        cuts.append(made)
    results = tuple(cuts[r] for r in grammar.segment.roots)
    if len(results) == 1:
        return results[0].state, results[0].price
    together = group(grammar, results)
    return (together.state, together.price) if together else "its results do not share a kernel"


def _join(grammar: Grammar, eclass: int, enode: ENode, cuts: list[Cut]) -> Cut | str:
    if enode.op in ("input", "const"):
        return grammar.leaf(eclass)
    return grammar.join(eclass, enode, tuple(cuts[a] for a in enode.args))


def unfused(graph: Graph, device: Device) -> Plan:
    """The plan of `graph` with one kernel per operator. Not proved: it is the measure of others."""
    segment = as_written(graph)
    space = Space(graph, (segment,), (Use(0, graph.inputs, graph.outputs),))
    return assemble(space, [greedy.unfused(segment, device)], device, proved=False)
