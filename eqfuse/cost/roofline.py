"""Price: the roofline of whole kernels.

In: what a kernel body is (its kind's `State`), does (`Work`) and moves, on a `Device`. Out: `Price`, seconds and bytes.
    seconds = launch + max(bytes / bandwidth of the level they fit in, sum of elements x seconds per element)
plus a twentieth of the smaller, which does not quite hide under the larger; on a CPU, where a thread waits for what it
reads, its own share of the memory time is added to its work. After Williams, Waterman, Patterson, "Roofline" (CACM
2009), with one rate per function: an exp is not an add. A kind that knows more may price its kernels otherwise. Next
stop: `eqfuse/kinds/`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eqfuse.cost.device import PRICED_AS, Device
from eqfuse.cost.price import Price
from eqfuse.dtypes import kind
from eqfuse.ops import Role, row
from eqfuse.ops.literal import Literal
from eqfuse.ops.row import PriceClass
from eqfuse.ops.types import Shape, TensorType
from eqfuse.ops.updates import uncovered

if TYPE_CHECKING:
    from eqfuse.kinds.state import State

OVERLAP = 0.95  # gpu_performance_model.cc: exec = compute + memory - 0.95 min(compute, memory)
LINE = 64  # bytes of a cache line
# The share of its part of a GPU's bandwidth that a multiprocessor can draw where others are idle, by Little's law: 1024
# threads with eight loads of 4 bytes under way, over 0.6 microseconds of latency, are 55 GB/s; a part is 17 to 33.
DRAWN = 2.0
LIVE = 4  # arrays over the kernel's space of which a tile keeps its part in cache


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic of operators: flops, seconds at full rate, calls (operators that touch data), of which `once` are
    made once a kernel and not once a tile; `whole`: seconds by NumPy calls on whole arrays, one after another.
    `shared`: seconds of `whole` that BLAS saves by threads of its own.
    """

    flops: int
    seconds: float
    calls: int
    whole: float = 0.0
    once: int = 0
    shared: float = 0.0


_NOTHING = Work(0, 0.0, 0)
CLEARLY = 1.3  # predicted gain from which on tiles and threads are used
# seconds of a call, alone, from which on two threads gain: a fifth of that, on two, takes as long as on one
LASTING = 1.5e-5
LOCK = 2  # times as long as alone a call takes in a tile: threads wait for Python's lock between calls
WAKE = 4  # times the cost of handing work to threads that are awake: those of a program called now and then are not
SLIDING = 30  # NumPy reduces a sliding view element by element: a 2x2 max-pool of 51 MB took 195 ms, by panels 6
# rows that NumPy begins in the time of a call: of an elementwise operator, of a sum, of another reduction
ROWS, SUMS, EXTREMES = 140, 40, 17
PRODUCTS, NUMBERS = 40, 600  # small matrices of a stack, and operations on them, that take as long as a call
PRODUCT_ROWS = 128  # of a tile, at least; twice that from DEEP on
DEEP = 256  # length of the sums from which on the product, not the work around it, decides
PRODUCT_BYTES = 8 << 20  # ... but a tile of that many rows is no larger than this
MICRO = 16, 8, 16  # rows, terms of a sum and columns that BLAS computes at once, whether or not they are there
UNPACKED = ("take", "take_along_axis", "scatter", "cumsum", "searchsorted", "digitize")  # one element after another
ALONE = 8  # times as long as by blocks
_AS_WIDE = {1: "int8", 2: "float16", 4: "float32", 8: "float64", 16: "complex128"}
BLAS = ("float32", "float64")
SHORT_CUTS = (-1.0, 0.0, 1.0, 2.0)  # exponents that NumPy does not take a power for
DOT_FROM, DOT_TO = 32, 8192  # lengths that a tile sums as dot products; OpenBLAS splits longer ones among threads


def work(
    op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device, apart: int = 0,
    literal: Literal | None = None,
) -> Work:  # fmt: skip
    """What one application of `op` costs to compute, all threads at work.

    `apart`: elements of its operands that lie a cache line or more from the one before; of a view, those it copies.
    `literal`: the last operand, where it is a constant.
    """
    described = row(op)
    if described.role in (Role.LEAF, Role.VIEW):
        return transposed_read(apart, types[0].dtype.itemsize, device) if apart and device.kind == "cpu" else _NOTHING
    flops = described.flops(types, out, attrs)
    dtype = types[0].dtype.name if op != "where" else out.dtype.name
    if described.role is Role.CONTRACTION:
        seconds = flops / device.contraction_flops(dtype)
        if op == "conv":
            *_, groups = attrs  # im2col writes one element per product of one filter of each group
            gathered = flops * groups // (2 * max(types[1].shape[0], 1))
            seconds += gathered * device.element_seconds("add", dtype)
        elif device.kind == "cpu":
            by_numbers = flops * device.call_seconds / NUMBERS / device.threads  # NumPy's own loop, for the smallest
            one = math.prod(types[1].shape[:-2]) == 1  # matrix on the right: the stack on the left is its rows
            rows = math.prod(types[0].shape[:-1]) if one else types[0].extent(-2)
            seconds *= _padded(rows, types)
            if rows > 1 < types[1].extent(-1):  # BLAS copies the left operand, which few columns do not make up for
                seconds += types[0].size * device.element_seconds("transpose", dtype)
            seconds = min(seconds, flops / device.contraction_flops(dtype) + by_numbers)
            matrices = 1 if one else math.prod(out.shape[:-2])
            if matrices > 1:  # one call of BLAS, or of that loop, for each
                seconds += matrices * device.call_seconds / PRODUCTS / device.threads
        whole = _whole(out, types, seconds, device)
        return Work(flops, seconds, 1, whole, shared=_shared(op, out, types, seconds, device, whole))
    if described.role is Role.WINDOW:
        touched = out.size * math.prod(attrs[0])
    elif described.role in (Role.REDUCTION, Role.LIBRARY):
        touched = max(out.size, *(t.size for t in types))
        if described.role is Role.LIBRARY:  # priced by operation where there are more of these than elements
            touched = max(touched, flops)
    else:
        touched = out.size
    by_columns = described.role is Role.REDUCTION and device.kind == "cpu" and -1 not in attrs[0]
    if by_columns and described.joined_by is not None and row(described.joined_by).price is PriceClass.SIMPLE:
        op = described.joined_by  # one row after another is joined to the result
    seconds = touched * device.element_seconds(_priced_as(op, literal), dtype)
    if op in UNPACKED and dtype in PRICED_AS and device.kind == "cpu":  # small integers are no faster
        seconds = touched * device.element_seconds(op, PRICED_AS[dtype][0])
    if op == "scatter":  # a copy, and then one value after another
        each = "take" if attrs[1] == "set" else op
        seconds = touched * device.element_seconds("cast", dtype) + types[2].size * device.element_seconds(each, dtype)
    if device.kind == "cpu":
        seconds += apart * LINE / device.bandwidth(apart * LINE)
    moved = types[1:] if op == "slice_scatter" else types  # of the array it updates it copies what no write covers
    whole = _whole(out, moved, seconds * (SLIDING if described.role is Role.WINDOW else 1), device)
    if by_columns:  # a thread waits for each row anew
        whole += min(seconds * device.threads, types[0].nbytes / device.single.bandwidth(types[0].nbytes))
    elif op == "sum" and device.kind == "cpu" and _is_dot(attrs[0], types[0]):
        seconds = touched * device.element_seconds("vecdot", dtype)
    if described.role is Role.REDUCTION:
        whole += _rows_reduced(op, attrs, types[0]) * device.call_seconds
    elif described.role is Role.ELEMENTWISE:
        whole += _rows(out, types) * device.call_seconds
    return Work(flops, seconds, 1, whole)


def _priced_as(op: str, literal: Literal | None) -> str:
    """The row of the profile for `op` with this last operand. A whole power of a negative number leaves the vector code
    of a CPU's library; NumPy has other loops for a few."""
    if op == "power" and literal is not None and literal.array.size == 1 and kind(literal.array.dtype) == "f":
        exponent = float(literal.array.item())
        return "whole_power" if exponent.is_integer() and exponent not in SHORT_CUTS else op
    return op


def _is_dot(axes: Sequence[int], x: TensorType) -> bool:
    """Does a tile sum `x` over `axes` as dot products of its rows with ones? NumPy itself takes three times as long."""
    run = math.prod(x.extent(a) for a in axes)
    return tuple(axes) == tuple(range(-len(axes), 0)) and x.dtype.name in BLAS and DOT_FROM <= run <= DOT_TO


def _whole(out: TensorType, types: Sequence[TensorType], seconds: float, device: Device) -> float:
    """Seconds of a NumPy call of one operator, on one thread, on arrays that come from the memory they fit in."""
    if device.kind == "gpu":
        return 0.0
    touched = out.nbytes + sum(t.nbytes for t in types)
    return device.call_seconds + max(seconds * device.threads, touched / device.single.bandwidth(touched))


def _shared(
    op: str, out: TensorType, types: Sequence[TensorType], seconds: float, device: Device, whole: float
) -> float:
    """How many of the `whole` seconds of a product on one thread BLAS saves on all."""
    if device.kind == "gpu" or op != "matmul" or out.dtype.name not in BLAS:
        return 0.0
    touched = out.nbytes + sum(t.nbytes for t in types)
    together = device.call_seconds + device.dispatch_seconds + max(seconds, touched / device.bandwidth(touched))
    return max(0.0, whole - together)


def _rows(out: TensorType, types: Sequence[TensorType]) -> float:
    """What it takes NumPy to begin the rows of an elementwise operator, in calls: a row ends where one operand varies
    along an axis and not along the next. Short ones it walks by columns (`eqfuse/emit/numpy/narrow.py`).
    """
    inner, last = 1, None
    for axis in range(-1, -len(out.shape) - 1, -1):
        extent = out.shape[axis]
        if extent > 1:
            varies = [t.extent(axis) > 1 for t in types if t.size > 1]
            if last is not None and varies != last:
                break
            inner, last = inner * extent, varies
    rows = out.size // max(inner, 1)
    return 0.0 if rows <= 1 else min(rows / ROWS, 2.0 * inner if inner <= 4 else math.inf)


def _rows_reduced(op: str, attrs: tuple, x: TensorType) -> float:
    """The same for a reduction."""
    axes, run = attrs[0], 1
    for axis in range(-1, -len(x.shape) - 1, -1):
        if (axis in axes) != (-1 in axes) and x.extent(axis) > 1:
            break
        run *= x.extent(axis)
    if run in (0, x.size):
        return 0.0
    of_sum = op == "sum"
    by_columns = 2.0 * run if run == x.extent(-1) <= (10 if of_sum else 16) else math.inf
    return min(x.size / run / (SUMS if of_sum else EXTREMES), by_columns)


def _padded(rows: int, types: Sequence[TensorType]) -> float:
    """How many times the products of a matrix product BLAS computes. A vector it reads as fast as memory gives."""
    sizes = rows, types[0].extent(-1), types[1].extent(-1)
    if 1 in sizes:
        return 1.0
    return math.prod(max(least / max(n, 1), 1) for n, least in zip(sizes, MICRO, strict=True))


def total(works: Iterable[Work], reduced: int = -1) -> Work:
    """The work of a kernel. `reduced`: elements of a reduction's result; what is done to as few runs once."""
    flops, seconds, calls, whole, once, shared = 0, 0.0, 0, 0.0, 0, 0.0
    for w in works:
        flops += w.flops
        seconds += w.seconds
        whole += w.whole
        shared += w.shared
        if w.calls and w.flops <= reduced:
            once += w.calls
        else:
            calls += w.calls
    return Work(flops, seconds, calls, whole, once, shared)


def transposed_read(elements: int, itemsize: int, device: Device) -> Work:
    """What it takes to read an array across the axis that it lies along: by blocks, or by NumPy alone, which takes a
    cache line for every element once these are too many for a cache (`eqfuse/emit/numpy/transpose_copy.py`)."""
    seconds = elements * device.element_seconds("transpose", _AS_WIDE.get(itemsize, "float64"))
    alone = ALONE if elements * itemsize > device.l2_bytes else 2
    return Work(0, seconds, 0, seconds * device.threads * alone)


def product_rows(row: int, depth: int) -> int:
    """The fewest rows of a product that make a tile: of fewer, it spends its time repacking the right operand.

    `row`: elements of the longest row that a tile holds; `depth`: length of the sums."""
    return max(1, min(PRODUCT_ROWS * (2 if depth >= DEEP else 1), PRODUCT_BYTES // (4 * max(row, 1))))


def _least_tiles(device: Device) -> int:
    """The fewest that a kernel is cut into: one thread may be late."""
    return 2 * device.threads if device.threads > 1 else 1


def tiles_pay(done: Work, moved: int, device: Device) -> bool:
    """Are tiles on several threads clearly faster than one NumPy call after another on whole arrays?

    `moved`: bytes that the kernel reads and writes.
    """
    tiles = max(_least_tiles(device), 1 + moved / device.tile_bytes)
    calls = (done.calls * tiles / device.threads + done.once) * device.call_seconds
    tiled = WAKE * device.dispatch_seconds + max(done.seconds, moved / device.bandwidth(moved)) + calls
    return done.whole > CLEARLY * tiled


def touches(op: str, attrs: tuple, source: TensorType, out: TensorType) -> int:
    """Bytes of its first argument that a gather or an update reads: runs of neighbours, each a cache line at least, or
    what no write replaces."""
    if op == "scatter":
        return source.nbytes
    if op == "slice_scatter":
        kept = uncovered(source.shape, attrs[0])
        return sum(math.prod(len(range(*r)) for r in ranges) for ranges in kept) * source.dtype.itemsize
    (axis,) = attrs
    run = source.dtype.itemsize * (math.prod(source.shape[axis:][1:]) if op == "take" else 1)
    return out.nbytes // run * max(run, LINE) if run else 0


def roofline(
    state: State, read: int, written: int, done: Work, device: Device, arguments: int, itemsize: int = 4,
    blocks: float = math.inf,
) -> Price:  # fmt: skip
    """What a kernel of `state` costs. A view is free; a kernel the device cannot run costs infinity.

    `arguments` counts arrays read and written; `itemsize` is that of the values in its tiles, in bytes; `blocks` are
    those that it is launched with on a GPU.
    """
    if state.kind in ("view", "leaf"):
        return Price(0.0, 0, 0, 0, "memory")
    if arguments > device.max_arguments and state.kind != "library":  # a library takes arrays one by one
        return Price(math.inf, read, written, done.flops, "memory")
    traffic = read + written
    if device.kind == "gpu":
        return _gpu(read, written, done, device, blocks)
    across = [math.prod(state.space)] * state.across(itemsize)
    # alone, a reduction takes the axes in the order in which they lie
    tiled = _tiled(state) and not (across and state.kind == "reduce" and done.calls + done.once == 1)
    if state.left is not None:
        across += [math.prod(state.left.shape)] * state.left.across(itemsize)
    if tiled and across:
        done = total([done, *[transposed_read(elements, itemsize, device) for elements in across]])
    # between the kernel that writes a value and the one that reads it lies the traffic of both: hence 2 x
    memory = traffic / device.bandwidth(2 * traffic) + _left_in_tiles(state, itemsize, device)
    if not tiled or not tiles_pay(done, traffic, device):
        seconds = max(done.whole, traffic / device.single.bandwidth(2 * traffic))
    elif state.left is not None and _is_one_tile(state.left, state.space):
        seconds = max(done.whole - done.shared, memory)
    else:
        least = 1 if state.products else _least_tiles(device)  # few rows of a product are not cut
        tiles = max(least, math.ceil(LIVE * itemsize * math.prod(state.space) / device.tile_bytes))
        calls: float = done.calls * tiles
        if device.threads > 1:  # tiles are larger where calls would be short
            calls = LOCK * min(calls, max(done.calls * least, done.seconds * device.threads / LASTING))
        seconds = device.dispatch_seconds + (calls / device.threads + done.once) * device.call_seconds
        # a call waits for what it reads from memory; only the tiles of other threads go on meanwhile
        alone = traffic / device.single.bandwidth(2 * traffic) / device.threads
        seconds += max(_overlapped(memory, done.seconds), done.seconds + alone)
    seconds += device.launch_seconds
    return Price(seconds, read, written, done.flops, _bound(seconds, memory, done.seconds))


def _tiled(state: State) -> bool:
    """Can the NumPy emitter cut a kernel of `state` into tiles? One row alone it does not."""
    return math.prod(state.reduced) > 1 if state.kind == "row" else state.kind != "library"


def _is_one_tile(left: State, product: Shape) -> bool:
    """Has the `left` operand of a product that a kernel computes too few rows for two tiles? BLAS then has the threads,
    and what comes before it one."""
    *stack, rows, depth = left.shape
    return math.prod(stack) == 1 and rows < 2 * product_rows(max(depth, product[-1]), depth)


def _left_in_tiles(state: State, itemsize: int, device: Device) -> float:
    """What it takes to write and read the left operand of a product in tiles that exceed the nearest cache."""
    if state.left is None:
        return 0.0
    depth, row = state.left.shape[-1], max(state.left.shape[-1], state.space[-1])
    rows = max(product_rows(row, depth), device.tile_bytes // max(2 * itemsize * row, 1))
    nbytes = itemsize * math.prod(state.left.shape)
    tiles = min(itemsize * rows * depth * device.threads, nbytes)
    return 2 * nbytes * (1 / device.bandwidth(tiles) - 1 / device.bandwidth(0))


def _overlapped(memory: float, compute: float) -> float:
    """Seconds when all but a twentieth of the shorter of two activities hides under the longer, as in XLA's model."""
    return memory + compute - OVERLAP * min(memory, compute)


def _bound(seconds: float, memory: float, compute: float) -> str:
    if seconds > 2 * max(memory, compute):
        return "launch"
    return "memory" if memory >= compute else "compute"


def _gpu(read: int, written: int, done: Work, device: Device, blocks: float) -> Price:
    busy = min(1.0, max(blocks, 1) / max(device.multiprocessors, 1))  # share of the device that has a block
    memory = (read + written) / device.bandwidth(2 * (read + written)) / min(1.0, DRAWN * busy)
    compute = done.seconds / busy
    seconds = device.launch_seconds + _overlapped(memory, compute)
    return Price(seconds, read, written, done.flops, _bound(seconds, memory, compute))
