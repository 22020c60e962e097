"""Derivatives of updates: arrays whose elements at some places are replaced, or joined with other values."""

from __future__ import annotations

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import Expr, cast, filled, flipped, later, reshape, sum_of, where, zeros_like
from eqfuse.gradients.row import Changes, DerivativeRow, NoDerivative, joint
from eqfuse.gradients.views import added, from_start, slice_node
from eqfuse.ir.graph import Node, const, node
from eqfuse.ops.types import TensorType
from eqfuse.ops.views import extents_of


def _slices_transpose(n: Node, position: int, ct: Expr) -> Expr:
    """Of the array: where nothing was written. Of a value: its slice, but where a later one covers it."""
    slices = n.attr("slices")
    for ranges in slices[position:][::-1]:
        blank = filled(0, TensorType(ct.dtype, extents_of(ranges)))
        ct = Expr(tidy.slice_scatter(ct.node, [blank.node], [ranges]))
    return ct if position == 0 else slice_node(ct, slices[position - 1])


_ADDING = ("set", "add", "subtract")
_FACTORS = ("multiply", "divide")
_EXTREMES = ("maximum", "minimum", "fmax", "fmin")


def _scatter_tangent(n: Node, d: Changes) -> Node | None:
    """What the array and the values change by, joined as they are; of products and extremes by their derivatives."""
    mode, (x, indices, values) = n.attr("mode"), n.args
    if d[0] is None and d[2] is None:
        return None
    if mode in _ADDING:
        return n.over([zeros_like(x).node if d[0] is None else d[0], indices, d[2] or zeros_like(values).node])
    if mode in _EXTREMES:
        return _of_extremes(n, d[0], d[2]).node
    if mode not in _FACTORS:
        have = ", ".join(f"np.{m}.at" for m in (*_ADDING[1:], *_FACTORS, *_EXTREMES))
        raise NoDerivative(f"np.{mode}.at has none here. {have} have one: compute what is written before")
    terms = [Expr(n.over([d[0], indices, values]))] if d[0] is not None else []
    if d[2] is not None:
        change = cast(Expr(d[2]), n.dtype) * cast(_of_factor(n), n.dtype)
        terms.append(added(n.shape, indices, change, n.attr("axis")))
    return sum_of(terms).node


def _of_factor(n: Node) -> Expr:
    """The derivative in each value of what ``multiply.at`` or ``divide.at`` makes of its place."""
    x, indices, values = n.args
    axis = n.attr("axis")
    if n.attr("mode") == "divide":
        return -(_taken(n, indices, axis) / Expr(values))
    return _taken(x, indices, axis) * _others(Expr(values), indices, x.shape[axis], axis)


def _of_extremes(n: Node, of_array: Node | None, of_values: Node | None) -> Expr:
    """The mean of what those change by that are equal to the extreme of their place."""
    x, indices, values = n.args
    axis = n.attr("axis")
    stays, meets = Expr(x).equals(Expr(n)), cast(Expr(values), n.dtype).equals(_taken(n, indices, axis))
    count = where(stays, 1, 0, n.dtype) + added(n.shape, indices, where(meets, 1, 0, n.dtype), axis)
    terms = [where(stays, Expr(of_array), 0)] if of_array is not None else []
    if of_values is not None:
        terms.append(added(n.shape, indices, where(meets, cast(Expr(of_values), n.dtype), 0), axis))
    return sum_of(terms) / count


def _taken(x: Node, indices: Node, axis: int) -> Expr:
    return Expr(node("take", (x, indices), (axis,)))


def _others(values: Expr, indices: Node, extent: int, axis: int) -> Expr:
    """For each of the `values` the product of the others that `indices` put into its place: of those before it and of
    those behind it, so that zeros need no division."""
    if are_distinct(indices, extent):
        return filled(1, values.node.type)
    count, lead = indices.type.size, values.rank - indices.type.rank + axis + 1
    rest = values.shape[lead + indices.type.rank :]
    places = reshape(from_start(indices, extent), (count,))
    order = node("argsort", (places.node,), (-1, True))
    back = node("argsort", (order,), (-1, True))
    along = Expr(node("take", (reshape(values, (*values.shape[:lead], count, *rest)).node, order), (axis,)))
    places = Expr(node("take", (places.node, order), (-1,)))
    before = _before(along, places, axis)
    behind = flipped(_before(flipped(along, axis), flipped(places, -1), axis), axis)
    return reshape(Expr(node("take", ((before * behind).node, back), (axis,))), values.shape)


def _before(values: Expr, places: Expr, axis: int) -> Expr:
    """For each of the `values` the product of those right before it along `axis` that have its place."""
    count, step = values.shape[axis], 1

    def of_same(x: Expr, by: int) -> Expr:
        same = reshape(places.equals(later(places, -1, by, -1)), (count, *[1] * (-axis - 1)))
        return where(same, later(x, axis, by, 1), 1)

    while step < count:
        values, step = values * of_same(values, step), 2 * step
    return of_same(values, 1)


def _scatter_transpose(n: Node, position: int, ct: Expr) -> Expr:
    axis, mode = n.attr("axis"), n.attr("mode")
    x, indices, values = n.args
    if position == 0 and mode in _FACTORS:
        return Expr(n.over([ct.node, indices, values]))
    if position == 0:
        return Expr(n.over([ct.node, indices, zeros_like(values).node])) if mode == "set" else ct
    taken = cast(_taken(ct.node, indices, axis), values.dtype)
    if mode == "set" and not are_distinct(indices, x.shape[axis]):
        written = _written_last(indices, x.shape[axis], values.type.rank - (x.type.rank + axis))
        return where(written, taken, 0)
    return -taken if mode == "subtract" else taken


def are_distinct(indices: Node, extent: int) -> bool:
    """Are the places that `indices` choose known, and no two the same?"""
    if indices.op != "const":
        return False
    places = indices.literal.array.astype(np.int64).reshape(-1) % max(extent, 1)
    return np.unique(places).size == places.size


def _written_last(indices: Node, extent: int, trailing: int) -> Expr:
    """Which of the values at `indices` stay: of several for one place, the last."""
    numbers = const(np.arange(indices.type.size).reshape(indices.shape))
    nobody = filled(-1, TensorType(numbers.dtype, (extent,)))
    last = node("scatter", (nobody.node, indices, numbers), (-1, "set"))
    stays = _taken(last, indices, -1).equals(Expr(numbers))
    return reshape(stays, (*stays.shape, *[1] * (trailing - stays.rank)))


ROWS: dict[str, DerivativeRow] = {
    "slice_scatter": joint(_slices_transpose),
    "scatter": DerivativeRow(_scatter_tangent, transpose=_scatter_transpose, linear=(0, 2)),
}
