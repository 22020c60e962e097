"""Constants that the steps of loops read: each stands in the step, which is planned and built with it.

In: a graph. Out: the graph whose loops and choices are handed no constants but those that carries begin with. A step
that knows the weights of a product finds them copied as its kernels read them best. Next stop: `egraph.saturate`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from eqfuse.ir.graph import Body, Graph, Node, constants, node, substitute
from eqfuse.ir.loops import first_shared, inputs_before
from eqfuse.ops.loops import LOOPS


def constants_within(graph: Graph) -> Graph:
    """`graph`, its loops, and those within them, with what they read of constants alone."""
    if not any(n.op in LOOPS for n in graph.nodes):
        return graph
    constant_nodes = constants(graph.nodes)
    new: dict[Node, Node] = {}
    for n in graph.nodes:
        args = [new[a] for a in n.args]
        if n.op in LOOPS and n not in constant_nodes:
            new[n] = _with_constants(n, args, constant_nodes)
        else:
            new[n] = n if args == [*n.args] else n.over(args)
    outputs = tuple([new[o] for o in graph.outputs])
    places = graph.places and {new.get(n, n): place for n, place in graph.places.items()}
    return graph if outputs == graph.outputs else replace(graph, outputs=outputs, places=places)


def _with_constants(loop: Node, args: list[Node], constant_nodes: Collection[Node]) -> Node:
    """`loop` over `args`, which its own stand for, less those of `constant_nodes` that all steps share."""
    first, before = first_shared(loop), inputs_before(loop)
    moved = [i for i, a in enumerate(loop.args) if i >= first and a in constant_nodes]

    def closed(body: Body) -> Body:
        inputs, values = body.graph.inputs, {body.graph.inputs[i + before]: loop.args[i] for i in moved}
        kept = tuple([n for n in inputs if n not in values])
        return Body(constants_within(Graph(kept, substitute(body.graph.outputs, values))))

    attrs = [closed(a) if isinstance(a, Body) else a for a in loop.attrs]
    return node(loop.op, [a for i, a in enumerate(args) if i not in moved], attrs)
