"""The program as it was written, in the form of a segment: one node per class, arguments first.

In: a saturated `Segment`, or a graph. Out: a `Segment` with one node per class: the greedy fusers work on it, and
`extract/kernel_price.py` prices fixed kernels by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqfuse.egraph.space import EClass, ENode, Segment
from eqfuse.ir.graph import Graph, Node


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


def as_written(graph: Graph) -> Segment:
    """`graph` as a segment that no law was applied to."""
    number: dict[Node, int] = {}
    classes: list[EClass] = []
    for n in dict.fromkeys((*graph.inputs, *graph.nodes)):
        args = tuple(number[a] for a in n.args)
        number[n] = len(classes)
        known = n.is_constant_leaf or _all_constant(args, classes)
        classes.append(EClass(n.type, (ENode(n.op, args, n.attrs),), known))
    return Segment(
        graph,
        classes=tuple(classes),
        inputs=tuple(number[i] for i in graph.inputs),
        roots=tuple(number[o] for o in graph.outputs),
        origin=number,
        stop_reason="saturated",
        rounds=0,
        laws_fired={},
        law_seconds={},
        seconds=0.0,
        nodes_per_round=(len(classes),),
        _engine=None,
    )


def _all_constant(args: tuple[int, ...], classes: list[EClass]) -> bool:
    return bool(args) and all(classes[a].constant for a in args)
