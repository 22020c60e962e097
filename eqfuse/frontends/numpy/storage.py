"""The memory behind traced arrays: its value, and the writes that came since. A view is the steps that take it.

In: reads and writes of a storage through views. Out: graph nodes. A write to a slice stays apart from its neighbours
until somebody reads them together. Used by `tracer`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np

from eqfuse.errors import TraceError, user_place
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.pending_writes import PendingWrites
from eqfuse.frontends.numpy.tracing import current
from eqfuse.ir.graph import CodePlace, Node, node
from eqfuse.ir.strides import IN_ORDER, MemoryLayout, ViewStep, reshaped_view, view_outline
from eqfuse.ops.types import Shape
from eqfuse.ops.updates import Ranges
from eqfuse.ops.views import extents_of


class Rights(Enum):
    """Whether NumPy lets an array be written to."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"  # broadcast_to, diagonal
    OF_RULE = "of a rule"  # an argument of a function with a rule for its gradient, which NumPy would let it write to
    SCALAR = "scalar"  # a NumPy or Python scalar: has no memory of its own


UNWRITABLE = {
    Rights.READ_ONLY: "assignment destination is read-only, as in NumPy: copy the array first (x.copy())",
    Rights.OF_RULE: (
        "a function with a rule for its gradient (ef.custom_vjp) writes to its argument, which it must leave as it is: "
        "copy the array first (x.copy())"
    ),
}


class Storage:
    """One block of memory. `argument`: the array of the caller that it is, by its place among the graph's inputs.

    `layout`: how NumPy laid it out, None where that is not known: it is then taken to lie in C order until somebody
    relies on it. `origin`: the memory, and its version, that this is a copy of, where in another layout it would be a
    view. `copies`: those of this memory that were written to. `trace`: the one that alone writes
    to it.
    """

    __slots__ = ("_base", "_writes", "_place", "version", "argument", "origin", "copies", "layout", "trace")

    def __init__(
        self, value: Node, argument: int | None = None, origin: Storage | None = None,
        layout: MemoryLayout | None = None,
    ) -> None:  # fmt: skip
        self._base = value
        self.layout = layout
        self.trace = current()
        self.version: int = 0
        self.origin: tuple[Storage, int] | None = None if origin is None else (origin, origin.version)
        self.copies: list[Storage] = []
        self._writes = PendingWrites(value.shape)
        self._place: CodePlace | None = None  # of the last write
        self.argument = argument

    @property
    def value(self) -> Node:
        """All of it, with every write so far."""
        if self._writes:
            self._base = self._writes.taken(self._base)
            self._note_place()
        return self._base

    def _note_place(self) -> None:
        trace = current()
        if trace is not None and trace.places is not None:
            trace.places.setdefault(self._base, self._place)

    def read(self, steps: Sequence[ViewStep]) -> Node:
        """The present value of the view `steps`."""
        if steps and steps[0][0] == "slice" and self._writes:
            part = self._slice(steps[0][1])
            if part is not None:
                return viewed_by(part, steps[1:])
        return viewed_by(self.value, steps)

    def write(self, steps: Sequence[ViewStep], value: Node) -> None:
        """Let the view `steps` be `value`, which has its shape and the storage's dtype."""
        self.version += 1
        self._place = user_place()
        steps = _taken_first(self.shape, steps)
        while steps:
            *rest, (op, attr) = steps
            if op == "slice" and not rest:
                self._writes.add(attr, value)
                return
            before = self.read(rest)
            value = tidy.slice_scatter(before, (value,), (attr,)) if op == "slice" else _undone(op, attr, value, before)
            steps = rest
        self._base = value
        self._writes.clear()
        self._note_place()

    @property
    def shape(self) -> Shape:
        return self._base.shape

    def outline(self, steps: Sequence[ViewStep]) -> np.ndarray | None:
        """An array without data that lies as the view `steps` does, as far as that is known."""
        return None if self.layout is None else view_outline(self._base.type, self.layout.strides, steps)

    def assumed(self, steps: Sequence[ViewStep]) -> np.ndarray | None:
        """As `view_outline`, of memory in C order where its layout is not known."""
        return view_outline(self._base.type, (self.layout or IN_ORDER).strides, steps)

    def keeps(self, steps: Sequence[ViewStep], shape: Shape) -> bool:
        """Is the view `steps`, reshaped, still a view, and no copy?"""
        if not steps and (self.layout or IN_ORDER).strides is None:
            return True
        array = self.assumed(steps)
        return array is not None and reshaped_view(array, shape) is not None

    def relied(self) -> frozenset[int]:
        """The arguments whose layout decides this one's. TraceError where it is not known."""
        if self.layout is None:
            raise TraceError(
                "what is a view here, and what a copy, depends on how NumPy laid out a computed array, which is not "
                "known of this one. Copy it into C order before (x.copy()), or write through the array itself"
            )
        return self.layout.arguments

    def origins(self) -> Iterator[tuple[Storage, int]]:
        """The memory that this was copied from, what that was copied from, and so on, each with its version then."""
        origin = self.origin
        while origin is not None:
            yield origin
            origin = origin[0].origin

    def doubted(self) -> frozenset[int]:
        """The arguments whose layout decides the present value: something has changed that this may be a view of, or a
        view of this, in another layout."""
        doubted = [self] if self.copies else []
        for source, version in self.origins():
            if source.version != version or any(copy is not self for copy in source.copies):
                doubted.append(source)
        return frozenset[int]().union(*(source.relied() for source in doubted))

    def _slice(self, wanted: Ranges) -> Node | None:
        """The slice `wanted`, unless the writes since cover parts of it."""
        write = self._writes.covering(wanted)
        if write is None:
            return tidy.slice_(self._base, wanted)
        ranges, value = write
        inside = _within(wanted, ranges)
        return None if inside is None else tidy.slice_(value, inside)


def viewed_by(value: Node, steps: Sequence[ViewStep]) -> Node:
    """The view `steps` of `value`."""
    for op, attr in steps:
        value = tidy.VIEWS[op](value, attr)
    return value


def _taken_first(shape: Shape, steps: Sequence[ViewStep]) -> Sequence[ViewStep]:
    """The view `steps` of an array of `shape`, for a write that changes less: where they are a slice, and of it the row
    that scalars select, as the same row of the array, if that is smaller, and then a slice of it."""
    ops = [op for op, _ in steps[:3]]
    index = ops.index("take") if "take" in ops else 0
    if ops[:index] not in (["slice"], ["slice", "squeeze"]) or steps[index][1][3].shape:
        return steps
    ranges, (order, place, joined, indices) = steps[0][1], steps[index][1]
    kept = extents_of(ranges)
    seen = steps[1][1] if index == 2 else kept
    of_seen = dict(zip(*([axis for axis, n in enumerate(s) if n != 1] for s in (seen, kept)), strict=True))
    chosen = order[place : place + 1 + len(order) - len(joined)]
    if not of_seen.keys() >= {*chosen} or any(kept[of_seen[axis]] != shape[of_seen[axis]] for axis in chosen):
        return steps
    axes = [of_seen[axis] for axis in chosen]
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    row = [shape[axis] for axis in rest]
    if math.prod(row) >= math.prod(kept):
        return steps
    first = axes[0] if axes == [*range(axes[0], axes[0] + len(axes))] else 0
    pick = [*rest[:first], *axes, *rest[first:]], first, (*row[:first], joined[place], *row[first:]), indices
    left = (*joined[:place], *joined[place + 1 :])
    inside = tuple([ranges[axis] for axis in rest])
    return [("take", pick), ("slice", inside), ("squeeze", left), *steps[index + 1 :]]


def _undone(op: str, attr: Any, value: Node, before: Node) -> Node:
    """What `before` becomes when its view by `op` becomes `value`."""
    if op in ("reshape", "squeeze", "flat"):
        return tidy.reshape(value, before.shape)
    if op == "transpose":
        return tidy.transpose(value, [attr.index(axis) for axis in range(len(attr))])
    if op == "flip":
        return tidy.flip(value, attr)
    if op in ("real", "imag"):
        other = tidy.complex_part("imag" if op == "real" else "real", before)
        return node("complex", (value, other) if op == "real" else (other, value))
    if op == "bitcast":
        return node("bitcast", (value,), (before.dtype,))
    if op == "take":
        return tidy.scatter(before, attr, value)
    raise TraceError(f"a write through a view by {op} cannot be traced: write to the array itself")


def _within(inner: Ranges, outer: Ranges) -> Ranges | None:
    """`inner` as a slice of the slice `outer`, or None when it leaves it."""
    ranges = []
    for r, s in zip((range(*x) for x in inner), (range(*x) for x in outer), strict=True):
        if r and (r[0] not in s or r[-1] not in s or (len(r) > 1 and r.step % s.step)):
            return None
        ranges.append((s.index(r[0]), s.index(r[-1]) + 1, r.step // s.step or 1) if r else (0, 0, 1))
    return tuple(ranges)
