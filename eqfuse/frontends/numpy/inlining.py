"""Calls of graphs within a trace: what they compute becomes part of it.

In: a graph, and arguments of a call of it, traced ones among them. Out: traced results, as the function that the graph
was traced from would give them.
"""

from __future__ import annotations

from typing import Any

from eqfuse.errors import DtypeError, ShapeError, TraceError
from eqfuse.frontends.numpy.leaves import leaf_tracer
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.registry import of_arrays
from eqfuse.frontends.numpy.tracing import current, differentiated
from eqfuse.ir.graph import CallArguments, Graph, substitute
from eqfuse.ir.pytree import LEAF


@of_arrays
def inlined(graph: Graph, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `graph` gives for these arguments. TraceError where a graph does not say all that its function does."""
    trace, around, signature = current(), differentiated(), graph.signature
    assert trace is not None
    if signature is not None and not signature.pure:
        raise TraceError(
            "a graph is called in a traced function, or differentiated, whose own function changes its arguments, asks "
            "how they lie in memory, draws random numbers, or computes with Python numbers at each call: give the "
            "function itself, and not its graph"
        )
    rules = () if signature is None else signature.rules
    if rules and around is not None:
        raise TraceError(
            f"the graph's function has a gradient of its own ({', '.join(rules)}), of which the graph, that says what "
            "is computed, tells nothing: give the function itself, and not its graph"
        )
    trace.rules.update(dict.fromkeys(rules))
    leaves = [lift(leaf) for leaf in (args if signature is None else signature.flatten(args, kwargs))]
    if len(leaves) != len(graph.inputs):
        raise ShapeError(f"the graph has {len(graph.inputs)} inputs, {len(leaves)} arrays were given")
    for n, leaf in zip(graph.inputs, leaves, strict=True):
        if leaf.tensor_type != n.type:
            misfit = DtypeError if leaf.dtype != n.dtype else ShapeError
            raise misfit(f"the graph's input {n.attr('name')!r} is {n.type}, {leaf.tensor_type} was given")
    values = dict(zip(graph.inputs, [leaf.node for leaf in leaves], strict=True))
    made_of = graph.outputs if around is None or around.differentiated is None else around.differentiated(graph.outputs)
    outputs = substitute(made_of, values)
    if signature is None:
        return tuple([leaf_tracer(n, LEAF) for n in outputs])
    selected = signature.select(CallArguments(leaves), outputs)
    return signature.rebuild([leaf_tracer(n, leaf) for n, leaf in zip(selected, signature.result_leaves, strict=True)])
