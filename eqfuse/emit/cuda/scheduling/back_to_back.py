"""The schedule of two products with work on whole rows between them: the matrix between them stays on chip.

In: a back_to_back body. Out: `BackToBackSchedule`. A block keeps a tile of rows and goes over the columns of the first
product, tile by tile; each tile is multiplied into the sums of the second product at once. Where the rows between are
normalised by the sum of exponentials (softmax), this sum and the maximum are those of the tiles so far: what was summed
up is scaled when the maximum grows, and divided at the end (Milakov and Gimelshein 2018; Dao et al. 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from eqfuse.cost.device import Device
from eqfuse.cost.overlap import overlapped
from eqfuse.cost.roofline import work
from eqfuse.cost.work import Work
from eqfuse.emit.cuda.scheduling.operands import Reading, readings
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule, computed_dtype, unless_empty
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.elements import bytes_read
from eqfuse.kinds.product import WIDEST_ROWS, Product, has_tensor_cores, narrowed, product_of_node
from eqfuse.kinds.softmax import SoftmaxRows, rows_between
from eqfuse.ops import Role


@dataclass(frozen=True, slots=True)
class BackToBackTiles:
    """A block's `rows`, and the `columns` of the first product that it takes at a time, by `threads`. `share`: its rate
    over that of a tiled product."""

    rows: int
    columns: int
    threads: int
    share: float


# Rows of 64 elements, measured on an H200: 194 Tflop/s of float16 (32 x 4096 x 4096). FlashAttention-2 reaches 50 to
# 73 % of the peak on A100, where `mma.sync` products reach some 80. On cores a multiplication takes three fourths of a
# value from shared memory, twice as many as in the tiled product.
TENSOR = {64: BackToBackTiles(64, 64, 128, 0.9), 128: BackToBackTiles(64, 32, 128, 0.75)}
BLOCKS_RESIDENT = 4  # of rows of 64 on tensor cores: 4 to 8 % faster than 3, which the compiler chooses by itself
CORES = {64: BackToBackTiles(64, 32, 256, 0.5), 128: BackToBackTiles(32, 16, 256, 0.25)}


@dataclass(frozen=True)
class Operands:
    """One of the products: `node` from `operands`, its own or what they are widened from, read as `left`, `right`."""

    node: Node
    operands: tuple[Node, Node]
    product: Product
    left: Reading
    right: Reading


@dataclass(frozen=True, kw_only=True)
class BackToBackSchedule(CudaSchedule):
    """`first`, `second`: the products. `rows`: what is done with rows of the first. `tiles`: what a block takes at a
    time; `tensor`: on tensor cores. `width`: neighbours written at once. `spared`: seconds of
    divisions of what is between, as the sums are divided instead."""

    first: Operands
    second: Operands
    rows: SoftmaxRows
    tiles: BackToBackTiles
    tensor: bool
    width: int
    spared: float

    @property
    def on_chip(self) -> tuple[int, int]:
        """The terms of the first product and the columns of the second, with room for whole parts of threads."""
        whole = 16 if self.tensor else 64
        return -(-self.first.product.depth // 16) * 16, -(-self.second.product.columns // whole) * whole

    @property
    def blocks(self) -> float:
        """The waves of its blocks are in the seconds of the products."""
        return math.inf

    def compute_seconds(self, work: Work, device: Device) -> float:
        """Its multiplications at the rate of the template, in whole tiles and whole waves. While one block multiplies
        on tensor cores, others of the multiprocessor compute."""
        first, second, t = self.first.product, self.second.product, self.tiles
        blocks = first.batch * -(-first.rows // t.rows)
        turns = -(-blocks // max(device.multiprocessors, 1)) * max(device.multiprocessors, 1)
        across = -(-first.columns // t.columns) * t.columns
        flops = 2 * turns * t.rows * across * sum(self.on_chip)
        own = flops / (device.tiled_rate(first.dtype) * t.share)
        rest = work.seconds - first.library - second.library - self.spared
        return overlapped(own, rest) if self.tensor else own + rest

    def details(self) -> list[str]:
        t, cores = self.tiles, "tensor cores" if self.tensor else "cores"
        return [
            f"{t.rows} rows a block, {t.columns} columns between the products at a time, on {cores}",
            "the sum of a row is that of the tiles so far" if self.rows.total is not None else "no row is reduced",
        ]


@unless_empty
def back_to_back_schedule(body: Graph, device: Device) -> CudaSchedule:
    second, first = _products(body)
    rows = rows_between(body, first, narrowed(second, device)[0])
    one, two = _operands(first, device), _operands(second, device)
    if one.product.rows != two.product.rows:
        one, two = (_by_batch(o, device) for o in (one, two))
    tensor = has_tensor_cores(one.product.dtype, device)
    if one.product.dtype != two.product.dtype or not (tensor or one.product.dtype == "float32"):
        raise UnsupportedOp("a cuda kernel multiplies twice in one 16-bit type, on tensor cores, or twice in float32")
    widest = max(one.product.depth, two.product.columns)
    if widest > WIDEST_ROWS:
        raise UnsupportedOp(f"a cuda kernel of two products keeps rows of {WIDEST_ROWS} elements at most")
    tiles = (TENSOR if tensor else CORES)[64 if widest <= 64 else 128]
    blocks = one.product.batch * -(-one.product.rows // tiles.rows)
    group, itemsize = 2 if tensor else 4, max(n.dtype.itemsize for n in (*body.inputs, *body.outputs))
    return BackToBackSchedule(
        bytes_read(body, body.outputs), tuple(o.type.nbytes for o in body.outputs), 1, grid=(blocks, 1),
        block=(tiles.threads, 1), resident=BLOCKS_RESIDENT if tensor and widest <= 64 else 1,
        first=one, second=two, rows=rows, tiles=tiles, tensor=tensor,
        width=group if two.product.columns % group == 0 and itemsize * group <= 16 else 1,
        spared=_spared(rows, device),
    )  # fmt: skip


def _products(body: Graph) -> tuple[Node, Node]:
    """The second product and the first."""
    products = body.of_role(Role.CONTRACTION)
    if len(products) != 2 or len(body.outputs) != 1 or any(n.op != "matmul" for n in products):
        raise UnsupportedOp("a cuda kernel of kind back_to_back holds two matrix products and has one result")
    first, second = products
    return second, first


def _spared(rows: SoftmaxRows, device: Device) -> float:
    if not rows.divided:
        return 0.0
    assert rows.total is not None
    by = rows.total.type
    return work("divide", (), rows.weights.type, [rows.weights.type, by], device).seconds


def _operands(node: Node, device: Device) -> Operands:
    product, operands = product_of_node(node, device), narrowed(node, device)
    return Operands(node, operands, product, *_readings(operands, product, device))


def _by_batch(operands: Operands, device: Device) -> Operands:
    """`operands`, every entry of the batch apart, also where one tall matrix would do."""
    product = replace(operands.product, batch=math.prod(operands.node.shape[:-2]), rows=operands.node.shape[-2])
    return Operands(operands.node, operands.operands, product, *_readings(operands.operands, product, device))


def _readings(operands: tuple[Node, Node], product: Product, device: Device) -> tuple[Reading, Reading]:
    kept = operands[0].dtype
    return readings(operands, product, kept if has_tensor_cores(product.dtype, device) else computed_dtype(kept))
