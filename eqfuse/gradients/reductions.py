"""Derivatives of the reductions."""

from __future__ import annotations

from eqfuse.gradients.expr import Expr, cast, f, spread_to, total, where
from eqfuse.gradients.row import Changes, DerivativeRow, constant, joint
from eqfuse.ir.graph import Node


def _extreme_tangent(n: Node, d: Changes) -> Node | None:
    """The mean change of all the elements that are the extreme, as JAX has it."""
    if d[0] is None:
        return None
    chosen = cast(Expr(n.args[0]).equals(Expr(n)), n.dtype)
    axes = n.attr("axes")
    return (total(chosen * Expr(d[0]), axes) / total(chosen, axes)).node


def _product_tangent(n: Node, d: Changes) -> Node | None:
    """The product of all others for each element: where one is zero, of the others; where two are, zero."""
    if d[0] is None:
        return None
    x, axes = Expr(n.args[0]), n.attr("axes")
    zero = x.equals(0)
    zeros = total(cast(zero, n.dtype), axes)
    nonzero = where(zero, 1, x)
    others = Expr(n.over([nonzero.node]))
    alone = f("logical_and", zero, zeros.equals(1))
    slope = where(zeros.equals(0), others / nonzero, where(alone, spread_to(others, x.shape), 0))
    return total(slope * Expr(d[0]), axes).node


ROWS: dict[str, DerivativeRow] = {
    "sum": joint({0: lambda n, ct: spread_to(ct, n.args[0].shape)}),
    "prod": DerivativeRow(_product_tangent),
    "max": DerivativeRow(_extreme_tangent),
    "min": DerivativeRow(_extreme_tangent),
    **{name: constant() for name in ("any", "all", "argmax", "argmin")},
}
