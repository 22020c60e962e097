"""What all steps of a loop read and may better make themselves: constants, and transposes that only products read.

In: a graph. Out: the graph whose loops and choices are handed no constants but those that carries begin with, and of a
transpose that is read by products alone the array itself. A step that knows the weights of a product finds them copied
as its kernels read them best; one that knows that a matrix is transposed needs no copy of it. Next stop:
`egraph.saturate`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from eqfuse.ir.graph import Body, Graph, Node, constants, input_node, node, substitute
from eqfuse.ir.loops import first_shared, inputs_before
from eqfuse.ops import Role
from eqfuse.ops.loops import LOOPS


def shared_within(graph: Graph) -> Graph:
    """`graph`, its loops, and those within them, with what their steps may better make themselves."""
    if not any(n.op in LOOPS for n in graph.nodes):
        return graph
    constant_nodes = constants(graph.nodes)
    new: dict[Node, Node] = {}
    for n in graph.nodes:
        args = [new[a] for a in n.args]
        if n.op in LOOPS and n not in constant_nodes:
            new[n] = _with_own(n, args, constant_nodes)
        else:
            new[n] = n if args == [*n.args] else n.over(args)
    outputs = tuple([new[o] for o in graph.outputs])
    places = graph.places and {new.get(n, n): place for n, place in graph.places.items()}
    return graph if outputs == graph.outputs else replace(graph, outputs=outputs, places=places)


def _with_own(loop: Node, args: list[Node], constant_nodes: Collection[Node]) -> Node:
    """`loop` over `args`, which its own stand for, less what its steps make themselves."""
    before, shared = inputs_before(loop), range(first_shared(loop), len(args))
    moved = [i for i in shared if loop.args[i] in constant_nodes]
    others = [i for i in shared if i not in moved]
    transposes = [i for i in others if args[i].op == "transpose" and _is_multiplied_within(loop, i)]

    def closed(body: Body) -> Body:
        inputs = list(body.graph.inputs)
        values = {inputs[i + before]: loop.args[i] for i in moved}
        for i in transposes:
            old, whole = inputs[i + before], args[i].args[0]
            inputs[i + before] = input_node(old.attr("name"), whole.type)
            values[old] = node("transpose", (inputs[i + before],), args[i].attrs)
        kept = tuple([n for i, n in enumerate(inputs) if i - before not in moved])
        return Body(shared_within(Graph(kept, substitute(body.graph.outputs, values))))

    operands = [a.args[0] if i in transposes else a for i, a in enumerate(args) if i not in moved]
    return node(loop.op, operands, [closed(a) if isinstance(a, Body) else a for a in loop.attrs])


def _is_multiplied(graph: Graph, operand: Node) -> bool:
    """Is `operand` read by products alone, or by loops whose steps do?"""
    readers = [n for n in graph.nodes if operand in n.args]
    return operand not in graph.outputs and all(_multiplies(n, operand) for n in readers)


def _multiplies(reader: Node, operand: Node) -> bool:
    if reader.op not in LOOPS:
        return reader.row.role is Role.CONTRACTION
    places = [i for i, a in enumerate(reader.args) if a is operand]
    return min(places) >= first_shared(reader) and all(_is_multiplied_within(reader, i) for i in places)


def _is_multiplied_within(loop: Node, place: int) -> bool:
    bodies = [a.graph for a in loop.attrs if isinstance(a, Body)]
    return all(_is_multiplied(b, b.inputs[place + inputs_before(loop)]) for b in bodies)
