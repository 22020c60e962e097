"""The schedule of a tiled product on a GPU, with elementwise work before and after it.

In: a contract body. Out: `ProductSchedule`. Each operand counts as read once: what tiles load again lies in level 2, as
those that share it run together (`emit/cuda/contract.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.cost.work import Work
from eqfuse.emit.cuda.scheduling.calls import calls_schedule
from eqfuse.emit.cuda.scheduling.operands import ACCESS, Reading, readings
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, computed_dtype, unless_empty
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.elements import bytes_read
from eqfuse.kinds.product import (
    Product,
    Tile,
    fastest_tile,
    has_tensor_cores,
    is_tiled,
    narrowed,
    product_of_node,
    seconds,
)
from eqfuse.ops import Role

TILES_AT_A_TIME = 8  # tiles below one another that run at a time, so that they find in level 2 what they share


@dataclass(frozen=True, kw_only=True)
class ProductSchedule(CudaSchedule):
    """A block computes one `tile` of `product`, the result of `node`, from `operands`: those of `node`, or what both of
    them are widened from. `tensor`: on tensor cores. It reads the operands as `left` and `right` say, and writes
    `width` neighbours at once. Blocks run in bands of `high` tiles below one another, column by column."""

    node: Node
    operands: tuple[Node, Node]
    product: Product
    tile: Tile
    tensor: bool
    left: Reading
    right: Reading
    width: int
    high: int = TILES_AT_A_TIME

    @property
    def blocks(self) -> float:
        """The waves of its blocks are in the seconds of the product (`kinds/product.py`)."""
        return math.inf

    def compute_seconds(self, work: Work, device: Device) -> float:
        """Its multiplications at the rate of the template."""
        return work.seconds + seconds(self.product, device) - self.product.library

    def details(self) -> list[str]:
        t, cores = self.tile, "tensor cores" if self.tensor else "cores"
        at_once = f"{self.left.width} and {self.right.width} neighbours of the operands at once"
        return [
            f"tiles of {t.rows} x {t.columns}, {t.depth} terms at a time, on {cores}, in bands of {self.high}",
            f"reads {at_once}, writes {self.width}",
        ]


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
    tile, tensor = fastest_tile(product, device), has_tensor_cores(product.dtype, device)
    left, right = readings(operands, product, operands[0].dtype if tensor else computed_dtype(node.dtype))
    down, across = max(1, -(-product.rows // tile.rows)), max(1, -(-product.columns // tile.columns))
    return ProductSchedule(
        bytes_read(body, body.outputs), tuple(o.type.nbytes for o in body.outputs), 1,
        grid=(product.batch * down * across, 1), block=(tile.threads(tensor), 1),
        node=node, operands=operands, product=product,
        resident=2 if min(left.width, right.width) > 1 else 1,  # single elements take more registers
        tile=tile, tensor=tensor, left=left, right=right, width=_written_at_once(body, node, product, tensor),
    )  # fmt: skip


def group_of(node: Node, tensor: bool) -> int:
    """Neighbours of a row of the result whose sums a thread holds side by side: those of a fragment of the tensor
    cores, or of one access."""
    return 2 if tensor else ACCESS // computed_dtype(node.dtype).itemsize


def _written_at_once(body: Graph, node: Node, product: Product, tensor: bool) -> int:
    """All of a group, where the rows of the results are made of groups and one access holds them."""
    run = math.prod(node.shape[2:]) if product.windows else product.columns
    group, widest = group_of(node, tensor), max(n.dtype.itemsize for n in (*body.inputs, *body.outputs))
    return group if run % group == 0 and widest * group <= ACCESS else 1
