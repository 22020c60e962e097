"""Where intermediate values live: offsets into one arena, shared by values that are never alive together.

In: how long each value lives and its size. Out: an offset per value, and the size of the arena. Next stop: `runtime`.
Largest values are placed first, each at the lowest offset that is free for as long as it lives.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64
KEPT_BYTES = 256 << 20  # an arena up to this size is kept for the next call of any program


@dataclass(frozen=True)
class Life:
    """A value of `nbytes` bytes that is written at step `first` and read last at step `last`."""

    value: int
    nbytes: int
    first: int
    last: int

    def meets(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last


def place(lives: Sequence[Life]) -> tuple[dict[int, int], int]:
    """An offset per value, and the bytes of the whole arena."""
    placed: list[tuple[int, int, Life]] = []  # start, stop
    offsets: dict[int, int] = {}
    for life in sorted(lives, key=lambda v: (-v.nbytes, v.first, v.value)):
        start = 0
        for low, high in sorted((s, e) for s, e, other in placed if other.meets(life)):
            if start + life.nbytes <= low:
                break
            start = max(start, high)
        end = start + -(-life.nbytes // ALIGNMENT) * ALIGNMENT
        placed.append((start, end, life))
        offsets[life.value] = start
    return offsets, max((end for _, end, _ in placed), default=0)


class Arenas:
    """Memory for intermediate values, lent to one call at a time. Keeps the largest arena that came back."""

    def __init__(self) -> None:
        self.kept: np.ndarray | None = None
        self.lock = threading.Lock()

    def take(self, nbytes: int) -> np.ndarray:
        with self.lock:
            kept, self.kept = self.kept, None
        if kept is not None and kept.size >= nbytes:
            return kept
        memory = np.empty(nbytes + ALIGNMENT, np.uint8)
        return memory[-memory.ctypes.data % ALIGNMENT :]

    def give(self, arena: np.ndarray) -> None:
        if arena.size <= KEPT_BYTES:
            with self.lock:
                if self.kept is None or self.kept.size < arena.size:
                    self.kept = arena


arenas = Arenas()
