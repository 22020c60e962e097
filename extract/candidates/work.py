"""The work of a segment's operators, numbered, so that sets of operators are bit masks.

In: operators with their `Work`. Out: the work of a whole kernel. Masks make joining kernels cheap.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from eqfuse.cost.work import Work

Works = dict[float, int]  # how often operators run for each element they compute: the mask of those that do
ON_WHOLE_ARRAYS = 0.0  # ... of those that run on whole arrays, where views share them; in tiles each view has its own
_MANY = 40  # set bits beyond which NumPy is faster than a loop


def set_bits(mask: int) -> list[int]:
    """The positions of the bits that are set, in order."""
    if mask.bit_count() > _MANY:
        words = np.frombuffer(mask.to_bytes(mask.bit_length() // 64 * 8 + 8, "little"), "<u8")
        held = np.flatnonzero(words)  # few of them: operators behind views have high numbers
        word, bit = np.nonzero(np.unpackbits(words[held].view(np.uint8), bitorder="little").reshape(-1, 64))
        return (held[word] * 64 + bit).tolist()
    positions = []
    while mask:
        position = mask.bit_length() - 1
        positions.append(position)
        mask ^= 1 << position
    return positions[::-1]


def mask_of(positions: list[int]) -> int:
    """The mask in which the bits at these positions are set."""
    if len(positions) > _MANY:
        octets = np.zeros(max(positions) // 8 + 1, np.uint8)
        places = np.array(positions)
        np.bitwise_or.at(octets, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))
        return int.from_bytes(octets.tobytes(), "little")
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def union(sets: Iterable[Works]) -> Works:
    """The operators of all `sets`; one that stands in several runs as often as the last of them says."""
    runs: Works = {}
    for works in sets:
        for times, mask in works.items():
            if len(runs) == 1 and times in runs:  # as they most often are
                runs[times] |= mask
                continue
            if times == ON_WHOLE_ARRAYS:
                for other, held in runs.items():
                    mask &= ~held if other != ON_WHOLE_ARRAYS else -1
            runs = {other: left for other, held in runs.items() if (left := held & ~mask) or other == times}
            runs[times] = runs.get(times, 0) | mask
    return runs


class WorkTable:
    """The work of operators, numbered in the order in which they are entered. `compiled`: for a device whose kernels
    are, flops and seconds are all there is."""

    def __init__(self, compiled: bool) -> None:
        self._compiled = compiled
        self._flops: list[int] = []
        self._seconds: list[float] = []
        self._calls: list[int] = []
        self._whole: list[float] = []
        self._shared: list[float] = []
        self._sums: dict[int, tuple[int, float]] = {}  # flops and seconds of sets of operators
        self._members: dict[int, list[tuple[int, float]]] = {}  # the same of each of several that have one number
        self._several = 0  # the mask of these numbers

    def enter(self, work: Work) -> int:
        """The number of one more operator, which costs `work`."""
        return self._append(work.flops, work.seconds, work.calls, work.whole, work.shared)

    def _append(self, flops: int, seconds: float, calls: int, whole: float, shared: float) -> int:
        self._flops.append(flops)
        self._seconds.append(seconds)
        self._calls.append(calls)
        self._whole.append(whole)
        self._shared.append(shared)
        return len(self._flops) - 1

    def viewed(self, operator: int, share: float) -> int:
        """The number of `operator` as a tile computes it behind a view, which shows that share of its elements."""
        if not self._calls[operator]:
            return operator
        flops, seconds = int(self._flops[operator] * share), self._seconds[operator] * share
        return self._append(flops, seconds, self._calls[operator], 0.0, 0.0)

    def behind(self, mask: int, share: float) -> int:
        """The operators of `mask` as a compiled kernel computes them behind a view, which shows that share of their
        elements: all that compute have one number together, so that masks stay short."""
        same, members = 0, list[tuple[int, float]]()
        for operator in set_bits(mask):
            if self._calls[operator]:
                members += self._members.get(operator, [(self._flops[operator], self._seconds[operator])])
            else:
                same |= 1 << operator
        if not members:
            return same
        shown = [(int(flops * share), seconds * share) for flops, seconds in members]
        number = self._append(sum([f for f, _ in shown]), sum([s for _, s in shown]), len(shown), 0.0, 0.0)
        self._members[number] = shown
        self._several |= 1 << number
        return same | 1 << number

    def count(self, works: Works) -> int:
        """How many operators `works` holds."""
        count = 0
        for times, mask in works.items():
            if times != ON_WHOLE_ARRAYS:
                count += mask.bit_count()
                if several := mask & self._several:
                    count += sum([len(self._members[number]) - 1 for number in set_bits(several)])
        return count

    def total(self, works: Works, reduced: int) -> Work:
        """The work of a kernel. `reduced`: elements of a reduction's result; what is done to as few runs once."""
        flops, seconds, calls, whole, once, shared = 0, 0.0, 0, 0.0, 0, 0.0
        for times, mask in works.items():
            sums = self._sums.get(mask)
            if sums is None:
                sums = self._sums[mask] = self._summed(set_bits(mask))
            flops += int(sums[0] * times)
            seconds += sums[1] * times
            if self._compiled:
                continue
            members = set_bits(mask)
            whole = sum(map(self._whole.__getitem__, members), whole)
            shared = sum(map(self._shared.__getitem__, members), shared)
            if times != ON_WHOLE_ARRAYS:
                few = [number for number in members if self._flops[number] * times <= reduced] if reduced >= 0 else ()
                of_few = sum(map(self._calls.__getitem__, few))
                once += of_few
                calls += sum(map(self._calls.__getitem__, members)) - of_few
        return Work(flops, seconds, calls, whole, once, shared)

    def _summed(self, members: list[int]) -> tuple[int, float]:
        """The flops and the seconds of all `members`."""
        return sum(map(self._flops.__getitem__, members)), sum(map(self._seconds.__getitem__, members))
