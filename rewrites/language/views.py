"""What views do to axes, shapes and ranges: what the laws of layout compute of their attributes, and ask of types.

In: permutations, axes, shapes, ranges (start, stop, step) and types. Out: the same of the other side of a law; None
where there is none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqfuse.ops.index_map import Ranges
from eqfuse.ops.types import TensorType

Perm = tuple[int, ...]


def compose(p: Perm, q: Perm) -> Perm:
    return tuple(q[a] for a in p)


def inverse(p: Perm) -> Perm:
    return tuple(sorted(range(len(p)), key=p.__getitem__))


def identity(p: Perm) -> bool:
    return list(p) == list(range(len(p)))


def only_unit_axes_move(t: TensorType, p: Perm) -> bool:
    order = [a for a in p if t.shape[a] != 1]
    return order == sorted(order)


def moved_axis(p: Perm, axis: int) -> int:
    """The axis before the transpose `p` that stands at `axis` after it."""
    return p[axis] - len(p)


def moved_axes(p: Perm, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes before the transpose `p` that stand at `axes` after it."""
    return tuple(sorted(p[a] - len(p) for a in axes))


def permuted_shape(t: TensorType, p: Perm) -> tuple[int, ...]:
    return tuple(t.shape[a] for a in p)


def smaller(y: TensorType, x: TensorType) -> bool:
    return 0 < y.rank <= x.rank and y.size < x.size


def nested(inner: Ranges, outer: Ranges) -> Ranges:
    pieces = [range(*a)[b[0] : b[1] : b[2]] for a, b in zip(inner, outer, strict=True)]
    return tuple((r.start, r.stop, r.step) if len(r) else (0, 0, 1) for r in pieces)


def ranges_of(t: TensorType, ranges: Ranges) -> Ranges:
    """What the slice of a broadcast result takes of the argument `t`: all of an axis of extent 1."""
    mine = ranges[len(ranges) - t.rank :]
    return tuple((0, min(1, len(range(*r))), 1) if n == 1 else r for n, r in zip(t.shape, mine, strict=True))


def rows(t: TensorType, ranges: Ranges) -> Ranges:
    """What the slice of a product takes of its left operand."""
    return (*ranges_of(TensorType(t.dtype, t.shape[:-2]), ranges[:-2]), ranges[-2], (0, t.shape[-1], 1))


def columns(t: TensorType, ranges: Ranges) -> Ranges:
    return (*ranges_of(TensorType(t.dtype, t.shape[:-2]), ranges[:-2]), (0, t.shape[-2], 1), ranges[-1])


def before_transpose(p: Perm, along: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the transpose `p` shows along each axis (ranges of a slice, widths of padding), in the order before it."""
    return tuple(along[axis] for axis in inverse(p))


def before_reduction(t: TensorType, axes: tuple[int, ...], ranges: Ranges) -> Ranges | None:
    """The slice before a reduction: everything along the reduced axes; None when it drops the reduced element."""
    if any(len(range(*ranges[a])) != 1 for a in axes):
        return None
    return tuple((0, n, 1) if i - t.rank in axes else r for i, (n, r) in enumerate(zip(t.shape, ranges, strict=True)))


def adds_leading_ones(t: TensorType, s: tuple[int, ...]) -> bool:
    return s == (1,) * (len(s) - t.rank) + t.shape


def moves_leading_ones(t: TensorType, s: tuple[int, ...]) -> bool:
    """Does the reshape of `t` to `s` add leading ones, or take some away?"""
    return adds_leading_ones(t, s) or t.shape == (1,) * (t.rank - len(s)) + s


def axis_groups(t: tuple[int, ...], s: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """The axes other than 1 of two shapes with equal elements in equal order, in the smallest groups that hold the
    same elements; counted from the right."""
    mine, theirs = ([a - len(shape) for a, n in enumerate(shape) if n != 1] for shape in (t, s))
    blocks = []
    while mine and theirs:
        ours: tuple[list[int], list[int]] = [mine.pop(0)], [theirs.pop(0)]
        while (a := math.prod(t[m] for m in ours[0])) != (b := math.prod(s[m] for m in ours[1])):
            waiting, group = (mine, ours[0]) if a < b else (theirs, ours[1])
            if not waiting:
                return None
            group.append(waiting.pop(0))
        blocks.append(ours)
    return None if mine or theirs else blocks


def through_reshape(t: TensorType, s: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of `t` that are `axes` of its reshape to `s`, which merges or splits none of them with another."""
    own_axes: list[int] = []
    for mine, theirs in axis_groups(t.shape, s) or ():
        inside = [a in axes for a in theirs]
        if any(inside) and not all(inside):
            return None
        own_axes += mine if any(inside) else []
    return tuple(own_axes) or None


def last_two_swapped(t: TensorType) -> tuple[int, ...]:
    """The axes of the transpose of each matrix of `t`."""
    return (*range(t.rank - 2), t.rank - 1, t.rank - 2)


def one_through_reshape(t: TensorType, s: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The same, where it is one axis: places along it are the same."""
    before = through_reshape(t, s, axes)
    return before if before is not None and len(before) == 1 else None


def ranges_through_units(t: TensorType, s: tuple[int, ...], ranges: Ranges) -> Ranges | None:
    """The slice before a reshape to `s` that only drops or adds axes of extent 1."""
    blocks = axis_groups(t.shape, s)
    kept = all(r == (0, 1, 1) for r, n in zip(ranges, s, strict=True) if n == 1)
    if blocks is None or not kept or any(len(mine) > 1 or len(theirs) > 1 for mine, theirs in blocks):
        return None
    before = [(0, 1, 1)] * t.rank
    for (mine,), (theirs,) in blocks:
        before[mine] = ranges[theirs]
    return tuple(before)


def lengths(ranges: Ranges) -> tuple[int, ...]:
    return tuple(len(range(*r)) for r in ranges)


def mirrored(t: TensorType, axes: tuple[int, ...], ranges: Ranges) -> Ranges:
    """The slice before a flip along `axes`."""
    before = list(ranges)
    for a in axes:
        start, _, step = ranges[a]
        k = len(range(*ranges[a]))
        before[a] = (t.shape[a] - 1 - start - (k - 1) * step, t.shape[a] - start, step) if k else (0, 0, 1)
    return tuple(before)


def in_one(p: tuple[int, ...], q: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes that two flips reverse together; None when they reverse none."""
    return tuple(sorted({*p} ^ {*q})) or None


def one_along(t: TensorType, axes: tuple[int, ...]) -> bool:
    return all(t.extent(a) == 1 for a in axes)


def not_longer_than_one(t: TensorType, axes: tuple[int, ...]) -> bool:
    return all(t.extent(a) <= 1 for a in axes)


def flipped_before(p: Perm, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Where the axes `axes` before the transpose `p` stand after it."""
    return tuple(sorted(inverse(p)[a] - len(p) for a in axes))


def copies(t: TensorType, s: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """How often a broadcast of `t` to `s` holds each element along `axes`."""
    return math.prod(s[a] for a in axes if t.extent(a) == 1)


def leading_ones(t: TensorType, s: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of `t` with leading ones up to the rank of the shape, or of the transpose, `s`."""
    return (1,) * (len(s) - t.rank) + t.shape


def permuted(s: tuple[int, ...], p: Perm) -> tuple[int, ...]:
    return tuple(s[a] for a in p)


def smaller_than(y: TensorType, x: TensorType, s: tuple[int, ...]) -> bool:
    """Whether x and y broadcast to less than `s`."""
    return math.prod(np.broadcast_shapes(x.shape, y.shape)) < math.prod(s)


def reduced(s: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if i - len(s) in axes else n for i, n in enumerate(s))


def reduced_copies(s: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """`reduced`, of a broadcast that holds every element."""
    return reduced(s, axes) if math.prod(s) else None


def new_columns(s: tuple[int, ...], w: TensorType) -> tuple[int, ...]:
    return (*s[:-1], w.shape[-1])


def scalar(t: TensorType) -> bool:
    return t.rank == 0


def shape(t: TensorType) -> tuple[int, ...]:
    return t.shape


def has_unit(t: TensorType) -> bool:
    return 1 in t.shape
