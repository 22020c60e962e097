"""Where a histogram of bins of one width counts an element, along each of its axes, as NumPy finds it: by its distance
from the first edge, put right by the edges beside it, which are computed as NumPy computes them.

In: the operator. Out: nodes for the place and for what is added there, over the elements. Next stop: `schedule.py`.
"""

from __future__ import annotations

import math

import numpy as np

from eqfuse.ir.graph import Node, const, in_dtype, node
from eqfuse.ops.statistics import UniformBins, packed, uniform_bins

PLACE_DTYPE, WIDE_DTYPE = np.dtype(np.int64), np.dtype(np.float64)


def counting(n: Node) -> tuple[Node, Node, Node]:
    """The result before anything is counted, in which the edges stand behind the counts; the place of each element; and
    what it adds there, 1 or its weight, and 0 where it lies in no bin."""
    axes = uniform_bins(n.args[0].dtype, n.attrs)
    assert axes is not None
    counts = math.prod([bins.edges.size - 1 for bins in axes])
    base = const(packed(*[part.astype(n.dtype) for part in (np.zeros(counts), *[bins.edges for bins in axes])]))
    by_axis = [_in_bins(_column(n.args[0], i, len(axes)), bins) for i, bins in enumerate(axes)]
    (place, kept), *others = by_axis
    for bins, (along, inside) in zip(axes[1:], others, strict=True):
        place = node("add", (node("multiply", (place, _number(bins.edges.size - 1))), along))
        kept = node("bitwise_and", (kept, inside))
    added = in_dtype(kept, n.dtype)
    if len(n.args) > 1:
        added = node("where", (kept, in_dtype(n.args[1], n.dtype), const(np.zeros((), n.dtype))))
    return base, place, added


def _column(points: Node, axis: int, count: int) -> Node:
    """The coordinates of the points along one of so many axes."""
    if count == 1:
        return points
    rows = points.shape[0]
    return node("reshape", (node("slice", (points,), (((0, rows, 1), (axis, axis + 1, 1)),)),), ((rows,),))


def _in_bins(x: Node, bins: UniformBins) -> tuple[Node, Node]:
    """In which of the bins each element lies, and whether it lies in one; else in the first."""
    edges, start, step = bins
    count, x = edges.size - 1, in_dtype(x, edges.dtype)
    first, last = const(edges[0]), const(edges[-1])
    kept = node("bitwise_and", (node("greater_equal", (x, first)), node("less_equal", (x, last))))
    inside = node("where", (kept, x, first))

    def edge(place: Node) -> Node:
        above = node("multiply", (in_dtype(place, WIDE_DTYPE), const(step)))
        return in_dtype(node("add", (above, const(start))), edges.dtype)

    scaled = node("multiply", (node("subtract", (inside, first)), const(count / (edges[-1] - edges[0]))))
    place = node("minimum", (in_dtype(scaled, PLACE_DTYPE), _number(count - 1)))
    place = node("subtract", (place, in_dtype(node("less", (inside, edge(place))), PLACE_DTYPE)))
    after = node("add", (place, _number(1)))
    above = node("bitwise_and", (node("greater_equal", (inside, edge(after))), node("less", (after, _number(count)))))
    return node("add", (place, in_dtype(above, PLACE_DTYPE))), kept


def _number(value: int) -> Node:
    return const(np.array(value, PLACE_DTYPE))
