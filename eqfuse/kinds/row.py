"""row: reductions over one set of axes, with their results used again at full size: softmax, norms. Several passes."""

from __future__ import annotations

import math

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.roofline import roofline
from eqfuse.cost.work import Work
from eqfuse.kinds.cuda.rows import rows_of, rows_schedule
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


def price(state: State, read: int, written: int, done: Work, device: Device, arguments: int, itemsize: int) -> Price:
    """The roofline; on a GPU a row that does not stay on chip is read again by every pass (by all of them, where
    only later ones need an array), and the blocks that take a row each may be few."""
    if device.kind != "gpu":
        return roofline(state, read, written, done, device, arguments, itemsize)
    rows = rows_of(state.space, state.axes)
    arrays = max(1, round(read / max(itemsize * math.prod(state.space), 1)))
    if arrays * rows.items * max(itemsize, 4) > rows.held:  # of 16 bits, they are held in 32
        read *= state.passes + (state.shape == state.space)
    return roofline(state, read, written, done, device, arguments, itemsize, rows.groups)


KIND = Kind("row", accept, price, schedules={"numpy": FUSED, "cuda": rows_schedule}, emitters=EMITTERS)
