"""Views inside a kernel body, moved onto the arrays it reads: a kernel then takes them as strides or index maps.

In: a kernel body. Out: an equal body whose views stand on leaves only. Next stop: `emit`.
A view commutes with elementwise work: what the view does to the result, it does to every argument of full shape. So a
value that is read through several views is computed for each, and what it is made of for each of their chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any
from weakref import WeakKeyDictionary

from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, const, node, topological
from eqfuse.ir.pieces import joined, viewed
from eqfuse.ir.view_strides import strided
from eqfuse.ops import Role, row
from eqfuse.ops.index_map import moves_units
from eqfuse.ops.types import Shape, TensorType
from eqfuse.ops.updates import Ranges
from eqfuse.ops.views import extents_of

REPEATS = 16  # nodes made for each of a body, beyond which its work is repeated so often that no tiles make up for it


class TooManyCopies(Exception):
    """Moving views to the leaves would duplicate the work of a body too often, or cannot be done."""


# Of a node, itself over leaves behind views, or None where it is that already; and how many nodes were made for it.
_pushed: WeakKeyDictionary[Node, tuple[Node | None, int]] = WeakKeyDictionary()


def push_views(body: Graph) -> Graph:
    """`body` with views on leaves only; UnsupportedOp when a view stands on something it does not commute with, and
    `TooManyCopies` when it would be many times as large. What is padded, or has slices replaced, is joined of pieces,
    too. What bodies share is done once, as long as one of them is there."""
    new: dict[Node, Node] = {}
    left = _NodesLeft(REPEATS * len(body.nodes))
    for n in body.nodes:
        cached = _pushed.get(n)
        if cached is None:
            before = left.nodes
            new[n] = _pushed_over(n, [new[a] for a in n.args], left)
            _pushed[n] = (None if new[n] is n else new[n], before - left.nodes)
        else:
            left.spend(cached[1])
            new[n] = cached[0] or n
    return Graph(tuple(new.get(i, i) for i in body.inputs), tuple(new[o] for o in body.outputs))


def _pushed_over(n: Node, args: Sequence[Node], left: _NodesLeft) -> Node:
    """`n` over `args`, which have views on leaves only, as they are to have."""
    role = n.row.role
    if role is Role.VIEW:
        return _taken(n, args[0], left)
    if role is Role.ELEMENTWISE:
        return _without_broadcasts(n, args)
    if n.op == "concat":
        return joined(args, n.attr("axis"))
    return n.over(args) if n.row.pieces is None else _laid_over(n, args, left)


def may_be_pushed(n: Node) -> bool:
    """Does `push_views` change `n`, a view on a leaf apart?"""
    role = n.row.role
    if role is Role.VIEW:
        return computes(n.args[0])
    if role is Role.ELEMENTWISE:
        return any(map(_broadcasts, n.args)) and _without_broadcasts(n, n.args) is not n
    return n.row.pieces is not None and n.op != "concat"


def leaf_chain(n: Node) -> tuple[Node, tuple[Node, ...]]:
    """The node below a chain of views that ends in `n`, and the chain, nearest to it first."""
    chain: list[Node] = []
    while n.row.role is Role.VIEW:
        chain.append(n)
        n = n.args[0]
    return n, tuple(chain[::-1])


def taken(array: Any, chain: Sequence[Node]) -> Any:
    """The view `chain` of `array`, which may lie on any device: views are called alike."""
    for n in chain:
        array = n.row.meaning(array, *n.attrs)
    return array


def computes(n: Node) -> bool:
    """Is `n` neither a leaf nor a view?"""
    return n.row.computes


def strides_after(source: TensorType, chain: Sequence[Node]) -> tuple[int, ...] | None:
    """Element strides of a C-ordered array of type `source` behind `chain`, or None when the chain has to copy."""
    view = strided(source.shape, chain)
    return view and view.strides


def _without_broadcasts(n: Node, args: Sequence[Node]) -> Node:
    """`n` on `args`, read before they are broadcast, or given axes of 1 in front, where `n` does that anyway: what is
    computed of an array and of the same one with other axes in front is one value."""
    bare = [a.args[0] if _broadcasts(a) else a for a in args]
    if bare != [*args]:
        bare_node = n.over(bare)
        if bare_node.shape == n.shape:
            return bare_node
    return n.over(args)


def _broadcasts(n: Node) -> bool:
    """Does `n` show what it reads as broadcasting does, or with fewer axes of 1 in front?"""
    if n.op == "reshape":
        return _without_units(n.args[0].shape) == _without_units(n.shape)
    return n.op == "broadcast_to"


def _without_units(shape: Shape) -> Shape:
    """`shape` without the axes of 1 in front."""
    return tuple(dropwhile(lambda extent: extent == 1, shape))


@dataclass
class _NodesLeft:
    """Nodes that may still be made."""

    nodes: int

    def spend(self, nodes: int) -> None:
        self.nodes -= nodes
        if self.nodes < 0:
            raise TooManyCopies


# Of a value that is computed, its views as they are taken on the leaves below it, as `_pushed` holds nodes.
_views: WeakKeyDictionary[Node, dict[tuple, tuple[Node | None, int]]] = WeakKeyDictionary()


def _taken(view: Node, value: Node, left: _NodesLeft) -> Node:
    """The view `view` of `value`, taken on the leaves below it. What bodies share is done once."""
    if not computes(value):
        return _taken_anew(view, value, left)
    views, key = _views.setdefault(value, {}), (view.op, view.attrs)
    if key in views:
        shown, spent = views[key]
        left.spend(spent)
        return shown or value
    before = left.nodes
    shown = _taken_anew(view, value, left)
    views[key] = None if shown is value else shown, before - left.nodes
    return shown


def _taken_anew(view: Node, value: Node, left: _NodesLeft) -> Node:
    whole, rank, region = value.shape, len(value.shape), _region(value)
    left.spend(len(region))
    pushed: dict[Node, Node] = {}
    for n in region:
        role = n.row.role
        if n.type.size == 1 and len(n.shape) < rank and len(n.shape) <= len(view.shape) and view.op != "broadcast_to":
            pushed[n] = n
        elif role is Role.ELEMENTWISE:
            pushed[n] = n.over(pushed[a] for a in n.args)
        elif role in (Role.LEAF, Role.VIEW):
            pushed[n] = _on_leaf(view, whole, n)
        elif n.op == "concat":
            pushed[n] = _on_pieces(view, whole, n, left)
        elif role is Role.GATHER:
            raise TooManyCopies
        else:
            raise UnsupportedOp(f"a kernel cannot take {view.op} of the result of {n.op}: store that result first")
    if pushed[value].shape != view.shape:
        raise UnsupportedOp(
            f"{view.op} of {value.op} {value.type} cannot be taken on the arrays it reads: store its result first"
        )
    return pushed[value]


def _on_pieces(view: Node, whole: Shape, concat: Node, left: _NodesLeft) -> Node:
    """The concatenation `concat`, which broadcasts to shape `whole`, as `view` of the whole shows it."""
    split = viewed(view, whole, concat)
    if split is None:
        raise TooManyCopies
    parts, axis = split
    return joined([_taken(v, p, left) for p, v in parts], axis)


def _laid_over(n: Node, args: Sequence[Node], left: _NodesLeft) -> Node:
    """`n`, whose pieces lie over one another, as concatenations of `args`: the last piece is all that others leave.
    Where it is one number, parts are joined along the last axis at last: cells of loops are then alike. Else whole rows
    of it are joined at last: they are read in one run."""
    *pieces, (ground, _, _) = n.pieces
    base, axes = args[ground], [*range(n.type.rank)]
    if base.shape != n.shape:
        wanted = node("broadcast_to", (base,), (n.shape,))
        base, axes = _taken(wanted, base, left) if computes(base) else wanted, axes[::-1]
    for argument, ranges, _ in reversed(pieces):
        base = _replaced(base, args[argument], ranges, axes, left)
    return base


def _replaced(base: Node, value: Node, ranges: Ranges, axes: Sequence[int], left: _NodesLeft) -> Node:
    """`base` with `value` where the slice `ranges`, which has no steps, is: joined along the last of `axes` first."""
    whole = [(0, extent, 1) for extent in base.shape]
    axis = next((a for a in axes if (*ranges[a],) != whole[a]), None)
    if axis is None:
        return value

    def part(start: int, stop: int) -> Node:
        cut = node("slice", (base,), ((*whole[:axis], (start, stop, 1), *whole[axis + 1 :]),))
        return _taken(cut, base, left)

    start, stop, _ = ranges[axis]
    inside = (*ranges[:axis], (0, stop - start, 1), *ranges[axis + 1 :])
    inner = _replaced(part(start, stop), value, inside, axes, left)
    return joined([part(0, start), inner, part(stop, base.shape[axis])], axis - base.type.rank)


def _region(root: Node) -> list[Node]:
    """The elementwise nodes below `root` and the nodes they end in, arguments first."""
    if root.row.role is not Role.ELEMENTWISE:
        return [root]
    below: dict[Node, tuple[Node, ...]] = {}
    stack = [root]
    while stack:
        n = stack.pop()
        if n not in below:
            below[n] = n.args if n.row.role is Role.ELEMENTWISE else ()
            stack.extend(below[n])
    return [n for n in topological([root]) if n in below]


def _on_leaf(view: Node, whole: Shape, leaf: Node) -> Node:
    """`leaf`, a leaf behind views that broadcasts to shape `whole`, as `view` of the whole shows it."""
    (attr,) = view.attrs
    assert isinstance(attr, tuple)
    if view.op == "reshape":
        if leaf.shape == whole:
            return _view("reshape", leaf, attr)
        if leaf.type.size == 1:
            return _view("reshape", leaf, ())
        if moves_units(whole, attr):
            shape = (1,) * (len(whole) - len(leaf.shape)) + leaf.shape
            kept = iter([n for n, extent in zip(shape, whole, strict=True) if extent != 1])
            return _view("reshape", leaf, tuple([1 if extent == 1 else next(kept) for extent in attr]))
        raise UnsupportedOp(f"a reshape to {attr} of {whole} cannot be taken on an array of shape {leaf.shape}")
    shape = (1,) * (len(whole) - len(leaf.shape)) + leaf.shape
    if view.op == "broadcast_to":
        shape = (1,) * (len(attr) - len(shape)) + shape
        full = (1,) * (len(attr) - len(whole)) + whole
        target = tuple(t if n == f else n for t, n, f in zip(attr, shape, full, strict=True))
        return _view("broadcast_to", leaf, target)
    if shape != leaf.shape:
        leaf = _view("reshape", leaf, shape)
    if view.op == "slice":
        ranges = (r if n == f else (0, n, 1) for r, n, f in zip(attr, shape, whole, strict=True))
        return _view("slice", leaf, tuple(ranges))
    if view.op == "flip":
        axes = tuple(a for a in attr if shape[a] > 1)
        return _view("flip", leaf, axes)
    if view.op == "sliding_window":
        attr = tuple((a, n if shape[a] == whole[a] else 1) for a, n in attr)
    return _view(view.op, leaf, attr)


def _view(op: str, leaf: Node, attr: tuple) -> Node:
    if leaf.op == "const":
        return const(row(op).meaning(leaf.literal.array, attr))
    if op == "reshape" and leaf.op == "reshape":
        leaf = leaf.args[0]
    if op == "slice" and leaf.op == "broadcast_to" and leaf.args[0].type.size == 1:
        return node("broadcast_to", leaf.args, (extents_of(attr),))
    if op == leaf.op == "slice":
        leaf, attr = leaf.args[0], _slice_of_slice(leaf.attr("ranges"), attr)
    if op == leaf.op == "transpose":
        leaf, attr = leaf.args[0], tuple([leaf.attr("axes")[a] for a in attr])
    if op == leaf.op == "flip":
        leaf, attr = leaf.args[0], tuple(sorted({*leaf.attr("axes")} ^ {*attr}))
    if (op == "flip" and not attr) or (op == "transpose" and attr == tuple(range(len(attr)))):
        return leaf
    if op in ("reshape", "broadcast_to") and leaf.shape == attr:
        return leaf
    return node(op, (leaf,), (attr,))


def _slice_of_slice(first: Ranges, second: Ranges) -> Ranges:
    """The one slice that takes `second` of `first`, so that chains of slices that meet are one node."""
    taken = [range(*f)[slice(*s)] for f, s in zip(first, second, strict=True)]
    return tuple((r[0], r[-1] + 1, r.step) if r else (0, 0, 1) for r in taken)
