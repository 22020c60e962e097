"""scatter: values joined to the elements of an array that indices name, with what is computed for each value and index.

`np.add.at`, `np.maximum.at`, `np.bincount`, `np.histogram` of known bins of one width, and the like. The array that is
updated is read from memory. Several of as many values each are one kernel, if it makes the arrays that they update.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqfuse.cost.targets import package
from eqfuse.kinds.kind import EMITTERS, Kind
from eqfuse.kinds.state import Call, State
from eqfuse.ops.statistics import uniform_bins
from eqfuse.ops.types import TensorType

NAME = "scatter"
SCATTERS = "eqfuse.emit.c.scatter.schedule:scatter_schedule"


def accept(call: Call) -> State | str | None:
    if call.row.name == "scatter":
        base, *operands = call.states
        updated, _, values = call.types
        joins = call.attr("mode") != "set" and values.dtype == updated.dtype
        supported = joins and _emits(call, call.attr("mode"), [updated, values], updated)
        space = values.shape
    elif call.row.name == "bincount":
        base, operands, space = None, [*call.states], call.types[0].shape
        supported = call.types[0].dtype != np.uint64 and _emits(call, "cast", call.types[1:] or call.types, call.out)
    elif call.row.name == "histogram" and uniform_bins(call.types[0].dtype, call.attrs) is not None:
        base, operands, space = None, [*call.states], call.types[0].shape[:1]
        supported = all(t.dtype in (np.float32, np.float64) for t in call.types[1:])
        supported = supported and all(_emits(call, "cast", [t], call.out) for t in call.types)
    else:
        return None
    if not supported or not all(s.pointwise for s in operands):
        return None
    if base is not None and not base.at_leaf:
        return "the array that is updated is read from memory"
    return State(NAME, call.out.shape, space)


def _emits(call: Call, op: str, types: Sequence[TensorType], out: TensorType) -> bool:
    return package(call.device.target).emits(op, [t.dtype for t in types], out.dtype)


def merge(a: State, b: State) -> State | None:
    return State(NAME, a.shape, a.space) if a.kind == b.kind == NAME else None


KIND = Kind(
    NAME, accept, schedules={"c": SCATTERS}, emitters=EMITTERS, merge=merge, takes_maps=True, updates=True,
    colour="#c7b08a",
)  # fmt: skip
