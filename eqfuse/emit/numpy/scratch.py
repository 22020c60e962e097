"""Scratch memory of one stage's tiles: which values share an array, and the lines that make the arrays.

In: shapes of tiles. Out: names, and lines of a kernel. Scratch memory is kept from one call to the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from eqfuse.emit.numpy.source import Source
from eqfuse.emit.numpy.spans import Span
from eqfuse.machine.memory import ALIGNMENT

TileShape = tuple[int | Span | None, ...]  # None: the block, which is shorter in the last tile


def longest(extent: int | Span | None, block: int) -> int:
    """The most indices along an axis of a tile."""
    return block if extent is None else min(extent.extent, block) if isinstance(extent, Span) else extent


@dataclass(eq=False)
class Slot:
    """Scratch memory for values of one shape and item size, one at a time. `output`: it is that output's own tile."""

    shape: TileShape
    dtypes: set[np.dtype] = field(default_factory=set)
    output: str | None = None

    @property
    def itemsize(self) -> int:
        return next(iter(self.dtypes)).itemsize


class Slots:
    """The slots of a stage."""

    def __init__(self) -> None:
        self.all: list[Slot] = []
        self._free: list[Slot] = []

    def take(self, shape: TileShape, dtype: np.dtype) -> Slot:
        """A free slot of that shape, or a new one."""
        for slot in self._free:
            if slot.shape == shape and slot.itemsize == dtype.itemsize:
                self._free.remove(slot)
                slot.dtypes.add(dtype)
                return slot
        self.all.append(Slot(shape, {dtype}))
        return self.all[-1]

    def give(self, slots: Iterable[Slot]) -> None:
        """Nobody reads these any more."""
        self._free += [s for s in slots if s.output is None]


class ScratchArrays:
    """Lines that make arrays in ``memory`` from `offset`, and lines that shorten them to `size` indices of the block,
    where blocks are `ragged`. `spanned`: lines for every tile, that shorten them to what it takes of a piece."""

    def __init__(self, source: Source, block: int, offset: int, size: str, ragged: bool) -> None:
        self._source, self._block, self._size, self._ragged = source, block, size, ragged
        self.offset = offset
        self.views: list[str] = []
        self.shorter: list[str] = []
        self.spanned: list[str] = []

    def array(self, names: dict[str, np.dtype], shape: TileShape) -> None:
        """An array of `shape` under each of the names, which share its memory."""
        whole = tuple(longest(d, self._block) for d in shape)
        nbytes = math.prod(whole) * next(iter(names.values())).itemsize
        span = next((d for d in shape if isinstance(d, Span)), None)
        shortened = span is not None or (self._ragged and None in shape)
        size = "{1} - {0}".format(*span.bounds) if span else self._size
        for name, dtype in names.items():
            view = f"memory[{self.offset}:{self.offset + nbytes}].view({self._source.dtype(dtype)}).reshape({whole})"
            self.views.append(f"{'w' if shortened else ''}{name} = {view}")
            if shortened:
                index = ", ".join(f":{size}" if d is span else ":" for d in shape)
                (self.spanned if span else self.shorter).append(f"{name} = w{name}[{index}]")
        self.offset += -(-nbytes // ALIGNMENT) * ALIGNMENT

    def bytes(self, name: str, nbytes: int) -> None:
        self.views.append(f"{name} = memory[{self.offset}:{self.offset + nbytes}]")
        self.offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
