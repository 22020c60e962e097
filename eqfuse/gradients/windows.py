"""Derivatives of what slides along the last axes: pooling; and what convolutions share with it.

Windows that tile an array are a reshaped view of it, others are views that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqfuse.dtypes import lowest
from eqfuse.frontends.numpy import tidy
from eqfuse.gradients.expr import Expr, cast, for_sums, reshape, spread_to, sum_over, transpose, where
from eqfuse.gradients.row import Changes, DerivativeRow, joint
from eqfuse.gradients.views import scattered
from eqfuse.ir.graph import Node, const, node


def dilated(x: Expr, strides: Sequence[int]) -> Expr:
    """`x` with ``stride - 1`` zeros between the elements of its last axes."""
    lead = x.rank - len(strides)
    if all(s == 1 for s in strides):
        return x
    extents = [(n - 1) * s + 1 if n else 0 for n, s in zip(x.shape[lead:], strides, strict=True)]
    ranges = [(0, n, 1) for n in x.shape[:lead]]
    ranges += [tidy.canonical_range(range(0, n, s)) for n, s in zip(extents, strides, strict=True)]
    return scattered(x, (*x.shape[:lead], *extents), tuple(ranges))


def framed(x: Expr, before: Sequence[int], after: Sequence[int], fill: float = 0) -> Expr:
    """`x` with so much of `fill` around its last axes; what is negative is cut off."""
    lead = x.rank - len(before)
    inside = [(min(max(-b, 0), n), max(n - max(-a, 0), min(max(-b, 0), n)), 1)
              for n, b, a in zip(x.shape[lead:], before, after, strict=True)]  # fmt: skip
    cut = Expr(tidy.slice_(x.node, [*((0, n, 1) for n in x.shape[:lead]), *inside]))
    widths = [(0, 0)] * lead + [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    return Expr(tidy.pad(cut.node, const(fill, x.dtype), widths))


def _windows(n: Node, x: Expr, fill: float) -> Expr:
    """The elements of `x` in each window of `n`: its positions, and then the axes of a window."""
    window, strides, padding = n.attr("window"), n.attr("strides"), n.attr("padding")
    k, lead = len(window), x.rank - len(window)
    x = framed(x, [b for b, _ in padding], [a for _, a in padding], fill)
    positions = n.shape[lead:]
    if window == strides:
        used = [(0, p * w, 1) for p, w in zip(positions, window, strict=True)]
        x = Expr(tidy.slice_(x.node, [*((0, m, 1) for m in x.shape[:lead]), *used]))
        x = reshape(x, (*x.shape[:lead], *(e for p, w in zip(positions, window, strict=True) for e in (p, w))))
        return transpose(x, (*range(lead), *range(lead, lead + 2 * k, 2), *range(lead + 1, lead + 2 * k, 2)))
    slid = node("sliding_window", (x.node,), (tuple((a - k, w) for a, w in enumerate(window)),))
    ranges = [(0, m, 1) for m in slid.shape]
    for a, (p, s) in enumerate(zip(positions, strides, strict=True)):
        ranges[lead + a] = tidy.canonical_range(range(0, p * s, s))
    return Expr(tidy.slice_(slid, ranges))


def _largest_tangent(n: Node, d: Changes) -> Node | None:
    """The change of the largest element of each window, of equal ones the first."""
    if d[0] is None:
        return None
    window = n.attr("window")
    axes = range(-len(window), 0)
    elements = _windows(n, Expr(n.args[0]), lowest(n.dtype))
    order = Expr(const(np.arange(np.prod(window), dtype=np.int32).reshape(window)))
    largest = elements.equals(reshape(Expr(n), (*n.shape, *[1] * len(window))))
    placed = where(largest, order, int(np.prod(window)))
    first = Expr(tidy.reduce("min", placed.node, axes))
    chosen = where(order.equals(first), _windows(n, Expr(d[0]), 0), 0)
    return reshape(sum_over(chosen, axes), n.shape).node


def _sums_transpose(n: Node, ct: Expr) -> Expr:
    x, window, strides, padding = n.args[0], n.attr("window"), n.attr("strides"), n.attr("padding")
    k, lead = len(window), n.type.rank - len(window)
    extents = x.shape[lead:]
    if window == strides and not any(p for pair in padding for p in pair):
        pairs = list(zip(ct.shape[lead:], window, strict=True))
        spread = reshape(ct, (*ct.shape[:lead], *(e for p, _ in pairs for e in (p, 1))))
        whole = spread_to(spread, (*ct.shape[:lead], *(e for pair in pairs for e in pair)))
        flat = reshape(whole, (*ct.shape[:lead], *(p * w for p, w in pairs)))
        return framed(flat, [0] * k, [m - f for m, f in zip(extents, flat.shape[lead:], strict=True)])
    spread = dilated(ct, strides)
    before = [w - 1 - b for w, (b, _) in zip(window, padding, strict=True)]
    after = [m + w - 1 - s - b for m, w, s, b in zip(extents, window, spread.shape[lead:], before, strict=True)]
    attrs = (window, (1,) * k, ((0, 0),) * k)
    return cast(Expr(node("window_sum", (framed(for_sums(spread), before, after).node,), attrs)), ct.dtype)


ROWS: dict[str, DerivativeRow] = {
    "window_max": DerivativeRow(_largest_tangent),
    "window_sum": joint({0: _sums_transpose}),
}
