"""Derivatives of the reductions."""

from __future__ import annotations

from eqfuse.gradients.row import Changes, Row, constant, joint
from eqfuse.gradients.terms import Term, cast, f, spread_to, total, where
from eqfuse.ir.graph import Node


def _extreme_tangent(n: Node, d: Changes) -> Node | None:
    """The mean change of all the elements that are the extreme, as JAX has it."""
    if d[0] is None:
        return None
    chosen = cast(Term(n.args[0]).equals(Term(n)), n.dtype)
    axes = n.attr("axes")
    return (total(chosen * Term(d[0]), axes) / total(chosen, axes)).node


def _product_tangent(n: Node, d: Changes) -> Node | None:
    """The product of all others for each element: where one is zero, of the others; where two are, zero."""
    if d[0] is None:
        return None
    x, axes = Term(n.args[0]), n.attr("axes")
    zero = x.equals(0)
    zeros = total(cast(zero, n.dtype), axes)
    nonzero = where(zero, 1, x)
    others = Term(n.over([nonzero.node]))
    alone = f("logical_and", zero, zeros.equals(1))
    slope = where(zeros.equals(0), others / nonzero, where(alone, spread_to(others, x.shape), 0))
    return total(slope * Term(d[0]), axes).node


ROWS: dict[str, Row] = {
    "sum": joint({0: lambda n, ct: spread_to(ct, n.args[0].shape)}),
    "prod": Row(_product_tangent),
    "max": Row(_extreme_tangent),
    "min": Row(_extreme_tangent),
    **{name: constant() for name in ("any", "all", "argmax", "argmin")},
}
