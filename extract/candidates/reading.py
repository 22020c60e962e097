"""What a kernel reads one by one, and in how many cache lines.

In: the state of a view of an array in memory. Out: `Steps`; times its own bytes.
"""

from __future__ import annotations

from eqfuse.cost.work import LINE, NEAR, Jumps, gaps
from eqfuse.egraph.space import ENode
from eqfuse.ir.view_strides import view_strides
from eqfuse.kinds import State
from eqfuse.ops import Role, row
from eqfuse.ops.types import TensorType


def steps_read(state: State, t: TensorType, reader: ENode, out: TensorType) -> Jumps:
    """What `reader` reads one by one of an array in memory: elements far from the one before, and with gaps between.

    Not of an array that lies along another axis: its kernel copies it by blocks, as its state says.
    """
    assert state.strides is not None
    if state.strides[-1:] == (1,) and state.shape[-1] > 1:  # so do most lie
        return NEAR
    step = next((abs(s) for n, s in zip(state.shape[::-1], state.strides[::-1], strict=True) if n > 1), 0)
    role = row(reader.op).role
    across = state.across(t.dtype.itemsize) > 0
    between = 0 if across or role is not Role.ELEMENTWISE else gaps(step, t, out)
    if step * t.dtype.itemsize < LINE:
        return Jumps(0, between)
    if role is Role.VIEW:
        copies = reader.op == "reshape" and view_strides("reshape", reader.attrs, state.shape, state.strides) is None
        return Jumps(t.size if across and copies else 0)
    return NEAR if across and role in (Role.ELEMENTWISE, Role.REDUCTION) else Jumps(t.size, between)


def line_ratio(state: State, t: TensorType) -> int:
    """How many times its own bytes the cache lines of a view are: neighbours may be some elements apart."""
    assert state.strides is not None
    steps = [abs(s) for n, s in zip(state.shape, state.strides, strict=True) if n > 1 and s]
    return min(min(steps, default=1), max(1, LINE // t.dtype.itemsize))
