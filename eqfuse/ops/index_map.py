"""Where a view finds its elements: along each axis of its argument, at a sum of its own indices; and where the pieces
of a joined array lie in it.

In: the shapes of the arguments, and the attributes. Out: a `Place` for each axis of a view's argument, a `Piece` for
each argument that is joined. Whoever follows an index, a range of them or a stride does it by these, and knows no such
operator by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eqfuse.ops.types import Shape

Ranges = tuple[tuple[int, int, int], ...]  # start, stop and step along each axis


@dataclass(frozen=True, slots=True)
class Place:
    """An index along one axis of the argument: `start`, and for each (axis, step) of `terms` the view's index along
    that axis, counted from its first one, times `step`. Of an axis of extent 1 it is 0."""

    start: int = 0
    terms: tuple[tuple[int, int], ...] = ()


IndexMap = tuple[Place, ...]
ORIGIN = Place()


def along(axis: int, start: int = 0, step: int = 1) -> Place:
    """From `start` on, every so many elements, one for each index of the view along `axis`."""
    return Place(start, ((axis, step),))


def transpose_map(shape: Shape, attrs: tuple) -> IndexMap:
    (axes,) = attrs
    return _places(shape, [along(axes.index(a)) for a in range(len(shape))])


def reshape_map(shape: Shape, attrs: tuple) -> IndexMap | None:
    """None where a reshape does more than to add and drop axes of extent 1."""
    (new,) = attrs
    if not moves_units(shape, new):
        return None
    kept = iter([a for a, n in enumerate(new) if n != 1])
    return tuple([ORIGIN if n == 1 else along(next(kept)) for n in shape])


def broadcast_map(shape: Shape, attrs: tuple) -> IndexMap:
    (new,) = attrs
    return _places(shape, [along(a) for a in range(len(new) - len(shape), len(new))])


def slice_map(shape: Shape, attrs: tuple) -> IndexMap:
    (ranges,) = attrs
    return _places(shape, [along(a, start, step) for a, (start, _, step) in enumerate(ranges)])


def flip_map(shape: Shape, attrs: tuple) -> IndexMap:
    (axes,) = attrs
    rank = len(shape)
    return _places(shape, [along(a, n - 1, -1) if a - rank in axes else along(a) for a, n in enumerate(shape)])


def window_map(shape: Shape, attrs: tuple) -> IndexMap:
    """The place of a window, and that in the window."""
    (windows,) = attrs
    terms = [[(a, 1)] for a in range(len(shape))]
    for window, (axis, _) in enumerate(windows, len(shape)):
        terms[axis].append((window, 1))
    return _places(shape, [Place(0, tuple(each)) for each in terms])


class Piece(NamedTuple):
    """An argument lies, broadcast, where `ranges` say in the result. Earlier pieces cover it there, but for `boxes`."""

    argument: int
    ranges: Ranges
    boxes: Sequence[Ranges]


def concat_pieces(shapes: Sequence[Shape], attrs: tuple) -> tuple[Piece, ...]:
    (axis,), start, pieces = attrs, 0, list[Piece]()
    for argument, shape in enumerate(shapes):
        ranges = [(0, n, 1) for n in shape]
        ranges[axis] = (start, start + shape[axis], 1)
        start += shape[axis]
        pieces.append(Piece(argument, tuple(ranges), (tuple(ranges),)))
    return tuple(pieces)


def pad_pieces(shapes: Sequence[Shape], attrs: tuple) -> tuple[Piece, ...]:
    (widths,), (shape, _) = attrs, shapes
    inside = tuple([(before, before + n, 1) for n, (before, _) in zip(shape, widths, strict=True)])
    whole = tuple([(0, stop + after, 1) for (_, stop, _), (_, after) in zip(inside, widths, strict=True)])
    return Piece(0, inside, (inside,)), Piece(1, whole, (whole,))


def keeps_order(places: IndexMap | None) -> bool:
    """Does a view of as many elements as its argument has them in the same order, as every reshape does?"""
    if places is None:
        return True
    terms = [place.terms for place in places if place.terms]
    axes = [each[0][0] for each in terms if len(each) == 1 and each[0][1] == 1]
    return len(axes) == len(terms) and axes == sorted(axes)


def moves_units(before: Shape, after: Shape) -> bool:
    """Does a reshape from one shape to the other only add and drop axes of extent 1?"""
    return [n for n in before if n != 1] == [n for n in after if n != 1]


def _places(shape: Shape, places: list[Place]) -> IndexMap:
    return tuple([ORIGIN if n == 1 else place for n, place in zip(shape, places, strict=True)])
