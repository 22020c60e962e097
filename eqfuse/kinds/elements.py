"""Which elements of its inputs a body needs: a slice of an array is not read whole.

In: values that are wanted whole. Out: how many distinct elements of each array are read for them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from eqfuse.cost.work import touches
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.ir.pieces import places_within
from eqfuse.ops import TABLE, Role
from eqfuse.ops.index_map import Place
from eqfuse.ops.types import Shape

PARTIAL = frozenset(op.name for op in TABLE.values() if op.partial or op.maps)  # they may need a part of an argument
IndexRanges = tuple[range, ...]  # along each axis, ascending
ReadRegion = IndexRanges | int  # a number of elements where they are no box
MOST_REGIONS = 64  # of a value that is computed; beyond, all of it is
COUNTED_CELLS = 1 << 16  # of the grid on which overlapping boxes are counted


@dataclass(frozen=True, slots=True)
class Reach:
    """What values that are wanted whole are computed from: `operators` and `arrays` that are needed whole, and of the
    other arrays the regions in `parts`. `between`: operators of which a part is computed."""

    operators: frozenset[Node]
    arrays: frozenset[Node]
    parts: dict[Node, frozenset[ReadRegion]]
    between: frozenset[Node]


def elements_read(wanted: set[Node]) -> dict[Node, int]:
    """The distinct elements of every input and array constant that the whole of `wanted` is computed from."""
    if all(map(_is_array, wanted)):  # so it is in most passes
        return {n: n.type.size for n in wanted}
    whole = [_arrays_below(n) for n in wanted]
    if None not in whole:
        return {n: n.type.size for n in frozenset().union(*whole)}  # type: ignore[arg-type]
    each = [_reach(n) for n in wanted]
    reach = each[0] if len(each) == 1 else _together(wanted, each) or _walked(tuple(wanted))
    counts = {n: n.type.size for n in reach.arrays}
    return counts | {n: _count(regions, n.shape) for n, regions in reach.parts.items()}


_arrays: WeakKeyDictionary[Node, frozenset[Node] | None] = WeakKeyDictionary()  # of operators; no value is in its own


def _arrays_below(root: Node) -> frozenset[Node] | None:
    """The arrays that `root` is computed from; None where it may need a part of one."""
    if _is_array(root):
        return frozenset([root])
    stack = [root]
    while stack:
        n = stack[-1]
        missing = [a for a in n.args if a not in _arrays and not _is_array(a)]
        if missing:
            stack += missing
            continue
        below = [frozenset([a]) if _is_array(a) else _arrays[a] for a in n.args]
        if n.op in PARTIAL or None in below:
            _arrays[n] = None
        elif len(below) == 1:
            _arrays[n] = below[0]
        else:
            _arrays[n] = frozenset().union(*below)  # type: ignore[arg-type]
        stack.pop()
    return _arrays[root]


_reaches: WeakKeyDictionary[Node, Reach] = WeakKeyDictionary()  # of single values; no value is in its own


def _reach(root: Node) -> Reach:
    """Of `root`, by what is known of values that it is computed from."""
    reach = _reaches.get(root)
    if reach is None:
        whole: set[Node] = set()
        reaches = []
        stack = [root]
        while stack:
            n = stack.pop()
            if n.op in PARTIAL or n in _reaches:
                reaches.append(_reaches.get(n) or _reaches.setdefault(n, _walked((n,))))
            else:
                new = [a for a in n.args if a not in whole]
                whole.update(new)
                stack += new
        reach = _reaches[root] = _together(whole, reaches) or _walked((root,))
    return reach


def _together(whole: set[Node], reaches: Sequence[Reach]) -> Reach | None:
    """Of the nodes `whole` and what they are computed from; None where of an operator a part is computed for one value
    and all for another."""
    arrays = {n for n in whole if _is_array(n)}.union(*[reach.arrays for reach in reaches])
    operators = whole.difference(arrays).union(*[reach.operators for reach in reaches])
    between: frozenset[Node] = frozenset().union(*[reach.between for reach in reaches])
    if not between.isdisjoint(operators):
        return None
    parts: dict[Node, frozenset[ReadRegion]] = {}
    for reach in reaches:
        for n, regions in reach.parts.items():
            if n not in arrays:
                parts[n] = parts[n] | regions if n in parts else regions
    return Reach(frozenset(operators), frozenset(arrays), parts, between)


def _walked(roots: tuple[Node, ...]) -> Reach:
    nodes = topological(roots)
    whole = set(roots)
    parts: dict[Node, dict[ReadRegion, None]] = {}
    for n in reversed(nodes):
        if n not in whole and _is_whole(n, parts.get(n, {})):
            whole.add(n)
        if n in whole and n.op not in PARTIAL:
            whole.update(n.args)
            continue
        for region in [_whole(n.shape)] if n in whole else parts.get(n, ()):
            for argument, part in _sources(n, region):
                parts.setdefault(argument, {})[part] = None
    arrays = frozenset(n for n in whole if _is_array(n))
    partly = [n for n in parts if n not in whole]
    regions = {n: frozenset(parts[n]) for n in partly if _is_array(n)}
    between = frozenset(n for n in partly if n not in regions)
    return Reach(frozenset(whole.difference(roots, arrays)), arrays, regions, between)


def _is_whole(n: Node, regions: Collection[ReadRegion]) -> bool:
    """Do `regions` make up all of `n`, as the pieces of a rolled array do?"""
    return len(regions) > MOST_REGIONS or (bool(regions) and _count(frozenset(regions), n.shape) == n.type.size)


def _is_array(n: Node) -> bool:
    return n.op == "input" or (n.op == "const" and n.type.size != 1)


def bytes_read(body: Graph, wanted: Iterable[Node]) -> tuple[int, ...]:
    """The bytes of every input of `body` that the whole of `wanted` is computed from."""
    counts = elements_read(set(wanted))
    return tuple([counts.get(n, 0) * n.dtype.itemsize for n in body.inputs])


def by_element(body: Graph, leaf: Node) -> bool:
    """Does each element of the one output depend on `leaf` by the same element alone?"""
    (output,) = body.outputs
    behind = {leaf}
    for n in body.nodes:
        if not behind.isdisjoint(n.args):
            if n.row.role is not Role.ELEMENTWISE or n.shape != leaf.shape:
                return False
            behind.add(n)
    return output in behind and output is not leaf and output.type == leaf.type


def _whole(shape: Shape) -> IndexRanges:
    return tuple(range(n) for n in shape)


def _sources(n: Node, region: ReadRegion) -> list[tuple[Node, ReadRegion]]:
    """What of its arguments `n` needs for its elements in `region`."""
    role = n.row.role
    if isinstance(region, int) and role in (Role.ELEMENTWISE, Role.VIEW):
        return [(a, min(region, a.type.size)) for a in n.args]
    if role is Role.ELEMENTWISE:
        return [(a, _aligned(region, a.shape)) for a in n.args]  # type: ignore[arg-type]
    if role is Role.VIEW:
        return [(n.args[0], _viewed(n, region))]  # type: ignore[arg-type]
    if n.row.pieces is not None:
        return _pieces(n, region)
    if role is Role.GATHER:
        source, *indices = n.args
        lines = touches(n.op, n.attrs, source.type, n.type) // source.dtype.itemsize
        return [(source, min(source.type.size, lines)), *[(a, _whole(a.shape)) for a in indices]]
    if n.op == "conv":
        return [(n.args[0], _windows(n)), (n.args[1], _whole(n.args[1].shape))]
    return [(a, _whole(a.shape)) for a in n.args]


def _pieces(n: Node, region: ReadRegion) -> list[tuple[Node, ReadRegion]]:
    """What of the pieces that `n` is joined of is seen in `region`."""
    if isinstance(region, int):
        return [(a, min(region, a.type.size)) for a in n.args]
    parts: list[tuple[Node, ReadRegion]] = []
    for argument, ranges, boxes in n.pieces:
        a = n.args[argument]
        if any(step != 1 for *_, step in ranges):
            parts.append((a, _whole(a.shape)))
            continue
        for box in boxes:
            axes = zip(region, box, ranges, strict=True)
            part = tuple([_moved(places_within(r, i, j - i), i - first) for r, (i, j, _), (first, *_) in axes])
            parts.append((a, _aligned(part, a.shape)))
    return parts


def _moved(places: range, by: int) -> range:
    return range(places.start + by, places.stop + by, places.step)


def _aligned(region: IndexRanges, shape: Shape) -> IndexRanges:
    tail = region[len(region) - len(shape) :]
    return tuple(range(min(1, len(r))) if n == 1 else r for r, n in zip(tail, shape, strict=True))


def _viewed(n: Node, region: IndexRanges) -> ReadRegion:
    """Where in its argument a view finds `region`."""
    source = n.args[0].type
    if not all(region):
        return (range(0),) * source.rank
    places = n.index_map
    axes = [_places(place, region) for place in places or ()]
    if places is not None and None not in axes:
        return tuple(axes)  # type: ignore[arg-type]
    whole = all(len(r) == extent for r, extent in zip(region, n.shape, strict=True))
    return _whole(source.shape) if places is None and whole else min(source.size, math.prod(map(len, region)))


def _places(place: Place, region: IndexRanges) -> range | None:
    """The indices along one axis of its argument at which a view finds `region`; None where these are no range."""
    taken = range(place.start, place.start + 1)
    for axis, step in place.terms:
        r = region[axis]
        first, last = sorted((step * r[0], step * r[-1]))
        added = range(first, last + 1, abs(step) * r.step)
        if len(taken) == 1 or len(added) == 1:
            longer = max(taken, added, key=len)
            taken = range(taken[0] + added[0], taken[-1] + added[-1] + 1, longer.step)
        elif added.step == 1 and taken.step <= len(added):  # windows without gaps between them
            taken = range(taken[0] + added[0], taken[-1] + added[-1] + 1)
        else:
            return None
    return taken


def _windows(n: Node) -> int:
    """The elements of its images that a convolution multiplies."""
    images, filters = n.args
    strides, padding, dilations = map(n.attr, ("strides", "padding", "dilations"))
    count = images.shape[0] * images.shape[1]
    axes = zip(images.shape[2:], n.shape[2:], filters.shape[2:], strides, padding, dilations, strict=True)
    for extent, places, window, stride, (before, _), dilation in axes:
        positions = np.arange(places)[:, None] * stride + np.arange(window)[None, :] * dilation - before
        count *= np.unique(positions[(positions >= 0) & (positions < extent)]).size
    return count


@lru_cache(maxsize=4096)
def _count(regions: frozenset[ReadRegion], shape: Shape) -> int:
    """The elements of an array of `shape` that lie in any of `regions`."""
    size = math.prod(shape)
    boxes = [r for r in regions if not isinstance(r, int) and all(r)]
    others = sum(r for r in regions if isinstance(r, int))
    sizes = [math.prod(map(len, box)) for box in boxes]
    if size in sizes or others >= size:
        return size
    united = sum(sizes) if len(boxes) < 2 else _united(boxes, min(size, sum(sizes)))
    return min(size, united + others)


def _united(boxes: Sequence[IndexRanges], most: int) -> int:
    """The elements in any of `boxes`; `most`, where to count them takes too large a grid."""
    cells = []
    for ranges in zip(*boxes, strict=True):
        steps = {r.step for r in ranges if len(r) > 1}
        ends = {e for r in ranges if r for e in (r[0], r[-1] + 1)}
        cells.append(np.array(sorted(ends)) if steps <= {1} else np.arange(min(ends), max(ends) + 1))
    if math.prod(map(len, cells)) > COUNTED_CELLS:
        return most
    grid = np.zeros(tuple(len(c) - 1 for c in cells), np.bool_)
    for box in boxes:
        if all(box):
            axes = zip(cells, box, strict=True)
            inside = [(c[:-1] >= r[0]) & (c[:-1] <= r[-1]) & ((c[:-1] - r[0]) % r.step == 0) for c, r in axes]
            grid[np.ix_(*inside)] = True
    extents = np.ones((), np.int64)
    for c in cells:
        extents = np.multiply.outer(extents, np.diff(c))
    return int(extents[grid].sum())
