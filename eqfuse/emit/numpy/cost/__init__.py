"""What kernels cost on NumPy: `call_work` of an operator, `kernel_seconds` of what the search estimates."""

from __future__ import annotations

from eqfuse.emit.numpy.cost.calls import call_work
from eqfuse.emit.numpy.cost.tiles import kernel_seconds

__all__ = ["call_work", "kernel_seconds"]
