"""Derivatives of what runs along an axis: running sums and products, and folds by a ufunc."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import Expr, cast, f, flipped, for_sums, later, reshape, sum_over, transpose, where
from eqfuse.gradients.reductions import ROWS as REDUCTIONS
from eqfuse.gradients.row import Changes, DerivativeRow, NoDerivative, joint
from eqfuse.ir.graph import Node, const


def _suffix_sums(n: Node, ct: Expr) -> Expr:
    axis = n.attr("axis")
    sums = Expr(n.over([flipped(for_sums(ct), axis).node]))
    return cast(flipped(sums, axis), ct.dtype)


_BLOCK = 8  # elements that follow one another, which are joined first


@dataclass(frozen=True)
class _Recurrence:
    """Each value is a `step` from the one before it, by the link and the term of its element. `chain` makes one link of
    an element's and that before it; `no_link` changes no chain."""

    step: Callable[[Expr, Expr, Expr], Expr]
    chain: Callable[[Expr, Expr], Expr]
    no_link: float

    def along(self, link: Expr, term: Expr, axis: int) -> Expr:
        """The values along `axis`, which is moved to the front: what is cut and moved along it there lies in long
        pieces."""
        place = link.rank + axis
        order = [place, *[a for a in range(link.rank) if a != place]]
        return transpose(self._values(transpose(link, order), transpose(term, order)), np.argsort(order).tolist())

    def _values(self, link: Expr, term: Expr) -> Expr:
        """Along the first axis: by doubling spans; where they are many, of blocks, and within each one by one."""
        extent, axis = link.shape[0], -link.rank
        if extent <= _BLOCK:
            span = 1
            while span < extent:
                term = self.step(later(term, axis, span, 0), link, term)
                link = self.chain(link, later(link, axis, span, self.no_link))
                span *= 2
            return term
        links, terms = [_of_blocks(link, 0, self.no_link)], [_of_blocks(term, 0, 0)]
        for i in range(1, _BLOCK):
            own = _of_blocks(link, i, self.no_link)
            terms.append(self.step(terms[-1], own, _of_blocks(term, i, 0)))
            links.append(self.chain(own, links[-1]))
        before = later(self._values(links[-1], terms[-1]), axis, 1, 0)
        parts = [self.step(before, *own) for own in zip(links, terms, strict=True)]
        blocks, *rest = parts[0].shape
        joined = Expr(tidy.concat([reshape(x, (blocks, 1, *rest)).node for x in parts], axis))
        whole = reshape(joined, (blocks * _BLOCK, *rest))
        return Expr(tidy.slice_(whole.node, [(0, m, 1) for m in link.shape]))


def _of_blocks(x: Expr, number: int, fill: float) -> Expr:
    """Element `number` of each block of `x` along its first axis, `fill` behind its end."""
    extent, *rest = x.shape
    blocks = -(-extent // _BLOCK)
    padded = Expr(tidy.pad(x.node, const(fill, x.dtype), [(0, blocks * _BLOCK - extent), *[(0, 0)] * len(rest)]))
    whole = [(0, m, 1) for m in rest]
    parted = reshape(padded, (blocks, _BLOCK, *rest))
    chosen = tidy.slice_(parted.node, [(0, blocks, 1), (number, number + 1, 1), *whole])
    return reshape(Expr(chosen), (blocks, *rest))


_SCALED = _Recurrence(lambda before, link, term: before * link + term, lambda a, b: a * b, 1)
_REPLACED = _Recurrence(lambda before, link, term: where(link, term, before), lambda a, b: f("logical_or", a, b), False)


def _running_product_tangent(n: Node, d: Changes) -> Node | None:
    """The change of the product before, times the element, and the product before times the element's change: no zero
    is divided by."""
    if d[0] is None:
        return None
    axis = n.attr("axis")
    return _SCALED.along(Expr(n.args[0]), later(Expr(n), axis, 1, 1) * Expr(d[0]), axis).node


def _running_extreme_tangent(n: Node, change: Expr) -> Node:
    """The change of the element that is the extreme so far, of equal ones the first."""
    axis = n.attr("axis")
    first = np.arange(n.shape[axis]).reshape((n.shape[axis],) + (1,) * (-axis - 1)) == 0
    is_new = f("logical_or", Expr(const(first)), f("not_equal", Expr(n), later(Expr(n), axis, 1, 0)))
    return _REPLACED.along(is_new, change, axis).node


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
