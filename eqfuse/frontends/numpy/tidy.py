"""Node builders that keep graphs tidy: views merge with the views under them, and those that change nothing vanish.

In: nodes and attributes of the front-ends. Out: nodes. Used by the tracer and by everything that builds views.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.exceptions import ComplexWarning

from eqfuse.errors import user_level
from eqfuse.ir.graph import Node, const, node
from eqfuse.ops import row
from eqfuse.ops.elementwise import cast_array
from eqfuse.ops.types import Shape
from eqfuse.ops.views import extents_of


def cast(x: Node, dtype: np.dtype) -> Node:
    """`x` as `dtype`; scalar constants are cast at once. As NumPy, warns of an imaginary part that is lost."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind not in "bc":
        lost = "Casting complex values to real discards the imaginary part"
        warnings.warn(lost, ComplexWarning, stacklevel=user_level())
        return cast(complex_part("real", x), dtype)
    if x.op == "const" and x.shape == ():
        return const(cast_array(x.literal.array, dtype))
    if x.op == "broadcast_to" and x.args[0].shape == ():
        return broadcast_to(cast(x.args[0], dtype), x.shape)
    return node("cast", (x,), (dtype,))


def complex_part(name: str, x: Node) -> Node:
    """The ``real`` or ``imag`` part of a complex `x`."""
    if x.op == "complex":
        return broadcast_to(x.args[name == "imag"], x.shape)
    return node(name, (x,))


def tidy_elementwise(name: str, args: Sequence[Node]) -> Node:
    """The elementwise operator `name`, which broadcasts by itself what was spread from a scalar before, and takes what
    was reduced over all axes with these, of extent 1."""
    scalars = [a.args[0] if a.op == "broadcast_to" and a.args[0].shape == () else a for a in args]
    rank = max([a.type.rank for a in scalars], default=0)
    result = node(name, [_with_axes(a, rank) for a in scalars] if name != "power" else scalars)
    return result if scalars == list(args) else broadcast_to(result, row(name).type([a.type for a in args], ()).shape)


def _with_axes(x: Node, rank: int) -> Node:
    """What the scalar `x` was before its axes, of extent 1, were taken away, if these are no more than `rank`."""
    return x.args[0] if x.op == "reshape" and x.shape == () and x.args[0].type.rank <= rank else x


def reshape(x: Node, shape: Shape) -> Node:
    if x.op == "reshape":
        (x,) = x.args
    return x if x.shape == shape else node("reshape", (x,), (shape,))


def transpose(x: Node, axes: Sequence[int]) -> Node:
    """`x` with axis `axes[i]` at place i (axes count from 0)."""
    if x.op == "transpose":
        inner = x.attr("axes")
        axes, (x,) = [inner[a] for a in axes], x.args
    return x if list(axes) == list(range(len(axes))) else node("transpose", (x,), (tuple(axes),))


def broadcast_to(x: Node, shape: Shape) -> Node:
    if x.op == "broadcast_to":
        (x,) = x.args
    return x if x.shape == shape else node("broadcast_to", (x,), (shape,))


def slice_(x: Node, ranges: Sequence[tuple[int, int, int]]) -> Node:
    """`x[start:stop:step]` per axis, ranges canonical; a slice of a slice is one slice of the original, and of what is
    padded one of what lies inside, or the border alone."""
    if x.op == "broadcast_to" and x.args[0].shape == ():
        return broadcast_to(x, extents_of(ranges))
    if x.op == "pad":
        inner, border = x.args
        starts = [before for before, _ in x.attr("widths")]
        each = list(zip(ranges, starts, inner.shape, strict=True))
        if all(begin <= start and stop <= begin + n for (start, stop, _), begin, n in each):
            return slice_(inner, [(start - begin, stop - begin, step) for (start, stop, step), begin, _ in each])
        if any(stop <= begin or start >= begin + n for (start, stop, _), begin, n in each):
            return broadcast_to(border, extents_of(ranges))
    if x.op == "slice":
        ranges = [canonical_range(range(*i)[slice(*r)]) for i, r in zip(x.attr("ranges"), ranges, strict=True)]
        (x,) = x.args
    chosen = tuple(ranges)
    return x if chosen == tuple([(0, n, 1) for n in x.shape]) else node("slice", (x,), (chosen,))


def slice_scatter(base: Node, values: Sequence[Node], ranges: Sequence[tuple[tuple[int, int, int], ...]]) -> Node:
    """`base` after ``base[ranges[i]] = values[i]`` for each i in turn; a write to all of it forgets what was before."""
    whole = tuple((0, n, 1) for n in base.shape)
    last = max((i for i, r in enumerate(ranges) if r == whole), default=-1)
    if last >= 0:
        base = values[last]
    latest = {r: i for i, r in enumerate(ranges) if i > last}
    rest = [(values[i], r) for r, i in sorted(latest.items(), key=lambda item: item[1]) if values[i].type.size]
    if not rest:
        return base
    return node("slice_scatter", (base, *(v for v, _ in rest)), (tuple(r for _, r in rest),))


def canonical_range(r: range) -> tuple[int, int, int]:
    """The one (start, stop, step) for this set of positions, within the extent."""
    n = len(r)
    return (r[0], r[-1] + 1, r.step if n > 1 else 1) if n else (0, 0, 1)


def flip(x: Node, axes: Sequence[int]) -> Node:
    """`x` reversed along `axes` (negative)."""
    chosen = set(axes)
    if x.op == "flip":
        chosen ^= set(x.attr("axes"))
        (x,) = x.args
    chosen = {a for a in chosen if x.shape[a] > 1}
    return node("flip", (x,), (tuple(sorted(chosen)),)) if chosen else x


def concat(parts: Sequence[Node], axis: int) -> Node:
    """`parts` of one dtype joined along `axis` (negative); those that are empty there add nothing."""
    if len(parts) == 1:
        return parts[0]
    whole = node("concat", parts, (axis,))  # which refuses parts that do not fit, empty ones too
    some = [p for p in parts if p.shape[axis]] or parts[:1]
    return whole if len(some) == len(parts) else concat(some, axis)


def pad(x: Node, value: Node, widths: Sequence[tuple[int, int]]) -> Node:
    return node("pad", (x, value), (tuple(widths),)) if any(w for pair in widths for w in pair) else x


Pick = tuple[Sequence[int], int, Shape, Node]  # axes in an order that brings the chosen ones together, their place in
# it, the shape with these merged into one, and the indices into that one


def take(x: Node, pick: Pick) -> Node:
    """What integer arrays, or scalars, select from `x`."""
    order, place, shape, indices = pick
    return node("take", (reshape(transpose(x, order), shape), indices), (place - len(shape),))


def one_of_each_row(x: Node, columns: Node) -> Node:
    """The element of each row of the matrix `x` that the vector `columns` names."""
    return reshape(node("take_along_axis", (x, reshape(columns, (x.shape[0], 1))), (-1,)), (x.shape[0],))


def scatter(x: Node, pick: Pick, values: Node, mode: str = "set") -> Node:
    """`x` with `values` in the places of what `take` selects; `mode`: "set", or the ufunc that joins them."""
    order, place, shape, indices = pick
    moved = transpose(x, order)
    changed = node("scatter", (reshape(moved, shape), indices, values), (place - len(shape), mode))
    return transpose(reshape(changed, moved.shape), [order.index(axis) for axis in range(len(order))])


def reduce(name: str, x: Node, axes: Sequence[int]) -> Node:
    """A reduction over `axes` (negative, in any order), which stay with extent 1."""
    return node(name, (x,), (tuple(sorted(axes)),))


VIEWS: dict[str, Callable[[Node, Any], Node]] = {
    "reshape": reshape, "squeeze": reshape, "flat": reshape, "transpose": transpose, "broadcast_to": broadcast_to,
    "slice": slice_, "flip": flip, "bitcast": lambda x, dtype: node("bitcast", (x,), (dtype,)),
    "real": lambda x, _: complex_part("real", x), "imag": lambda x, _: complex_part("imag", x),
    "sliding_window": lambda x, windows: node("sliding_window", (x,), (windows,)), "take": take,
}  # fmt: skip
