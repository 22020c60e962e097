"""What a kernel reads one by one, and in how many cache lines.

In: the state of a view of an array in memory. Out: `Steps`; times its own bytes.
"""

from __future__ import annotations

from eqfuse.cost.work import LINE, NO_JUMPS, Jumps, gaps, rows_apart
from eqfuse.egraph.space import ENode
from eqfuse.ir.view_strides import view_strides
from eqfuse.kinds import State
from eqfuse.ops import Role
from eqfuse.ops.types import Shape, TensorType


def steps_read(state: State, t: TensorType, reader: ENode, out: TensorType, compiled: bool) -> Jumps:
    """What `reader` reads one by one of an array in memory: elements far from the one before, and with gaps between.

    Not of an array that lies along another axis: its kernel copies it by blocks, as its state says. Where kernels are
    not `compiled` it is the view which leaves gaps that walks them, once for all who read it.
    """
    assert state.strides is not None
    if state.strides[-1:] == (1,) and state.shape[-1] > 1:  # so do most lie
        if compiled:
            return NO_JUMPS
        if reader.op == "matmul" or (reader.row.role is Role.ELEMENTWISE and state.shape == out.shape):
            return Jumps(rows=rows_apart(state.shape, state.strides))
        return _left_by(state, t, reader, out) if reader.row.role is Role.VIEW else NO_JUMPS
    step = _step(state.shape, state.strides)
    role = reader.row.role
    across = state.across(t.dtype.itemsize) > 0
    sliced = not compiled and _has_gaps(state.shape, state.strides) and t.size == out.size
    between = 0 if across or sliced or role is not Role.ELEMENTWISE else gaps(step, t, out)
    if step * t.dtype.itemsize < LINE:
        return Jumps(0, between)
    if role is Role.VIEW:
        copies = reader.op == "reshape" and view_strides("reshape", reader.attrs, state.shape, state.strides) is None
        return Jumps(t.size if across and copies else 0)
    return NO_JUMPS if across and role in (Role.ELEMENTWISE, Role.REDUCTION) else Jumps(t.size, between)


def _left_by(state: State, t: TensorType, view: ENode, out: TensorType) -> Jumps:
    """The gaps that `view` leaves between neighbours of an array that had none."""
    assert state.strides is not None
    strides = view_strides(view.op, view.attrs, state.shape, state.strides)
    if strides is None or not _has_gaps(out.shape, strides):
        return NO_JUMPS
    return Jumps(0, out.size) if _step(out.shape, strides) * t.dtype.itemsize < LINE else NO_JUMPS


def _has_gaps(shape: Shape, strides: Shape) -> bool:
    """Are no two elements neighbours in memory? (Those of an array that lies along another axis are.)"""
    return min([abs(s) for n, s in zip(shape, strides, strict=True) if n > 1 and s], default=1) > 1


def _step(shape: Shape, strides: Shape) -> int:
    """Between neighbours along the last axis of several indices."""
    return next((abs(s) for n, s in zip(shape[::-1], strides[::-1], strict=True) if n > 1), 0)


def line_ratio(state: State, t: TensorType) -> int:
    """How many times its own bytes the cache lines of a view are: neighbours may be some elements apart."""
    assert state.strides is not None
    steps = [abs(s) for n, s in zip(state.shape, state.strides, strict=True) if n > 1 and s]
    return min(min(steps, default=1), max(1, LINE // t.dtype.itemsize))
