"""reduce: reductions over one set of axes whose results leave the kernel: column sums, full sums, norms of rows."""

from __future__ import annotations

from eqfuse.kinds.kind import EMITTERS, FUSED, LOOPS_SCHEDULE, Kind
from eqfuse.kinds.state import Call, State, runs_of_both
from eqfuse.ops import Role

NAME = "reduce"
ROWS_SCHEDULE = "eqfuse.emit.cuda.scheduling.row:rows_schedule"


def accept(call: Call) -> State | str | None:
    if call.is_a(Role.REDUCTION) and call.states[0].pointwise:
        return State(NAME, call.out.shape, call.types[0].shape, axes=call.attr("axes"), passes=1)
    if call.is_a(Role.ELEMENTWISE):
        anchors = call.anchors
        if not all(a.kind == NAME for a in anchors) or not anchors:
            return None
        if all(same_pass(anchors[0], a) for a in anchors) and call.out.shape == anchors[0].reduced:
            return State(NAME, call.out.shape, anchors[0].space, axes=anchors[0].axes, passes=1)
    return None


def pointwise(kind: str, call: Call) -> State | str:
    """The state of a kernel of `kind` with one more elementwise operator, at full size or of the reduced one."""
    first, *others = call.anchors
    if not all(same_pass(first, a) for a in others):
        return "its arguments are reduced, or scanned, over different axes or spaces"
    if call.out.shape not in (first.space, first.reduced):
        return f"a row of {_extents(first.space)} does not line up with {_extents(call.out.shape)}"
    passes = max(a.passes for a in call.anchors)
    return State(kind, call.out.shape, first.space, axes=first.axes, passes=passes)


def _extents(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


def same_pass(a: State, b: State) -> bool:
    """Do both reduce the same axes of the same space?"""
    return a.space == b.space and a.axes == b.axes


def merge(a: State, b: State) -> State | str | None:
    return reduced_together(NAME, a, b) if a.kind == b.kind == NAME else None


def reduced_together(kind: str, a: State, b: State) -> State | str:
    """The state of the kernel of `kind` that computes two values of one space, at least one of which it reduces."""
    anchors = [s for s in (a, b) if s.template.reduces]
    if not same_pass(anchors[0], anchors[-1]):
        return "they reduce different axes"
    passes = max(a.passes, b.passes)
    return State(kind, a.space, a.space, axes=anchors[0].axes, runs=runs_of_both(a, b), passes=passes)


KIND = Kind(
    NAME, accept, schedules={"numpy": FUSED, "c": LOOPS_SCHEDULE, "cuda": ROWS_SCHEDULE}, emitters=EMITTERS,
    merge=merge, reduces=True, takes_maps=True, colour="#f2b45c",
)  # fmt: skip
