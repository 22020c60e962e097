"""Loops of which each step is a few kernels, run in C: Python takes longer to call a small kernel than it takes.

In: where the arrays of a step lie, by slot, and the kernels that it calls. Out: `BoundLoop`. A slot is what kernels
get in place of an array of NumPy's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eqfuse.machine import c_calls
from eqfuse.machine.c_objects import loaded_library
from eqfuse.machine.memory import aligned_memory

UNINTERRUPTED = 1e-3  # seconds until Python may do something else, as to handle an interrupt
_WORD = 8  # bytes


def _words(*names: str) -> tuple[tuple[str, type[ctypes.c_int64]], ...]:
    return tuple([(name, ctypes.c_int64) for name in names])


class _Argument(ctypes.Structure):
    _fields_ = _words("slot", "arrays")


class _Row(ctypes.Structure):
    _fields_ = _words("slot", "arrays", "step")


class _View(ctypes.Structure):
    _fields_ = _words("slot", "of", "offset")


class _Copy(ctypes.Structure):
    _fields_ = _words("to", "source", "nbytes")


class _Call(ctypes.Structure):
    _fields_ = _words("kernel", "first", "count")


class _Carry(ctypes.Structure):
    _fields_ = _words("read", "written", "source", "begin", "place", "spare", "nbytes", "now", "next")


_TABLES = {"arguments": _Argument, "rows": _Row, "carries": _Carry, "views": _View, "calls": _Call, "copies": _Copy}


class _Loop(ctypes.Structure):
    _fields_ = _words(
        "iteration", "until", "total", "first", "by", "start", "number", "goes_on", "ended", "no_memory",
        "starts_spare", *_TABLES, *(f"{name}_at" for name in _TABLES), "read_at", "slots_at",
    )  # fmt: skip


@dataclass(frozen=True)
class Iteration:
    """What a loop does again and again, over `slots` slots and the arrays that it is handed, by number.

    `arguments`: (slot, array). `rows`: (slot, array, bytes from a row to the next). `carries`: (slot read, slot
    written, the carry in whose memory it is left if that is -1, the array that it begins as, the one that it is written
    to, another such, bytes). `views`: (slot, slot that it shows, bytes from its begin). `calls`: kernels, and the slots
    that stand for their arguments. `copies`: (slot, slot from which, bytes). `index`: the slot of the number of the
    row; `goes_on`: of what says whether there is another iteration; or None. `seconds`: about what it takes.
    """

    arguments: Sequence[tuple[int, int]]
    rows: Sequence[tuple[int, int, int]]
    carries: Sequence[tuple[int, int, int, int, int, int, int]]
    views: Sequence[tuple[int, int, int]]
    calls: Sequence[tuple[Callable[..., Any], Sequence[int]]]
    copies: Sequence[tuple[int, int, int]]
    index: int | None
    goes_on: int | None
    slots: int
    seconds: float


class BoundLoop:
    """The loop whose iterations are `iteration`, with `memory` in slots that stay; for one call at a time."""

    def __init__(self, iteration: Iteration, memory: Mapping[int, np.ndarray]) -> None:
        self._kept = dict(memory)
        self._chunk = max(1, int(UNINTERRUPTED / max(iteration.seconds, 1e-8)))
        reads = [slot for _, slots in iteration.calls for slot in slots]
        self._slot_bytes = object.__basicsize__ + _WORD
        self._slots = aligned_memory(iteration.slots * self._slot_bytes)
        slots_at = self._slots.ctypes.data
        self._read = np.array([slots_at + slot * self._slot_bytes for slot in reads], np.uintp)
        calls, first = [], 0
        for function, slots in iteration.calls:
            calls.append((c_calls.address_of(function), first, len(slots)))
            first += len(slots)
        carries = [(*carry, 0, 0) for carry in iteration.carries]
        i = iteration
        tables: list[Sequence[Any]] = [i.arguments, i.rows, carries, i.views, calls, i.copies]
        self._tables = {
            name: (kind * len(each))(*[kind(*row) for row in each])
            for (name, kind), each in zip(_TABLES.items(), tables, strict=True)
        }
        self._words = np.zeros(ctypes.sizeof(_Loop) // _WORD, np.int64)
        self._loop = _Loop.from_buffer(self._words.data)
        self._loop.goes_on = -1 if iteration.goes_on is None else iteration.goes_on
        self._loop.read_at, self._loop.slots_at = self._read.ctypes.data, slots_at
        for name, table in self._tables.items():
            setattr(self._loop, name, len(table))
            setattr(self._loop, f"{name}_at", ctypes.addressof(table))
        for slot, array in memory.items():
            self._point(slot, array.ctypes.data)
        if iteration.index is not None:
            self._point(iteration.index, self._words.ctypes.data + _Loop.number.offset)
        self._run = _library()["eqfuse_iterate"]

    def _point(self, slot: int, address: int) -> None:
        place = slot * self._slot_bytes + object.__basicsize__
        self._slots[place : place + _WORD].view(np.uintp)[0] = address

    def run(self, rows: range, start: int, arrays: Sequence[np.ndarray]) -> bool:
        """An iteration for each of `rows`, of which that numbered 0 has the number `start` for the step; True where a
        kernel missed a place. Of a loop that ends by itself `rows` is as long as it may be."""
        loop, total = self._loop, len(rows)
        loop.iteration = loop.ended = 0
        loop.total, loop.first, loop.by, loop.start = total, rows.start, rows.step, start
        loop.starts_spare = total % 2 == 0
        while True:
            loop.until = min(total, loop.iteration + self._chunk)
            if self._run(self._words, *arrays):
                if loop.no_memory:
                    raise MemoryError("an update in a loop reads what it writes, and has no memory for a copy")
                return True
            if loop.iteration == total or loop.ended:
                return False


def put_function() -> Callable[..., Any]:
    """What writes values to a slice of an array, or to places of it; only C calls it."""
    return _library()["eqfuse_put"]


def call_table(calls: Sequence[tuple[Callable[..., Any], Sequence[int]]]) -> tuple[Callable[..., Any], np.ndarray]:
    """What calls functions of C one after another, and its first argument: the arrays come after it, of which each call
    takes those with these numbers, from 0 on."""
    words = [len(calls)]
    for function, numbers in calls:
        words += [c_calls.address_of(function), len(numbers), *(number + 1 for number in numbers)]
    return _library()["eqfuse_call_all"], np.array(words, np.int64)


@cache
def _library() -> dict[str, Callable[..., Any]]:
    text = (Path(__file__).parent / "c_loops.c").read_text().replace("HEAD", str(object.__basicsize__))
    library = loaded_library(c_calls.TEXT + text)
    return c_calls.library_functions(library, ["eqfuse_iterate", "eqfuse_put", "eqfuse_call_all"])
