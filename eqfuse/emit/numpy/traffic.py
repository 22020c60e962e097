"""Bytes that pass between memory and each array that a kernel reads or writes, every element once.

In: the leaves, behind their views, that a body reads. Out: bytes by input. Elements that views share count once, with
what follows them in their cache lines where that is asked; what more calls on whole arrays read again is in the price
of the calls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eqfuse.ir.graph import Graph, Node, node
from eqfuse.ir.view_strides import StridedView, strided
from eqfuse.ir.views import computes, leaf_chain
from eqfuse.ops.updates import uncovered

MARKED = 1 << 16  # elements of an array up to which several views are laid over each other; beyond, their sum

Run = tuple[int, int]  # stride and extent
Stretches = tuple[int, tuple[Run, ...]]  # the first element, and runs of them, the nearest first


def leaves_read(body: Graph) -> list[Node]:
    """The leaves, behind their views, that operators and outputs read."""
    read = dict.fromkeys([*(a for n in body.computations for a in _arguments_read(n)), *body.outputs])
    return [a for a in read if not computes(a)]


def _arguments_read(n: Node) -> list[Node]:
    """The arguments of `n`; of an array with slices replaced, what no value covers."""
    if n.op != "slice_scatter":
        return [*n.args]
    base, *values = n.args
    return [*[node("slice", (base,), (place,)) for place in uncovered(n.shape, n.attr("slices"))], *values]


def line_bytes(body: Graph, lines: Sequence[int], parts: Mapping[Node, float] | None = None) -> list[tuple[int, ...]]:
    """Bytes of each input of `body`, where memory moves so many bytes at least, for each of `lines`. `parts`: the share
    of a leaf behind views that is read, where not all of it is."""
    places: dict[Node, dict[Stretches | None, float]] = {n: {} for n in body.inputs}
    for n in leaves_read(body):
        leaf, chain = leaf_chain(n)
        if leaf in places:
            place = _place(strided(leaf.shape, chain))
            places[leaf][place] = max((parts or {}).get(n, 1.0), places[leaf].get(place, 0.0))
    return [tuple([_elements(n, shares, line) * n.dtype.itemsize for n, shares in places.items()]) for line in lines]


def _elements(leaf: Node, places: Mapping[Stretches | None, float], line: int) -> int:
    if None in places:
        return leaf.type.size
    least = max(1, line // leaf.dtype.itemsize)
    reads = [(place, part, min(place[1][0][0], least) if place[1] else 1) for place, part in places.items() if place]
    sizes = [round(part * math.prod(extent for _, extent in runs) * spread) for (_, runs), part, spread in reads]
    whole = all(part == 1 for _, part, _ in reads)
    if len(sizes) > 1 and whole and leaf.type.size <= MARKED:
        return _marked(leaf.type.size, frozenset([(place, spread) for place, _, spread in reads]))
    return min(leaf.type.size, sum(sizes))


@lru_cache(maxsize=4096)
def _marked(size: int, places: frozenset[tuple[Stretches, int]]) -> int:
    """How many elements of an array of `size` lie in any of `places`, each of which is so many elements wide."""
    marks = np.zeros(size + max(spread for _, spread in places), np.bool_)
    for (first, runs), spread in places:
        extents, strides = [extent for _, extent in runs], [stride for stride, _ in runs]
        as_strided(marks[first:], [*extents, spread], [*strides, 1])[...] = True
    return int(np.count_nonzero(marks[:size]))


@lru_cache(maxsize=4096)
def _place(view: StridedView | None) -> Stretches | None:
    """Where the elements of a view lie. None where a reshape copies it, and reads all."""
    if view is None:
        return None
    if not math.prod(view.shape):
        return 0, ((0, 0),)
    axes = list(zip(view.strides, view.shape, strict=True))
    first = view.first + sum(s * (e - 1) for s, e in axes if s < 0)
    runs: list[Run] = []
    for stride, extent in sorted((abs(s), e) for s, e in axes if s and e > 1):
        if runs and stride % runs[-1][0] == 0 and stride // runs[-1][0] <= runs[-1][1]:  # no gap between them
            inner, length = runs.pop()
            runs.append((inner, stride // inner * (extent - 1) + length))
        else:
            runs.append((stride, extent))
    return first, tuple(runs)
