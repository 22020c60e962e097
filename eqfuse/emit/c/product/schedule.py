"""The schedule of a product of our own in C, or of two in a chain, with the work before, between and after them.

In: a body of kind contract or back_to_back. Out: `ProductSchedule`, or the NumPy target's schedule where that is
cheaper, as BLAS is for large products with little around them. Next stop: `writer.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.c.calls import numpy_side, tiles_schedule
from eqfuse.emit.c.device import vector_bytes
from eqfuse.emit.c.loops import Loops, result_access
from eqfuse.emit.c.nest import SHORT_DIMENSION, Access, Dim
from eqfuse.emit.c.product.blocks import (
    ProductBlocks,
    ProductStep,
    evened,
    heights,
    outer_of,
    product_blocks,
    product_units,
)
from eqfuse.emit.c.product.online import online_parts_of
from eqfuse.emit.c.product.parts import BlockPart, ProductParts, parts_of
from eqfuse.emit.c.product.tile import terms
from eqfuse.emit.c.product.turns import in_turns, in_turns_of_terms
from eqfuse.emit.c.rates import traffic_of, work_of
from eqfuse.emit.c.schedule import CompiledSchedule, shared
from eqfuse.emit.c.streaming import exceeds_caches
from eqfuse.emit.numpy.cost.figures import SPINNING
from eqfuse.emit.numpy.tiling import node_work as call_work
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import computes, leaf_chain
from eqfuse.kinds.elements import bytes_read
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops.types import TensorType

# The rate of the innermost loops over that of BLAS on the same type of float, by the type of sums; integers are set
# against float32. On two cores of a Zen 4, 512-bit vectors, 256 x 256 x 256: 113 Gflop/s a thread, and BLAS 104.
SHARE = {"float32": 1.06, "float64": 1.06, "uint32": 0.9, "uint64": 0.44}
# Of the blocks of a softmax that has a mask. What a mask leaves is data: half of them where each row has what comes
# before it, or all.
LEVEL2_LEFT = 0.75
FAR_DEARER = 1.5  # than a product by BLAS is one of ours that still is better for what runs beside it
STRIDED = 1.5  # times as long as in one piece it takes to copy panels, whose lines lie far apart
ABOUT_AS_LONG = 1.01  # times as long as another takes a schedule that needs less memory, at most
FAR_TILES = 1.3  # times as long as loops over whole rows tiles wait for what is in memory: they take many short pieces
PIECE = 4096  # bytes of a row of a right operand that streams by, at least: a page, beyond which no prefetcher looks
OPERAND_COPIED = 2  # additions that it takes to copy an element of an operand


@dataclass(frozen=True, eq=False, kw_only=True)
class ProductSchedule(CompiledSchedule):
    """`lefts`, `rights`: what copies operands, None for those that are read in place; `rest`: what follows the last
    product. Of a softmax that is made block by block, `tops` are the maxima, and `live` tells which blocks to take."""

    body: Graph
    parts: ProductParts
    blocks: ProductBlocks
    lefts: tuple[Loops | None, ...]
    rights: tuple[Loops | None, ...]
    rest: Loops
    tops: Loops | None = None
    live: Loops | None = None

    @cached_property
    def workspaces(self) -> list[TensorType]:
        """Copies of right operands, of one turn, and the sums that units keep from turn to turn."""
        numbers = [number for number, s in enumerate(self.blocks.steps) if s.in_panels]
        kept = [TensorType(self.parts.dtype, (self.units, self.blocks.sums))] * (self.blocks.sums > 0)
        return [*(_panels(self.parts, number, self.blocks) for number in numbers), *kept]

    @property
    def workspace_bytes(self) -> int:
        return sum(t.nbytes for t in self.workspaces)

    @cached_property
    def copied(self) -> frozenset[int]:
        """The numbers of the inputs that right operands are copied from."""
        copied = (part for part, loops in zip(self.parts.rights, self.rights, strict=True) if loops is not None)
        return frozenset(self.body.inputs.index(n) for part in copied for n in part.leaves if n in self.body.inputs)

    @property
    def read_by_tiles(self) -> frozenset[int]:
        """The numbers of the inputs that tiles read where they lie, or in panels that were copied before the call."""
        lefts = [p for p, step in zip(self.parts.lefts, self.blocks.steps, strict=True) if step.left is not None]
        rights = [p for p, step in zip(self.parts.rights, self.blocks.steps, strict=True) if step.right is not None]
        leaves = {leaf_chain(p.body.outputs[0])[0] for p in (*lefts, *rights)}
        in_place = frozenset(i for i, n in enumerate(self.body.inputs) if n in leaves)
        return in_place | self.copied if self.copies_once else in_place

    @property
    def overlays(self) -> Mapping[Node, frozenset[int]]:
        """By input that no operand is made of, the results that may lie over it."""
        operands = {n for part in (*self.parts.lefts, *self.parts.rights) for n in part.leaves}
        return {n: results for n, results in self.rest.overlays.items() if n not in operands}

    @property
    def copies_once(self) -> bool:
        """Are all of these constants? Then a program copies them when it is made."""
        return all(self.body.inputs[i].is_constant_leaf for i in self.copied)

    @property
    def between(self) -> int:
        return 0 if self.copies_once else self.workspace_bytes * self.blocks.turns

    @property
    def units(self) -> int:
        """Those of a turn."""
        units = product_units(self.parts, self.blocks)
        return units if self.blocks.turn_terms else units // self.blocks.turns

    def __str__(self) -> str:
        turns = f", in {self.blocks.turns} turns of" if self.blocks.turns > 1 else ","
        units = product_units(self.parts, self.blocks)
        lines = [f"{units} blocks of {self.blocks.rows} x {self.blocks.columns}{turns} {self.sharing}"]
        for step, right in zip(self.blocks.steps, self.rights, strict=True):
            t = step.tile
            tiles = f"tiles of {t.rows} x {t.columns}"
            if t.streams:
                rows = "one row" if t.rows == 1 else f"{t.rows} rows"
                tiles = f"{rows} of {step.columns} columns, {t.streams} terms at once"
            lines.append(
                f"{tiles}, {step.depth} terms at a time; reads the left operand "
                f"{'in place' if step.left else 'as copied by its block'}, the right one "
                f"{'in panels copied before' if step.in_panels else 'as copied by its block' if right else 'in place'}"
            )
        if self.tops is not None:
            lines.append("a softmax made block by block" + ", of those that a mask leaves" * (self.live is not None))
        lines.append(f"{self.blocks.elements * self.parts.dtype.itemsize:,} bytes of buffers in each thread")
        return "\n".join(lines)


def products_schedule(body: Graph, device: Device) -> Schedule:
    """Ours, or the NumPy target's, which computes no right operand, where there is none of ours or it is far cheaper.

    The threads of BLAS look for work for some 100 milliseconds after a product, and meanwhile our kernels share their
    cores: one product by BLAS, the smallest too, makes all the others of a model take twice as long.
    """
    if any(n.op == "matmul" and computes(leaf_chain(n.args[1])[0]) for n in body.nodes):
        return product_schedule(body, device)
    try:
        ours = product_schedule(body, device)
    except UnsupportedOp:
        return tiles_schedule(body, device)
    seconds = ours.price(device).seconds
    works = [call_work(n, numpy_side(device)) for n in body.nodes if n.op == "matmul"]
    least = sum(min(work.seconds, work.whole - work.shared) for work in works)
    if seconds <= _dear(least):
        return ours
    by_numpy = tiles_schedule(body, device)
    return ours if seconds <= _dear(by_numpy.price(device).seconds) else by_numpy


def _dear(by_numpy: float) -> float:
    """The seconds above which a kernel of ours is far dearer than one that takes so many by NumPy."""
    return by_numpy + min(SPINNING, (FAR_DEARER - 1) * by_numpy)


def product_schedule(body: Graph, device: Device) -> ProductSchedule:
    """Of two products with a softmax between them, the cheaper of whole rows and of one block after another."""
    # No refusal is kept in a variable: it holds this frame, and by it all that the search has made.
    parts = parts_of(body)
    try:
        whole = schedule_of(body, parts, device)
    except UnsupportedOp as refusal:
        try:
            return schedule_of(body, online_parts_of(body, parts), device)
        except UnsupportedOp:
            raise refusal from None
    try:
        online = schedule_of(body, online_parts_of(body, parts), device)
    except UnsupportedOp:
        return whole
    return min(whole, online, key=lambda s: s.seconds)


def schedule_of(body: Graph, parts: ProductParts, device: Device) -> ProductSchedule:
    """UnsupportedOp where the buffers of `parts` exceed the cache."""
    rough = sum(2 * n.type.size * n.args[0].shape[-1] for n in parts.products) / tile_rate(parts.dtype, device)
    rough = max(rough, sum(device.single.memory_seconds(n.args[1].type.nbytes) for n in parts.products))
    blocks = product_blocks(parts, device, rough)
    first = _of_blocks(body, parts, in_turns(parts, blocks, device, rough), device)
    even = evened(parts, blocks, device)
    if even is not None:
        other = _of_blocks(body, parts, in_turns(parts, even, device, rough), device)
        first = other if other.seconds < first.seconds else first
    by_terms = in_turns_of_terms(parts, device, rough, first.workspace_bytes)
    if by_terms is None:
        return first
    other = _of_blocks(body, parts, by_terms, device)
    dearer = ABOUT_AS_LONG if other.workspace_bytes < first.workspace_bytes else 1
    return other if other.seconds <= dearer * first.seconds else first


def _of_blocks(body: Graph, parts: ProductParts, blocks: ProductBlocks, device: Device) -> ProductSchedule:
    steps = blocks.steps
    if parts.online is not None and not blocks.is_chained(1):
        raise UnsupportedOp("a row of one block is whole")
    lefts = tuple(None if s.left else _left(parts, number, blocks) for number, s in enumerate(steps))
    rights = tuple(None if s.right else _right(parts, number, blocks) for number, s in enumerate(steps))
    rest = _over_rows(parts, parts.rest, blocks, blocks.columns)
    online = (parts.online.tops, parts.online.live) if parts.online is not None else (None, None)
    tops, live = (None if x is None else _over_rows(parts, x, blocks, steps[1].depth) for x in online)
    reads, writes = bytes_read(body, body.outputs), tuple(o.type.nbytes for o in body.outputs)
    schedule = ProductSchedule(
        reads, writes, 1, body=body, parts=parts, blocks=blocks, lefts=lefts, rights=rights, rest=rest,
        tops=tops, live=live,
    )  # fmt: skip
    return _priced(schedule, device)


def _panels(parts: ProductParts, number: int, blocks: ProductBlocks) -> TensorType:
    """The copy of a right operand: panels of the columns of a tile, one after another, each by terms."""
    terms_, wide = blocks.turn_terms or parts.rights[number].space[-2], blocks.steps[number].tile.columns
    outer = math.prod(dim.extent for dim in outer_of(parts, number))
    return TensorType(parts.dtype, (outer, blocks.panels(number, parts), terms_, wide))


def _left(parts: ProductParts, number: int, blocks: ProductBlocks) -> Loops:
    step = blocks.steps[number]
    terms = step.depth if blocks.is_chained(number) else step.held
    return _over_rows(parts, parts.lefts[number], blocks, terms, step.transposed)


def _over_rows(
    parts: ProductParts, part: BlockPart, blocks: ProductBlocks, columns: int, transposed: bool = False
) -> Loops:
    """The loops over the rows of a unit and `columns` of them; over rows within columns where `transposed`, or rows are
    short."""
    last, rows = len(part.space) - 1, replace(parts.rows[-1], block=min(blocks.rows, parts.height))
    dims = (*parts.outer, rows, Dim((last,), part.space[-1], part.reduces, columns))
    d = len(parts.rows)
    transposed = transposed or (part.space[-1] < SHORT_DIMENSION <= blocks.rows and not part.reduces)
    axes = (last,) if part.reduces else ()
    written = [Access(0, (0,) * (last + 1))] * len(part.body.outputs)
    if part is parts.rest:
        written = [result_access(o, part.space, axes) for o in part.body.outputs]
    vector, inside = (d - 1, (d,)) if transposed else (d, ())
    return part.loops(dims, vector, inside, written)


def _right(parts: ProductParts, number: int, blocks: ProductBlocks) -> Loops:
    """The loops over the terms and columns of a panel, or of what a unit copies; along the one by which its arrays
    lie."""
    part, step = parts.rights[number], blocks.steps[number]
    *_, terms_, across = part.space
    wide = step.tile.columns if step.in_panels else blocks.columns
    deep = terms_ if step.tile.dots else step.depth
    last = len(part.space) - 1
    dims = (*outer_of(parts, number), Dim((last - 1,), terms_, False, deep), Dim((last,), across, False, wide))
    d = len(dims) - 1
    by_terms = any(abs(a.strides[-2]) == 1 for a in part.arrays.values()) and terms_ >= SHORT_DIMENSION
    by_terms = by_terms and not any(abs(a.strides[-1]) == 1 for a in part.arrays.values())
    vector, inside = (d - 1, d) if by_terms else (d, d - 1)
    return part.loops(dims, vector, (inside,), [Access(0, (0,) * len(part.space))])


@lru_cache(maxsize=64)
def tile_rate(dtype: np.dtype, device: Device) -> float:
    """Multiplications and additions in a second of one thread, in tiles of whole vectors of sums of `dtype`."""
    base = dtype.name if dtype.name in ("float32", "float64") else "float32"
    return SHARE[dtype.name] * device.contraction_flops(base) / device.threads


def _multiplied(s: ProductSchedule, device: Device) -> float:
    """Seconds of one thread for the innermost loops of all products."""
    lanes, cycles = vector_bytes() // s.parts.dtype.itemsize, 0.0
    outer = math.prod(dim.extent for dim in s.parts.outer)
    for number, step in enumerate(s.blocks.steps):
        depth, across = s.parts.lefts[number].space[-1], s.parts.products[number].shape[-1]
        t, blocks = step.tile, heights(s.parts.height, s.blocks.rows)
        again = -(-s.parts.out[-1] // s.blocks.columns) if number < len(s.blocks.steps) - 1 else 1
        turns = -(-depth // step.depth)
        calls = outer * again * terms(t, blocks, across) / t.cycles * turns
        cycles += calls * t.called(depth / turns, outer > 1)
    return cycles * 2 * lanes / tile_rate(s.parts.dtype, device)


def _around(s: ProductSchedule, device: Device) -> Iterator[tuple[float, int]]:
    """Seconds of one thread, and operations, of all that is computed or copied beside the products."""
    across, high = -(-s.parts.out[-1] // s.blocks.columns), -(-s.parts.height // s.blocks.rows)
    copies = [(x, across) for x in s.lefts]
    if not s.copies_once:
        copies += [(x, 1 if step.in_panels else high) for x, step in zip(s.rights, s.blocks.steps, strict=True)]
    online = [(x, 1) for x in (s.tops, s.live)]
    for loops, times in [*((x, n) for x, n in (*copies, *online) if x is not None), (s.rest, 1)]:
        seconds, flops = _work_of(loops, device)
        copied = loops.nest.elements * OPERAND_COPIED * device.threads / device.scalar_rate("float32")
        yield times * (seconds + copied), times * flops


@lru_cache(maxsize=256)  # a search makes many bodies of the same operands
def _work_of(loops: Loops, device: Device) -> tuple[float, int]:
    return work_of(loops.nest, loops.forms, loops.seams, device)


def _rescaled(s: ProductSchedule, device: Device) -> float:
    """Seconds of one thread to scale the sums of blocks before, where a softmax is made block by block."""
    if s.tops is None:
        return 0.0
    blocks = -(-s.parts.lefts[1].space[-1] // s.blocks.steps[1].depth)
    return blocks * s.parts.products[1].type.size * device.threads / device.scalar_rate(s.parts.dtype.name)


def _hides(step: ProductStep, across: int, size: int) -> bool:
    """Does a right operand stream by in long pieces of its rows?"""
    return step.tile.streams > 0 and step.columns * size >= min(across * size, PIECE)


def _streamed(s: ProductSchedule, device: Device) -> float:
    """Seconds of one thread to wait for right operands, once for each unit. Tiles hide as much of it again, and those
    by which they stream hide all, unless they take short pieces of longer rows; so do products of panels that lie
    ready, unless they are faster than these come."""
    high = math.prod(dim.extent for dim in s.parts.outer) * -(-s.parts.height // s.blocks.rows)
    size, parts = s.parts.dtype.itemsize, zip(s.parts.rights, s.blocks.steps, strict=True)
    sizes = [math.prod(part.space[-2:]) * size for part, step in parts if not _hides(step, part.space[-1], size)]
    seconds = sum(high * n / 2 / device.single.bandwidth(n) for n in sizes if n > device.l2_bytes)
    lies_ready = s.copies_once and s.workspaces
    return max(0.0, 2 * seconds - _multiplied(s, device)) if lies_ready else seconds


def _priced(s: ProductSchedule, device: Device) -> ProductSchedule:
    around = [*_around(s, device)]
    slower = LEVEL2_LEFT if s.live is not None else 1
    tiles = slower * (_multiplied(s, device) + _streamed(s, device) + _rescaled(s, device))
    beside = slower * sum(seconds for seconds, _ in around)
    flops = sum(2 * n.type.size * n.args[0].shape[-1] for n in s.parts.products) + sum(n for _, n in around)
    read, written = sum(s.reads), sum(s.writes)
    traffic = traffic_of(read, written) + s.between
    by_tiles = min(traffic, traffic_of(sum(s.reads[i] for i in s.read_by_tiles), 0) + s.between)
    if exceeds_caches(read, written, device):
        traffic, by_tiles = traffic + round((FAR_TILES - 1) * by_tiles), round(FAR_TILES * by_tiles)
    turns = s.blocks.turns
    stages = [(tiles, by_tiles), (beside, traffic - by_tiles)]
    shares = shared(stages, read + written + s.between, s.units, device, turns)
    if not s.copies_once:
        memory = device if shares["threads"] > 1 else device.single
        shares["seconds"] += STRIDED * turns * sum(memory.memory_seconds(2 * t.nbytes) for t in s.workspaces)
    return replace(s, flops=flops, **shares)
