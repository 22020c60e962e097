"""The work of a segment's operators, numbered, so that sets of operators are bit masks.

In: operators with their `Work`. Out: the work of a whole kernel. Masks make joining kernels cheap.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from eqfuse.cost.work import Work

Works = dict[float, int]  # how often operators run for each element they compute: the mask of those that do
WHOLE = 0.0  # ... of those that run on whole arrays, where views share them; in tiles each view has its own
_MANY = 40  # set bits beyond which NumPy is faster than a loop


def bits(mask: int) -> list[int]:
    """The positions of the bits that are set, in order."""
    if mask.bit_count() > _MANY:
        octets = np.frombuffer(mask.to_bytes((mask.bit_length() + 7) // 8, "little"), np.uint8)
        return np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist()
    found = []
    while mask:
        at = mask.bit_length() - 1
        found.append(at)
        mask ^= 1 << at
    return found[::-1]


def union(sets: Iterable[Works]) -> Works:
    """The operators of all `sets`; one that stands in several runs as often as the last of them says."""
    found: Works = {}
    for works in sets:
        for times, mask in works.items():
            if times == WHOLE:
                for other, at in found.items():
                    mask &= ~at if other != WHOLE else -1
            if len(found) > 1 or times not in found:
                for other in found:
                    found[other] &= ~mask
            found[times] = found.get(times, 0) | mask
    return found


def count(works: Works) -> int:
    """How many operators `works` holds."""
    return sum([mask.bit_count() for times, mask in works.items() if times != WHOLE])


class WorkTable:
    """The work of operators, numbered in the order in which they are entered."""

    def __init__(self) -> None:
        self._works: list[Work] = []

    def enter(self, work: Work) -> int:
        """The number of one more operator, which costs `work`."""
        self._works.append(work)
        return len(self._works) - 1

    def viewed(self, at: int, share: float) -> int:
        """The number of operator `at` as a tile computes it behind a view, which shows that share of its elements."""
        work = self._works[at]
        if not work.calls:
            return at
        return self.enter(Work(int(work.flops * share), work.seconds * share, work.calls, once=work.once))

    def total(self, works: Works, reduced: int) -> Work:
        """The work of a kernel. `reduced`: elements of a reduction's result; what is done to as few runs once."""
        flops, seconds, calls, whole, once, shared = 0, 0.0, 0, 0.0, 0, 0.0
        for times, mask in works.items():
            each_flops, each_seconds = 0, 0.0
            for at in bits(mask):
                work = self._works[at]
                each_flops += work.flops
                each_seconds += work.seconds
                whole += work.whole
                shared += work.shared
                if times == WHOLE:
                    continue
                if work.flops * times <= reduced:
                    once += work.calls
                else:
                    calls += work.calls
            flops += int(each_flops * times)
            seconds += each_seconds * times
        return Work(flops, seconds, calls, whole, once, shared)
