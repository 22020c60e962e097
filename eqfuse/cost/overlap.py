"""Two activities of one kernel at once: how long both take, and which of them bounds it."""

from __future__ import annotations

OVERLAP = 0.95  # gpu_performance_model.cc: exec = compute + memory - 0.95 min(compute, memory)


def overlapped(memory: float, compute: float) -> float:
    """Seconds when all but a twentieth of the shorter of two activities hides under the longer, as in XLA's model."""
    return memory + compute - OVERLAP * min(memory, compute)


def bound(seconds: float, memory: float, compute: float) -> str:
    if seconds > 2 * max(memory, compute):
        return "launch"
    return "memory" if memory >= compute else "compute"
