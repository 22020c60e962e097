"""Joined arrays cut at their seams: in each cell of the space an element lies in one known piece.

In: a body with views on leaves alone, and its space. Out: `Cell`s: for each part of the space the body without
concatenations, and where the arrays that it reads lie. Next stop: `forms.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import NamedTuple

from eqfuse.emit.c.nest import Access, aligned, leaf_access
from eqfuse.emit.c.passes import is_known_number, is_load, is_reduction
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, input_node, node, substitute, topological
from eqfuse.ir.views import leaf_chain
from eqfuse.ops import Role
from eqfuse.ops.types import Shape, TensorType

KERNEL_CELLS = 128  # of a kernel
MOST_NODES = 512  # of all bodies that cells compute, where there are several
CODES = 4 * KERNEL_CELLS - 1  # numbers for what cells have of a concatenation: two for each piece at most
CellBox = tuple[tuple[int, int], ...]  # along each axis of the space, where it begins and ends


class Read(NamedTuple):
    """Elements of the array `leaf`, at `access` along the space as a whole. `seams`: the axes of the space along which
    it is joined with others. Of what is gathered, `extent` places lie `stride` elements apart along the gathered axis.
    """

    leaf: Node
    access: Access
    seams: frozenset[int] = frozenset()
    extent: int = 0
    stride: int = 0


class Cell(NamedTuple):
    """A part of the space. `body`: what is computed there, of inputs that stand for elements read, by `reads`; all
    have the shape of the space, whatever of it they vary along. `reductions`: those of the whole body, in its order."""

    box: CellBox
    body: Graph
    reductions: tuple[Node, ...]
    reads: dict[Node, Read]

    @property
    def size(self) -> int:
        return math.prod(high - low for low, high in self.box)


def is_map(n: Node) -> bool:
    """Does `n` join arrays, or gather?"""
    return n.row.role in (Role.PIECES, Role.GATHER)


def cells_of(body: Graph, space: Shape) -> list[Cell]:
    """The cells of `body`. UnsupportedOp where there are too many."""
    walk = _CellWalk(body, space)
    if math.prod(len(places) - 1 for places in walk.seams) > KERNEL_CELLS:
        raise UnsupportedOp(f"the arrays that it joins have more than {KERNEL_CELLS} seams: store one of them first")
    try:
        return list(walk.cells())
    finally:
        for spot in walk.spots.values():
            spot.nodes.clear()  # which hold spots: they would stay until the garbage collector finds the circle


def check_few(sizes: Collection[int]) -> None:
    """UnsupportedOp where cells compute several bodies, which have `sizes`, and too many nodes in all."""
    if len(sizes) > 1 and sum(sizes) > MOST_NODES:
        raise UnsupportedOp("the pieces of the arrays that it joins meet in too many ways: store one of them first")


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

    def argument(self, index: int) -> _Value:
        return _Value(self.n.args[index], self.starts, self.path, self.lift, self.seams)


class _CellNode(NamedTuple):
    """What a spot is in a cell, and what reads each of the inputs that it is computed from there."""

    node: Node
    readers: dict[Node, _Spot]


@dataclass(eq=False, slots=True)
class _Spot:
    """A `value`, and what is the same of it in all cells: what it is computed from; of a concatenation where its pieces
    begin along its axis, and these, and its `own` bits in the code of a cell; what it reads. `mask`: the bits of all
    concatenations that it is computed from, by which its `nodes` differ; negative until it is known.
    """

    value: _Value
    is_load: bool
    below: list[_Spot] | None = None
    axis: int = 0
    pieces: list[tuple[int, _Spot]] = field(default_factory=list)
    read: tuple[Node, Read] | None = None
    own: int = 0
    codes: dict[Node | _Spot, int] = field(default_factory=dict)
    mask: int = -1
    nodes: dict[int, _CellNode] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _CellBody:
    """What cells compute that lie in pieces which are read alike, and the spots of which they read elements."""

    body: Graph
    reductions: tuple[Node, ...]
    reading: tuple[_Spot, ...]


@dataclass
class _CellWalk:
    body: Graph
    space: Shape
    numbers: dict[Node, int] = field(init=False)
    spots: dict[_Value, _Spot] = field(default_factory=dict)
    roots: list[_Spot] = field(init=False)
    joined: list[_Spot] = field(default_factory=list)  # the concatenations that are not pieces of others
    seams: list[list[int]] = field(init=False)  # where cells begin along each axis, and where the last one ends
    parted: frozenset[int] = field(init=False)  # the axes of several cells

    def __post_init__(self) -> None:
        self.numbers = {n: i for i, n in enumerate(self.body.nodes)}
        self.roots = [self._root(o) for o in self.body.outputs]
        self.seams = self._seams()
        self.parted = frozenset([axis for axis, places in enumerate(self.seams) if len(places) > 2])

    def _spot(self, value: _Value) -> _Spot:
        spot = self.spots.get(value)
        if spot is None:
            spot = self.spots[value] = _Spot(value, is_load(value.n))
        return spot

    def _root(self, n: Node) -> _Spot:
        return self._spot(_Value(n, (0,) * len(self.space)))

    def _seams(self) -> list[list[int]]:
        seams: list[set[int]] = [{0, extent} for extent in self.space]
        met = set(stack := list(self.roots))
        while stack:
            spot = stack.pop()
            for below in self._below(spot):
                if below not in met:
                    met.add(below)
                    stack.append(below)
            if spot.pieces:
                if not spot.value.is_piece:
                    spot.own = CODES << len(self.joined) * CODES.bit_length()
                    self.joined.append(spot)
                seams[spot.axis].update([start for start, _ in spot.pieces[1:]])
        return [sorted(places) if len(places) > 1 else [0, 0] for places in seams]

    def _below(self, spot: _Spot) -> list[_Spot]:
        """What `spot` is computed from, in any cell."""
        if spot.below is None:
            spot.below = [self._spot(v) for v in self._arguments(spot.value)]
            if spot.value.n.op == "concat":
                spot.axis = self._axis(spot.value)
                spot.pieces = [(below.value.starts[spot.axis], below) for below in spot.below]
                spot.below = [below for below in spot.below if not below.is_load]
        return spot.below

    def _axis(self, value: _Value) -> int:
        return len(self.space) + value.n.attr("axis") - value.lift

    def _arguments(self, value: _Value) -> list[_Value]:
        n = value.n
        if is_load(n):
            return []
        if n.op == "concat":
            return self._pieces(value)
        if n.row.role is Role.GATHER:
            return [self._places(value)]
        return [value.argument(i) for i in range(len(n.args))]

    def _pieces(self, value: _Value) -> list[_Value]:
        """The pieces of a concatenation, one after another."""
        axis, own = self._axis(value), value.n.attr("axis")
        path = value.path if value.is_piece else (*value.path, self.numbers[value.n])
        start, seams, pieces = value.starts[axis], value.seams | {axis}, []
        for a in value.n.args:
            starts = (*value.starts[:axis], start, *value.starts[axis + 1 :])
            pieces.append(_Value(a, starts, path, value.lift, seams, True))
            start += a.shape[own]
        return [p for p in pieces if p.n.shape[own]] or pieces[:1]

    def _places(self, value: _Value) -> _Value:
        """The indices by which `value` is gathered."""
        source = value.n.args[0]
        after = source.type.rank if value.n.row.by_element else source.type.rank + value.n.attr("axis") + 1
        lift = value.lift + source.type.rank - after
        return value.argument(1)._replace(path=(*value.path, self.numbers[value.n]), lift=lift)

    def cells(self) -> Iterator[Cell]:
        bodies: dict[int, _CellBody] = {}
        sizes: dict[tuple[Node, ...], int] = {}
        for box, chosen, code in self._coded():
            if code not in bodies:
                bodies[code] = self._computed(chosen, code)
                sizes[bodies[code].body.outputs] = len(bodies[code].body.nodes)
                check_few(sizes.values())
            computed = bodies[code]
            reads = dict([self._read(chosen.get(spot, spot)) for spot in computed.reading])
            yield Cell(box, computed.body, computed.reductions, reads)

    def _coded(self) -> list[tuple[CellBox, dict[_Spot, _Spot], int]]:
        """The cells, each with the piece of each concatenation that lies there, and a number for what it computes.
        UnsupportedOp where there would be too many nodes if each number were a body with all operators."""
        operators = sum([n.row.computes and n.op != "concat" for n in self.body.nodes])
        cells, codes = [], set[int]()
        for box in product(*[[*pairwise(places)] for places in self.seams]):
            chosen = {spot: _piece(spot, box) for spot in self.joined}
            code = sum([self._code(spot, piece) for spot, piece in chosen.items()])
            if code not in codes:
                codes.add(code)
                check_few([operators] * len(codes))
            cells.append((box, chosen, code))
        return cells

    def _code(self, spot: _Spot, piece: _Spot) -> int:
        """In the bits of a concatenation, a number of the piece that a cell has of it; that of others read alike."""
        code = spot.codes.get(piece)
        if code is None:
            alike = self._read(piece)[0] if piece.is_load else piece
            code = spot.codes[piece] = spot.codes.setdefault(alike, (len(spot.codes) + 1) * (spot.own & -spot.own))
        return code

    def _computed(self, chosen: dict[_Spot, _Spot], code: int) -> _CellBody:
        """What is computed in a cell, of the piece `chosen` of each concatenation; `code` stands for all of them."""
        roots = [self._over(root, chosen, code) for root in self.roots]
        outputs, readers = [part.node for part in roots], _merged([part.readers for part in roots])
        reductions = tuple([self._over(self._root(n), chosen, code).node for n in self.body.nodes if is_reduction(n)])
        if len({*reductions}) < len(reductions):
            raise UnsupportedOp("two reductions are one where the pieces that they read meet: store one of them first")
        inputs = tuple([n for n in topological(outputs) if n.op == "input"])
        return _CellBody(Graph(inputs, tuple(outputs)), reductions, tuple([readers[n] for n in inputs]))

    def _over(self, root: _Spot, chosen: dict[_Spot, _Spot], code: int) -> _CellNode:
        """What `root` is in a cell. Cells that have the same pieces below a spot share what it is."""
        self._mask(root)  # and those of what it is computed from, but for pieces that are loads
        stack = [root]
        while stack:
            spot = stack[-1]
            key = code & spot.mask
            if key not in spot.nodes:
                below = [chosen[spot]] if spot.pieces else self._below(spot)
                missing = [s for s in below if not ((s.is_load and spot.pieces) or code & s.mask in s.nodes)]
                if missing:
                    stack += missing
                    continue
                spot.nodes[key] = self._cell_node(spot, below, code)
            stack.pop()
        return root.nodes[code & root.mask]

    def _mask(self, root: _Spot) -> int:
        """The bits of all concatenations that `root` is computed from."""
        stack = [root]
        while root.mask < 0:
            spot = stack[-1]
            below = [*self._below(spot), *[piece for _, piece in spot.pieces if not piece.is_load]]
            missing = [s for s in below if s.mask < 0]
            if missing:
                stack += missing
                continue
            spot.mask = spot.own
            for s in below:
                spot.mask |= s.mask
            stack.pop()
        return root.mask

    def _cell_node(self, spot: _Spot, below: list[_Spot], code: int) -> _CellNode:
        value, n = spot.value, spot.value.n
        if spot.is_load and is_known_number(n):
            return _CellNode(leaf_chain(n)[0] if value.path else n, {})
        if spot.pieces and not below[0].is_load:
            return below[0].nodes[code & below[0].mask]
        if spot.is_load or spot.pieces:
            read, _ = self._read(below[0] if spot.pieces else spot)
            return _CellNode(read, {read: spot})
        parts = [s.nodes[code & s.mask] for s in below]
        args, readers = [part.node for part in parts], _merged([part.readers for part in parts])
        if n.row.role is Role.GATHER:
            read, _ = self._read(spot)
            return _CellNode(node("take", (read, *args), (-1,)), {**readers, read: spot})
        if is_reduction(n) and args[0].shape != self.space:
            args = [self._spread(args[0])]
        return _CellNode(n.over(args), readers)

    def _spread(self, value: Node) -> Node:
        """What is made of numbers, and of values of rows, with an element for each of the space: a number outside of
        reductions is broadcast, as views are on leaves alone."""
        stack, met, new = [value], {value}, dict[Node, Node]()
        number = None
        while stack:
            n = stack.pop()
            if is_reduction(n):
                new[n] = n  # as it is
            elif is_known_number(n):
                number = n
            else:
                stack += [a for a in n.args if a not in met]
                met.update(n.args)
        if number is None:
            raise UnsupportedOp("a c kernel reduces no value of rows alone")
        (spread,) = substitute([value], {**new, number: node("broadcast_to", (number,), (self.space,))})
        return spread

    def _read(self, spot: _Spot) -> tuple[Node, Read]:
        """An input for the elements of an array, or for that which `spot` is gathered from, and where they lie."""
        if spot.read is None:
            spot.read = self._loaded(spot.value) if spot.is_load else self._gathered(spot.value)
        return spot.read

    def _loaded(self, value: _Value) -> tuple[Node, Read]:
        n = value.n
        path = value.path if value.is_piece else (*value.path, self.numbers[n])
        read = Read(leaf_chain(n)[0], self._placed(value, n.shape, leaf_access(n)))
        return self._entered(value, path, self.space, read)

    def _placed(self, value: _Value, shape: Shape, access: Access) -> Access:
        behind = value.lift
        whole = aligned(access.offset, (*access.strides, *(0,) * behind), (*shape, *(1,) * behind), self.space)
        before = sum(s * start for s, start in zip(whole.strides, value.starts, strict=True))
        return Access(whole.offset - before, whole.strides)

    def _gathered(self, value: _Value) -> tuple[Node, Read]:
        """An input along the axis of the places."""
        n = value.n
        source = n.args[0]
        axis, place = source.type.rank + n.attr("axis"), leaf_access(source)
        if not source.shape[axis]:
            raise UnsupportedOp("a c kernel gathers from no empty array")
        kept = 1 if n.row.by_element else n.args[1].type.rank
        strides = (*place.strides[:axis], *(0,) * kept, *place.strides[axis + 1 :])
        access = self._placed(value, n.shape, Access(place.offset, strides))
        leaf, _ = leaf_chain(source)
        read = Read(leaf, access, extent=source.shape[axis], stride=place.strides[axis])
        return self._entered(value, (*value.path, self.numbers[n]), (source.shape[axis],), read)

    def _entered(self, value: _Value, path: tuple[int, ...], shape: Shape, read: Read) -> tuple[Node, Read]:
        n = input_node(".".join(map(str, path)), TensorType(read.leaf.dtype, shape))
        return n, Read(read.leaf, read.access, value.seams & self.parted, read.extent, read.stride)


def _merged(readers: list[dict[Node, _Spot]]) -> dict[Node, _Spot]:
    several = [r for r in readers if r]
    return {n: spot for r in several for n, spot in r.items()} if len(several) > 1 else several[0] if several else {}


def _piece(spot: _Spot, box: CellBox) -> _Spot:
    """The piece of the concatenation `spot` that lies in `box`, which is no concatenation itself."""
    while spot.pieces:
        low, inside = box[spot.axis][0], spot.pieces[0][1]
        for start, piece in spot.pieces:
            if start > low:
                break
            inside = piece
        spot = inside
    return spot
