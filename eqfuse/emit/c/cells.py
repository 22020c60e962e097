"""Joined arrays cut at their seams: in each cell of the space an element lies in one known piece.

In: a body with views on leaves alone, and its space. Out: `Cell`s: for each part of the space the body without
concatenations, and where the arrays that it reads lie. Next stop: `forms.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import NamedTuple

from eqfuse.emit.c.nest import Access, aligned, where
from eqfuse.emit.c.passes import is_load, is_number, is_reduction
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.ir.views import leaf_chain
from eqfuse.ops import Role, row
from eqfuse.ops.types import Shape, TensorType

MOST_CELLS = 128
Box = tuple[tuple[int, int], ...]  # along each axis of the space, where it begins and ends


@dataclass(frozen=True)
class Read:
    """Elements of the array `leaf`, at `access` along the space as a whole. `seams`: the axes of the space along which
    it is joined with others. Of what is gathered, `extent` places lie `stride` elements apart along the gathered axis.
    """

    leaf: Node
    access: Access
    seams: frozenset[int] = frozenset()
    extent: int = 0
    stride: int = 0


@dataclass(frozen=True)
class Cell:
    """A part of the space. `body`: what is computed there, of inputs that stand for elements read, by `reads`; all
    have the shape of the space, whatever of it they vary along. `reductions`: those of the whole body, in its order."""

    box: Box
    body: Graph
    reductions: tuple[Node, ...]
    reads: dict[Node, Read]

    @property
    def size(self) -> int:
        return math.prod(high - low for low, high in self.box)


def is_map(n: Node) -> bool:
    """Does `n` join arrays, or gather?"""
    return row(n.op).role in (Role.PIECES, Role.GATHER)


def cells_of(body: Graph, space: Shape) -> list[Cell]:
    """The cells of `body`. UnsupportedOp where there are too many."""
    walk = _Walk(body, space)
    if math.prod(len(places) - 1 for places in walk.seams) > MOST_CELLS:
        raise UnsupportedOp(f"the arrays that it joins have more than {MOST_CELLS} seams: store one of them first")
    return [walk.cell(box) for box in product(*[[*pairwise(places)] for places in walk.seams])]


class _Value(NamedTuple):
    """A node as it is met: `path`, the numbers of the concatenations and gathers that it is met in, of concatenations
    in one another the first; its last axis is the one `lift` axes before the last of the space, and it begins at
    `starts`. `is_piece` of a concatenation."""

    n: Node
    starts: tuple[int, ...]
    path: tuple[int, ...] = ()
    lift: int = 0
    seams: frozenset[int] = frozenset()
    is_piece: bool = False

    def argument(self, at: int) -> _Value:
        return self._replace(n=self.n.args[at], is_piece=False)


@dataclass
class _Walk:
    body: Graph
    space: Shape
    numbers: dict[Node, int] = field(init=False)
    seams: list[list[int]] = field(init=False)  # where cells begin along each axis, and where the last one ends
    parted: frozenset[int] = field(init=False)  # the axes of several cells
    pieces: dict[_Value, list[_Value]] = field(default_factory=dict)
    below: dict[_Value, list[_Value]] = field(default_factory=dict)  # of what is the same in all cells

    def __post_init__(self) -> None:
        self.numbers = {n: i for i, n in enumerate(self.body.nodes)}
        self.seams = self._seams()
        self.parted = frozenset([axis for axis, places in enumerate(self.seams) if len(places) > 2])

    def _root(self, n: Node) -> _Value:
        return _Value(n, (0,) * len(self.space))

    def _roots(self) -> list[_Value]:
        return [self._root(o) for o in self.body.outputs]

    def _seams(self) -> list[list[int]]:
        found: list[set[int]] = [{0, extent} for extent in self.space]
        met = set(stack := self._roots())
        while stack:
            value = stack.pop()
            for below in self._below(value):
                if below not in met:
                    met.add(below)
                    stack.append(below)
            if value.n.op == "concat":
                axis = self._axis(value)
                found[axis].update(piece.starts[axis] for piece in self._pieces(value)[1:])
        return [sorted(places) if len(places) > 1 else [0, 0] for places in found]

    def _axis(self, value: _Value) -> int:
        return len(self.space) + value.n.attr("axis") - value.lift

    def _pieces(self, value: _Value) -> list[_Value]:
        """The pieces of a concatenation, one after another."""
        known = self.pieces.get(value)
        if known is not None:
            return known
        axis, own = self._axis(value), value.n.attr("axis")
        path = value.path if value.is_piece else (*value.path, self.numbers[value.n])
        start, seams, found = value.starts[axis], value.seams | {axis}, []
        for a in value.n.args:
            starts = (*value.starts[:axis], start, *value.starts[axis + 1 :])
            found.append(_Value(a, starts, path, value.lift, seams, True))
            start += a.shape[own]
        made = self.pieces[value] = [p for p in found if p.n.shape[own]] or found[:1]
        return made

    def _piece(self, value: _Value, box: Box) -> _Value:
        """The piece that lies in `box`."""
        axis = self._axis(value)
        first, *others = self._pieces(value)
        return next((p for p in reversed(others) if p.starts[axis] <= box[axis][0]), first)

    def _below(self, value: _Value, box: Box | None = None) -> list[_Value]:
        """What `value` is computed from: in `box`, or anywhere."""
        if value.n.op == "concat":
            return [p for p in ([self._piece(value, box)] if box else self._pieces(value)) if not is_load(p.n)]
        found = self.below.get(value)
        if found is None:
            found = self.below[value] = self._arguments(value)
        return found

    def _arguments(self, value: _Value) -> list[_Value]:
        n = value.n
        if is_load(n):
            return []
        if row(n.op).role is Role.GATHER:
            return [self._places(value)]
        return [value.argument(at) for at in range(len(n.args))]

    def _places(self, value: _Value) -> _Value:
        """The indices by which `value` is gathered."""
        source = value.n.args[0]
        after = source.type.rank + value.n.attr("axis") + 1 if value.n.op == "take" else source.type.rank
        lift = value.lift + source.type.rank - after
        return value.argument(1)._replace(path=(*value.path, self.numbers[value.n]), lift=lift)

    def cell(self, box: Box) -> Cell:
        reads: dict[Node, Read] = {}
        made: dict[_Value, Node] = {}
        for value in self._finished(box):
            made[value] = self._made(value, box, made, reads)
        outputs = tuple([made[self._root(o)] for o in self.body.outputs])
        reductions = tuple([made[self._root(n)] for n in self.body.nodes if is_reduction(n)])
        if len({*reductions}) < len(reductions):
            raise UnsupportedOp("two reductions are one where the pieces that they read meet: store one of them first")
        return Cell(box, Graph(tuple(reads), outputs), reductions, reads)

    def _finished(self, box: Box) -> Iterator[_Value]:
        """What is needed in `box`, arguments first."""
        done: set[_Value] = set()
        stack = [(root, False) for root in reversed(self._roots())]
        while stack:
            value, ready = stack.pop()
            if value in done:
                continue
            below = [] if ready else [v for v in self._below(value, box) if v not in done]
            if below:
                stack += [(value, True), *[(v, False) for v in reversed(below)]]
            else:
                done.add(value)
                yield value

    def _made(self, value: _Value, box: Box, made: dict[_Value, Node], reads: dict[Node, Read]) -> Node:
        n = value.n
        below = self._below(value, box)
        if is_load(n):
            if is_number(n):
                return leaf_chain(n)[0] if value.path else n
            return self._read(value, (*value.path, self.numbers[n]), reads)
        if n.op == "concat":
            piece = self._piece(value, box)
            return self._read(piece, piece.path, reads) if is_load(piece.n) else made[piece]
        if row(n.op).role is Role.GATHER:
            return node("take", (self._gathered(value, reads), made[below[0]]), (-1,))
        if is_reduction(n) and made[below[0]].shape != self.space:
            raise UnsupportedOp("a c kernel reduces no array that is joined of numbers alone")
        return n.over([made[v] for v in below])

    def _read(self, value: _Value, path: tuple[int, ...], reads: dict[Node, Read]) -> Node:
        """An input for the elements of an array."""
        n = value.n
        read = Read(leaf_chain(n)[0], self._placed(value, n.shape, where(n)))
        return self._entered(value, path, self.space, read, reads)

    def _placed(self, value: _Value, shape: Shape, found: Access) -> Access:
        behind = value.lift
        whole = aligned(found.offset, (*found.strides, *(0,) * behind), (*shape, *(1,) * behind), self.space)
        before = sum(s * start for s, start in zip(whole.strides, value.starts, strict=True))
        return Access(whole.offset - before, whole.strides)

    def _gathered(self, value: _Value, reads: dict[Node, Read]) -> Node:
        """An input for the array that `value` is gathered from, along the axis of its places."""
        n, source = value.n, value.n.args[0]
        at, found = source.type.rank + n.attr("axis"), where(source)
        if not source.shape[at]:
            raise UnsupportedOp("a c kernel gathers from no empty array")
        kept = 1 if n.op == "take_along_axis" else n.args[1].type.rank
        strides = (*found.strides[:at], *(0,) * kept, *found.strides[at + 1 :])
        access = self._placed(value, n.shape, Access(found.offset, strides))
        leaf, _ = leaf_chain(source)
        read = Read(leaf, access, extent=source.shape[at], stride=found.strides[at])
        return self._entered(value, (*value.path, self.numbers[n]), (source.shape[at],), read, reads)

    def _entered(
        self, value: _Value, path: tuple[int, ...], shape: Shape, read: Read, reads: dict[Node, Read]
    ) -> Node:
        name = ".".join(map(str, path))
        made = input_node(name, TensorType(read.leaf.dtype, shape))
        reads[made] = replace(read, seams=value.seams & self.parted)
        return made
