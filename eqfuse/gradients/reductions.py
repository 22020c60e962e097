"""Derivatives of the reductions."""

from __future__ import annotations

from eqfuse.gradients.expr import Expr, cast, flipped, later, reshape, rows_along, spread_to, total
from eqfuse.gradients.row import Changes, DerivativeRow, constant, joint
from eqfuse.ir.graph import Node, node


def _extreme_tangent(n: Node, d: Changes) -> Node | None:
    """The mean change of all the elements that are the extreme, as JAX has it."""
    if d[0] is None:
        return None
    chosen = cast(Expr(n.args[0]).equals(Expr(n)), n.dtype)
    axes = n.attr("axes")
    return (total(chosen * Expr(d[0]), axes) / total(chosen, axes)).node


def _product_tangent(n: Node, d: Changes) -> Node | None:
    """Each element's change, times the product of all before it and that of all behind: no zero is divided by, so that
    the tangent has its tangent too."""
    if d[0] is None:
        return None
    axes = n.attr("axes")
    x, change = rows_along(Expr(n.args[0]), axes), rows_along(Expr(d[0]), axes)
    before = _running_product(later(x, -1, 1, 1))
    behind = flipped(_running_product(later(flipped(x, -1), -1, 1, 1)), -1)
    return reshape(total(before * behind * change, [-1]), n.shape).node


def _running_product(x: Expr) -> Expr:
    return Expr(node("cumprod", (x.node,), (-1,)))


ROWS: dict[str, DerivativeRow] = {
    "sum": joint({0: lambda n, ct: spread_to(ct, n.args[0].shape)}),
    "prod": DerivativeRow(_product_tangent),
    "max": DerivativeRow(_extreme_tangent),
    "min": DerivativeRow(_extreme_tangent),
    **{name: constant() for name in ("any", "all", "argmax", "argmin")},
}
