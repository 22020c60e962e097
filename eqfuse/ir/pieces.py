"""Arrays joined of pieces: how a concatenation of like values becomes one value of concatenations, and how a view of a
concatenation becomes one of views.

In: concatenations and padded arrays. Out: equal nodes, of which the pieces are what the caller makes of them. Used by
`views.push_views`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from eqfuse.ir.graph import Node, node
from eqfuse.ops import Role
from eqfuse.ops.types import Shape, with_entry
from eqfuse.ops.updates import Ranges

Pieces = tuple[Node, ...]
PieceView = tuple[Node, Node]  # a piece, and the view of it that is wanted


def places_within(places: range, start: int, extent: int) -> range:
    """Those of `places`, which ascend, that lie in `extent` places from `start` on, counted from there."""
    inside = places[bisect_left(places, start) : bisect_left(places, start + extent)]
    return range(inside.start - start, inside.stop - start, inside.step)


def joined(pieces: Sequence[Node], axis: int) -> Node:
    """The concatenation of `pieces`. Where these are the same work on other arrays, that work on joined arrays."""
    inner = [a for p in pieces for a in (p.args if p.op == "concat" and p.attr("axis") == axis else (p,))]
    group = tuple([a for a in inner if a.shape[axis]]) or tuple(inner[:1])
    if len(group) == 1:
        return group[0]
    done: dict[Pieces, Node] = {}
    stack = [group]
    while stack:
        top = stack[-1]
        arguments = [] if top in done else _arguments(top, axis)
        missing = [a for a in arguments if isinstance(a, tuple) and a not in done]
        if missing:
            stack += missing
            continue
        stack.pop()
        if arguments:
            done[top] = top[0].over([done[a] if isinstance(a, tuple) else a for a in arguments])
        elif top not in done:
            done[top] = node("concat", top, (axis,))
    return done[group]


def _arguments(group: Pieces, axis: int) -> list[Node | Pieces]:
    """The arguments of the one operator that gives all of `group`: those that all share, and those to be joined; none
    where there is no such operator."""
    first = group[0]
    same = all((n.op, n.attrs, len(n.args)) == (first.op, first.attrs, len(first.args)) for n in group)
    if first.row.role is not Role.ELEMENTWISE or not same:
        return []
    extents, arguments = [n.shape[axis] for n in group], list[Node | Pieces]()
    for args in zip(*[n.args for n in group], strict=True):
        if len({*args}) == 1 and args[0].type.extent(axis) == 1:
            arguments.append(args[0])
        elif _fit(args, axis) and [a.shape[axis] for a in args] == extents:
            arguments.append(args)
        else:
            return []
    return arguments if any(isinstance(a, tuple) for a in arguments) else []


def _fit(args: Pieces, axis: int) -> bool:
    shapes = {(a.dtype, *with_entry(a.shape, axis, 0)) for a in args if a.type.rank >= -axis}
    return len(shapes) == 1 and all(a.type.rank >= -axis for a in args)


def viewed(view: Node, whole: Shape, concat: Node) -> tuple[list[PieceView], int] | None:
    """`view` of the concatenation `concat`, which broadcasts to shape `whole`: the views of its pieces, and the axis
    along which these are joined. None where the view is none of the pieces.
    """
    (attr,), axis, rank = view.attrs, concat.attr("axis"), concat.type.rank
    assert isinstance(attr, tuple)
    if view.op == "slice":
        tail = zip(attr[len(attr) - rank :], concat.shape, whole[len(whole) - rank :], strict=True)
        return _sliced(concat, tuple(r if n == m else (0, n, 1) for r, n, m in tail)), axis
    if view.op == "flip":
        axes = tuple(a for a in attr if a >= -rank and concat.shape[a] > 1)
        pieces = concat.args[::-1] if axis in axes else concat.args
        return [(p, node("flip", (p,), (tuple(a for a in axes if p.shape[a] > 1),))) for p in pieces], axis
    if view.op == "transpose" and rank == len(whole):
        return [(p, view.over([p])) for p in concat.args], attr.index(rank + axis) - rank
    if view.op == "broadcast_to":
        shape, full = _lifted(concat.shape, len(attr)), _lifted(whole, len(attr))
        target = tuple(t if n == m else n for t, n, m in zip(attr, shape, full, strict=True))
        return [(p, node("broadcast_to", (p,), (with_entry(target, axis, p.shape[axis]),))) for p in concat.args], axis
    return None


def _lifted(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


def _sliced(concat: Node, ranges: Ranges) -> list[PieceView]:
    axis, start, views = concat.type.rank + concat.attr("axis"), 0, []
    for p in concat.args:
        taken = places_within(range(*ranges[axis]), start, p.shape[axis])
        start += p.shape[axis]
        if taken:
            views.append((p, _along(p, ranges, axis, (taken[0], taken[-1] + 1, taken.step))))
    return views or [(concat.args[0], _along(concat.args[0], ranges, axis, (0, 0, 1)))]


def _along(piece: Node, ranges: Ranges, axis: int, taken: tuple[int, int, int]) -> Node:
    """The slice `ranges` of `piece`, but for what is `taken` along `axis`."""
    return node("slice", (piece,), ((*ranges[:axis], taken, *ranges[axis + 1 :]),))
