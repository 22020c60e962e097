"""Derivatives of order statistics: of the sorted elements on both sides of a place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqfuse.gradients.expr import Expr, cast, f, filled, reshape, rows_along, spread_to, sum_over, transpose
from eqfuse.gradients.row import DerivativeRow, NoDerivative
from eqfuse.ir.graph import Node, node
from eqfuse.ops.sorting import INDEX_DTYPE
from eqfuse.ops.types import TensorType

# methods whose place is `extent * q + a + q * (1 - a - b) - 1`, and their a and b
_CONTINUOUS = {
    "linear": (1.0, 1.0), "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip
_NEAR: dict[str, Callable[[Expr], Expr]] = {  # how far from the element below to the one above
    "lower": lambda share: share * 0,
    "higher": lambda share: f("ceil", share),
    "nearest": lambda share: f("round", share),
    "midpoint": lambda share: f("ceil", share) * 0.5,
}


def _chosen(rows: Expr, places: Expr) -> Expr:
    return Expr(node("take_along_axis", (rows.node, cast(places, INDEX_DTYPE).node), (-1,)))


def _quantiles(n: Node, q: Expr, method: str, among_nan: bool) -> Node:
    """By the places of the elements below and above in the order of each row, whose NaN come last."""
    rows = cast(rows_along(Expr(n.args[0]), n.attr("axes")), n.dtype)
    order = Expr(node("argsort", (rows.node,), (-1, True)))
    wide = np.dtype(np.float64)
    count = filled(rows.shape[-1], TensorType(wide, (1,) * rows.rank))
    if among_nan:
        count = sum_over(cast(rows.equals(rows), wide), [-1])
    q = reshape(cast(q, wide), (q.node.type.size,))
    a, b = _CONTINUOUS.get(method, (1.0, 1.0))
    last = f("maximum", count - 1, 0)
    place = f("minimum", f("maximum", q * (count + (1 - a - b)) + (a - 1), 0), last)
    place = spread_to(place, (*rows.shape[:-1], q.shape[0]))
    below = f("floor", place)
    share = _NEAR[method](place - below) if method in _NEAR else place - below
    low, high = (_chosen(rows, _chosen(order, place)) for place in (below, f("minimum", below + 1, last)))
    quantiles = low + (high - low) * cast(share, n.dtype)
    rank = quantiles.rank
    return reshape(transpose(quantiles, (rank - 1, *range(rank - 1))), n.shape).node


def _median(among_nan: bool) -> DerivativeRow:
    half = filled(0.5, TensorType(np.dtype(np.float64), ()))
    return DerivativeRow(formula=lambda n: _quantiles(n, half, "linear", among_nan))


def _quantile(per: float, among_nan: bool = False) -> DerivativeRow:
    def formula(n: Node) -> Node:
        method = n.attr("method")
        if len(n.args) > 2:
            raise NoDerivative("with weights it has none here")
        if method not in _CONTINUOUS and method not in _NEAR:
            raise NoDerivative(f"by the method {method!r} it has none here; by 'linear' it has")
        return _quantiles(n, cast(Expr(n.args[1]), np.dtype(np.float64)) / per, method, among_nan)

    return DerivativeRow(formula=formula)


ROWS: dict[str, DerivativeRow] = {
    "median": _median(False),
    "nanmedian": _median(True),
    "quantile": _quantile(1),
    "percentile": _quantile(100),
    "nanquantile": _quantile(1, among_nan=True),
    "nanpercentile": _quantile(100, among_nan=True),
}
