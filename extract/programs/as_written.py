"""The program as it was written, in the form of a segment: one node per class, arguments first.

In: a saturated `Segment`. Out: a `Segment` with one node per class: the greedy fusers work on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqfuse.egraph.space import Segment, as_written
from eqfuse.ir.graph import Graph


def without_laws(segment: Segment) -> Segment:
    """`segment` without its laws. Classes are numbered in topological order."""
    return without_laws_together([segment])[0]


def without_laws_together(segments: Sequence[Segment]) -> list[Segment]:
    """Several programs over the same inputs, in the same classes: what they have in common is there once."""
    outputs = tuple(o for s in segments for o in s.graph.outputs)
    written = as_written(Graph(segments[0].graph.inputs, outputs))
    return [
        replace(
            s, classes=written.classes, inputs=written.inputs, roots=tuple(written.origin[o] for o in s.graph.outputs),
            origin=written.origin, laws=(),
        )
        for s in segments
    ]  # fmt: skip


def rewritten(segment: Segment, graph: Graph) -> Segment:
    """`segment` with `graph`, which its e-graph holds equal to its own, as what was written."""
    return replace(segment, graph=graph)
