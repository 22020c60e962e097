"""Values with several parts: one vector from the operator, taken apart by slices and reshapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.ir.graph import Node
from eqfuse.ops.types import Shape


def unpack(packed: Node, shapes: Sequence[Shape]) -> list[Tracer]:
    """The parts of `packed` that have `shapes`, in order."""
    parts, start = [], 0
    for shape in shapes:
        size = math.prod(shape)
        parts.append(wrap(tidy.reshape(tidy.slice_(packed, [tidy.canonical_range(range(start, start + size))]), shape)))
        start += size
    return parts
