"""Derivatives of one-dimensional signals: convolution and correlation, which are linear in each operand, and
interpolation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import Expr, cast, conj, f, reshape, where
from eqfuse.gradients.row import DerivativeRow, NoDerivative, each
from eqfuse.gradients.windows import framed
from eqfuse.ir.graph import Node, node
from eqfuse.ops.sorting import INDEX_DTYPE


def _full(ct: Expr, lengths: tuple[int, int], mode: str, swapped: bool) -> Expr:
    """`ct` among zeros, in its place in the result of ``mode="full"``. `swapped`: NumPy reverses what it computes
    where the second operand of a correlation is longer."""
    long, short = max(lengths), min(lengths)
    before = {"full": 0, "same": short - 1 - short // 2, "valid": short - 1}[mode]
    after = long + short - 1 - before - ct.shape[0]
    return framed(ct, [after], [before]) if swapped else framed(ct, [before], [after])


def _slid(full: Expr, other: Expr) -> Expr:
    """``sum(full[i + k] * other[k])`` for each i."""
    return Expr(node("correlate", (full.node, conj(other).node), ("valid",)))


def _convolved(n: Node, position: int, ct: Expr) -> Expr:
    a, b = n.args
    full = _full(ct, (a.type.size, b.type.size), n.attr("mode"), False)
    return cast(_slid(full, Expr(n.args[1 - position])), n.args[position].dtype)


def _correlated(n: Node, position: int, ct: Expr) -> Expr:
    a, b = n.args
    full = _full(ct, (a.type.size, b.type.size), n.attr("mode"), b.type.size > a.type.size)
    if position == 0:
        return cast(_slid(full, _reversed(conj(Expr(b)))), a.dtype)
    return cast(conj(_reversed(_slid(full, Expr(a)))), b.dtype)


def _reversed(x: Expr) -> Expr:
    return Expr(tidy.flip(x.node, [-1]))


def _by_place(rule: Callable[[Node, int, Expr], Expr]) -> dict[int, Callable[[Node, Expr], Expr]]:
    return {0: lambda n, ct: rule(n, 0, ct), 1: lambda n, ct: rule(n, 1, ct)}


def _interpolated(n: Node) -> Node:
    """The line through the points, and beyond them what stands for its ends."""
    if n.attr("period") is not None:
        raise NoDerivative("with a period it has none here: repeat the points by np.concatenate")
    x, xp = (cast(Expr(a), np.dtype(np.float64)) for a in n.args[:2])
    fp, *ends = (cast(Expr(a), n.dtype) for a in n.args[2:])
    last = xp.shape[0] - 1
    segment = cast(Expr(node("searchsorted", (xp.node, x.node), ("right",))), INDEX_DTYPE) - 1
    lower = f("maximum", f("minimum", segment, max(last - 1, 0)), 0)
    upper = f("minimum", lower + 1, last)
    width = _gathered(xp, upper) - _gathered(xp, lower)
    share = (x - _gathered(xp, lower)) / where(width.equals(0), 1, width)
    y = _gathered(fp, lower) + cast(share, n.dtype) * (_gathered(fp, upper) - _gathered(fp, lower))
    left, right = ends or (_element(fp, 0), _element(fp, last))
    return where(x < _element(xp, 0), left, where(x > _element(xp, last), right, y)).node


def _gathered(values: Expr, places: Expr) -> Expr:
    return Expr(node("take", (values.node, places.node), (-1,)))


def _element(values: Expr, place: int) -> Expr:
    return reshape(Expr(tidy.slice_(values.node, [(place, place + 1, 1)])), ())


ROWS: dict[str, DerivativeRow] = {
    "convolve": each(_by_place(_convolved)),
    "correlate": each(_by_place(_correlated)),
    "interp": DerivativeRow(formula=_interpolated),
}
