"""What a user says of derivatives, as nodes of a function that is differentiated.

`stopped` is a value that counts as a constant. `custom_call` is a call of a function with a rule of its own,
`custom_change` what its results change by, which has a transpose alone. Both hold a `_RuleCall` of `custom.py`. What is
made of a derivative holds none of these: `calls_inlined` puts the values there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eqfuse.dtypes import kind
from eqfuse.errors import UnsupportedOp
from eqfuse.frontends.numpy.origins import note_instead
from eqfuse.gradients.expr import Expr, filled
from eqfuse.gradients.row import Changes, DerivativeRow, NoDerivative, zero_derivative
from eqfuse.ir.graph import Body, Graph, Node, node, substitute, topological
from eqfuse.ir.loops import loop_results


def calls_inlined(nodes: Sequence[Node]) -> list[Node]:
    """`nodes`, with the values that are stopped, and what the functions compute in place of their calls, in the bodies
    of loops too."""
    replacements: dict[Node, Node] = {}
    for n in topological(nodes):
        if n.op == "stopped":
            (replacements[n],) = substitute(n.args, replacements)
        elif n.op == "custom_call":
            graph = n.attr("call").value.graph
            values = dict(zip(graph.inputs, substitute(n.args, replacements), strict=True))
            replacements |= zip(loop_results(n), substitute(calls_inlined(graph.outputs), values), strict=True)
        elif any(isinstance(a, Body) for a in n.attrs):
            bodies = [_inlined_body(a) for a in n.attrs]
            if any(body is not a for body, a in zip(bodies, n.attrs, strict=True)):
                replacements[n] = node(n.op, substitute(n.args, replacements), bodies)
    note_instead(replacements)
    return list(substitute(nodes, replacements))


def _inlined_body(attr: Any) -> Any:
    if not isinstance(attr, Body):
        return attr
    outputs = tuple(calls_inlined(attr.graph.outputs))
    return attr if outputs == attr.graph.outputs else Body(Graph(attr.graph.inputs, outputs))


def refuse_forward(what: str, nodes: Iterable[Node]) -> None:
    """UnsupportedOp where `nodes` hold changes that have a transpose alone."""
    for n in topological(nodes):
        if n.op == "custom_change":
            raise UnsupportedOp(f"{what}: {_forward(n)}")
        for a in n.attrs:
            if isinstance(a, Body):
                refuse_forward(what, a.graph.outputs)


def _forward(change: Node) -> str:
    return (
        f"{change.attr('call').name} has a rule for the backward pass alone (ef.custom_vjp), and no forward "
        "derivative: ef.vjp, ef.grad and ef.jacrev go through it"
    )


def _changes(n: Node, d: Changes, _linearise: Any) -> tuple[list[Node | None], Mapping[Node, Node]]:
    call = n.attr("call")
    others = [position for position, change in enumerate(d) if change is not None and position >= call.own]
    if any(position in call.said_not_to_change for position in others):
        raise NoDerivative(
            f"an argument of {call.name} that nondiff_argnums names changes: leave it out of nondiff_argnums, or stop "
            "it (ef.stop_gradient)"
        )
    if others:
        raise NoDerivative(f"{call.name} reads a value from around it that changes: pass it as an argument")
    inputs, outputs, kept = call.forward()
    values = dict(zip(inputs, n.args[: call.own], strict=True))
    moving = tuple(i for i, change in enumerate(d) if change is not None)
    steps = [change for change in d if change is not None]
    change = node("custom_change", [*steps, *substitute(kept, values)], (call, moving, call.backward()))
    smooth = [kind(t.dtype) in "fc" for t in call.value.gives]
    changes = [c if s else None for c, s in zip(loop_results(change), smooth, strict=True)]
    return changes, dict(zip(loop_results(n), substitute(outputs, values), strict=True))


def _no_change(n: Node, _d: Changes, _linearise: Any) -> tuple[list[Node | None], Mapping[Node, Node]]:
    raise NoDerivative(_forward(n))


def _transpose(n: Node, cts: Mapping[int, Expr], linear: set[int], _transpose: Any) -> dict[int, Expr]:
    call, moving, backward = (n.attr(name) for name in ("call", "moving", "backward"))
    result_cotangents = [cts[k].node if k in cts else filled(0, t).node for k, t in enumerate(call.value.gives)]
    inputs = dict(zip(backward.graph.inputs, [*n.args[len(moving) :], *result_cotangents], strict=True))
    cotangents = substitute(backward.graph.outputs, inputs)
    return {position: Expr(cotangents[moving[position]]) for position in linear}


ROWS: dict[str, DerivativeRow] = {
    "stopped": zero_derivative(),
    "custom_call": DerivativeRow(several=_changes),
    "custom_change": DerivativeRow(several=_no_change, transpose_several=_transpose),
}
