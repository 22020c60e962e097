"""Along which axes operators compute block by block.

In: a node. Out: its `AxisSplit`s. Next stop: `regions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eqfuse.ir.graph import Node, node
from eqfuse.ops import Role

Axes = tuple[int | None, ...]


@dataclass(frozen=True)
class AxisSplit:
    """A block of the result along axis `out` is computed from blocks of the arguments along `args`, of which those at
    None are read whole. With `joined`, `out` is None: blocks give partial results, which that operator joins."""

    out: int | None
    args: Axes
    joined: str | None = None


def splits(n: Node) -> list[AxisSplit]:
    """The axes of `n`, from 0, along which it is computed block by block."""
    of_row = _BY_NAME.get(n.op) or _BY_ROLE.get(n.row.role)
    return [s for s in of_row(n) if any(a is not None for a in (s.out, *s.args))] if of_row else []


def resized(n: Node, split: AxisSplit, args: list[Node], extent: int) -> Node:
    """`n` over blocks `args`, for a result of `extent` along the axis of `split`."""
    attrs = n.attrs
    if split.out is not None and n.op in ("reshape", "broadcast_to"):
        attrs = (_with(n.shape, split.out, extent),)
    elif n.op == "slice":
        attrs = (_with(n.attr("ranges"), split.out, (0, extent, 1)),)
    return node(n.op, args, attrs)


def _with(values: tuple, index: int | None, value: object) -> tuple:
    return tuple(value if i == index else v for i, v in enumerate(values))


def _broadcasting(n: Node) -> Iterator[AxisSplit]:
    """Axes that are aligned from the last: arguments of extent 1 are read whole."""
    rank = len(n.shape)
    for out, extent in enumerate(n.shape):
        if extent > 1:
            yield AxisSplit(out, tuple(_aligned(a, out - rank, extent) for a in n.args))


def _aligned(a: Node, axis: int, extent: int) -> int | None:
    """The axis of `a` at `axis`, counted from its last; None where it has none of that `extent`."""
    position = axis + len(a.shape)
    return position if position >= 0 and a.shape[position] == extent else None


def _reduction(n: Node) -> Iterator[AxisSplit]:
    axes = {a + len(n.shape) for a in n.attr("axes")}
    joined = n.row.joined_by
    for axis, extent in enumerate(n.args[0].shape):
        if extent > 1 and axis not in axes:
            yield AxisSplit(axis, (axis,))
        elif extent > 1 and joined is not None:
            yield AxisSplit(None, (axis,), joined)


def _but(*attributes: str) -> Callable[[Node], Iterator[AxisSplit]]:
    """All axes of the first argument, of the same extents in the result, but those that `attributes` name."""

    def axis_splits(n: Node) -> Iterator[AxisSplit]:
        named = {a % len(n.shape) for name in attributes for a in _several(n.attr(name))}
        for axis, extent in enumerate(n.shape):
            if extent > 1 and axis not in named:
                yield AxisSplit(axis, (axis, *(None for _ in n.args[1:])))

    return axis_splits


def _several(axes: int | tuple[int, ...]) -> tuple[int, ...]:
    return (axes,) if isinstance(axes, int) else axes


def _transpose(n: Node) -> Iterator[AxisSplit]:
    return (AxisSplit(out, (source,)) for out, source in enumerate(n.attr("axes")) if n.shape[out] > 1)


def _reshape(n: Node) -> Iterator[AxisSplit]:
    """The outermost axis of each group of axes that keep their elements together."""
    before, after = n.args[0].shape, n.shape
    i = j = 0
    while i < len(before) and j < len(after):
        first, m, k = (i, j), before[i], after[j]
        i, j = i + 1, j + 1
        while m != k:
            if m < k and i < len(before):
                m, i = m * before[i], i + 1
            elif k < m and j < len(after):
                k, j = k * after[j], j + 1
            else:
                return
        source, target = _outermost(before, first[0], i), _outermost(after, first[1], j)
        if source is not None and target is not None:
            yield AxisSplit(target, (source,))


def _outermost(shape: tuple[int, ...], start: int, stop: int) -> int | None:
    """The first axis of more than one element."""
    return next((axis for axis in range(start, stop) if shape[axis] > 1), None)


def _slice(n: Node) -> Iterator[AxisSplit]:
    for axis, (extent, taken) in enumerate(zip(n.args[0].shape, n.attr("ranges"), strict=True)):
        if extent > 1 and taken == (0, extent, 1):
            yield AxisSplit(axis, (axis,))


def _pad(n: Node) -> Iterator[AxisSplit]:
    for axis, widths in enumerate(n.attr("widths")):
        if n.shape[axis] > 1 and widths == (0, 0):
            yield AxisSplit(axis, (axis, None))


def _concat(n: Node) -> Iterator[AxisSplit]:
    joined = n.attr("axis") % len(n.shape)
    return (
        AxisSplit(axis, (axis,) * len(n.args)) for axis, extent in enumerate(n.shape) if extent > 1 and axis != joined
    )


def _matmul(n: Node) -> Iterator[AxisSplit]:
    a, b = n.args
    rank = len(n.shape)
    for out in range(rank - 2):
        if n.shape[out] > 1:
            yield AxisSplit(out, tuple(_aligned(x, out - rank, n.shape[out]) for x in (a, b)))
    rows, inner, columns = len(a.shape) - 2, len(a.shape) - 1, len(b.shape) - 1
    yield AxisSplit(rank - 2, (rows, None))
    yield AxisSplit(rank - 1, (None, columns))
    yield AxisSplit(None, (inner, columns - 1), "add")


def _conv(n: Node) -> Iterator[AxisSplit]:
    """Images one after another, filters, and channels that are summed up."""
    yield AxisSplit(0, (0, None))
    if n.attr("groups") == 1:
        yield AxisSplit(1, (None, 0))
        yield AxisSplit(None, (1, 1), "add")


def _take(n: Node) -> Iterator[AxisSplit]:
    """Indices, and the axes that none is taken of."""
    x, indices = n.args
    axis, more = n.attr("axis") % len(x.shape), len(indices.shape)
    for i, extent in enumerate(x.shape):
        if i != axis and extent > 1:
            yield AxisSplit(i if i < axis else i + more - 1, (i, None))
    for i, extent in enumerate(indices.shape):
        if extent > 1:
            yield AxisSplit(axis + i, (None, i))


def _take_along_axis(n: Node) -> Iterator[AxisSplit]:
    axis = n.attr("axis") % len(n.shape)
    for i, extent in enumerate(n.shape):
        if extent > 1:
            yield AxisSplit(i, (None if i == axis else _aligned(n.args[0], i - len(n.shape), extent), i))


def _window(n: Node) -> Iterator[AxisSplit]:
    """The axes before those of the window."""
    for axis in range(len(n.shape) - len(n.attr("window"))):
        if n.shape[axis] > 1:
            yield AxisSplit(axis, (axis,))


_BY_ROLE: dict[Role, Callable[[Node], Iterator[AxisSplit]]] = {
    Role.ELEMENTWISE: _broadcasting, Role.REDUCTION: _reduction, Role.SCAN: _but("axis"), Role.WINDOW: _window,
}  # fmt: skip
_BY_NAME: dict[str, Callable[[Node], Iterator[AxisSplit]]] = {
    "transpose": _transpose, "reshape": _reshape, "broadcast_to": _broadcasting, "slice": _slice, "flip": _but("axes"),
    "concat": _concat, "pad": _pad, "take": _take, "take_along_axis": _take_along_axis, "matmul": _matmul,
    "conv": _conv, "sort": _but("axis"), "argsort": _but("axis"),
}  # fmt: skip
