"""`ef.jacfwd`, `ef.jacrev` and `ef.hessian`: all partial derivatives, as arrays.

In: a function. Out: a function of the same arguments, whose result nests as the function's does, and in place of each
array as its arguments do: arrays of the shapes of both, one behind the other. The products of the linearised function
with the rows of a unit matrix are steps of one scan, before which is computed what they share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.errors import DtypeError
from eqfuse.frontends.numpy.loops import scan
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.tracer import wrap
from eqfuse.gradients.call import DifferentiatedCall, argument_places, name_of, own_inputs
from eqfuse.gradients.derived import DerivedFunction
from eqfuse.gradients.expr import Expr, filled, reshape, transpose, zeros_like
from eqfuse.gradients.rules import refuse_forward
from eqfuse.ir.graph import Node, const, substitute

Argnums = int | tuple[int, ...]


def jacfwd(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian of `fun` in its arguments `argnums`, column by column: for few arguments of many results."""
    return _jacobian("ef.jacfwd", _by_columns, fun, argnums, has_aux, holomorphic)


def jacrev(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian of `fun` in its arguments `argnums`, row by row: for few results of many arguments."""
    return _jacobian("ef.jacrev", _by_rows, fun, argnums, has_aux, holomorphic)


def hessian(
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The second derivatives of `fun` in its arguments `argnums`: the columns of the Jacobian of its gradient."""
    inner = _jacobian("ef.hessian", _by_rows, fun, argnums, has_aux, holomorphic)
    return _jacobian("ef.hessian", _by_columns, inner, argnums, has_aux, holomorphic)


def _jacobian(
    what: str, by: Callable[[DifferentiatedCall], list[list[Node]]],
    fun: Any, argnums: Any, has_aux: bool, holomorphic: bool,
) -> Callable[..., Any]:
    def compute(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        chosen, one = argument_places(argnums, len(args), what, name_of(fun))
        call = DifferentiatedCall(what, fun, args, kwargs, chosen, has_aux)
        _check_kinds(call, holomorphic, complex_results=by is _by_columns)
        trees = [call.argument_trees(row) for row in by(call)]
        jacobian = call.result.nested([tree[0] if one else tree for tree in trees])
        return (jacobian, call.aux.tree(call.back(call.aux.nodes))) if has_aux else jacobian

    return DerivedFunction(what, fun, compute, lambda count: argument_places(argnums, count, what, name_of(fun))[0])


def _check_kinds(call: DifferentiatedCall, holomorphic: bool, complex_results: bool) -> None:
    """DtypeError for real numbers in a function that is said to be holomorphic, and complex ones in another, whose
    results alone may be complex where `complex_results`."""
    arguments = list(zip(call.paths, call.arguments, strict=True))
    results = list(zip(call.result.paths, call.result.nodes, strict=True))
    instead = "say holomorphic=True, where that is true"
    if not holomorphic and all(n.dtype.kind != "c" for _, n in arguments):
        results = [] if complex_results else results
        instead = "of real arguments, return its real and its imaginary part"
    for path, n in arguments + results:
        if (n.dtype.kind == "c") != holomorphic:
            says = "is not complex" if holomorphic else f"is complex: {instead}"
            raise DtypeError(f"{call.what} with holomorphic={holomorphic}: {path}, of {n.type}, {says}")


def _by_columns(call: DifferentiatedCall) -> list[list[Node]]:
    """For each result the derivatives in each argument: what it changes by where one element of that changes by 1."""
    steps = call.steps()
    rows: list[list[Node]] = [[] for _ in call.result.nodes]
    changes = call.changes(steps)
    refuse_forward(call.what, [t for t in changes if t is not None])
    pairs = zip(changes, call.result.nodes, strict=True)
    tangents = [zeros_like(n).node if t is None else t for t, n in pairs]
    for step in steps:
        others = {s: zeros_like(s).node for s in steps if s is not step}
        alone = substitute(call.back(tangents), others)
        for row, column in zip(rows, _mapped(step, alone), strict=True):
            lead = step.type.rank
            row.append(transpose(column, (*range(lead, column.rank), *range(lead))).node)
    return rows


def _by_rows(call: DifferentiatedCall) -> list[list[Node]]:
    """For each result the derivatives in each argument, as cotangents of one element of the result."""
    steps, results = call.steps(), call.result.nodes
    tangents = call.changes(steps)
    rows = []
    for tangent, n in zip(tangents, results, strict=True):
        (cotangent,) = own_inputs(["cotangent"], [n.type])
        cts = call.back(call.cotangents([tangent], steps, [cotangent]))
        rows.append([row.node for row in _mapped(cotangent, cts)])
    return rows


def _mapped(unit: Node, outputs: Sequence[Node]) -> list[Expr]:
    """`outputs` for each array that is 1 at one place and else 0 in the place of `unit`, whose axes come first."""
    size, shape = unit.type.size, unit.shape
    if size == 1:
        one = filled(1, unit.type)
        return [reshape(Expr(o), (*shape, *o.shape)) for o in substitute(outputs, {unit: one.node})]
    basis = reshape(Expr(const(np.eye(size, dtype=unit.dtype))), (size, *shape))

    def step(carry: Any, row: Any) -> Any:
        values = substitute(outputs, {unit: row.node})
        return carry, [wrap(o, Rights.WRITABLE) for o in values]

    _, stacked = scan(step, (), wrap(basis.node), length=size)
    return [reshape(Expr(s.node), (*shape, *o.shape)) for s, o in zip(stacked, outputs, strict=True)]
