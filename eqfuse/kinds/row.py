"""row: reductions over one set of axes, with their results used again at full size: softmax, norms. Several passes."""

from __future__ import annotations

from eqfuse.kinds.cuda.rows import rows_schedule
from eqfuse.kinds.kind import EMITTERS, FUSED, Kind
from eqfuse.kinds.reduce import same_pass
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role


def accept(call: Call) -> State | str | None:
    anchors = call.anchors
    if not anchors or not all(a.kind in ("reduce", "row") for a in anchors):
        return None
    first = anchors[0]
    if call.is_a(Role.ELEMENTWISE):
        if not all(same_pass(first, a) for a in anchors):
            return "its arguments are reduced over different axes or spaces"
        if call.out.shape not in (first.space, first.reduced):
            return f"a row of {_extents(first.space)} does not line up with {_extents(call.out.shape)}"
        return State("row", call.out.shape, first.space, axes=first.axes, passes=max(a.passes for a in anchors))
    if call.is_a(Role.REDUCTION):
        if first.shape != first.space or call.attr("axes") != first.axes:
            return "a second reduction over other axes needs the first one finished"
        return State("row", call.out.shape, first.space, axes=first.axes, passes=first.passes + 1)
    if call.is_a(Role.VIEW):
        return "a view of a reduction's result is taken by its reader"
    return None


def _extents(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


KIND = Kind("row", accept, schedules={"numpy": FUSED, "cuda": rows_schedule}, emitters=EMITTERS)
