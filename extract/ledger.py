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
    return sum(mask.bit_count() for mask in works.values())


class Ledger:
    """Operators of one segment, by class and node, numbered in the order in which they are entered."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ENode, int], int] = {}
        self._table = np.zeros((64, 4))  # flops, seconds, calls, seconds of calls on whole arrays

    def number(self, of: tuple[int, ENode, int], made: Callable[[], Work]) -> int:
        """The number of an operator, which costs what `made` says: class, node, elements that it reads apart."""
        at = self._numbers.get(of)
        if at is None:
            at = self._numbers[of] = len(self._numbers)
            if at == len(self._table):
                self._table = np.concatenate([self._table, np.zeros_like(self._table)])
            work = made()
            self._table[at] = work.flops, work.seconds, work.calls, work.whole
        return at

    def total(self, works: Works, reduced: int) -> Work:
        """The work of a kernel. `reduced`: elements of a reduction's result; what is done to as few runs once."""
        flops, seconds, calls, whole, once = 0, 0.0, 0, 0.0, 0
        for times, mask in works.items():
            rows = self._table[bits(mask)]
            sums = rows.sum(axis=0).tolist()
            few = int(rows[rows[:, 0] * times <= reduced, 2].sum()) if reduced >= 0 else 0
            flops += int(sums[0] * times)
            seconds += sums[1] * times
            calls += int(sums[2]) - few
            whole += sums[3]
            once += few
        return Work(flops, seconds, calls, whole, once)
