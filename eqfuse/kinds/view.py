"""view: an index map of one array that strides can express. Moves no data."""

from __future__ import annotations

import math

from eqfuse.ir.view_strides import contiguous, view_strides
from eqfuse.kinds.kind import BY_NUMPY, EMITTERS, SINGLE, Kind
from eqfuse.kinds.state import Call, State
from eqfuse.ops import Role

NAME = "view"


def accept(call: Call) -> State | str | None:
    if not call.is_a(Role.VIEW) or not call.states[0].at_leaf:
        return None
    source = call.states[0]
    assert source.strides is not None
    strides = view_strides(call.row.name, call.attrs, source.shape, source.strides)
    if strides is None:
        return None  # this reshape copies: `library` takes it
    shape = call.out.shape
    dense = source.dense and math.prod(shape) == math.prod(source.shape) and strides == contiguous(shape)
    return State(NAME, shape, shape, strides=strides, dense=dense)


KIND = Kind(NAME, accept, schedules={"numpy": SINGLE, "c": BY_NUMPY}, emitters=EMITTERS, is_view=True, colour="#eceff3")
