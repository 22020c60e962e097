"""Plans of graphs that differ in large constants alone, which no search looks into.

In: the plan of one graph. Out: that of another. Used for the steps of alike loops, each of which has its own weights.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from eqfuse.egraph.canonical import canonical_piece
from eqfuse.ir.graph import Graph
from eqfuse.plan.plan import Plan


def without_constants(graph: Graph) -> Hashable:
    """What is equal for graphs that differ in the values of large constants alone."""
    form, leaves = canonical_piece(graph.outputs, ())
    numbers = {n: i for i, n in enumerate(graph.inputs)}
    return form, tuple([numbers.get(n) for n in leaves]), tuple([n.type for n in graph.inputs])


def with_constants(plan: Plan, first: Graph, graph: Graph) -> Plan | None:
    """`plan`, that of `first`, for `graph`, which is that without constants. None where it has constants that were
    computed from others when it was made."""
    (_, of_first), (_, of_graph) = (canonical_piece(g.outputs, ()) for g in (first, graph))
    values = dict(zip(of_first, of_graph, strict=True))
    literals = {n.literal: values.get(n, n).literal for n in first.nodes if n.op == "const"}
    if plan.graph != first or any(literal not in literals for _, literal in plan.constants):
        return None
    return replace(plan, graph=graph, constants=tuple([(v, literals[literal]) for v, literal in plan.constants]))
