"""Reverse mode: what cotangents of linear results are for what these are made of.

In: nodes that are linear in `sources`, as `linearise.changes` makes them, and their cotangents. Out: cotangents of the
sources. Those of a value with several readers are added up, of narrow floats in float32.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqfuse.gradients.linearise import reaching
from eqfuse.gradients.table import derivative
from eqfuse.gradients.terms import Term, sum_of, zeros
from eqfuse.ir.graph import Node


def cotangents(results: Sequence[Node | None], sources: Sequence[Node], given: Sequence[Node]) -> list[Node]:
    """The cotangents of `sources`, where `given` are those of `results`; zeros where nothing depends on one."""
    waiting: dict[Node, list[Term]] = {}
    for result, cotangent in zip(results, given, strict=True):
        if result is not None:
            waiting.setdefault(result, []).append(Term(cotangent))
    ends = set(sources)
    linear = reaching([r for r in results if r is not None], ends)
    depends = set(linear)
    for n in reversed(linear):
        if n in ends or n not in waiting:
            continue
        transpose = derivative(n.op).transpose
        assert transpose is not None, f"{n.op} stands in a tangent and has no transpose"
        ct = sum_of(waiting.pop(n))
        for at, a in enumerate(n.args):
            if a in depends:
                part = transpose(n, at, ct)
                assert part.node.type == a.type, f"the transpose of {n.op} gives {part.node.type}, not {a.type}"
                waiting.setdefault(a, []).append(part)
    return [(sum_of(waiting[s]) if s in waiting else zeros(s)).node for s in sources]
