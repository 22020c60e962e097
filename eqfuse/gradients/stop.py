"""`ef.stop_gradient`: values that count as constants for a derivative."""

from __future__ import annotations

from typing import Any

from eqfuse.frontends.numpy.tracer import Tracer
from eqfuse.frontends.numpy.tracing import current
from eqfuse.functions import stopped
from eqfuse.ir.pytree import tree_leaves, unflatten


def stop_gradient(x: Any) -> Any:
    """`x`, an array or a container of arrays, through which no derivative goes."""
    leaves, structure = tree_leaves(x)
    if not any(isinstance(leaf, Tracer) for leaf in leaves):
        return x
    trace = current()
    assert trace is not None
    trace.rules["ef.stop_gradient"] = None
    return unflatten(structure, [stopped(leaf) for leaf in leaves])
