"""Two activities of one kernel at once: how long both take, and which of them bounds it."""

from __future__ import annotations

OVERLAP = 0.95  # gpu_performance_model.cc: exec = compute + memory - 0.95 min(compute, memory)


def overlapped(memory: float, compute: float, share: float = OVERLAP) -> float:
    """Seconds when a `share` of the shorter of two activities hides under the longer: all but a twentieth, as in XLA's
    model."""
    return memory + compute - share * min(memory, compute)


def bound(seconds: float, memory: float, compute: float) -> str:
    if seconds > 2 * max(memory, compute):
        return "launch"
    return "memory" if memory >= compute else "compute"
