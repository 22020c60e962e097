"""map: every element of the result on its own. Elementwise work, with views between taken on the leaves instead."""

from __future__ import annotations

import math
from dataclasses import replace

from eqfuse.cost.targets import is_compiled
from eqfuse.ir.view_strides import contiguous
from eqfuse.kinds.kind import EMITTERS, FUSED, LOOPS_SCHEDULE, Kind
from eqfuse.kinds.product import widened
from eqfuse.kinds.seams import pieces, seams_of
from eqfuse.kinds.state import Call, State, runs_of_both
from eqfuse.ops import Role
from eqfuse.ops.index_map import keeps_order
from eqfuse.ops.updates import is_narrow, uncovered

NAME = "map"
MAPS = "eqfuse.emit.cuda.scheduling.map:map_schedule"
MOST_PIECES = 16  # along an axis: beyond, the text that finds the piece takes longer than a library call
PIECES_CELLS = 32  # of pieces along several axes: the inside of an array of three and its borders are 27


def accept(call: Call) -> State | str | None:
    if not all(s.pointwise for s in call.states):
        return None
    shape = call.out.shape
    if call.is_a(Role.PIECES):
        return _joined(call)
    if call.row.pieces is not None:
        return _updated(call)
    if call.is_a(Role.GATHER):
        return _gathered(call)
    if call.is_a(Role.ELEMENTWISE):
        dense = all(s.dense and (s.shape == shape or math.prod(s.shape) == 1) for s in call.states)
        return State(NAME, shape, shape, dense=dense, exact=widened(call.row.name, call.types[0].dtype, call.out.dtype))
    if call.is_a(Role.VIEW) and not call.states[0].at_leaf:
        (source,) = call.states
        places = call.index_map
        if any(len(place.terms) > 1 for place in places or ()):
            return "the windows of a value overlap: a kernel would compute it once for each of them"
        if places is None and not source.dense:
            return "a reshape of values that are broadcast or strided cannot be taken on the arrays read"
        dense = source.dense and math.prod(shape) == math.prod(source.shape) and keeps_order(places)
        return State(NAME, shape, shape, dense=dense, exact=source.exact)
    return None


def _joined(call: Call) -> State | str | None:
    if len(call.states) <= MOST_PIECES:
        return State(NAME, call.out.shape, call.out.shape, mapped=True)
    return None if all(s.at_leaf for s in call.states) else f"a kernel joins {MOST_PIECES} pieces at most"


def _updated(call: Call) -> State | str | None:
    """An array with slices replaced. In one kernel with what computes them, all of the array is written: an update in
    place writes the slices alone."""
    base, *values = call.states
    shape, slices = call.out.shape, call.attr("slices")
    if all(s.at_leaf for s in call.states) and not _is_laid_narrowly(call):
        return None
    if any(step != 1 for ranges in slices for _, _, step in ranges):
        return "a kernel computes slices without steps"
    if base.at_leaf and 2 * sum(math.prod(v.shape) for v in values) < math.prod(shape):
        return "most of the array stays as it is: its slices are replaced in place"
    computed = sum(math.prod(v.shape) for v in values if not v.at_leaf)
    if base.at_leaf and not is_compiled(call.device) and 2 * computed < math.prod(shape):
        return "most of its values are in memory: what makes them may write them where they stay"
    seams = seams_of(call)
    along = [*map(len, pieces(shape, seams))]
    if max(along, default=1) > MOST_PIECES or math.prod(along) > PIECES_CELLS:
        return f"a kernel joins {MOST_PIECES} pieces along an axis at most, and {PIECES_CELLS} in all"
    return State(NAME, shape, shape, mapped=True, seams=seams)


def _is_laid_narrowly(call: Call) -> bool:
    """Do slices in memory fill all of an array, by runs so short that a loop of our own is faster than copies?"""
    shape, slices = call.out.shape, call.attr("slices")
    return is_compiled(call.device) and is_narrow(slices, shape) and not uncovered(shape, slices)


def _gathered(call: Call) -> State | str | None:
    source, places = call.states
    if not source.at_leaf:
        return "what is gathered is read from memory"
    if not is_compiled(call.device) and not _in_tiles(call, source, places):
        return None
    return State(NAME, call.out.shape, call.out.shape, mapped=True)


def _in_tiles(call: Call, source: State, places: State) -> bool:
    """Can tiles gather? They take whole rows of an array, or elements along its last axis."""
    axis = -1 if call.row.by_element else -len(source.shape)
    lies = source.strides == contiguous(source.shape) and places.at_leaf
    return lies and call.attr("axis") == axis and bool(places.shape) and math.prod(source.shape) > 0


def merge(a: State, b: State) -> State | None:
    return State(NAME, a.shape, a.space, runs=runs_of_both(a, b)) if a.kind == b.kind == NAME else None


def stored_state(state: State) -> State:
    """The state of the kernel that computes `state` alone: a view that is stored is a copy."""
    return replace(state, kind=NAME, strides=None) if state.is_view else state


KIND = Kind(
    NAME, accept, schedules={"numpy": FUSED, "c": LOOPS_SCHEDULE, "cuda": MAPS}, emitters=EMITTERS, merge=merge,
    pointwise=True, repeats=True, takes_maps=True, colour="#7aa6f9",
)  # fmt: skip
