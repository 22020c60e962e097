"""The schedule of a map on a GPU: a grid-stride loop over the shape of the results, 16 bytes a thread and turn; or
tiles through shared memory, where arrays lie with another axis fastest.

In: a map body. Out: `MapSchedule` or `TilesSchedule`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.emit.cuda.scheduling.operands import arrays_of
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, computed_dtype, unless_empty
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.elements import bytes_read
from eqfuse.ops import Role, row
from eqfuse.ops.types import Shape

THREADS = 256
MOST_BLOCKS = 132 * 8 * 16  # sixteen waves of the largest device; a thread then takes more than one turn
TILE = 32  # elements of a tile along either axis
MOST_TILES = 2**31 - 1  # blocks that one launch may have


@dataclass(frozen=True, kw_only=True)
class MapSchedule(CudaSchedule):
    """A thread computes `width` neighbours at a time; single elements are left at the end."""

    width: int

    def details(self) -> list[str]:
        return [f"{self.width} neighbours a thread and turn"]


@dataclass(frozen=True, kw_only=True)
class TilesSchedule(CudaSchedule):
    """A block computes a tile of `axis` and the last axis, of TILE x TILE elements. The values `transposed` lie with
    `axis` fastest: they are read along it, and pass through shared memory."""

    axis: int
    transposed: tuple[Node, ...]

    def details(self) -> list[str]:
        return [f"tiles of {TILE} x {TILE}, through shared memory for {len(self.transposed)} values"]


@unless_empty
def map_schedule(body: Graph, device: Device) -> CudaSchedule:
    shape = body.outputs[0].shape
    if any(o.shape != shape for o in body.outputs):
        raise UnsupportedOp("a cuda map kernel writes results of one shape")
    reads, writes = bytes_read(body, body.outputs), tuple(o.type.nbytes for o in body.outputs)
    if found := _transposed(body, shape, device):
        axis, transposed = found
        tiles = -(-shape[axis] // TILE) * -(-shape[-1] // TILE)
        blocks = math.prod(shape) // (shape[axis] * shape[-1]) * tiles
        if blocks <= MOST_TILES:
            return TilesSchedule(reads, writes, 1, grid=(blocks, 1), block=(TILE, 8), axis=axis, transposed=transposed)
    size = math.prod(shape)
    access = 16 // max(n.dtype.itemsize for n in (*body.inputs, *body.outputs))  # elements of 16 bytes
    width = access if size >= access else 1
    blocks = max(1, min(MOST_BLOCKS, -(-size // (THREADS * width))))
    return MapSchedule(reads, writes, 1, grid=(blocks, 1), block=(THREADS, 1), width=width)


def _transposed(body: Graph, shape: Shape, device: Device) -> tuple[int, tuple[Node, ...]] | None:
    """The axis along which most bytes of arrays are neighbours, where that is not the last one, and those values."""
    if not shape or shape[-1] < TILE:
        return None
    found: dict[int, list[Node]] = {}
    for n in _edges(body, shape):
        arrays = arrays_of(n)
        if len(arrays) == 1 and (axis := _fast_axis(n, next(iter(arrays)).strides)) is not None:
            found.setdefault(axis, []).append(n)
    if not found:
        return None
    axis = max(found, key=lambda a: (sum(n.type.nbytes for n in found[a]), a))
    held = sum(TILE * (TILE + 1) * computed_dtype(n.dtype).itemsize for n in found[axis])
    return (axis, tuple(found[axis])) if held <= device.shared_bytes and held <= 48 << 10 else None


def _edges(body: Graph, shape: Shape) -> Iterator[Node]:
    """The views with the last axes of `shape` that the elementwise work of `body` reads."""
    seen, stack = set(body.outputs), list(body.outputs)
    while stack:
        n = stack.pop()
        if row(n.op).role is Role.VIEW and n.type.rank > 1 and n.shape == shape[-n.type.rank :]:
            yield n
        elif row(n.op).role is Role.ELEMENTWISE:
            new = [a for a in dict.fromkeys(n.args) if a not in seen]
            seen.update(new)
            stack += new


def _fast_axis(n: Node, strides: tuple[int, ...]) -> int | None:
    """The axis of neighbours of `n`, counted from the end, where it is not the last, and elements along the last are
    no neighbours."""
    last = abs(strides[-1]) * n.dtype.itemsize
    pairs = zip(strides[:-1], n.shape[:-1], strict=True)
    axes = [a - n.type.rank for a, (s, extent) in enumerate(pairs) if s == 1 and extent >= TILE]
    return axes[0] if len(axes) == 1 and last >= TILE else None
