"""The ledger: what the operators of a segment cost, each under a number, so that sets of them are bit masks.

In: operators with their `Work`. Out: the work of a whole kernel. Masks make joining kernels cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from eqfuse.cost import Work
from eqfuse.space import ENode

Works = dict[float, int]  # how often operators run for each element they compute: the mask of those that do
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
            for other in found:
                if other != times:
                    found[other] &= ~mask
            found[times] = found.get(times, 0) | mask
    return found


def count(works: Works) -> int:
    """How many operators `works` holds."""
    return sum([mask.bit_count() for mask in works.values()])


class Ledger:
    """Operators of one segment, by class and node, numbered in the order in which they are entered."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ENode, int], int] = {}
        self._works: list[Work] = []

    def number(self, of: tuple[int, ENode, int], made: Callable[[], Work]) -> int:
        """The number of an operator, which costs what `made` says: class, node, elements that it reads apart."""
        at = self._numbers.get(of)
        if at is None:
            at = self._numbers[of] = len(self._numbers)
            self._works.append(made())
        return at

    def total(self, works: Works, reduced: int) -> Work:
        """The work of a kernel. `reduced`: elements of a reduction's result; what is done to as few runs once."""
        flops, seconds, calls, whole, once = 0, 0.0, 0, 0.0, 0
        for times, mask in works.items():
            each_flops, each_seconds = 0, 0.0
            for at in bits(mask):
                work = self._works[at]
                each_flops += work.flops
                each_seconds += work.seconds
                whole += work.whole
                if work.flops * times <= reduced:
                    once += work.calls
                else:
                    calls += work.calls
            flops += int(each_flops * times)
            seconds += each_seconds * times
        return Work(flops, seconds, calls, whole, once)
