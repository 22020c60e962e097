"""The operator table: one row per operator, giving its type rule, its meaning (one NumPy call) and its flops.

In: an operator's name. Out: its `Op` row. Emitters and prices keep their own tables, keyed by the same names.
"""

from __future__ import annotations

from eqfuse.errors import UnsupportedOp
from eqfuse.ops import (
    contractions,
    elementwise,
    fft,
    host_function,
    leaves,
    linalg,
    loops,
    reductions,
    scans,
    signal,
    sorting,
    statistics,
    updates,
    views,
    windows,
)
from eqfuse.ops.row import Op, Role

OPERATOR_FAMILIES = (
    leaves, elementwise, reductions, views, updates, contractions, windows, scans, sorting, statistics, signal, linalg,
    fft, loops, host_function,
)  # fmt: skip
TABLE: dict[str, Op] = {op.name: op for family in OPERATOR_FAMILIES for op in family.ROWS}
_WITHIN = {op.name: op for op in (loops.STOPPED, *loops.CUSTOM)}


def row(name: str) -> Op:
    """The row of operator `name`; UnsupportedOp when there is none."""
    entry = TABLE.get(name) or _WITHIN.get(name)
    if entry is None:
        raise UnsupportedOp(f"the operator table (eqfuse/ops) has no row {name!r}")
    return entry


__all__ = ["TABLE", "Op", "Role", "row"]
