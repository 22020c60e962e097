"""What the tiled product of the CUDA target costs: which tile it takes, how full its waves are, what it loads again.

In: a product's or a convolution's extents, a GPU. Out: `Tile`, seconds. `kinds/contract.py` prices with it and
`emit/cuda/contract.py` emits the same tile.

A convolution is the product of its filters [filters, channels x window] and the windows [channels x window, places].

How near the template comes to the library (`Device.tiled_flops`) is taken from what others measured, not from a run of
this one. float32, 8x8 results a thread, 16-byte loads, two buffers: 78 % of cuBLAS (A6000, S. Boehm, "How to optimize a
CUDA matmul kernel", kernel 6; 94 % with warp tiles), 85-90 % (L20, CUDA-Learn-Notes sgemm). Tensor cores through
`mma.sync`, operands staged in registers: 66-69 % of cuBLAS with one buffer, 92 % with two and asynchronous copies (L20,
CUDA-Learn-Notes hgemm, 4096x8192x1024); `mma.sync` itself reaches 62-65 % of Hopper's peak. This template, measured on
an H200: 218 Tflop/s of bfloat16, 0.28 of cuBLAS (4096x4096x4096, without the GELU after it), when it still staged
operands in registers and took twice the instructions. A library call is priced at its full rate whatever its size.
Tiles by `wgmma` are for devices that have shown that they compute them rightly, at the rate measured then
(`emit/cuda/calibrate.py`); work on the operands would take more registers than threads have beside so many sums.

Where a product has fewer tiles than the GPU has multiprocessors, blocks share the terms of a tile. Each leaves the sums
of its part in memory; of a group of blocks, the one that arrives last joins what the group has left, and of the groups
likewise, until one block has the sums of all terms. More parts multiply faster and take longer to join.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.roofline import DRAWN, LATENCY, work
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.ops import Role
from eqfuse.ops.types import TensorType


@dataclass(frozen=True, slots=True)
class Tile:
    """What one block computes: rows x columns of the result, `depth` terms at a time. `part`: rows and columns that
    `together` threads compute: one, a warp, or a warpgroup. `share`: its rate over that of the first tile in the
    list."""

    rows: int
    columns: int
    depth: int
    part: tuple[int, int]
    share: float
    together: int = 1

    @property
    def threads(self) -> int:
        return self.rows * self.columns // math.prod(self.part) * self.together

    @property
    def resident(self) -> int:
        """Blocks for which a multiprocessor has room."""
        return MULTIPROCESSOR_REGISTERS // (THREAD_REGISTERS * self.threads)

    @property
    def by_wgmma(self) -> bool:
        return self.together == WARPGROUP

    @property
    def sums(self) -> tuple[int, int]:
        """Rows and columns of a thread's sums: on tensor cores a lane has one row of eight, one column of four."""
        rows, columns = self.part
        return self.part if self.together == 1 else (rows * WARP // (8 * self.together), columns // 4)

    def joined(self, words: int) -> tuple[int, int]:
        """How a thread joins parts of its sums, of so many `words` each: so many of its rows at a time, and of these so
        many parts at a time, as registers hold beside the sums."""
        rows, width = self.sums
        room = JOIN_REGISTERS // words - rows * width
        at_once = min(rows, 1 << (room // width).bit_length() - 1)
        return at_once, room // (at_once * width)


@dataclass(frozen=True, slots=True)
class ProductTiles:
    """How blocks share a product: a `tile` for each `splits` of them, which take `part` terms each. `multiply`, `join`:
    seconds that take the multiplications, and joining the sums of the parts."""

    tile: Tile
    splits: int
    part: int
    multiply: float
    join: float

    @property
    def seconds(self) -> float:
        return self.multiply + self.join


WARP, WARPGROUP = 32, 128  # threads
# Smaller tiles load more per operation: 8x8 results a thread read 16 values per 64 multiplications, 4x4 read 8 per 16.
# Boehm's kernels 4 and 5 (8 and 64 results a thread) reach 36 and 69 % of cuBLAS.
TILES = {
    "float32": (Tile(128, 128, 16, (8, 8), 1.0), Tile(128, 64, 16, (8, 4), 0.8), Tile(64, 128, 16, (4, 8), 0.8),
                Tile(64, 64, 16, (4, 4), 0.65), Tile(32, 32, 16, (4, 4), 0.4)),
    "float64": (Tile(64, 64, 8, (4, 4), 1.0), Tile(32, 32, 8, (4, 4), 0.6)),
    "tensor": (Tile(128, 128, 32, (64, 32), 1.0, WARP), Tile(128, 64, 32, (32, 32), 0.8, WARP),
               Tile(64, 128, 32, (32, 32), 0.8, WARP), Tile(64, 64, 32, (32, 32), 0.65, WARP)),
    "wgmma": (Tile(128, 128, 64, (64, 128), 1.0, WARPGROUP),),
}  # fmt: skip
PLACING = 20  # integer operations that find one element of a window and whether it is padding, counted in the text
UNALIGNED = 0.5  # share of its rate that a product keeps on tensor cores where rows do not start at multiples of 8
LAUNCH_BLOCKS = 2**31 - 1  # of one launch
PARTS_JOINED = 8  # parts of a tile's sums that one block joins, at most
MULTIPROCESSOR_REGISTERS, THREAD_REGISTERS = 65_536, 128  # of a multiprocessor, and of a thread at most
JOIN_REGISTERS = 96  # of a thread, for its sums and what it reads of their parts before it adds the first
WIDEST_ROWS = 128  # elements of the rows that a kernel of two products keeps on chip
HALF_DTYPES = ("float16", "bfloat16")
TENSOR_CORES = 80  # the compute capability from which on mma.m16n8k16 takes both 16-bit types


@dataclass(frozen=True, slots=True)
class Product:
    """`batch` products [rows, depth] x [depth, columns]. `windows`: the right one has windows of images, an element of
    which takes `placing` integer operations to find. `library`: seconds of the work as priced for a library call, and
    `unrolled` bytes that one moves beside what is read and written: CuPy has no convolution, so the windows are stored
    and read, and their product is copied twice to lie as asked. `copied`: both operands come into shared memory as they
    lie, 16 bytes at a time."""

    dtype: str
    batch: int
    rows: int
    columns: int
    depth: int
    windows: bool
    placing: int
    library: float
    unrolled: int = 0
    copied: bool = False

    @property
    def is_matrix_product(self) -> bool:
        """Are its operands matrices, or windows that are single elements, all those of an image?"""
        return not self.placing

    def again(self, size: int, device: Device) -> float:
        """How often a prologue on an operand of `size` elements is computed for each of them."""
        return self.loads(fastest_tile(self, device)) / max(size, 1)

    def tiles(self, tile: Tile) -> int:
        """Of the result."""
        return self.batch * -(-self.rows // tile.rows) * -(-self.columns // tile.columns)

    def loads(self, tile: Tile) -> int:
        """Elements loaded of the operand that may have a prologue: the windows, or the left one of two matrices."""
        if self.windows:
            return self.batch * self.columns * self.depth * -(-self.rows // tile.rows)
        return self.batch * self.rows * self.depth * -(-self.columns // tile.columns)


def product_of(
    op: str, attrs: tuple, types: Sequence[TensorType], out: TensorType, device: Device, narrow: str = ""
) -> Product:
    """The extents of a matmul or conv. What a right operand without batch multiplies is one tall matrix. `narrow`: the
    type that both operands are widened from, in which they are multiplied."""
    name, library = narrow or out.dtype.name, work(op, attrs, out, types, device).seconds
    if op == "conv":
        strides, padding, _, groups = attrs
        filters, _, *window = types[1].shape
        is_pointwise = math.prod(window) == math.prod(strides) == 1 and not any(map(any, padding))
        places, depth = out.size // max(filters, 1), math.prod(types[1].shape[1:])
        unrolled = out.dtype.itemsize * (2 * groups * places * depth + 4 * out.size)
        placing = 0 if is_pointwise else PLACING
        return Product(name, groups, filters // groups, places, depth, True, placing, library, unrolled)
    *_, rows, depth = types[0].shape
    batch = math.prod(out.shape[:-2])
    if math.prod(types[1].shape[:-2]) == 1:
        batch, rows = 1, batch * rows
    return Product(name, batch, rows, out.shape[-1], depth, False, 0, library)


def widened(op: str, source: np.dtype, result: np.dtype) -> str:
    """The 16-bit float type of an argument that `op` widens to float32, which also holds a product of two exactly."""
    return source.name if op == "cast" and source.name in HALF_DTYPES and result.name == "float32" else ""


def narrowed(node: Node, device: Device) -> tuple[Node, Node]:
    """The operands of a product as the template multiplies them: before they are widened, where tensor cores do."""
    left, right = (_unwidened(a) for a in node.args)
    if left is None or right is None or left.dtype != right.dtype or not has_tensor_cores(left.dtype.name, device):
        left, right = node.args
    return left, right


def _unwidened(n: Node) -> Node | None:
    """What `n`, or what it is a view of, is widened from, as `n` has it."""
    views = []
    while n.row.role is Role.VIEW:
        views.append(n)
        (n,) = n.args
    if not (n.args and widened(n.op, n.args[0].dtype, n.dtype)):
        return None
    (operand,) = n.args
    for view in reversed(views):
        operand = view.over((operand,))
    return operand


def has_tensor_cores(dtype: str, device: Device) -> bool:
    return dtype in HALF_DTYPES and device.tiles_products and device.compute_capability >= TENSOR_CORES


def has_form(dtype: str) -> bool:
    """Has the template a form for this type? (NumPy has no matmul of bfloat16; convolutions may be of it.)"""
    return dtype in ("float32", "float64", "float16", "bfloat16")


def has_template(product: Product, device: Device) -> bool:
    """Does the template compute it, in one launch?"""
    if not has_form(product.dtype):
        return False
    return product.tiles(fastest_tile(product, device)) <= LAUNCH_BLOCKS


def fastest_tile(product: Product, device: Device) -> Tile:
    """The tile that takes the least time."""
    return fastest(product, device).tile


def seconds(product: Product, device: Device) -> float:
    """The tiled product, without what is fused into it."""
    return fastest(product, device).seconds


@lru_cache(maxsize=1024)
def fastest(product: Product, device: Device) -> ProductTiles:
    """The tiling that takes the least time; of those that take the same the one that multiplies least beyond the
    result, with the largest tile."""
    tilings = [tiling for tile in _tiles(product, device) for tiling in _tilings(product, tile, device)]
    return min(tilings, key=lambda t: (t.seconds, product.tiles(t.tile) * t.tile.rows * t.tile.columns))


def _tiles(product: Product, device: Device) -> tuple[Tile, ...]:
    if has_tensor_cores(product.dtype, device):
        return TILES["tensor"] + (TILES["wgmma"] if product.copied and device.wgmma_rate(product.dtype) else ())
    return TILES["float64" if product.dtype == "float64" else "float32"]


def _tilings(product: Product, tile: Tile, device: Device) -> Iterator[ProductTiles]:
    """One block for a tile; and as many for each as there is room for at a time, or a half of them, and so on."""
    tiles, steps = product.tiles(tile), -(-product.depth // tile.depth)
    yield ProductTiles(tile, 1, steps * tile.depth, _multiply_seconds(product, tile, steps, 1, device), 0.0)
    room = device.multiprocessors * tile.resident
    splits = min(room // max(tiles, 1), steps)
    while splits > 1:
        part = -(-steps // splits)
        used = -(-steps // part)
        multiply = _multiply_seconds(product, tile, part, used, device)
        yield ProductTiles(tile, used, part * tile.depth, multiply, _join_seconds(product, tile, used, device))
        splits //= 2


def _multiply_seconds(product: Product, tile: Tile, steps: int, splits: int, device: Device) -> float:
    """So many `steps` of whole tiles, in whole waves over the multiprocessors. A block waits at each step for what it
    multiplies in the next one, and so do others of the multiprocessor meanwhile. A device that has no multiprocessors
    listed is a plain roofline."""
    rate = device.wgmma_rate(product.dtype) if tile.by_wgmma else device.tiled_rate(product.dtype)
    if not device.multiprocessors:
        return 2 * product.batch * product.rows * product.columns * product.depth / rate
    blocks = product.tiles(tile) * splits
    aligned = math.gcd(product.depth, product.columns) % 4 == 0
    share = tile.share * (1 if aligned or tile.together == 1 else UNALIGNED)
    placing = product.placing * product.loads(tile) / device.scalar_rate("int32")
    step = 2 * tile.rows * tile.columns * tile.depth * device.multiprocessors / (rate * share)
    turns = -(-blocks // device.multiprocessors)
    waits = -(-blocks // (device.multiprocessors * tile.resident))
    return steps * max(turns * step, waits * LATENCY) + placing


def _join_seconds(product: Product, tile: Tile, splits: int, device: Device) -> float:
    """At each level a block leaves its part and looks whether it is the last of its group, which reads those of all."""
    levels, words = join_levels(splits), 2 if product.dtype == "float64" else 1
    nbytes = 4 * words * tile.rows * tile.columns
    left = product.tiles(tile) * nbytes * sum(count for count, _ in levels)
    drawn = DRAWN * device.bandwidth(2 * left) / device.multiprocessors
    rows, parts = tile.joined(words)
    turns = tile.sums[0] // rows
    reads = sum(max(turns * -(-group // parts) * LATENCY, group * nbytes / drawn) for _, group in levels)
    return len(levels) * (2 * LATENCY + nbytes / drawn) + reads


def join_levels(splits: int) -> tuple[tuple[int, int], ...]:
    """How many parts there are, and how many of them are joined to one, level by level until one is left."""
    depth = next(depth for depth in range(splits) if PARTS_JOINED**depth >= splits)
    group = next(group for group in range(1, splits + 1) if group**depth >= splits)
    levels = []
    while splits > 1:
        levels.append((splits, group))
        splits = -(-splits // group)
    return tuple(levels)


def library_seconds(product: Product, device: Device) -> float:
    """The multiplications in a library call that takes the operands in their own type."""
    flops = 2 * product.batch * product.rows * product.columns * product.depth
    return flops / device.contraction_flops(product.dtype)


def widened_product(body: Graph, device: Device) -> Node | None:
    """The matrix product of float32 that is all of `body`, of arrays of a 16-bit float in which tensor cores multiply
    them. Its result may be rounded to that type again."""
    output = body.outputs[0]
    node = output.args[0] if output.op == "cast" else output
    if node.op != "matmul" or set(body.outputs) != {output}:
        return None
    operands = narrowed(node, device)
    kept = operands[0].dtype
    if kept == node.dtype or output.dtype not in (kept, node.dtype):
        return None
    read = all(n.row.role is Role.VIEW or n in body.inputs for n in topological(operands))
    return node if read else None


def call_is_dearer(product: Product, device: Device) -> bool:
    """Does the template compute a convolution by itself faster than library calls? (It never does a matrix product.)"""
    call = product.library + product.unrolled / device.memory_bytes_per_second
    return product.windows and has_template(product, device) and seconds(product, device) < call


def is_tiled(body: Graph, device: Device) -> bool:
    """Does the template compute `body`, rather than library calls? One with more in it than a product always is, if the
    template has a form for its type. A product of operands that it widens is whichever is cheaper."""
    if contraction := widened_product(body, device):
        product = product_of_node(contraction, device)
        return has_template(product, device) and seconds(product, device) <= library_seconds(product, device)
    working = body.computations
    lone = working[0]
    if not all(has_form(n.dtype.name) for n in working if n.row.role is Role.CONTRACTION):
        return False
    if len(working) > 1 or lone not in body.outputs:
        return True
    return call_is_dearer(product_of_node(lone, device), device)


def product_of_node(n: Node, device: Device) -> Product:
    """The product that the template makes of `n`."""
    kept, types = narrowed(n, device)[0].dtype, [a.type for a in n.args]
    return product_of(n.op, n.attrs, types, n.type, device, "" if kept == n.dtype else kept.name)
