"""Derivatives of what runs along an axis: running sums and products, and folds by a ufunc."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import Expr, cast, f, flipped, for_sums, later, reshape, sum_over, transpose, where
from eqfuse.gradients.reductions import ROWS as REDUCTIONS
from eqfuse.gradients.row import Changes, DerivativeRow, NoDerivative, joint
from eqfuse.ir.graph import Node, const, node


def _suffix_sums(n: Node, ct: Expr) -> Expr:
    axis = n.attr("axis")
    sums = Expr(n.over([flipped(for_sums(ct), axis).node]))
    return cast(flipped(sums, axis), ct.dtype)


_BLOCK = 8  # elements that follow one another, whose products are taken first


def _running_product_tangent(n: Node, d: Changes) -> Node | None:
    """Each product changes by those of all others with one change, and no zero is divided by. The axis is moved to the
    front: what is cut and moved along it there lies in long pieces."""
    if d[0] is None:
        return None
    place = n.args[0].type.rank + n.attr("axis")
    order = [place, *[a for a in range(n.args[0].type.rank) if a != place]]
    x, change = (transpose(Expr(each), order) for each in (n.args[0], d[0]))
    return transpose(_change_of_products(x, change), np.argsort(order).tolist()).node


def _change_of_products(p: Expr, c: Expr) -> Expr:
    """What the running products of `p` along its first axis change by, which changes by `c`: a recurrence by doubling
    spans; where they are many, of blocks, and within each block one by one."""
    extent, axis = p.shape[0], -p.rank
    if extent <= _BLOCK:
        span = 1
        while span < extent:
            c = c * later(p, axis, span, 1) + p * later(c, axis, span, 0)
            p = p * later(p, axis, span, 1)
            span *= 2
        return c
    products, changes = [_of_blocks(p, 0, 1)], [_of_blocks(c, 0, 0)]
    for i in range(1, _BLOCK):
        x, change = _of_blocks(p, i, 1), _of_blocks(c, i, 0)
        changes.append(changes[-1] * x + products[-1] * change)
        products.append(products[-1] * x)
    before = later(Expr(node("cumprod", (products[-1].node,), (axis,))), axis, 1, 1)
    change = later(_change_of_products(products[-1], changes[-1]), axis, 1, 0)
    parts = [change * x + before * c for x, c in zip(products, changes, strict=True)]
    blocks, *rest = parts[0].shape
    joined = Expr(tidy.concat([reshape(x, (blocks, 1, *rest)).node for x in parts], axis))
    whole = reshape(joined, (blocks * _BLOCK, *rest))
    return Expr(tidy.slice_(whole.node, [(0, m, 1) for m in p.shape]))


def _of_blocks(x: Expr, number: int, fill: float) -> Expr:
    """Element `number` of each block of `x` along its first axis, `fill` behind its end."""
    extent, *rest = x.shape
    blocks = -(-extent // _BLOCK)
    padded = Expr(tidy.pad(x.node, const(fill, x.dtype), [(0, blocks * _BLOCK - extent), *[(0, 0)] * len(rest)]))
    whole = [(0, m, 1) for m in rest]
    parted = reshape(padded, (blocks, _BLOCK, *rest))
    chosen = tidy.slice_(parted.node, [(0, blocks, 1), (number, number + 1, 1), *whole])
    return reshape(Expr(chosen), (blocks, *rest))


def _running_extreme_tangent(n: Node, change: Expr) -> Node:
    """The change of the element that is the extreme so far, of equal ones the first."""
    axis = n.attr("axis")
    extent, truth = n.shape[axis], np.dtype(bool)
    numbers = Expr(const(np.arange(extent).reshape((extent,) + (1,) * (-axis - 1))))
    before = later(Expr(n), axis, 1, 0)
    new = f("logical_or", cast(numbers.equals(0), truth), f("not_equal", Expr(n), before))
    last = node("accumulate", (where(new, numbers, 0).node,), ("maximum", axis))
    return node("take_along_axis", (change.node, last), (axis,))


def _accumulate_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    ufunc = n.attr("ufunc")
    if ufunc not in ("maximum", "minimum", "fmax", "fmin"):
        raise NoDerivative(f"of {ufunc}.accumulate it is not known here: write it as ef.scan")
    return _running_extreme_tangent(n, Expr(d[0]))


_FOLDED: dict[str, Callable[[Expr, Expr], Expr | float]] = {  # the slope in each element
    "add": lambda y, x: 1.0,
    "logaddexp": lambda y, x: f("exp", x - y),
    "logaddexp2": lambda y, x: f("exp2", x - y),
    "hypot": lambda y, x: x / where(y.equals(0), 1, y),
}
_LIKE = {"fmax": "max", "fmin": "min", "maximum": "max", "minimum": "min", "multiply": "prod"}


def _fold_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    ufunc, axes = n.attr("ufunc"), n.attr("axes")
    if ufunc in _LIKE:
        return REDUCTIONS[_LIKE[ufunc]].tangent(n, d)
    if ufunc not in _FOLDED:
        raise NoDerivative(f"of {ufunc}.reduce it is not known here: write it as a loop or as ef.scan")
    return sum_over(Expr(d[0]) * _FOLDED[ufunc](Expr(n), Expr(n.args[0])), axes).node


def _sums_of_slices(n: Node) -> Node:
    """As a product with the matrix of what is in which slice."""
    x, starts = n.args
    axis, extent = n.attr("axis"), n.args[0].shape[n.attr("axis")]
    if n.attr("ufunc") != "add":
        raise NoDerivative(f"of {n.attr('ufunc')}.reduceat it is not known here; of add it is")
    int64 = np.dtype(np.int64)
    first = cast(Expr(starts), int64)
    following = tidy.slice_(first.node, [(1, first.shape[0], 1)])
    stop = Expr(tidy.concat([following, const(np.array([extent], int64))], -1))
    stop = where(stop > first, stop, first + 1)
    numbers = Expr(const(np.arange(extent).reshape(extent, 1)))
    inside = cast(f("logical_and", numbers >= first, numbers < stop), n.dtype)
    order = [a for a in range(x.type.rank) if a != x.type.rank + axis]
    moved = transpose(Expr(x), (*order, x.type.rank + axis))
    rows = reshape(moved, (math.prod(moved.shape[:-1]), extent)) @ inside
    sums = reshape(rows, (*moved.shape[:-1], first.shape[0]))
    back = [*range(x.type.rank - 1)]
    back.insert(x.type.rank + axis, x.type.rank - 1)
    return transpose(sums, back).node


ROWS: dict[str, DerivativeRow] = {
    "cumsum": joint({0: _suffix_sums}),
    "cumprod": DerivativeRow(_running_product_tangent),
    "accumulate": DerivativeRow(_accumulate_tangent),
    "fold": DerivativeRow(_fold_tangent),
    "reduceat": DerivativeRow(formula=_sums_of_slices),
}
