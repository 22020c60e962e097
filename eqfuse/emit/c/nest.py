"""The loops of a kernel: its index space with as few dimensions as the arrays allow, and which of them run where.

In: the shape of the space, the axes it reduces, and where each array's elements lie. Out: `Nest`. Next: `schedule.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

from eqfuse.cost.work import LINE
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node
from eqfuse.ir.view_strides import strided
from eqfuse.ir.views import leaf_chain
from eqfuse.ops.types import Shape

SHORT_DIMENSION = 16  # elements: a shorter dimension is no loop of vectors
PERMUTED_STEPS = 4  # steps at most between elements of which vectors are loaded whole and permuted
ROW_ELEMENTS = 8  # elements of rows that one turn of the vector loop computes, at most
ACROSS_BLOCK = 64  # extents of a block that is read across the axis it lies along
TILE = 512  # elements of a vector loop at most, where a unit runs it several times
AXES = [*"ijklmnopq", *(f"axis{d}" for d in range(9, 64))]


class Access(NamedTuple):
    """Where an array's elements lie: `offset`, and `strides` along the axes of the space, in elements."""

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Dim:
    """A run of neighbouring axes of the space that every array walks as one. `block`: indices that a unit takes."""

    axes: tuple[int, ...]
    extent: int
    reduced: bool
    block: int

    @property
    def blocks(self) -> int:
        return -(-self.extent // max(1, self.block))

    def step(self, array: Access) -> int:
        """The stride of an array along this dimension."""
        return array.strides[self.axes[-1]] if self.axes else 0


def access(n: Node, space: Shape) -> Access:
    """Of a leaf behind views that broadcasts to `space`."""
    place = leaf_access(n)
    return aligned(place.offset, place.strides, n.shape, space)


_accesses: WeakKeyDictionary[Node, Access] = WeakKeyDictionary()  # of leaves behind views, along their own axes


def leaf_access(n: Node) -> Access:
    """Of a leaf behind views, along its own axes. UnsupportedOp where no strides express the views."""
    place = _accesses.get(n)
    if place is None:
        place = _accesses[n] = _leaf_access(n)
    return place


def _leaf_access(n: Node) -> Access:
    if not n.type.size:  # nothing is read, wherever loops along its empty axes stand
        return Access(0, tuple([int(extent == 0) for extent in n.shape]))
    leaf, chain = leaf_chain(n)
    view = strided(leaf.shape, chain)
    if view is None:
        raise UnsupportedOp(f"the views of {leaf.type} that give {n.type} have no strides: store that array first")
    return Access(view.first, view.strides)


def aligned(offset: int, strides: Sequence[int], shape: Shape, space: Shape) -> Access:
    """The access of an array of `shape` that broadcasts to `space`."""
    own = [0 if n == 1 else s for n, s in zip(shape, strides, strict=True)]
    return Access(offset, (*[0] * (len(space) - len(shape)), *own))


@dataclass(frozen=True)
class Nest:
    """A unit of work takes one index, or one block, of each dimension; `inside` it loops run over blocks, in this
    order; along `vector` the innermost one."""

    dims: tuple[Dim, ...]
    vector: int
    inside: tuple[int, ...]

    @property
    def runs(self) -> Dim:
        return self.dims[self.vector]

    @cached_property
    def counted(self) -> tuple[int, ...]:
        """The dimensions that units count: those that none loops over, and those in several blocks."""
        loops = (*self.inside, self.vector)
        return tuple(d for d, dim in enumerate(self.dims) if d not in loops or dim.blocks > 1)

    def count_of(self, d: int) -> int:
        """How many units there are along dimension `d`."""
        return self.dims[d].blocks if d in (*self.inside, self.vector) else self.dims[d].extent

    @property
    def units(self) -> int:
        return math.prod(map(self.count_of, self.counted))

    @cached_property
    def reduced(self) -> frozenset[int]:
        """The dimensions that are reduced."""
        return frozenset([d for d, dim in enumerate(self.dims) if dim.reduced])

    @property
    def elements(self) -> int:
        return math.prod(dim.extent for dim in self.dims)

    @property
    def is_line(self) -> bool:
        """Is it one loop over independent elements? Its units are elements."""
        return len(self.dims) == 1 and not self.runs.reduced

    @property
    def by_columns(self) -> bool:
        """Do reductions keep the dimension of the vectors, and so run over several results at once?"""
        return not self.runs.reduced and bool(self.reduced)

    def reads_across(self, array: Access) -> bool:
        """Is an array read by blocks, across the axis that it lies along?"""
        if len(self.inside) != 1 or self.reduced or self.dims[self.inside[0]].extent < SHORT_DIMENSION:
            return False
        return abs(self.runs.step(array)) > 1 and abs(self.dims[self.inside[0]].step(array)) == 1

    @property
    def is_of_short_rows(self) -> bool:
        """Are the loops within a unit, but that of the vectors, over the few elements of rows?"""
        after = bool(self.inside) and not self.reduced and min(self.inside) > self.vector
        return after and math.prod(self.dims[d].extent for d in self.inside) <= ROW_ELEMENTS

    def steps(self, array: Access) -> tuple[int, ...]:
        """The stride of an array along each dimension."""
        return tuple(dim.step(array) for dim in self.dims)

    def varies(self, array: Access) -> frozenset[int]:
        return frozenset([d for d, dim in enumerate(self.dims) if dim.step(array)])


def nest_of(
    space: Shape, reduced: Sequence[int], arrays: Sequence[tuple[Access, int]], others: Sequence[Access],
    seams: Collection[int],
) -> Nest:  # fmt: skip
    """The loops over `space`; `reduced` counts axes from its start; `arrays`: accesses, and sizes of elements;
    `others`: accesses in small parts of the space; `seams`: axes along which arrays are joined."""
    dims = tuple(collapsed(space, reduced, [*[a for a, _ in arrays], *others], seams))
    vector = _vector(dims, arrays)
    if any(dim.reduced for dim in dims):
        inside = tuple(d for d, dim in enumerate(dims) if dim.reduced and d != vector)
        width = dims[vector].extent if dims[vector].reduced else min(TILE, dims[vector].extent)
        return Nest(_blocked(dims, {vector: width}), vector, inside)
    turned = _across(dims, vector, arrays)
    if turned is not None:
        return Nest(_blocked(dims, {vector: ACROSS_BLOCK, turned: ACROSS_BLOCK}), vector, (turned,))
    if vector < len(dims) - 1:  # rows of a few elements: their elements are loops over vectors of rows
        return Nest(_blocked(dims, {vector: TILE}), vector, tuple(range(vector + 1, len(dims))))
    return Nest(dims, vector, ())


def collapsed(
    space: Shape, reduced: Sequence[int], accesses: Sequence[Access], seams: Collection[int] = ()
) -> Iterator[Dim]:
    """Axes of more than one index, as few dimensions as all `accesses` allow; one with `seams` is the first of its."""
    run: tuple[int, ...] = ()
    extent = 1
    kept = max(reduced) if reduced and all(space[a] == 1 for a in reduced) else None  # a reduction of one element
    for axis, n in enumerate(space):
        if n == 1 and axis != kept:
            continue
        apart = run and (axis in seams or (axis in reduced) != (run[-1] in reduced))
        if apart or (run and not _goes_on(run[-1], axis, n, accesses)):
            yield Dim(run, extent, run[-1] in reduced, extent)
            run, extent = (), 1
        run, extent = (*run, axis), extent * n
    if run:
        yield Dim(run, extent, run[-1] in reduced, extent)
    elif all(n == 1 for n in space):
        yield Dim((), 1, False, 1)


def _goes_on(outer: int, inner: int, extent: int, accesses: Sequence[Access]) -> bool:
    return all(a.strides[outer] == a.strides[inner] * extent for a in accesses)


def _vector(dims: tuple[Dim, ...], arrays: Sequence[tuple[Access, int]]) -> int:
    """The dimension along which most bytes that the loops touch are neighbours, or near, if it is not short; of several
    the last. Arrays smaller than the space, as where elements are paired, stay near: if all are, the one along which
    fewest lie apart, at best one that is reduced, whose results stand in registers."""
    whole = any(all(dim.step(a) for dim in dims) for a, _ in arrays)

    def neighbours(d: int) -> tuple[bool, int, bool, int, int]:
        steps = [(abs(dims[d].step(a)), size * _touched(dims, a)) for a, size in arrays]
        near = sum(size // step for step, size in steps if 1 <= step <= PERMUTED_STEPS)
        apart = 0 if whole else sum(size for a, size in arrays if abs(dims[d].step(a)) > 1)
        return dims[d].extent >= SHORT_DIMENSION, -apart, dims[d].reduced and not whole, near, d

    if all(dim.extent < SHORT_DIMENSION for dim in dims):
        return len(dims) - 1
    return max(range(len(dims)), key=neighbours)


def _touched(dims: tuple[Dim, ...], a: Access) -> int:
    """How many elements of an array there are in the space."""
    return math.prod([dim.extent for dim in dims if dim.step(a)])


def _across(dims: tuple[Dim, ...], vector: int, arrays: Sequence[tuple[Access, int]]) -> int | None:
    """A long dimension along which an array lies that the vectors read across."""
    for a, _ in arrays:
        along = [d for d, dim in enumerate(dims) if abs(dim.step(a)) == 1 and dim.extent >= SHORT_DIMENSION]
        if along and vector not in along and dims[vector].step(a):
            return along[-1]
    return None


def _blocked(dims: tuple[Dim, ...], blocks: dict[int, int]) -> tuple[Dim, ...]:
    return tuple(Dim(x.axes, x.extent, x.reduced, min(x.extent, blocks.get(d, x.extent))) for d, x in enumerate(dims))


def stride_of(elements: int, size: int) -> int:
    """Of rows in a buffer: an odd number of cache lines, so that rows do not meet in the same sets of a cache."""
    lines = -(-elements * size // LINE)
    return (lines | 1) * LINE // size
