"""The schedule of a map on a GPU: a grid-stride loop over the shape of the results, 16 bytes a thread and turn; or
tiles through shared memory, where arrays lie with another axis fastest.

In: a map body. Out: `MapSchedule` or `TilesSchedule`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.emit.cuda.scheduling.operands import arrays_of_each
from eqfuse.emit.cuda.scheduling.registers import resident
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, unless_empty
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.elements import bytes_read
from eqfuse.ops import Role
from eqfuse.ops.types import Shape

THREADS = 256  # of a block
SIXTEEN_WAVES = 132 * 8 * 16  # sixteen waves of the largest device; a thread then takes more than one turn
LEAST_OF_TILES = 32  # elements of either axis for which tiles are made
LINE_THREADS = 8  # threads that share a line of a tile, with 16 bytes each
MOST_TILES = 2**31 - 1  # blocks that one launch may have


@dataclass(frozen=True, kw_only=True)
class MapSchedule(CudaSchedule):
    """A thread computes `width` neighbours at a time; single elements are left at the end."""

    width: int

    def details(self) -> list[str]:
        return [f"{self.width} neighbours a thread and turn"]


@dataclass(frozen=True, kw_only=True)
class TilesSchedule(CudaSchedule):
    """A block computes a tile of `axis` and the last axis, of `side` x `side` elements, of which each thread takes
    `width`. The values `transposed` lie with `axis` fastest: they are read along it, and pass through shared memory.
    `at_once`: the elements of a thread are neighbours where values are read along `axis`; along the last axis."""

    axis: int
    transposed: tuple[Node, ...]
    width: int
    at_once: tuple[bool, bool]

    @property
    def side(self) -> int:
        return LINE_THREADS * self.width

    def line(self, n: Node) -> int:
        """Elements from line to line of the tile of `n`: those that are not read at once lie in banks of their own."""
        return self.side + (0 if all(self.at_once) else max(1, 4 // n.dtype.itemsize))

    def details(self) -> list[str]:
        return [f"tiles of {self.side} x {self.side}, through shared memory for {len(self.transposed)} values"]


@unless_empty
def map_schedule(body: Graph, device: Device) -> CudaSchedule:
    shape = body.outputs[0].shape
    if any(o.shape != shape for o in body.outputs):
        raise UnsupportedOp("a cuda map kernel writes results of one shape")
    reads, writes = bytes_read(body, body.outputs), tuple(o.type.nbytes for o in body.outputs)
    access = 16 // max(n.dtype.itemsize for n in (*body.inputs, *body.outputs))  # elements of 16 bytes
    if tiles := _tiles(body, shape, min(access, LINE_THREADS), device):
        axis, transposed = tiles
        width = min(access, LINE_THREADS)
        side = LINE_THREADS * width
        blocks = math.prod(shape) // (shape[axis] * shape[-1]) * -(-shape[axis] // side) * -(-shape[-1] // side)
        if blocks <= MOST_TILES:
            at_once = (width > 1 and shape[axis] % width == 0, width > 1 and shape[-1] % width == 0)
            return TilesSchedule(reads, writes, 1, grid=(blocks, 1), block=(LINE_THREADS * side, 1), axis=axis,
                                 transposed=transposed, width=width, at_once=at_once)  # fmt: skip
    size = math.prod(shape)
    width = access if size >= access else 1
    blocks = max(1, min(SIXTEEN_WAVES, -(-size // (THREADS * width))))
    return MapSchedule(reads, writes, 1, grid=(blocks, 1), block=(THREADS, 1), width=width,
                       resident=resident(body, THREADS, width))  # fmt: skip


def _tiles(body: Graph, shape: Shape, width: int, device: Device) -> tuple[int, tuple[Node, ...]] | None:
    """The axis along which most bytes of arrays are neighbours, where that is not the last one, and those values."""
    if not shape or shape[-1] < LEAST_OF_TILES:
        return None
    by_axis: dict[int, list[Node]] = {}
    edges = list(_edges(body, shape))
    lying = arrays_of_each(edges)
    for n in edges:
        arrays = lying[n]
        if len(arrays) == 1 and (axis := _fast_axis(n, next(iter(arrays)).strides)) is not None:
            by_axis.setdefault(axis, []).append(n)
    if not by_axis:
        return None
    axis = max(by_axis, key=lambda a: (sum(n.type.nbytes for n in by_axis[a]), a))
    side = LINE_THREADS * width
    held = sum(side * (side * n.dtype.itemsize + max(4, n.dtype.itemsize)) for n in by_axis[axis])
    return (axis, tuple(by_axis[axis])) if held <= device.shared_bytes and held <= 48 << 10 else None


def _edges(body: Graph, shape: Shape) -> Iterator[Node]:
    """The views with the last axes of `shape` that the elementwise work of `body` reads."""
    seen, stack = set(body.outputs), list(body.outputs)
    while stack:
        n = stack.pop()
        if n.row.role is Role.VIEW and n.type.rank > 1 and n.shape == shape[-n.type.rank :]:
            yield n
        elif n.row.role is Role.ELEMENTWISE:
            new = [a for a in dict.fromkeys(n.args) if a not in seen]
            seen.update(new)
            stack += new


def _fast_axis(n: Node, strides: tuple[int, ...]) -> int | None:
    """The axis of neighbours of `n`, counted from the end, where it is not the last, and elements along the last are
    no neighbours."""
    last = abs(strides[-1]) * n.dtype.itemsize
    pairs = zip(strides[:-1], n.shape[:-1], strict=True)
    axes = [a - n.type.rank for a, (s, extent) in enumerate(pairs) if s == 1 and extent >= LEAST_OF_TILES]
    return axes[0] if len(axes) == 1 and last >= LEAST_OF_TILES else None
