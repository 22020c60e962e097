"""side_by_side: maps that need nothing of one another, of any spaces, in one launch; each has blocks of its own."""

from __future__ import annotations

from eqfuse.kinds import map
from eqfuse.kinds.kind import EMITTERS, Kind
from eqfuse.kinds.state import State, runs_of_both

NAME = "side_by_side"
SCHEDULE = "eqfuse.emit.cuda.scheduling.side_by_side:side_by_side_schedule"


def merge(a: State, b: State) -> State | None:
    if not {a.kind, b.kind} <= {NAME, map.NAME}:
        return None
    return State(NAME, a.shape, a.space, runs=runs_of_both(a, b))


KIND = Kind(
    NAME, lambda call: None, schedules={"cuda": SCHEDULE}, emitters=EMITTERS, merge=merge, of_any_spaces=True,
    repeats=True, takes_maps=True, colour="#5d8fe0",
)  # fmt: skip
