"""Bodies of loops and branches, traced: functions of the user's become graphs of their own.

In: a function on tracers that stand for carries. Out: `Body` graphs, and the values from around them that they read.
A body is traced within the trace that the loop is part of, so that what it reads from outside is nodes of one graph:
what depends on no carry is left outside of the loop and handed in.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

from eqfuse.frontends.numpy.origins import body_inputs
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.numpy.tracing import Trace, current
from eqfuse.ir.graph import Body, Graph, Node, input_node, topological
from eqfuse.ops.types import TensorType

CONSTANT_BYTES = 64  # constants up to this size are part of the body
_SPREADING = ("broadcast_to", "sliding_window")  # views larger than what they show: left to the body
_serial = itertools.count()


def stands_for(types: Sequence[TensorType]) -> list[Node]:
    """Inputs that no other body has, for values of `types`."""
    number = next(_serial)
    return [input_node(f"value {i} of body {number}", t) for i, t in enumerate(types)]


def traced_within(call: Callable[[], Sequence[Tracer]]) -> tuple[list[Node], Trace]:
    """The nodes of what `call` returns, traced as a body; and its trace."""
    outer = current()
    assert outer is not None
    with outer.within() as inner:
        return [t.node for t in call()], inner


def body_tracers(nodes: Sequence[Node]) -> list[Tracer]:
    """Tracers for `nodes`, in memory of their own."""
    return [wrap(n) for n in nodes]


def closed(
    inputs: Sequence[tuple[str, Node]],
    results: Sequence[Sequence[Node]],
    captured: Collection[Node] | None = None,
    again: Collection[Node] = (),
) -> tuple[list[Body], list[Node]]:
    """A body for each of `results`, over the same `inputs` with their names; and what all of them read besides.

    That is what depends on no input; or, for a branch, which must not be computed where it is not taken, what is
    `captured` alone. What is computed `again` is part of the body, whatever it depends on.
    """
    stands = body_inputs([name for name, _ in inputs], [n.type for _, n in inputs])
    named = {n: stand for (_, n), stand in zip(inputs, stands, strict=True)}
    outputs = [o for each in results for o in each]
    stops = _outside(outputs, named) if captured is None else {*captured} | _leaves(outputs)
    stops -= named.keys() | {*again}
    inner_nodes = dict(named)
    shared: dict[Node, Node] = {}

    def inside(n: Node) -> Node:
        if n not in inner_nodes:
            (inner_nodes[n],) = (shared[n],) = body_inputs([f"shared {len(shared)}"], [n.type])
        return inner_nodes[n]

    for n in _above(outputs, stops | named.keys()):
        inner_nodes[n] = n.over([inside(a) for a in n.args])
    inner_results = [[inside(o) for o in each] for each in results]
    takes = (*named.values(), *shared.values())
    return [Body(Graph(takes, tuple(each))) for each in inner_results], list(shared)


def _outside(outputs: Sequence[Node], inputs: Collection[Node]) -> set[Node]:
    """The nodes that depend on none of `inputs`, but on something besides small constants. A view that repeats what it
    shows stays inside."""
    varies, invariants = set(inputs), set()
    for n in topological(outputs):
        if n in varies:
            continue
        if any(a in varies for a in n.args):
            varies.add(n)
        elif _is_given(n) or any(a in invariants for a in n.args):
            invariants.add(n)
    return {n for n in invariants if n.op not in _SPREADING}


def _leaves(outputs: Sequence[Node]) -> set[Node]:
    return {n for n in topological(outputs) if _is_given(n)}


def _is_given(n: Node) -> bool:
    return n.op == "input" or (n.op == "const" and n.type.nbytes > CONSTANT_BYTES)


def _above(outputs: Sequence[Node], stops: Collection[Node]) -> list[Node]:
    """The nodes that `outputs` need down to `stops`, without these, arguments first."""
    needed: set[Node] = set()
    stack = [o for o in outputs if o not in stops]
    while stack:
        n = stack.pop()
        if n not in needed:
            needed.add(n)
            stack += [a for a in n.args if a not in stops]
    return [n for n in topological(outputs) if n in needed]
