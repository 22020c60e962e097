"""What a traced array is among the leaves of what a function takes or returns: an array, NumPy's scalar, Python's bool.

In: a traced array. Out: the structure of its leaf; and, for another value, a traced array that is the same.
"""

from __future__ import annotations

from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.traced_bool import TracedBool, traced_bool
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.ir.graph import Node
from eqfuse.ir.pytree import BOOL_LEAF, LEAF, SCALAR, Structure
from eqfuse.ir.strides import MemoryLayout


def leaf_of(array: Tracer) -> Structure:
    """The structure of `array` as a leaf."""
    return BOOL_LEAF if isinstance(array, TracedBool) else SCALAR if array.scalar else LEAF


def leaf_tracer(value: Node, leaf: Structure, layout: MemoryLayout | None = None) -> Tracer:
    """A tracer for `value`, with memory of its own, that is such a `leaf`."""
    tracer = wrap(value, Rights.WRITABLE if leaf == LEAF else None, layout)
    return traced_bool(tracer) if leaf == BOOL_LEAF else tracer
