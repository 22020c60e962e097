"""How products are cut: blocks of rows and columns that are units of work, tiles in registers, what is copied.

In: `ProductParts`, a device. Out: `ProductBlocks`. Next stop: `schedule.py`, which prices them. The order in which
terms are added depends on extents alone, never on threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.cost.work import LINE
from eqfuse.emit.c.device import vector_bytes
from eqfuse.emit.c.nest import Access, Dim, stride_of
from eqfuse.emit.c.product.parts import BlockPart, ProductParts
from eqfuse.emit.c.product.tile import (
    DOT_ROWS,
    MOST_DOTS,
    MOST_ROWS,
    MOST_VECTORS,
    SIDE_BY_SIDE,
    STREAM_ROWS,
    RegisterTile,
    dots_for,
    register_tile,
    stream_for,
)
from eqfuse.emit.c.product.tile import terms as cycles_of
from eqfuse.errors import UnsupportedOp

TERM_BYTES = 2048  # bytes of the terms of a row that are added before the next ones are begun
COPIED_BYTES = 1024  # the same, where units copy the right operand
UNIT_ROWS = 96  # rows of a unit, where its buffers allow: the right operand is read once for these
BETWEEN = 1024  # bytes of a row between two products that are computed at a time
WIDE_ROW = 2048  # bytes of a row of a unit
STREAM_WIDE = 16384  # the same, where the right operand streams by
STACK_BYTES = 512 << 10  # bytes on the stack that a unit keeps, at most
LEVEL_2_SHARE = 0.4  # and the share of a level-2 cache that these take
UNITS = 2  # for each thread, at least, where there is enough work
UNIT_SECONDS = 2e-5  # seconds of a unit, at most, where another thread is worth it
SHORT_TERMS = 256  # bytes of the terms of a row, up to which it takes longer to move sums from and to a level-2 cache
NARROW_ROW = 512  # bytes of a row of a unit, where its sums are to stay in a level-1 cache
PART_OF_LAST = 1 / 4  # of the last cache: larger arrays are far, as others of the program pass through it between
COPY_OF_VECTOR = 2  # cycles to copy a vector of a right operand
EVEN_UNITS = 8  # for each thread: of so many it does not matter whether all threads have as many
EVENER = 0.97  # of the time that other blocks take, those are looked at which are expected to take less
COPYING_UNITS = 2  # down the rows, at most: each copies a right operand that is an array
FEW_ROWS = 24  # up to which it does not pay to copy a right operand that is far
COPIED_FROM = 4  # tiles across from which on a left operand is copied to lie together


@dataclass(frozen=True)
class ProductStep:
    """One product. `tile`: sums in registers; `columns` and `depth`: of a block. Operands are read where they lie
    (`left`, `right`), or copied: the left one into a buffer that holds `held` terms, all or a block of them, with
    `stride` elements from row to row, or from term to term where it is `transposed`; the right one before all units,
    into panels of the tile's columns, or by each unit, a block of terms at a time, into a buffer with `right_stride`
    elements from term to term. Rows of sums are `width` elements. Where an operand streams by, one block of
    terms after another, sums of each are made `apart`."""

    tile: RegisterTile
    columns: int
    depth: int
    left: Access | None
    right: Access | None
    held: int
    transposed: bool
    stride: int
    width: int
    apart: bool
    right_stride: int

    @property
    def in_panels(self) -> bool:
        return self.right is None and not self.right_stride


@dataclass(frozen=True)
class ProductBlocks:
    """`rows` of a unit, and what it does with them. The second left operand of a chain takes the place of the sums that
    it is made of. Units are done in `turns`, each of as many blocks of columns, for which panels are copied before; or
    of `turn_terms`, after which units keep their sums for the next turn."""

    rows: int
    steps: tuple[ProductStep, ...]
    turns: int = 1
    turn_terms: int | None = None

    def is_chained(self, number: int) -> bool:
        """Does a unit compute one block of terms for product `number` after another, and multiply it at once?"""
        return number > 0 and self.steps[number - 1].columns == self.steps[number].depth < self.steps[number].held

    @property
    def columns(self) -> int:
        """Of the last product that a unit computes."""
        return self.steps[-1].columns

    def across(self, parts: ProductParts) -> int:
        """Blocks of columns of a turn."""
        count = -(-parts.out[-1] // self.columns)
        return count if self.turn_terms else count // self.turns

    def panels(self, number: int, parts: ProductParts) -> int:
        """The panels of a turn, for each matrix that product `number` multiplies by."""
        is_whole = self.turns == 1 or self.turn_terms is not None
        across = parts.rights[number].space[-1] if is_whole else self.across(parts) * self.columns
        return -(-across // self.steps[number].tile.columns)

    @property
    def sums(self) -> int:
        """Elements of the sums that each unit keeps from turn to turn."""
        return self.high * self.steps[-1].width if self.turn_terms else 0

    @property
    def high(self) -> int:
        """Rows of the buffers: those of whole tiles."""
        return max(-(-self.rows // s.tile.rows) * s.tile.rows for s in self.steps)

    @property
    def left_elements(self) -> int:
        """Of the buffer for the first left operand."""
        first = self.steps[0]
        return 0 if first.left else first.stride * (first.held if first.transposed else self.high)

    @property
    def right_elements(self) -> int:
        """Of the buffer for the right operand."""
        return self.steps[0].right_stride * self.steps[0].depth

    @property
    def elements(self) -> int:
        """Of the buffers of a unit."""
        sums = self.high * (sum(s.width for s in self.steps) + self.apart)
        return self.left_elements + self.right_elements + sums

    @property
    def apart(self) -> int:
        """Elements of a row of the buffer of sums that are made apart."""
        return max([s.width for s in self.steps if s.apart], default=0)


def product_blocks(parts: ProductParts, device: Device, seconds: float, at_once: bool = True) -> ProductBlocks:
    """`seconds`: of the products on one thread; `at_once`: of a left operand that is far, units copy whole rows.
    UnsupportedOp where the buffers of a few rows are too large."""
    limit = _room(parts, device)
    most = max(1, min(math.ceil(seconds / UNIT_SECONDS), UNITS * device.threads)) if device.threads > 1 else 1
    first = None
    for rows, columns in [*_whole_rows(parts, device), *_cuts(parts)]:
        blocks = _blocks(parts, rows, columns, device, at_once)
        if blocks.elements > limit:
            continue
        first = first or blocks
        if product_units(parts, blocks) >= most:
            return _near(parts, blocks, device)
    if first is None:
        raise UnsupportedOp("the rows between two products, or that are reduced, exceed the cache")
    return _near(parts, first, device)


def _near(parts: ProductParts, blocks: ProductBlocks, device: Device) -> ProductBlocks:
    """`blocks`, or where a product has few terms and results of more than a level-2 cache, those of one tile's rows,
    whose sums stay in a level-1 cache."""
    (first, *others), size = blocks.steps, parts.dtype.itemsize
    *_, terms, across = parts.rights[0].space
    short = terms * size <= SHORT_TERMS and parts.height * across * size > device.l2_bytes
    if others or parts.rest.reduces or not short or terms * across * size > device.l2_bytes // 2:
        return blocks
    near = _blocks(parts, first.tile.rows, NARROW_ROW // size, device)
    return near if near.steps[0].tile == first.tile else blocks


def evened(parts: ProductParts, blocks: ProductBlocks, device: Device) -> ProductBlocks | None:
    """Other blocks than `blocks`, which threads share more evenly; None where none are expected to be better. Of other
    rows, if such are, as narrow ones read the left operand more often."""
    (step, *others), units = blocks.steps, product_units(parts, blocks)
    few = device.threads < units < EVEN_UNITS * device.threads
    if others or not few or step.tile.streams or step.tile.dots:
        return None
    most = EVENER * _expected(parts, blocks, device)
    row_counts = [r for n in (8, 6, 4, 3, 2) if MOST_ROWS <= (r := blocks.rows * n // 4) <= UNIT_ROWS]
    whole = parts.rest.reduces or _whole_rows(parts, device)
    for columns in [blocks.columns] if whole else [blocks.columns // n for n in (1, 2, 4)]:
        every = [_blocks(parts, rows, columns, device) for rows in row_counts if columns >= 2 * LINE]
        every = [other for other in every if other.elements <= _room(parts, device)]
        best = min(every, key=lambda other: _expected(parts, other, device), default=blocks)
        if _expected(parts, best, device) < most:
            return best
    return None


def _room(parts: ProductParts, device: Device) -> int:
    """Elements of the buffers of a unit, at most."""
    return min(STACK_BYTES, int(LEVEL_2_SHARE * device.l2_bytes)) // parts.dtype.itemsize


def _expected(parts: ProductParts, blocks: ProductBlocks, device: Device) -> float:
    """Cycles for a term of all units, where threads have as many as the one with the most."""
    units = product_units(parts, blocks)
    share = -(-units // device.threads) * device.threads / units
    return share * cycles_of(blocks.steps[0].tile, heights(parts.height, blocks.rows), parts.out[-1])


def product_units(parts: ProductParts, blocks: ProductBlocks) -> int:
    across = -(-parts.out[-1] // blocks.columns)
    return math.prod(dim.extent for dim in parts.outer) * -(-parts.height // blocks.rows) * across


def heights(extent: int, rows: int) -> tuple[tuple[int, int], ...]:
    """The extents of blocks of `rows`, and how many there are of each: the last one may have fewer."""
    whole, last = divmod(extent, rows)
    return ((rows, whole),) * (whole > 0) + ((last, 1),) * (last > 0)


def _whole_rows(parts: ProductParts, device: Device) -> list[tuple[int, int]]:
    """Rows and columns of a unit of whole rows, where arrays behind a product are far: what follows streams of memory
    loses those that end after some lines. They read a right operand that stays near for fewer rows."""
    *_, terms, across = parts.rights[0].space
    size = parts.dtype.itemsize
    arrays = sum(n.type.size == parts.products[-1].type.size for n in (*parts.rest.arrays, *parts.rest.body.outputs))
    is_near = not _is_far(arrays * parts.products[-1].type.nbytes, device)
    if len(parts.products) > 1 or terms * across * size > device.l2_bytes // 2 or is_near:
        return []
    return [(rows, across) for rows in (UNIT_ROWS // 2, UNIT_ROWS // 4, MOST_ROWS) if rows <= parts.height]


def _cuts(parts: ProductParts) -> Iterator[tuple[int, int]]:
    """Rows and columns of a unit, at most, from large ones to small ones. Each unit reads the left operand for its rows
    and the right one for its columns: the larger of the two is cut first."""
    rows, across = UNIT_ROWS, parts.out[-1]
    whole = parts.rest.reduces or len(parts.products) > 1
    wide = STREAM_WIDE if parts.height <= FEW_ROWS else WIDE_ROW
    columns = across if whole else min(across, wide // parts.dtype.itemsize)
    while True:
        yield rows, columns
        if not whole and across > parts.height and columns > 2 * LINE:
            columns //= 2
        elif rows > MOST_ROWS and parts.height > rows // 2:
            rows //= 2
        elif not whole and columns > 2 * LINE:
            columns //= 2
        elif rows > 1:
            rows //= 2
        else:
            return


def _blocks(parts: ProductParts, rows: int, columns: int, device: Device, at_once: bool = True) -> ProductBlocks:
    high = _even(parts.height, rows, MOST_ROWS if rows > MOST_ROWS else 1)
    if len(parts.products) == 1:
        return ProductBlocks(high, (_step(parts, 0, high, columns, device, at_once=at_once),))
    across = parts.products[0].shape[-1]
    whole = parts.lefts[1].reduces and parts.online is None
    between = across if whole else BETWEEN // parts.dtype.itemsize
    first = _step(parts, 0, high, between, device, between < across)
    by_block = first.columns if first.columns < across else None
    return ProductBlocks(high, (first, _step(parts, 1, high, columns, device, by_block=by_block)))


def _step(
    parts: ProductParts, number: int, rows: int, columns: int, device: Device, again: bool = False,
    by_block: int | None = None, at_once: bool = True,
) -> ProductStep:  # fmt: skip
    """`again`: the left operand is read for one block of columns after another. `by_block`: so many terms are at hand
    at a time. `at_once`: as `product_blocks` takes it."""
    size, left = parts.dtype.itemsize, parts.lefts[number]
    terms, across = left.space[-1], parts.products[number].shape[-1]
    last, _ = heights(parts.height, rows)[-1]
    tile, depth, place = _way(parts, number, rows, columns, device)
    depth = by_block or depth
    columns, end = _columns(across, columns, tile)
    if place is not None and not tile.streams and across % tile.columns and (depth < terms or end < tile.columns):
        place = None
    by_units = place is None and not tile.dots and _by_units(parts, rows)
    if by_units:
        depth = _even(terms, COPIED_BYTES // size, 1)
    source = None if number or len(left.body.outputs) > 1 else left.array_access(parts.dtype)
    if source is not None and tile.dots and source.strides[-1] != 1:
        source = None  # vectors lie along the terms
    if source is not None and rows % tile.rows + last % tile.rows and (depth < terms or last < tile.rows):
        source = None
    is_large = parts.height * terms * size > device.l2_bytes // 2
    side_by_side = tile.rows > 1 and _is_short_and_far(parts, number, device)
    if source is not None and is_large and (side_by_side or across > COPIED_FROM * tile.columns):
        source = None
    transposed = source is None and not number and _is_transposed(left)
    at_once = at_once and source is None and not transposed and _is_far(left.elements * size, device)
    held = terms if again or left.reduces or number > 0 or at_once else depth
    high = -(-rows // tile.rows) * tile.rows
    width = stride_of(-(-columns // tile.columns) * tile.columns, size)
    return ProductStep(
        tile, columns, depth, source, place, held, transposed, stride_of(high if transposed else held, size), width,
        tile.streams > 0 and depth < terms, width if by_units else 0,
    )  # fmt: skip


def _way(
    parts: ProductParts, number: int, rows: int, columns: int, device: Device
) -> tuple[RegisterTile, int, Access | None]:
    """The tile by which a product of `rows` and `columns` at a time takes the fewest cycles, the terms that are added
    at a time, and where the right operand is read in place."""
    size, left, right = parts.dtype.itemsize, parts.lefts[number], parts.rights[number]
    terms, across = left.space[-1], parts.products[number].shape[-1]
    blocks, (last, _) = heights(parts.height, rows), heights(parts.height, rows)[-1]
    place, access = _right_place(right, parts, device), right.array_access(parts.dtype)
    high = min(rows, last) if last * 2 > rows else rows
    tile = register_tile(high, blocks, min(columns, across), vector_bytes(), size, place is not None)
    short, deep = _even(terms, TERM_BYTES // size, 1), _even(terms, TERM_BYTES // size * (vector_bytes() // size), 1)
    if number and parts.online:
        return tile, short, place
    in_dots = access is not None and access.strides[-2] == 1
    few = across <= MOST_DOTS or (in_dots and parts.height <= DOT_ROWS)
    if few and terms >= 2 * vector_bytes() // size and (number or not _is_transposed(left)):
        high = math.gcd(rows, last) if deep < terms else min(rows, last)
        far = _is_short_and_far(parts, number, device)
        high = 1 if far else high
        overlaps = in_dots and deep == terms and across - columns * ((across - 1) // columns) > MOST_VECTORS
        dots = dots_for(high, blocks, across, vector_bytes(), size, overlaps)
        copied = 0 if place is not None else COPY_OF_VECTOR * across / tile.lanes
        copied += COPY_OF_VECTOR * parts.height / dots.lanes * far
        cycles = [cycles_of(t, blocks, across) * (terms + t.ending / t.cycles) for t in (tile, dots)]
        if cycles[0] + copied * terms > cycles[1]:
            return dots, deep, access if in_dots else None
    streams, near = stream_for(rows, vector_bytes(), size), device.l2_bytes // (4 if parts.height > 2 else 64)
    is_far = terms * across * size > near or (across % streams.columns > 0 and short < terms)
    if place is None or not is_far or parts.height > FEW_ROWS or across < streams.lanes or terms < 2 * streams.streams:
        return tile, short, place
    if parts.height > STREAM_ROWS:  # the next ones read it again
        short = min(short, _even(terms, max(1, near // min(across * size, STREAM_WIDE)), streams.streams))
    return streams, short, place


def _is_far(nbytes: int, device: Device) -> bool:
    return len(device.levels) > 1 and nbytes > PART_OF_LAST * device.levels[-2][0]


def _is_short_and_far(parts: ProductParts, number: int, device: Device) -> bool:
    """Are rows of the left operand so short, and so far, that they are best read one after another?"""
    left, size = parts.lefts[number], parts.dtype.itemsize
    return left.space[-1] * size < SIDE_BY_SIDE and math.prod(left.space) * size > device.l2_bytes


def _columns(across: int, most: int, tile: RegisterTile) -> tuple[int, int]:
    """The columns of a block, and of the last one: at least those of a tile, where the right operand streams by."""
    columns = _even(across, max(most, tile.columns), tile.columns)
    while True:
        end = across - (-(-across // columns) - 1) * columns
        if end >= min(tile.columns, across) or not tile.streams:
            return columns, end
        columns += tile.columns


def _right_place(right: BlockPart, parts: ProductParts, device: Device) -> Access | None:
    """Where the right operand is read in place: it lies along its rows, and is near, or read once or twice; a constant,
    which is copied when the program is built, for one row alone."""
    access = right.array_access(parts.dtype)
    terms, across = right.space[-2:]
    if access is None or (across > 1 and access.strides[-1] != 1):
        return None
    if right.is_of_constants:
        return access if parts.height == 1 else None
    near = terms * across * parts.dtype.itemsize <= device.l2_bytes // 4
    return access if near or parts.height <= FEW_ROWS else None


def _by_units(parts: ProductParts, rows: int) -> bool:
    """Do units copy the right operand? One or two of them read a part of it; panels would cross memory twice more."""
    right = parts.rights[0]
    alone = len(parts.products) == 1 and outer_of(parts, 0) == parts.outer
    units = COPYING_UNITS if right.array_access(parts.dtype) else 1
    return alone and not right.is_of_constants and parts.height <= units * rows


def outer_of(parts: ProductParts, number: int) -> tuple[Dim, ...]:
    """The outer dimensions along which a right operand differs."""
    arrays = parts.rights[number].arrays.values()
    return tuple(dim for dim in parts.outer if any(dim.step(a) for a in arrays))


def _is_transposed(left: BlockPart) -> bool:
    """Do the arrays of a left operand lie along its columns? Then so does the copy."""
    steps = [a.strides[-2:] for a in left.arrays.values()]
    return not left.reduces and any(abs(m) == 1 for m, _ in steps) and not any(abs(k) == 1 for _, k in steps)


def _even(extent: int, most: int, multiple: int) -> int:
    """Extents of as few equal blocks as `most` allows."""
    count = -(-extent // max(1, most))
    each = -(-extent // count)
    return each if count == 1 else -(-each // multiple) * multiple
