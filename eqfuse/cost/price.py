"""What a kernel is predicted to cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Price:
    """What a kernel is predicted to cost: seconds, bytes of memory traffic, flops, and what bounds it."""

    seconds: float
    bytes_read: int
    bytes_written: int
    flops: int
    bound: str  # "memory" | "compute" | "launch"
