"""window: one pooling, with elementwise work before and after it; compiled for a CPU, maybe behind a convolution."""

from __future__ import annotations

from eqfuse.cost.targets import copies_operands
from eqfuse.kinds import contract
from eqfuse.kinds.kind import EMITTERS, FUSED, OWN_PRODUCTS, Kind
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role

NAME = "window"


def accept(call: Call) -> State | str | None:
    if call.is_a(Role.WINDOW):
        before = call.states[0]
        if not before.pointwise and not _is_convolution(before, call):
            return None
        return State(NAME, call.out.shape, call.out.shape, products=(*before.products, call.name))
    anchors = call.anchors
    if not anchors or not all(a.kind == NAME for a in anchors):
        return None
    first = anchors[0]
    if any(a.products != first.products for a in anchors):
        return "it needs two different windows"
    if not call.is_a(Role.ELEMENTWISE) or call.out.shape != first.space:
        return "only elementwise work of the same shape can follow a window"
    return State(NAME, call.out.shape, first.space, products=first.products)


def _is_convolution(before: State, call: Call) -> bool:
    """May the kernel compute it for its windows?"""
    whole = not before.panel and before.shape == before.space
    return copies_operands(call.device) and before.kind == contract.NAME and whole


KIND = Kind(NAME, accept, schedules={"numpy": FUSED, "c": OWN_PRODUCTS}, emitters=EMITTERS, colour="#b79ae8")
