"""The schedule of a tiled product on a GPU, with elementwise work before and after it.

In: a contract body. Out: `ProductSchedule`. Each operand counts as read once: what tiles load again lies in level 2, as
those that share it run together (`emit/cuda/contract.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.work import Work
from eqfuse.emit.cuda.scheduling.calls import calls_schedule
from eqfuse.emit.cuda.scheduling.operands import ACCESS, Reading, is_copied, readings
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, computed_dtype, unless_empty
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.elements import bytes_read
from eqfuse.kinds.product import (
    Product,
    ProductTiles,
    Tile,
    fastest,
    has_tensor_cores,
    is_tiled,
    join_levels,
    narrowed,
    product_of_node,
)
from eqfuse.ops import Role

WGMMA_STAGES = 3  # buffers of each operand for wgmma: of one that is multiplied, and two that are filled
SWIZZLE_BYTES = 1024  # after which its pattern repeats: each buffer starts at a multiple of them
TILES_AT_A_TIME = 8  # tiles below one another that run at a time, so that they find in level 2 what they share


@dataclass(frozen=True, kw_only=True)
class ProductSchedule(CudaSchedule):
    """A block computes one tile of `product`, the result of `node`, from `operands`: those of `node`, or what both of
    them are widened from; or blocks share its terms, as `tiling` says. `tensor`: on tensor cores. It reads the operands
    as `left` and `right` say, and writes `width` neighbours at once. Blocks run in bands of `high` tiles below one
    another, column by column."""

    node: Node
    operands: tuple[Node, Node]
    product: Product
    tiling: ProductTiles
    tensor: bool
    left: Reading
    right: Reading
    width: int
    high: int = TILES_AT_A_TIME

    @property
    def tile(self) -> Tile:
        return self.tiling.tile

    @property
    def architecture_specific(self) -> bool:
        return self.tile.by_wgmma

    @property
    def blocks(self) -> float:
        """The waves of its blocks are in the seconds of the product (`kinds/product.py`)."""
        return math.inf

    def compute_seconds(self, work: Work, device: Device) -> float:
        """Its multiplications at the rate of the template."""
        return work.seconds + self.tiling.multiply - self.product.library

    def price(self, device: Device, work: Work | None = None) -> Price | None:
        price = super().price(device, work)
        return price and replace(price, seconds=price.seconds + self.tiling.join)

    def details(self) -> list[str]:
        t, cores = self.tile, "tensor cores" if self.tensor else "cores"
        cores += " by wgmma" * t.by_wgmma
        at_once = f"{self.left.width} and {self.right.width} neighbours of the operands at once"
        lines = [
            f"tiles of {t.rows} x {t.columns}, {t.depth} terms at a time, on {cores}, in bands of {self.high}",
            f"reads {at_once}, writes {self.width}",
        ]
        if self.tiling.splits > 1:
            groups = ", then ".join(str(group) for _, group in join_levels(self.tiling.splits))
            lines.append(f"{self.tiling.splits} blocks share a tile, {self.tiling.part} terms each, joined by {groups}")
        return lines


@unless_empty
def contract_schedule(body: Graph, device: Device) -> CudaSchedule:
    """Library calls for a lone product, as long as they are cheaper than the template, and where rows are reduced."""
    if body.of_role(Role.REDUCTION):
        return calls_schedule(body, device)
    return product_schedule(body, device) if is_tiled(body, device) else calls_schedule(body, device)


def product_schedule(body: Graph, device: Device) -> ProductSchedule:
    products = body.of_role(Role.CONTRACTION)
    if len(products) != 1:
        raise UnsupportedOp(f"a cuda kernel of kind contract holds one product, not {len(products)}")
    (node,) = products
    product, operands = product_of_node(node, device), narrowed(node, device)
    tensor = has_tensor_cores(product.dtype, device)
    left, right = readings(operands, product, operands[0].dtype if tensor else computed_dtype(node.dtype))
    product = replace(product, copied=tensor and all(map(is_copied, operands, (left, right))))
    tiling = fastest(product, device)
    return ProductSchedule(
        bytes_read(body, body.outputs), tuple(o.type.nbytes for o in body.outputs), 1,
        grid=(max(1, product.tiles(tiling.tile)), tiling.splits), block=(tiling.tile.threads, 1),
        workspace=_left(product.tiles(tiling.tile), tiling, computed_dtype(node.dtype)),
        shared_bytes=_buffers(tiling.tile, operands[0].dtype) if tiling.tile.by_wgmma else 0,
        resident=tiling.tile.resident if tiling.splits > 1 else 2,  # as many as share tiles at a time
        node=node, operands=operands, product=product, tiling=tiling, tensor=tensor, left=left, right=right,
        width=_written_at_once(body, node, product, tensor),
    )  # fmt: skip


def _buffers(tile: Tile, dtype: np.dtype) -> int:
    """Bytes of the buffers of both operands, and of what may lie before the first one."""
    return WGMMA_STAGES * (tile.rows + tile.columns) * tile.depth * dtype.itemsize + SWIZZLE_BYTES - ACCESS


def _left(tiles: int, tiling: ProductTiles, dtype: np.dtype) -> tuple[tuple[np.dtype, int], ...]:
    """What blocks that share tiles leave: at each level the sums of all parts, and a counter for each group of them."""
    levels = join_levels(tiling.splits)
    size = tiles * tiling.tile.rows * tiling.tile.columns
    counters = tiles * sum(-(-count // group) for count, group in levels)
    sums = [(dtype, count * size) for count, _ in levels]
    return (*sums, (np.dtype(np.uint32), counters)) if levels else ()


def group_of(node: Node, tensor: bool) -> int:
    """Neighbours of a row of the result whose sums a thread holds side by side: those of a fragment of the tensor
    cores, or of one access."""
    return 2 if tensor else ACCESS // computed_dtype(node.dtype).itemsize


def _written_at_once(body: Graph, node: Node, product: Product, tensor: bool) -> int:
    """All of a group, where the rows of the results are made of groups and one access holds them."""
    run = math.prod(node.shape[2:]) if product.windows else product.columns
    group, widest = group_of(node, tensor), max(n.dtype.itemsize for n in (*body.inputs, *body.outputs))
    return group if run % group == 0 and widest * group <= ACCESS else 1
