"""Reverse mode: what cotangents of linear results are for what these are made of.

In: nodes that are linear in `sources`, as `linearise.changes` makes them, and their cotangents. Out: cotangents of the
sources. Those of a value with several readers are added up, of narrow floats in float32.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqfuse.frontends.numpy.origins import note_derived
from eqfuse.gradients.expr import Expr, sum_of, zeros_like
from eqfuse.gradients.linearise import reaching
from eqfuse.gradients.row import DerivativeRow
from eqfuse.gradients.table import derivative
from eqfuse.ir.graph import Node


class NoTranspose(Exception):
    """Raised for a loop of changes, an `op` that goes forward alone; `loop`: this, or the one around it."""

    def __init__(self, loop: Node, op: str) -> None:
        super().__init__()
        self.loop, self.op = loop, op


def cotangents(results: Sequence[Node | None], sources: Sequence[Node], seeds: Sequence[Node]) -> list[Node]:
    """The cotangents of `sources`, where `seeds` are those of `results`; zeros where nothing depends on one.
    NoTranspose where a loop on the way goes forward alone."""
    waiting: dict[Node, list[Expr]] = {}
    parts: dict[Node, dict[int, Expr]] = {}  # of loops: by result
    readers: dict[Node, Node] = {}  # of each value the node that its last part came from

    def summed(value: Node) -> Expr:
        terms = waiting[value]
        total = sum_of(terms)
        if value in readers:
            note_derived(readers[value], [total.node], [t.node for t in terms])
        return total

    for result, cotangent in zip(results, seeds, strict=True):
        if result is not None:
            waiting.setdefault(result, []).append(Expr(cotangent))
    ends = set(sources)
    linear = reaching([r for r in results if r is not None], ends)
    depends = set(linear)
    for n in reversed(linear):
        if n in ends or not (n in waiting or n in parts):
            continue
        row = derivative(n.op)
        whole = {0: summed(n)} if n in waiting else parts.pop(n)
        if row.part is not None:
            parts.setdefault(n.args[0], {})[row.part(n)] = whole[0]
            continue
        parts_of = _of_arguments(n, row, whole, {position for position, a in enumerate(n.args) if a in depends})
        note_derived(n, [part.node for part in parts_of.values()], [n, *n.args, *(t.node for t in whole.values())])
        for position, part in parts_of.items():
            assert part.node.type == n.args[position].type, f"the transpose of {n.op} gives {part.node.type}"
            waiting.setdefault(n.args[position], []).append(part)
            readers[n.args[position]] = n
    return [(summed(s) if s in waiting else zeros_like(s)).node for s in sources]


def _of_arguments(n: Node, row: DerivativeRow, whole: dict[int, Expr], linear: set[int]) -> dict[int, Expr]:
    """The cotangents of the arguments of `n` at the places `linear`, from those of its results."""
    if row.several is not None:
        if row.transpose_several is None:
            raise NoTranspose(n, n.op)
        try:
            return row.transpose_several(n, whole, linear, cotangents)
        except NoTranspose as error:
            raise NoTranspose(n, error.op) from None
    assert row.transpose is not None, f"{n.op} stands in a tangent and has no transpose"
    parts = {position: row.transpose(n, position, whole[0]) for position in linear}
    return {position: part for position, part in parts.items() if part is not None}
