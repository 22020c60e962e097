"""Derivatives of loops and choices."""

from __future__ import annotations

from eqfuse.gradients.row import Row, refused
from eqfuse.ops.loops import LOOPS

_WHY = "write the loop in Python, over a range, which is unrolled"
ROWS: dict[str, Row] = {name: refused(_WHY) for name in (*sorted(LOOPS), "loop_result")}
