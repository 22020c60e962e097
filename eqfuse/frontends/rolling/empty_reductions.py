"""Reductions of no elements, and products of matrices over none, are constants, before the search.

In: a graph. Out: the graph with constants in their place. A law may put a factor within a sum, where of no elements it
is lost: `x.sum() / len(x)` of nothing is 0/0, not the sum of no quotients. Next stop: `egraph.saturate`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqfuse.frontends.numpy import tidy
from eqfuse.ir.graph import Graph, Node, const, substitute

_OF_NOTHING = {"sum": 0, "matmul": 0, "median": np.nan, "nanmedian": np.nan}  # of a median NumPy's call warns, too


def empty_reductions_known(graph: Graph) -> Graph:
    """`graph` with constants where there is nothing to reduce."""
    values = {n: _constant(n) for n in graph.operators if _reduces_nothing(n)}
    return replace(graph, outputs=substitute(graph.outputs, values)) if values else graph


def _reduces_nothing(n: Node) -> bool:
    return n.op in _OF_NOTHING and 0 not in n.shape and all(0 in a.shape for a in n.args)


def _constant(n: Node) -> Node:
    value = _OF_NOTHING[n.op]
    return tidy.broadcast_to(const(complex(value, value) if n.dtype.kind == "c" else value, n.dtype), n.shape)
