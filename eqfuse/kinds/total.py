"""total: rows as `row` and `reduce` have them, and what they give reduced over all of them: the mean loss of a batch.

What has the size of one element may be made of a total. A reduction over some of the rows' axes alone is refused, as
blocks that share a GPU would wait for one another once for each result; and what reads a total in each row, as it needs
all rows finished.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.kinds.kind import EMITTERS, FUSED, Kind
from eqfuse.kinds.reduce import ROWS_SCHEDULE, same_pass
from eqfuse.kinds.state import Call, State, runs_of_both
from eqfuse.ops import Role

NAME = "total"
TOTALS = "eqfuse.emit.c.totals:totals_schedule"


@dataclass(frozen=True)
class Totals:
    """`rows`: a body up to what is reduced over all rows, and its results that need no total; `rest` makes of them the
    results of the body, and reads what stands for each in `stands`."""

    rows: Graph
    rest: Graph
    stands: dict[Node, Node]

    @property
    def results(self) -> tuple[Node, ...]:
        """The results that are made of totals."""
        stands = {*self.stands.values()}
        return tuple([o for o in dict.fromkeys(self.rest.outputs) if o not in stands])


def accept(call: Call) -> State | str | None:
    if call.is_a(Role.REDUCTION):
        rows = call.states[0]
        if not _gives_rows(rows):
            return None
        if call.out.size != 1:
            return "a reduction over some of the rows is one over all of them in a kernel of its own"
        return State(NAME, call.out.shape, rows.space, axes=rows.axes, passes=rows.passes + 1)
    anchors = call.anchors
    if not any(a.kind == NAME for a in anchors) or not call.is_a(Role.ELEMENTWISE):
        return None
    first = anchors[0]
    if call.out.size != 1 or not all(a.kind == NAME and same_pass(first, a) for a in anchors):
        return "what reads a total beside its rows needs all of them finished"
    return State(NAME, call.out.shape, first.space, axes=first.axes, passes=max(a.passes for a in anchors))


def _gives_rows(state: State) -> bool:
    """Is it what several rows are reduced to, each to one element?"""
    reduces = state.template.reduces and not state.template.scans
    return reduces and state.shape == state.reduced != state.space and math.prod(state.shape) > 1


def merge(a: State, b: State) -> State | str | None:
    """Of a total and another, or rows, or pointwise work at full size."""
    totals = [s for s in (a, b) if s.kind == NAME]
    others = [s for s in (a, b) if s.kind != NAME and not s.pointwise]
    if not totals or not all(s.template.reduces and not s.template.scans for s in others):
        return None
    first = totals[0]
    if not all(same_pass(first, s) for s in (*totals, *others)):
        return "they reduce different axes"
    return State(NAME, a.space, a.space, axes=first.axes, runs=runs_of_both(a, b), passes=max(a.passes, b.passes))


def totals_of(body: Graph) -> Totals | None:
    """None where nothing is reduced over rows."""
    reductions = body.of_role(Role.REDUCTION)
    totals = {n for n in reductions if not _alike(n, reductions[0])}
    if not totals:
        return None
    after = set(totals)
    for n in body.nodes:
        if any(a in after for a in n.args):
            after.add(n)
    results = dict.fromkeys(n.args[0] for n in body.nodes if n in totals)
    results |= dict.fromkeys(o for o in body.outputs if o not in after)
    stands = {n: input_node(f"of rows {k}", n.type) for k, n in enumerate(results)}
    rest = Graph((*body.inputs, *stands.values()), substitute(body.outputs, stands))
    return Totals(Graph(body.inputs, tuple(results)), rest, stands)


def _alike(a: Node, b: Node) -> bool:
    return (a.args[0].shape, a.attr("axes")) == (b.args[0].shape, b.attr("axes"))


KIND = Kind(
    NAME, accept, schedules={"numpy": FUSED, "c": TOTALS, "cuda": ROWS_SCHEDULE}, emitters=EMITTERS, merge=merge,
    has_levels=True, takes_maps=True, colour="#d98c5f",
)  # fmt: skip
