"""The table of derivatives: one row per operator of `eqfuse/ops`.

In: an operator's name. Out: its `DerivativeRow`. Used by `linearise.py` and `transpose.py`, which know no operator by
name.
"""

from __future__ import annotations

from eqfuse.errors import UnsupportedOp
from eqfuse.gradients import (
    contractions,
    elementwise,
    fft,
    linalg,
    loops,
    reductions,
    rules,
    scans,
    signal,
    sorting,
    special,
    statistics,
    updates,
    views,
    windows,
)
from eqfuse.gradients.row import DerivativeRow

DERIVATIVE_FAMILIES = (
    elementwise, special, reductions, views, updates, contractions, windows, scans, sorting, statistics, signal, linalg,
    fft, loops,
)  # fmt: skip
DERIVATIVES: dict[str, DerivativeRow] = {
    name: row for family in DERIVATIVE_FAMILIES for name, row in family.ROWS.items()
}


def derivative(op: str) -> DerivativeRow:
    """The row of operator `op`; UnsupportedOp when there is none."""
    try:
        return DERIVATIVES.get(op) or rules.ROWS[op]
    except KeyError:
        raise UnsupportedOp(f"the table of derivatives (eqfuse/gradients) has no row {op!r}") from None
