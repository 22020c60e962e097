"""The memory behind traced arrays: its value, and the writes that came since. A view is the steps that take it.

In: reads and writes of a storage through views. Out: graph nodes. A write to a slice stays apart from its neighbours
until somebody reads them together. Used by `tracer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from eqfuse.errors import TraceError
from eqfuse.frontends import tidy
from eqfuse.ir import Node, Shape, TensorType, node
from eqfuse.kinds.state import contiguous, view_strides
from eqfuse.ops import Role, row

Step = tuple[str, Any]  # a view operator and its one attribute; "squeeze": a reshape by axes of extent 1 alone;
# "flat": one that NumPy writes through in every memory order
Ranges = tuple[tuple[int, int, int], ...]


class Access(Enum):
    """Whether NumPy lets an array be written to."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"  # broadcast_to, diagonal
    SCALAR = "scalar"  # a NumPy or Python scalar: has no memory of its own


class Storage:
    """One block of memory. `argument`: the array of the caller that it is, by its place among the graph's inputs.

    `origin`: the memory, and its version, that a reshape copied because it does not lie in C order; had NumPy laid it
    out in another order, this would be a view of it. `doubtful`: such a copy of this memory was written to. `ordered`:
    NumPy copied it to C order.
    """

    __slots__ = ("_base", "_made", "_writes", "version", "argument", "origin", "doubtful", "_ordered")

    def __init__(
        self, value: Node, argument: int | None = None, origin: Storage | None = None, ordered: bool = False
    ) -> None:
        self._base = self._made = value
        self._ordered = ordered
        self.version: int = 0
        self.origin: tuple[Storage, int] | None = None if origin is None else (origin, origin.version)
        self.doubtful = False
        self._writes: list[tuple[Ranges, Node]] = []
        self.argument = argument

    @property
    def value(self) -> Node:
        """All of it, with every write so far."""
        if self._writes:
            ranges, values = zip(*self._writes, strict=True)
            self._base = tidy.slice_scatter(self._base, values, ranges)
            self._writes.clear()
        return self._base

    def read(self, steps: Sequence[Step]) -> Node:
        """The present value of the view `steps`."""
        if steps and steps[0][0] == "slice" and self._writes:
            found = self._slice(steps[0][1])
            if found is not None:
                return taken(found, steps[1:])
        return taken(self.value, steps)

    def write(self, steps: Sequence[Step], value: Node) -> None:
        """Let the view `steps` be `value`, which has its shape and the storage's dtype."""
        self.version += 1
        while steps:
            *rest, (op, attr) = steps
            if op == "slice" and not rest:
                self._writes.append((attr, value))
                return
            before = self.read(rest)
            value = tidy.slice_scatter(before, (value,), (attr,)) if op == "slice" else _undone(op, attr, value, before)
            steps = rest
        self._base = value
        self._writes.clear()

    def keeps(self, steps: Sequence[Step], shape: Shape) -> bool:
        """Is the view `steps`, reshaped, still a view? As long as the memory lies in C order: see `needs_order`."""
        return self._lies((*steps, ("reshape", shape))) is not None

    def in_order(self, steps: Sequence[Step]) -> bool:
        """Do the elements of the view `steps` lie one after the other, as long as the memory lies in C order?"""
        lies = None if any(op in ("real", "imag") for op, _ in steps) else self._lies(steps)
        if lies is None:
            return False
        extents, strides = lies
        plain = contiguous(extents)
        return 0 in extents or all(s == p or n == 1 for s, p, n in zip(strides, plain, extents, strict=True))

    def _lies(self, steps: Sequence[Step]) -> tuple[Shape, tuple[int, ...]] | None:
        """Shape and strides of the view `steps` of memory in C order; None where NumPy would copy."""
        extents, strides = self._base.shape, contiguous(self._base.shape)
        for op, attr in steps:
            if op in ("real", "imag", "bitcast"):
                continue  # the same elements, or every other number of them
            view = "reshape" if op in ("squeeze", "flat") else op
            after = view_strides(view, (attr,), extents, strides)
            if after is None:
                return None
            extents, strides = row(view).type([TensorType(np.dtype(bool), extents)], (attr,)).shape, after
        return extents, strides

    def needs_order(self) -> set[Node]:
        """The inputs that must lie in C order for this memory to do so.

        TraceError where NumPy may have laid the memory out in another order.
        """
        inputs: set[Node] = set()
        stack = [] if self._ordered else [self._made]
        seen = set(stack)
        while stack:
            n = stack.pop()
            if n.op == "input":
                inputs.add(n)
            elif n.op == "transpose":
                raise TraceError(
                    "a write through a reshape: whether it is a view here depends on how NumPy laid out a transposed "
                    "array. Copy before the reshape (x.copy()), or write through the array itself"
                )
            elif row(n.op).role is not Role.CONTRACTION:  # products lie in C order, others may not
                stack += [a for a in n.args if a not in seen]
                seen.update(n.args)
        return inputs

    def unsure(self) -> bool:
        """Has a copy of this memory, or the memory it was copied from, changed since?"""
        return self.doubtful or (self.origin is not None and self.origin[0].version != self.origin[1])

    def _slice(self, wanted: Ranges) -> Node | None:
        """The slice `wanted`, unless the writes since cover parts of it."""
        for ranges, value in reversed(self._writes):
            if ranges == wanted:
                return value
            if not _disjoint(ranges, wanted):
                inside = _within(wanted, ranges)
                return None if inside is None else tidy.slice_(value, inside)
        return tidy.slice_(self._base, wanted)


def taken(value: Node, steps: Sequence[Step]) -> Node:
    """The view `steps` of `value`."""
    for op, attr in steps:
        value = tidy.VIEWS[op](value, attr)
    return value


def _undone(op: str, attr: Any, value: Node, before: Node) -> Node:
    """What `before` becomes when its view by `op` becomes `value`."""
    if op in ("reshape", "squeeze", "flat"):
        return tidy.reshape(value, before.shape)
    if op == "transpose":
        return tidy.transpose(value, [attr.index(axis) for axis in range(len(attr))])
    if op == "flip":
        return tidy.flip(value, attr)
    if op in ("real", "imag"):
        other = tidy.part("imag" if op == "real" else "real", before)
        return node("complex", (value, other) if op == "real" else (other, value))
    if op == "bitcast":
        return node("bitcast", (value,), (before.dtype,))
    raise TraceError(f"a write through a view by {op} cannot be traced: write to the array itself")


def _disjoint(a: Ranges, b: Ranges) -> bool:
    """Do two slices of one array share no element, for sure?"""
    for (start, stop, step), (other, end, stride) in zip(a, b, strict=True):
        if stop <= other or end <= start or (step == stride and (start - other) % step):
            return True
    return False


def _within(inner: Ranges, outer: Ranges) -> Ranges | None:
    """`inner` as a slice of the slice `outer`, or None when it leaves it."""
    found = []
    for r, s in zip((range(*x) for x in inner), (range(*x) for x in outer), strict=True):
        if r and (r[0] not in s or r[-1] not in s or (len(r) > 1 and r.step % s.step)):
            return None
        found.append((s.index(r[0]), s.index(r[-1]) + 1, r.step // s.step or 1) if r else (0, 0, 1))
    return tuple(found)
