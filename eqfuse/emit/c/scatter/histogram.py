"""Where a histogram of bins of one width counts an element, as NumPy finds it: by its distance from the first edge, put
right by the edges beside it.

In: the operator. Out: nodes for the place and for what is added there, over the elements. Next stop: `schedule.py`.
"""

from __future__ import annotations

import numpy as np

from eqfuse.ir.graph import Node, const, node
from eqfuse.ops.statistics import packed, uniform_edges

PLACE = np.dtype(np.int64)


def counted(n: Node) -> tuple[Node, Node, Node]:
    """The result before anything is counted, in which the edges stand behind the counts; the place of each element; and
    what it adds there, which is 0 where it lies in no bin."""
    edges = uniform_edges(n.args[0].dtype, n.attrs)
    assert edges is not None
    bins, x = edges.size - 1, node("cast", (n.args[0],), (edges.dtype,))
    base = const(packed(np.zeros(bins, n.dtype), edges.astype(n.dtype)))
    first, last = const(edges[0]), const(edges[-1])
    kept = node("bitwise_and", (node("greater_equal", (x, first)), node("less_equal", (x, last))))
    inside = node("where", (kept, x, first))
    scaled = node("multiply", (node("subtract", (inside, first)), const(bins / (edges[-1] - edges[0]))))
    place = node("minimum", (node("cast", (scaled,), (PLACE,)), _number(bins - 1)))
    below = node("less", (inside, node("take", (const(edges), place), (-1,))))
    place = node("subtract", (place, node("cast", (below,), (PLACE,))))
    if bins > 1:
        upper = node("take", (const(edges[1:-1]), node("minimum", (place, _number(bins - 2)))), (-1,))
        within = node("bitwise_and", (node("greater_equal", (inside, upper)), node("less", (place, _number(bins - 1)))))
        place = node("add", (place, node("cast", (within,), (PLACE,))))
    return base, place, node("cast", (kept,), (n.dtype,))


def _number(value: int) -> Node:
    return const(np.array(value, PLACE))
