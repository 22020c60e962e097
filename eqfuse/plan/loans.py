"""Values that lie in the memory of results until these are written: a call holds both its results and its arena.

In: how long values and results live. Out: a `Loan` per value that is lent memory. Next stop: `buffers.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eqfuse.plan.memory import KEPT_RESULTS, LEAST_RESULT, LiveRange, Room

CLEARLY_LESS = 0.95  # of what the arena holds at most: for a lesser gain no value is lent memory
MOST_LENDERS = 64  # the largest results: each value is tried on each


@dataclass(frozen=True)
class Loan:
    """Memory of the result `lender`, from byte `offset` on, from step `first` on."""

    lender: int
    offset: int
    first: int


@dataclass(frozen=True)
class _Lender:
    """The memory of a result, and what it lends."""

    result: LiveRange
    room: Room

    def offset(self, v: LiveRange) -> int | None:
        """Where `v` may lie, if it is read last before the result is written."""
        if v.last >= self.result.first:
            return None
        offset = self.room.offset(v)
        return offset if offset + v.nbytes <= self.result.nbytes else None


def loans(lives: Sequence[LiveRange], results: Iterable[LiveRange]) -> dict[int, Loan]:
    """What `results` lend to which of `lives`, by value, so that clearly less is held beside them; nothing where it is
    not. Where most is held, the largest value that there is room for lies in the smallest."""
    lenders = [_Lender(r, Room()) for r in results if LEAST_RESULT <= r.nbytes <= KEPT_RESULTS // 2]
    lenders = sorted(lenders, key=lambda lender: lender.result.nbytes)[-MOST_LENDERS:]
    waiting = sorted([v for v in lives if v.nbytes >= LEAST_RESULT], key=lambda v: (-v.nbytes, v.first, v.value))
    if not lenders or not waiting:
        return {}
    held = np.zeros(1 + max(v.last for v in waiting), np.int64)
    for v in waiting:
        held[v.first : v.last + 1] += v.nbytes
    most = held.max()
    lent: dict[int, Loan] = {}
    while chosen := _chosen(waiting, int(held.argmax()), lenders):
        v, lender, offset = chosen
        lender.room.place(v, offset)
        lent[v.value] = Loan(lender.result.value, offset, v.first)
        waiting.remove(v)
        held[v.first : v.last + 1] -= v.nbytes
    return lent if held.max() <= CLEARLY_LESS * most else {}


def _chosen(
    waiting: Sequence[LiveRange], step: int, lenders: Sequence[_Lender]
) -> tuple[LiveRange, _Lender, int] | None:
    """The first of `waiting` alive at `step` that a lender has room for, the first such, and where."""
    for v in waiting:
        for lender in lenders if v.first <= step <= v.last else ():
            offset = lender.offset(v)
            if offset is not None:
                return v, lender, offset
    return None
