"""loop: one loop or choice, whose steps have plans of their own (`plan/loops.py`)."""

from __future__ import annotations

from eqfuse.kinds.kind import BY_NUMPY, CALLS_SCHEDULE, SINGLE, Kind
from eqfuse.kinds.state import Call, State
from eqfuse.ops.loops import LOOPS

NAME = "loop"


def accept(call: Call) -> State | str | None:
    if call.row.name not in LOOPS:
        return None
    if all(s.at_leaf for s in call.states):
        return State(NAME, call.out.shape, call.out.shape)
    return f"{call.row.name} takes its operands from memory"


_BY_PYTHON, _BY_THE_HOST = "eqfuse.emit.numpy.kernels:loop_of_plans", "eqfuse.emit.cuda.loops:CudaLoop"
_BY_C = "eqfuse.emit.c.native_loops:loop_of_plans"
KIND = Kind(
    NAME, accept, schedules={"numpy": SINGLE, "c": BY_NUMPY, "cuda": CALLS_SCHEDULE},
    of_plans={"numpy": _BY_PYTHON, "c": _BY_C, "cuda": _BY_THE_HOST}, is_library=True, colour="#d8a0a8",
)  # fmt: skip
