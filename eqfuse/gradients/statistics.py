"""Derivatives of order statistics: of the sorted elements on both sides of a place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqfuse.gradients.row import NoDerivative, Row, refused
from eqfuse.gradients.terms import Term, cast, f, filled, reshape, size_of, transpose
from eqfuse.ir.graph import Node, node
from eqfuse.ops.sorting import INDEX
from eqfuse.ops.types import TensorType

# methods whose place is `extent * q + a + q * (1 - a - b) - 1`, and their a and b
_CONTINUOUS = {
    "linear": (1.0, 1.0), "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip
_NEAR: dict[str, Callable[[Term], Term]] = {  # how far from the element below to the one above
    "lower": lambda share: share * 0,
    "higher": lambda share: f("ceil", share),
    "nearest": lambda share: f("round", share),
    "midpoint": lambda share: f("ceil", share) * 0.5,
}


def _sorted_rows(x: Node, axes: tuple[int, ...]) -> Term:
    """The elements along `axes` sorted, as the last axis."""
    rank = x.type.rank
    chosen = [a + rank for a in axes]
    kept = [a for a in range(rank) if a not in chosen]
    moved = transpose(Term(x), (*kept, *chosen))
    rows = reshape(moved, (*moved.shape[: len(kept)], size_of(x.shape, axes)))
    return Term(node("sort", (rows.node,), (-1, True)))


def _quantiles(n: Node, q: Term, method: str) -> Node:
    rows = cast(_sorted_rows(n.args[0], n.attr("axes")), n.dtype)
    extent, wide = rows.shape[-1], np.dtype(np.float64)
    q = reshape(cast(q, wide), (q.node.type.size,))
    a, b = _CONTINUOUS.get(method, (1.0, 1.0))
    place = f("minimum", f("maximum", q * (extent + 1 - a - b) + (a - 1), 0), extent - 1)
    below = f("floor", place)
    lower = cast(below, INDEX)
    upper = f("minimum", lower + 1, extent - 1)
    share = _NEAR[method](place - below) if method in _NEAR else place - below
    low, high = (Term(node("take", (rows.node, i.node), (-1,))) for i in (lower, upper))
    found = low + (high - low) * cast(share, n.dtype)
    last = found.rank - 1
    return reshape(transpose(found, (last, *range(last))), n.shape).node


def _median(n: Node) -> Node:
    return _quantiles(n, filled(0.5, TensorType(np.dtype(np.float64), ())), "linear")


def _quantile(per: float) -> Row:
    def formula(n: Node) -> Node:
        method = n.attr("method")
        if len(n.args) > 2:
            raise NoDerivative("with weights it has none here")
        if method not in _CONTINUOUS and method not in _NEAR:
            raise NoDerivative(f"by the method {method!r} it has none here; by 'linear' it has")
        return _quantiles(n, cast(Term(n.args[1]), np.dtype(np.float64)) / per, method)

    return Row(formula=formula)


_NAN = "how many elements are no NaN depends on data: choose them by np.where before"
ROWS: dict[str, Row] = {
    "median": Row(formula=_median),
    "quantile": _quantile(1),
    "percentile": _quantile(100),
    **{name: refused(_NAN) for name in ("nanmedian", "nanquantile", "nanpercentile")},
}
