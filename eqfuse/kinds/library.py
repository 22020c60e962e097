"""library: one operator, one call, nothing fused with it."""

from __future__ import annotations

from eqfuse.kinds.kind import CALLS_SCHEDULE, EMITTERS, OWN_COPIES, SINGLE, Kind
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role

NAME = "library"


def accept(call: Call) -> State | str:
    if all(s.at_leaf for s in call.states):
        return State(NAME, call.out.shape, call.out.shape, merged=call.is_a(Role.VIEW) and len(call.out.shape) == 2)
    if any(s.kind == NAME for s in call.states):
        return f"what {call.row.name} reads is the result of a library call"
    return f"{call.row.name} runs as one library call"


KIND = Kind(
    NAME, accept, schedules={"numpy": SINGLE, "c": OWN_COPIES, "cuda": CALLS_SCHEDULE}, emitters=EMITTERS,
    is_library=True, updates=True,
)  # fmt: skip
