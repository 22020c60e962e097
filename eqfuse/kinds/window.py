"""window: one pooling, with elementwise work before and after it."""

from __future__ import annotations

from eqfuse.cost.targets import is_compiled
from eqfuse.kinds.kind import CALLS, EMITTERS, FUSED, Kind
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role

NAME = "window"


def accept(call: Call) -> State | str | None:
    is_fused = not is_compiled(call.device)
    if call.is_a(Role.WINDOW):
        if not call.states[0].pointwise:
            return None
        if not is_fused and not call.states[0].at_leaf:
            return "pooling is a library call on this device"
        return State(NAME, call.out.shape, call.out.shape, products=(call.name,))
    anchors = call.anchors
    if not anchors or not all(a.kind == NAME for a in anchors):
        return None
    if not is_fused:
        return "pooling is a library call on this device"
    first = anchors[0]
    if any(a.products != first.products for a in anchors):
        return "it needs two different windows"
    if not call.is_a(Role.ELEMENTWISE) or call.out.shape != first.space:
        return "only elementwise work of the same shape can follow a window"
    return State(NAME, call.out.shape, first.space, products=first.products)


KIND = Kind(NAME, accept, schedules={"numpy": FUSED, "cuda": CALLS}, emitters=EMITTERS, colour="#b79ae8")
