"""scan: running sums and the like along one axis, with what is done to each element and reductions over that axis.

Another scan or reduction along another axis needs the first one finished: it is another kernel.
"""

from __future__ import annotations

from eqfuse.kinds.kind import EMITTERS, LOOPS_SCHEDULE, Kind
from eqfuse.kinds.reduce import pointwise, reduced_together
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role

NAME = "scan"
CUDA_SCANS = "eqfuse.emit.cuda.scheduling.scan:scan_schedule"


def accept(call: Call) -> State | str | None:
    anchors = call.anchors
    if call.is_a(Role.SCAN):
        if not anchors:
            return State(NAME, call.out.shape, call.out.shape, axes=(call.attr("axis"),), passes=1)
        return _along(call, anchors[0], (call.attr("axis"),)) if anchors[0].template.reduces else None
    if not any(a.kind == NAME for a in anchors) or not all(a.template.reduces for a in anchors):
        return None
    first = anchors[0]
    if call.is_a(Role.REDUCTION):
        return _along(call, first, call.attr("axes"))
    if call.is_a(Role.ELEMENTWISE):
        return pointwise(NAME, call)
    return "a view of what is scanned is taken by its reader" if call.is_a(Role.VIEW) else None


def _along(call: Call, first: State, axes: tuple[int, ...]) -> State | str:
    """One more scan or reduction over `axes` of what a kernel has scanned or reduced."""
    if first.shape != first.space or axes != first.axes:
        return "a scan or a reduction along other axes needs the first one finished"
    return State(NAME, call.out.shape, first.space, axes=axes, passes=first.passes + call.is_a(Role.REDUCTION))


def merge(a: State, b: State) -> State | str | None:
    """Of a scan and another, a reduction over its axis, or pointwise work at full size."""
    if NAME not in (a.kind, b.kind) or not all(s.template.reduces or s.template.pointwise for s in (a, b)):
        return None
    if a.mapped or b.mapped:
        return "a kernel that scans reads arrays as they lie"
    return reduced_together(NAME, a, b)


KIND = Kind(
    NAME, accept, schedules={"c": LOOPS_SCHEDULE, "cuda": CUDA_SCANS}, emitters=EMITTERS, merge=merge, reduces=True,
    scans=True, has_levels=True, colour="#8fb8a4",
)  # fmt: skip
