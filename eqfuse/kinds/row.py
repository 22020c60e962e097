"""row: reductions over one set of axes, with their results used again at full size: softmax, norms. Several passes."""

from __future__ import annotations

from eqfuse.kinds.kind import EMITTERS, FUSED, LOOPS_SCHEDULE, Kind
from eqfuse.kinds.reduce import ROWS_SCHEDULE, pointwise, reduced_together
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role

NAME = "row"


def accept(call: Call) -> State | str | None:
    anchors = call.anchors
    if not anchors or not all(a.template.reduces and not a.template.scans for a in anchors):
        return None
    first = anchors[0]
    if call.is_a(Role.ELEMENTWISE):
        return pointwise(NAME, call)
    if call.is_a(Role.REDUCTION):
        if first.shape != first.space or call.attr("axes") != first.axes:
            return "a second reduction over other axes needs the first one finished"
        return State(NAME, call.out.shape, first.space, axes=first.axes, passes=first.passes + 1)
    if call.is_a(Role.VIEW):
        return "a view of a reduction's result is taken by its reader"
    return None


def merge(a: State, b: State) -> State | str | None:
    """Of a reduction or row and another, or pointwise work at full size."""
    reduced = a.template.reduces or b.template.reduces
    fit = reduced and all(s.template.reduces or s.template.pointwise for s in (a, b))
    return reduced_together(NAME, a, b) if fit else None


def is_whole(state: State) -> bool:
    """Is it a row kernel's value at full size, reduced along the last axis?"""
    return state.kind == NAME and state.axes == (-1,) and state.shape == state.space


KIND = Kind(
    NAME, accept, schedules={"numpy": FUSED, "c": LOOPS_SCHEDULE, "cuda": ROWS_SCHEDULE}, emitters=EMITTERS,
    merge=merge, reduces=True, has_levels=True, takes_maps=True, colour="#6cc3a0",
)  # fmt: skip
