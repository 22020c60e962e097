"""window: one pooling, with elementwise work before and after it."""

from __future__ import annotations

from eqfuse.kinds.kind import EMITTERS, FUSED, OWN_WINDOWS, Kind
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role

NAME = "window"


def accept(call: Call) -> State | str | None:
    if call.is_a(Role.WINDOW):
        return State(NAME, call.out.shape, call.out.shape, products=(call.name,)) if call.states[0].pointwise else None
    anchors = call.anchors
    if not anchors or not all(a.kind == NAME for a in anchors):
        return None
    first = anchors[0]
    if any(a.products != first.products for a in anchors):
        return "it needs two different windows"
    if not call.is_a(Role.ELEMENTWISE) or call.out.shape != first.space:
        return "only elementwise work of the same shape can follow a window"
    return State(NAME, call.out.shape, first.space, products=first.products)


KIND = Kind(NAME, accept, schedules={"numpy": FUSED, "c": OWN_WINDOWS}, emitters=EMITTERS, colour="#b79ae8")
