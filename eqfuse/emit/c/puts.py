"""An update as copies that C makes (`machine/c_loops.c`): several as one call, and those of loops without Python.

In: the NumPy kernel of one update. Out: its `calls`, one for each of its lines: first what it keeps of the array
before, then the values in turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqfuse.emit.numpy.source import Source
from eqfuse.ir.graph import Graph, Node, const
from eqfuse.ir.view_strides import StridedView, contiguous, strided
from eqfuse.ir.views import leaf_chain
from eqfuse.machine.c_loops import call_table, put_function
from eqfuse.ops.updates import Ranges, uncovered, whole_of

Axes = list[tuple[int, int, int]]  # extents, and from one to the next in the array and in the values


def note_puts(source: Source) -> None:
    """Let `source`, which NumPy runs, say what C does in its place, if it is an update that C can make."""
    if not is_put(source.body):
        return
    (n,) = source.body.computations
    writer = _PutWriter(source, n)
    if n.op == "scatter":
        writer.scatter()
    else:
        writer.slices()
        source.together = call_table
    source.calls = writer.calls


def is_put(body: Graph) -> bool:
    """Is it one update, of which C can make copies?"""
    n, *others = body.computations or [None]
    if n is None or others or len(body.outputs) > 1 or any(_strided(a) is None for a in n.args):
        return False
    return n.op == "slice_scatter" or (n.op == "scatter" and n.attr("mode") == "set" and _finds_places(n))


def _finds_places(n: Node) -> bool:
    """Are the places of the scatter `n` numbers that C reads, and its values rows at one distance?"""
    _, places, values = n.args
    in_rows = places.type.rank <= 1 or _lying(values).strides == contiguous(values.shape)
    return in_rows and not leaf_chain(places)[1] and places.dtype != np.uint64


def _strided(n: Node) -> StridedView | None:
    leaf, chain = leaf_chain(n)
    return strided(leaf.shape, chain) if leaf.dtype == n.dtype else None


class _PutWriter:
    def __init__(self, source: Source, n: Node) -> None:
        self._source, self._n = source, n
        self._size = n.dtype.itemsize
        self.calls: list[tuple[str, list[str], list[str]]] = []

    def slices(self) -> None:
        base, *values = self._n.args
        slices: Sequence[Ranges] = self._n.attr("slices")
        for ranges in uncovered(self._n.shape, tuple(slices)):
            self._put(base, ranges, ranges)
        for value, ranges in zip(values, slices, strict=True):
            self._put(value, ranges, whole_of(value.shape))

    def scatter(self) -> None:
        base, places, values = self._n.args
        axis, rank = self._n.type.rank + self._n.attr("axis"), places.type.rank
        self._put(base, whole_of(base.shape), whole_of(base.shape))
        lies, own = _lying(values), contiguous(base.shape)
        axes = _axes(
            [*base.shape[:axis], *base.shape[axis + 1 :]], [*own[:axis], *own[axis + 1 :]],
            [*lies.strides[:axis], *lies.strides[axis + rank :]],
        )  # fmt: skip
        apart = lies.strides[axis + rank - 1] if rank else 0
        table = (places.type.size, places.dtype.itemsize, places.dtype.kind == "i", base.shape[axis], own[axis], apart)
        self._call([self._leaf(values), self._leaf(places)], lies.first, 0, axes, table)

    def _put(self, value: Node, to: Ranges, taken: Ranges) -> None:
        lies, own, extents = _lying(value), contiguous(self._n.shape), [len(range(*r)) for r in to]
        axes = _axes(
            extents, [s * step for s, (_, _, step) in zip(own, to, strict=True)],
            [s * step for s, (_, _, step) in zip(lies.strides, taken, strict=True)],
        )  # fmt: skip
        first = lies.first + sum(start * s for (start, _, _), s in zip(taken, lies.strides, strict=True))
        self._call([self._leaf(value)], first, sum(r[0] * s for r, s in zip(to, own, strict=True)), axes)

    def _call(
        self, reads: list[str], first: int, to: int, axes: Axes, places: tuple[int, ...] = (0,) * 6
    ) -> None:
        """A call of `put`: it reads arrays in C order, that which it writes to among them."""
        size, (count, nbytes, signed, extent, place_to, place_from) = self._size, places
        words = [size, first * size, to * size, count, nbytes, signed, extent, place_to * size, place_from * size]
        words += [len(axes), *(word for n, a, b in axes for word in (n, a * size, b * size))]
        self._source.names["put"] = put_function()
        self.calls.append(("put", [*reads, "o0"], [self._source.leaf(const(np.array(words, np.int64)))]))

    def _leaf(self, n: Node) -> str:
        return self._source.leaf(leaf_chain(n)[0])


def _lying(n: Node) -> StridedView:
    lies = _strided(n)
    assert lies is not None, "is_put has asked"
    return lies


def _axes(extents: Sequence[int], to: Sequence[int], source: Sequence[int]) -> Axes:
    """Axes of more than one place, as few as both arrays allow."""
    axes: Axes = []
    for extent, step, read in zip(extents, to, source, strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1:] == (extent * step, extent * read):
            axes[-1] = axes[-1][0] * extent, step, read
        else:
            axes.append((extent, step, read))
    return axes
