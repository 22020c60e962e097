"""`ef.vjp` and `ef.jvp`: products of a function's derivative with vectors, from the left and from the right.

In: a function, where it is differentiated, and changes there. Out: its results, and what they change by; or the
function that takes cotangents of the results to those of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eqfuse.errors import TraceError
from eqfuse.frontends.numpy.bodies import closed
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.tracer import wrap
from eqfuse.frontends.numpy.tracing import current
from eqfuse.gradients.call import DifferentiatedCall, name_of, nodes_of, own_inputs
from eqfuse.gradients.derived import DerivedFunction
from eqfuse.gradients.expr import zeros_like
from eqfuse.gradients.linearise import reaching
from eqfuse.gradients.partition import POLICIES, Cost, computed_again
from eqfuse.gradients.rules import refuse_forward
from eqfuse.ir.graph import Body, Node, const, substitute, topological


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """``(result, change)`` of ``fun(*primals)`` where the arguments change by `tangents`, which nest as `primals` do.

    With `has_aux`, `fun` returns ``(result, aux)``, and this ``(result, change, aux)``.
    """
    for name, trees in (("primals", primals), ("tangents", tangents)):
        if not isinstance(trees, (tuple, list)):
            raise TraceError(f"ef.jvp: the {name} are a {type(trees).__name__}: give a tuple, of one item per argument")
    names = ("primals", "tangents")
    derived = DerivedFunction("ef.jvp", fun, lambda args, _: _jvp(fun, args[0], args[1], has_aux), range, names)
    return derived(tuple(primals), tuple(tangents))


def _jvp(fun: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], has_aux: bool) -> Any:
    call = DifferentiatedCall("ef.jvp", fun, primals, {}, range(len(primals)), has_aux)
    steps = nodes_of("the tangents of ef.jvp", tangents, call.structure, [n.type for n in call.arguments])
    changes = tangents_of(call, steps)
    result, aux = call.result.tree(call.back(call.result.nodes)), call.aux.tree(call.back(call.aux.nodes))
    change = call.result.tree(changes)
    return (result, change, aux) if has_aux else (result, change)


def tangents_of(call: DifferentiatedCall, tangents: Sequence[Node]) -> list[Node]:
    """What the results of `call` change by, where its arguments change by `tangents`."""
    steps = call.steps()
    changes = call.changes(steps)
    refuse_forward(call.what, [t for t in changes if t is not None])
    outputs = [zeros_like(n).node if t is None else t for t, n in zip(changes, call.result.nodes, strict=True)]
    return [*substitute(call.back(outputs), dict(zip(steps, tangents, strict=True)))]


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(result, pullback)`` of ``fun(*primals)``: ``pullback(cotangents of the result)`` is a tuple of those of the
    arguments.

    With `has_aux`, `fun` returns ``(result, aux)``, and this ``(result, pullback, aux)``.
    """
    if current() is not None:
        call = DifferentiatedCall("ef.vjp", fun, primals, {}, range(len(primals)), has_aux)
        return _with_aux(call, Pullback(call, *backward_of(call, *POLICIES["store_all"])))
    calls: list[tuple[DifferentiatedCall, Body]] = []

    def compute(args: tuple[Any, ...], _: dict[str, Any]) -> Any:
        call = DifferentiatedCall("ef.vjp", fun, args, {}, range(len(args)), has_aux)
        body, residuals = backward_of(call, *POLICIES["store_all"])
        calls.append((call, body))
        return _with_aux(call, tuple([wrap(n, Rights.WRITABLE) for n in residuals]))

    result, residuals, *aux = DerivedFunction("ef.vjp", fun, compute, range)(*primals)
    return result, Pullback(*calls[-1], residuals), *aux


def _with_aux(call: DifferentiatedCall, pullback: Any) -> tuple[Any, ...]:
    result, aux = call.result.tree(call.back(call.result.nodes)), call.aux.tree(call.back(call.aux.nodes))
    return (result, pullback, aux) if call.has_aux else (result, pullback)


def backward_of(call: DifferentiatedCall, keep: Cost, again: Cost) -> tuple[Body, list[Node]]:
    """The graph from cotangents of the results, and from residuals, to those of the arguments; and the residuals, which
    cost least by the prices of keeping a value and of computing it `again`."""
    steps, types = call.steps(), [n.type for n in call.result.nodes]
    cts = own_inputs([f"cotangent of {path}" for path in call.result.paths], types)
    outputs = call.back(call.cotangents(call.changes(steps), steps, cts))
    inside = computed_again(_read(outputs, cts), keep, again, _marked(call, outputs))
    (body,), residuals = closed([(str(n.attr("name")), n) for n in cts], [outputs], again=inside)
    return body, residuals


def _read(computed: Sequence[Node], inputs: Sequence[Node]) -> list[Node]:
    """What is read to compute `computed` that does not depend on what is `inputs`."""
    varies = set(reaching(computed, {*inputs}))
    of_nodes = [a for n in varies for a in n.args]
    return [n for n in dict.fromkeys([*computed, *of_nodes]) if n not in varies]


def _marked(call: DifferentiatedCall, gradients: Sequence[Node]) -> set[Node]:
    """The values below `gradients` that are not kept: what `ef.checkpoint` marks, and what the backward makes of it."""
    marked, forward = set(call.again), set(topological(call.back([*call.result.nodes, *call.aux.nodes])))
    for n in topological(gradients) if marked else ():
        if n not in forward and any(a in marked for a in n.args):
            marked.add(n)
    return marked


def of_cotangents(call: DifferentiatedCall, body: Body, residuals: Sequence[Node], cotangent: Any) -> tuple[Any, ...]:
    """The cotangents of the arguments of `call`, by the backward graph `body`, from those of its results."""
    result, inputs = call.result, body.graph.inputs
    cts = nodes_of(f"the cotangents of {call.what}", cotangent, result.structure, [n.type for n in result.nodes])
    return call.argument_trees(substitute(body.graph.outputs, dict(zip(inputs, [*cts, *residuals], strict=True))))


class Pullback:
    """The function that `ef.vjp` returns: from cotangents of the results to those of the arguments, by `residuals`,
    the values of the forward pass that it needs (nodes, where that is traced)."""

    def __init__(self, call: DifferentiatedCall, body: Body, residuals: Sequence[Any]) -> None:
        self._call, self._body, self.residuals = call, body, tuple(residuals)
        self._derived = DerivedFunction(
            "ef.vjp", call.fn, lambda args, _: self._pulled_back(*args), range, ["cotangent"]
        )

    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        gradients: tuple[Any, ...] = self._derived(cotangent)
        return gradients

    def _pulled_back(self, cotangent: Any) -> tuple[Any, ...]:
        kept = [r if isinstance(r, Node) else const(r) for r in self.residuals]
        return of_cotangents(self._call, self._body, kept, cotangent)

    def __repr__(self) -> str:
        bytes_kept = sum(r.type.nbytes if isinstance(r, Node) else r.nbytes for r in self.residuals)
        return f"<the pullback of {name_of(self._call.fn)}, which keeps {bytes_kept:,} bytes>"
