"""Where intermediate values live: offsets into one arena, shared by values that are never alive together.

In: how long each value lives and its size. Out: an offset per value, and the size of the arena. Next stop: `runtime`.
Largest values are placed first, each at the lowest offset that is free for as long as it lives.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.errors import OptionError
from eqfuse.machine import threads
from eqfuse.machine.memory import ALIGNMENT, aligned_memory

OWN_PLACE = 1 << 10  # values up to this size have a place of their own: sharing saves less than finding it costs
LEAST_RESULT = 32 << 10  # smaller results are made anew
KEPT_RESULTS = 128 << 20  # bytes of results that are looked at again, whether or not somebody holds them
MOST_ALIKE = 16  # results of one size among them
ARENA_KEPT = 256 << 20  # an arena up to this size is kept for the next call of any program


@dataclass(frozen=True)
class Needs:
    """Bytes that a kernel takes beside what it reads and writes: `workspaces` in the arena while it runs, `scratch`
    memory for each of its `threads`, what it makes and drops in `passing`, and what it has `held` since the first call.
    """

    workspaces: int = 0
    scratch: int = 0
    threads: int = 1
    passing: int = 0
    held: int = 0


def outside_bytes(kernels: Sequence[Needs]) -> int:
    """The most that `kernels`, run one after another, take outside the arena. Threads keep scratch up to a size."""
    stays = [k for k in kernels if k.scratch <= threads.SCRATCH_KEPT]
    most = max((k.threads for k in stays), default=0)
    kept = sum(max(k.scratch for k in stays if k.threads > t) for t in range(most))
    drops = (k.passing + (k.scratch > threads.SCRATCH_KEPT) * k.scratch * k.threads for k in kernels)
    return kept + max(drops, default=0) + sum(k.held for k in kernels)


def limit_of(limit: Any) -> int | None:
    """A limit as the user gave it, in whole bytes. OptionError where it is none."""
    if limit is None:
        return None
    number = isinstance(limit, (int, float, np.integer, np.floating)) and not isinstance(limit, bool)
    if not number or not 0 <= limit < math.inf:
        raise OptionError(f"memory_limit is {limit!r}: give a number of bytes, such as 64 * 2**20, or None")
    return int(limit)


@dataclass(frozen=True)
class LiveRange:
    """A value of `nbytes` bytes that is written at step `first` and read last at step `last`."""

    value: int
    nbytes: int
    first: int
    last: int


class Room:
    """Memory in which values are placed that are not alive together, or lie apart."""

    def __init__(self) -> None:
        self.placed: list[tuple[int, int, int, int]] = []  # where it begins and ends, and its first and last step
        self.nbytes = 0

    def offset(self, life: LiveRange) -> int:
        """The lowest that is free for as long as it lives."""
        start = 0
        first, last = life.first, life.last
        for low, high in sorted([(s, e) for s, e, begun, ended in self.placed if begun <= last and first <= ended]):
            if start + life.nbytes <= low:
                break
            start = max(start, high)
        return start

    def place(self, life: LiveRange, offset: int) -> None:
        end = offset + -(-life.nbytes // ALIGNMENT) * ALIGNMENT
        self.placed.append((offset, end, life.first, life.last))
        self.nbytes = max(self.nbytes, end)


def arena_offsets(lives: Sequence[LiveRange]) -> tuple[dict[int, int], int]:
    """An offset per value, and the bytes of the whole arena."""
    room, offsets = Room(), {}
    large = [life for life in lives if life.nbytes > OWN_PLACE]
    for life in sorted(large, key=lambda v: (-v.nbytes, v.first, v.value)):
        offsets[life.value] = room.offset(life)
        room.place(life, offsets[life.value])
    end = room.nbytes
    for life in lives:
        if life.nbytes <= OWN_PLACE:
            offsets[life.value] = end
            end += -(-life.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, end


class Arena:
    """Memory for intermediate values, and what programs have bound to it."""

    def __init__(self, nbytes: int) -> None:
        self.memory = aligned_memory(nbytes)
        self.laid: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class Arenas:
    """Arenas, lent to one call at a time. Keeps the largest that came back, and none of a call that failed."""

    def __init__(self) -> None:
        self.kept: deque[Arena] = deque(maxlen=1)

    def take(self, nbytes: int) -> Arena:
        kept = _popped(self.kept)
        return kept if kept is not None and kept.memory.size >= nbytes else Arena(nbytes)

    def give(self, arena: Arena) -> None:
        if arena.memory.size <= ARENA_KEPT:
            kept = _popped(self.kept)
            self.kept.append(arena if kept is None or kept.memory.size < arena.memory.size else kept)

    def forget(self) -> None:
        """Keep nothing."""
        self.kept.clear()


AlignedMemory = tuple[np.ndarray, int]  # memory, and where its first cache line begins


class ResultMemory:
    """Memory for results. Once nobody holds a result or a view of it, the next one of that size is made there: pages
    that are new to the process cost more than most kernels.

    A block is taken out of its row while it is looked at, so that no other thread, and no signal handler, finds it too.
    """

    def __init__(self) -> None:
        self.blocks: dict[int, deque[AlignedMemory]] = {}  # by size, those of the size used last at the end

    def new(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array without values."""
        nbytes = math.prod(shape) * dtype.itemsize
        if not (_COUNTED and LEAST_RESULT <= nbytes <= KEPT_RESULTS // 2):
            return np.empty(shape, dtype)
        alike = self.blocks.pop(nbytes, None)
        if alike is None:
            alike = deque(maxlen=MOST_ALIKE)
        self.blocks[nbytes] = alike
        block = self._free(alike)
        if block is None:
            self._make_room(nbytes)
            block = _block(nbytes)
        array: np.ndarray = np.ndarray(shape, dtype, *block)
        alike.append(block)
        return array

    @staticmethod
    def _free(alike: deque[AlignedMemory]) -> AlignedMemory | None:
        """One of these blocks that nobody holds, taken out."""
        for _ in range(len(alike)):
            block = _popped(alike)
            if block is None or sys.getrefcount(block[0]) == _NOBODY:
                return block
            alike.append(block)
        return None

    def _make_room(self, nbytes: int) -> None:
        rows = [*self.blocks.items()]
        kept = sum(size * len(alike) for size, alike in rows)
        for size, alike in rows:
            while kept + nbytes > KEPT_RESULTS and _popped(alike) is not None:
                kept -= size
            if not alike and size != nbytes:
                self.blocks.pop(size, None)

    def forget(self) -> None:
        """Keep nothing."""
        self.blocks.clear()


def _popped(row: deque[Any]) -> Any:
    """The first of `row`, taken out in one step; None where it is empty."""
    try:
        return row.popleft()
    except IndexError:
        return None


def _block(nbytes: int) -> AlignedMemory:
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    return memory, -memory.ctypes.data % ALIGNMENT


_COUNTED = getattr(sys, "_is_gil_enabled", lambda: True)()  # else counts of holders are not exact
_UNHELD = _block(0)
_NOBODY = sys.getrefcount(_UNHELD[0])

arenas = Arenas()
results = ResultMemory()
