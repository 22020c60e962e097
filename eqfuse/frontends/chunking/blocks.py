"""A region as loops over blocks.

In: a graph with a `Region`, and in how many blocks. Out: the graph with `scan`s, whose steps compute a block of each
large value: what is joined is a carry, what is stored is stacked. Rows that are left over are computed behind the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqfuse.dtypes import ADDED, FLOAT32, NARROW_FLOATS
from eqfuse.frontends.chunking.regions import Region
from eqfuse.frontends.chunking.splits import AxisSplit, resized
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.bodies import closed, stands_for
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.ir.loops import loop_results
from eqfuse.ops import Role
from eqfuse.ops.loops import INDEX_TYPE
from eqfuse.ops.types import TensorType

BlockInput = tuple[Node, int]  # a value of which blocks along an axis are read


class BlockLoops:
    """The loops of `region`, each over blocks of `size` of its units."""

    def __init__(self, region: Region, size: int) -> None:
        self.region, self.size = region, size
        self.count, self.left = divmod(region.units, size)
        self.new: dict[Node, Node] = {}  # what stands for the nodes of the graph

    def graph(self) -> Graph:
        """The whole graph, with the loops."""
        level, members = self.region.level, self.region.members | self.region.joined
        graph = self.region.users.graph
        for k in range(self.region.loops + 1):
            for n in graph.nodes:
                if level[n] == k and n not in members:
                    self.new[n] = n.over(self.new[a] for a in n.args) if n.args else n
            if k < self.region.loops:
                self._loop(k)
        return Graph(graph.inputs, tuple(self.new[o] for o in graph.outputs), graph.signature)

    def _loop(self, k: int) -> None:
        roots, needed, rows = self.region.roots(k), self.region.needed(k), self.region.rows(k)
        joined = [n for n in roots if n in self.region.joined]
        stored = [n for n in roots if n not in self.region.joined]
        totals, stacks = self._scan(needed, rows, joined, stored)
        if self.left:
            begin = self.region.units - self.left
            taken = {(n, axis): self._range(n, axis, begin, self.region.units) for n, axis in rows}
            rest = self._instance(needed, taken, self.left)
            totals = [_join(n, self.region.how[n], t, rest[n]) for n, t in zip(joined, totals, strict=True)]
            stacks = [self._behind(s, rest[n], n) for n, s in zip(stored, stacks, strict=True)]
        self.new |= zip(stored, stacks, strict=True)
        self.new |= {n: tidy.cast(t, n.dtype) for n, t in zip(joined, totals, strict=True)}

    def _scan(
        self, needed: Sequence[Node], rows: Sequence[BlockInput], joined: Sequence[Node], stored: Sequence[Node]
    ) -> tuple[list[Node], list[Node]]:
        """What the blocks of one size give together: the totals of `joined`, and `stored` values in order."""
        row_inputs = stands_for([TensorType(n.dtype, self._shape(n, axis, self.size)) for n, axis in rows])
        (index, *carries) = stands_for([INDEX_TYPE, *(TensorType(_wide(n.dtype), n.shape) for n in joined)])
        blocks = self._instance(needed, dict(zip(rows, row_inputs, strict=True)), self.size)
        after = [_join(n, self.region.how[n], c, blocks[n]) for n, c in zip(joined, carries, strict=True)]
        names = [("index", index), *((f"carry {i}", n) for i, n in enumerate(carries))]
        names += [(f"row {i}", n) for i, n in enumerate(row_inputs)]
        (body,), shared = closed(names, [[*after, *(blocks[n] for n in stored)]], again=self._views(needed))
        begun = [_nothing(self.region.how[n], c.type) for n, c in zip(joined, carries, strict=True)]
        args = [*begun, *(self._stack(*r) for r in rows), *shared]
        values = loop_results(node("scan", args, (body, len(carries), len(rows), self.count, 0, False)))
        stacks = [self._unstack(y, n) for n, y in zip(stored, values[len(joined) :], strict=True)]
        return values[: len(joined)], stacks

    def _views(self, needed: Sequence[Node]) -> set[Node]:
        """The views that the nodes `needed` read whole: kernels take them as they are."""
        views: set[Node] = set()
        read = [(a, axis) for n in needed for a, axis in zip(n.args, self.region.how[n].args, strict=True)]
        stack = [self.new[a] for a, axis in read if axis is None]
        while stack:
            n = stack.pop()
            if n not in views and n.row.role is Role.VIEW:
                views.add(n)
                stack += n.args
        return views

    def _instance(self, needed: Sequence[Node], rows: dict[BlockInput, Node], units: int) -> dict[Node, Node]:
        """The blocks of `needed`, of so many `units`, from those that are `rows`."""
        blocks: dict[Node, Node] = {}
        for n in needed:
            split = self.region.how[n]
            args = [
                self.new[a] if axis is None else rows[a, axis] if (a, axis) in rows else blocks[a]
                for a, axis in zip(n.args, split.args, strict=True)
            ]
            blocks[n] = resized(n, split, args, 0 if split.out is None else self._extent(n, split.out, units))
            expected = n.shape if split.out is None else self._shape(n, split.out, units)
            assert blocks[n].shape == expected, f"a block of {n} is {blocks[n]}"
        return blocks

    def _extent(self, n: Node, axis: int, units: int) -> int:
        return n.shape[axis] // self.region.units * units

    def _shape(self, n: Node, axis: int, units: int) -> tuple[int, ...]:
        return (*n.shape[:axis], self._extent(n, axis, units), *n.shape[axis + 1 :])

    def _range(self, n: Node, axis: int, begin: int, end: int) -> Node:
        """`n` from unit `begin` to `end`."""
        first, last = (self._extent(n, axis, units) for units in (begin, end))
        ranges = [(first, last, 1) if i == axis else (0, m, 1) for i, m in enumerate(n.shape)]
        return tidy.slice_(self.new[n], ranges)

    def _stack(self, n: Node, axis: int) -> Node:
        """The blocks of `n`, one behind the other along a first axis."""
        block = self._shape(n, axis, self.size)
        whole = self._range(n, axis, 0, self.count * self.size)
        split = tidy.reshape(whole, (*block[:axis], self.count, *block[axis:]))
        return tidy.transpose(split, [axis, *(a for a in range(len(split.shape)) if a != axis)])

    def _unstack(self, stacked: Node, n: Node) -> Node:
        """The blocks of `n` along its own axis."""
        axis = self.region.axis[n]
        moved = tidy.transpose(stacked, [*range(1, axis + 1), 0, *range(axis + 1, len(stacked.shape))])
        return tidy.reshape(moved, self._shape(n, axis, self.count * self.size))

    def _behind(self, before: Node, after: Node, n: Node) -> Node:
        """Both parts of `n` along its own axis."""
        return tidy.concat([before, after], self.region.axis[n] - len(n.shape))


def _wide(dtype: np.dtype) -> np.dtype:
    """In what partial results are joined: 16-bit floats in float32."""
    return FLOAT32 if dtype in NARROW_FLOATS else dtype


def _join(n: Node, split: AxisSplit, total: Node, block: Node) -> Node:
    assert split.joined is not None
    return node(split.joined, (total, tidy.cast(block, total.dtype)))


def _nothing(split: AxisSplit, t: TensorType) -> Node:
    """What joined to a value leaves it as it is."""
    assert split.joined is not None
    return tidy.broadcast_to(const(_IDENTITY[split.joined](t.dtype), t.dtype), t.shape)


def _extreme(dtype: np.dtype, sign: int) -> object:
    if dtype.kind == "f" or dtype in ADDED:
        return sign * np.inf
    if dtype.kind == "b":
        return sign > 0
    limits = np.iinfo(dtype)
    return limits.max if sign > 0 else limits.min


_IDENTITY = {
    "add": lambda dtype: -0.0 if dtype.kind in "f" else 0,  # (of sums of no other zeros than -0.0, too)
    "multiply": lambda dtype: 1, "logical_or": lambda dtype: False, "logical_and": lambda dtype: True,
    "maximum": lambda dtype: _extreme(dtype, -1), "minimum": lambda dtype: _extreme(dtype, 1),
}  # fmt: skip
