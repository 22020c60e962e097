"""Derivatives of the reductions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from itertools import accumulate

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import Expr, cast, flipped, later, reshape, rows_along, spread_to, sum_of, sum_over
from eqfuse.gradients.row import Changes, DerivativeRow, joint, zero_derivative
from eqfuse.ir.graph import Node, const, node


def _extreme_tangent(n: Node, d: Changes) -> Node | None:
    """The mean change of all the elements that are the extreme, as JAX has it."""
    if d[0] is None:
        return None
    chosen = cast(Expr(n.args[0]).equals(Expr(n)), n.dtype)
    axes = n.attr("axes")
    return (sum_over(chosen * Expr(d[0]), axes) / sum_over(chosen, axes)).node


_PARTS = 8  # of a product, each of which is read twice


def _product_tangent(n: Node, d: Changes) -> Node | None:
    """Each element's change, times the product of all before it and that of all behind: no zero is divided by, so that
    the tangent has its tangent too. A long product is one of parts, elements of which are multiplied first; a short one
    is written out."""
    if d[0] is None:
        return None
    axes = n.attr("axes")
    x, change = Expr(n.args[0]), Expr(d[0])
    if len(axes) != 1:
        axes, x, change = (-1,), rows_along(x, axes), rows_along(change, axes)
    (axis,) = axes
    extent = x.shape[axis]
    if 1 < extent <= _PARTS or extent >= _PARTS**2:
        parts = _parts(x, axis, 1)
        terms = [other * c for other, c in zip(_others(parts), _parts(change, axis, 0), strict=True)]
        x, change = functools.reduce(operator.mul, parts), sum_of(terms)
    if x.shape[axis] == 1:
        return reshape(change, n.shape).node
    before = _running_product(later(x, axis, 1, 1), axis)
    behind = flipped(_running_product(later(flipped(x, axis), axis, 1, 1), axis), axis)
    return reshape(sum_over(before * behind * change, [axis]), n.shape).node


def _running_product(x: Expr, axis: int) -> Expr:
    return Expr(node("cumprod", (x.node,), (axis,)))


def _parts(x: Expr, axis: int, fill: float) -> list[Expr]:
    """Pieces along `axis`, of one extent: the last one with `fill` behind."""
    extent, size = x.shape[axis], -(-x.shape[axis] // _PARTS)
    pieces = []
    for start in range(0, extent, size):
        ranges, widths = [(0, m, 1) for m in x.shape], [(0, 0)] * x.rank
        ranges[axis] = (start, min(start + size, extent), 1)
        part = tidy.slice_(x.node, ranges)
        widths[axis] = (0, size - part.shape[axis])
        pieces.append(Expr(tidy.pad(part, const(fill, x.dtype), widths)))
    return pieces


def _others(parts: Sequence[Expr]) -> list[Expr]:
    """For each of the `parts` the product of the others, element by element."""
    before = [*accumulate(parts[:-1], operator.mul)]
    behind = [*accumulate(parts[:0:-1], operator.mul)][::-1]
    return [behind[0], *(a * b for a, b in zip(before, behind[1:], strict=False)), before[-1]]


ROWS: dict[str, DerivativeRow] = {
    "sum": joint({0: lambda n, ct: spread_to(ct, n.args[0].shape)}),
    "prod": DerivativeRow(_product_tangent),
    "max": DerivativeRow(_extreme_tangent),
    "min": DerivativeRow(_extreme_tangent),
    **{name: zero_derivative() for name in ("any", "all", "argmax", "argmin")},
}
