"""What a NumPy call costs on a CPU: an operator inside a tile, and alone on whole arrays.

In: an operator with its types, on a `Device` that is a CPU. Out: its `Work`. Used by `roofline.work`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eqfuse.cost.device import PRICED_AS, Device
from eqfuse.cost.work import LINE, NOTHING, Jumps, Work, element_work, joined_by, touched, touches
from eqfuse.emit.numpy.cost.figures import (
    ALONE,
    BLAS,
    COPIED_OPERAND,
    COPIED_RUNS,
    DOT_FROM,
    DOT_TO,
    ELEMENTWISE_ROWS,
    EXTREME_ROWS,
    FEWEST_ROWS,
    GATHERED,
    LANES,
    MICRO,
    NARROW,
    NARROW_EXTREME,
    NARROW_SUM,
    NUMBER,
    OWN_OPERATIONS,
    PYTHON_CALLS,
    SHORT_MATRICES,
    SHORT_MATRIX,
    SHORT_PRODUCT,
    SHORT_ROWS,
    SLIDING,
    STACKED_PRODUCTS,
    SUM_ROWS,
    UNPACKED,
    VECTOR_ROWS,
    WIDTHS,
)
from eqfuse.emit.numpy.table import are_numbers
from eqfuse.ops import Role, row
from eqfuse.ops.literal import Literal
from eqfuse.ops.row import PriceClass
from eqfuse.ops.types import TensorType
from eqfuse.ops.updates import slice_runs


def call_work(
    op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device, steps: Jumps,
    literal: Literal | None,
) -> Work:  # fmt: skip
    """What one application of `op` costs; arguments as those of `roofline.work`."""
    role = row(op).role
    if role in (Role.LEAF, Role.VIEW):
        if steps.lines:
            return transposed_read(steps.lines, types[0].dtype.itemsize, device)
        return work_of_gaps(steps.gaps, types[0].dtype.itemsize, device) if steps.gaps else NOTHING
    loops = _element_work(op, attrs, out, types, device, literal)
    if role is Role.CONTRACTION:
        begun = steps.rows * device.call_seconds / COPIED_RUNS
        seconds = loops.seconds if op == "conv" else _multiplied(loops, out, types, device)
        whole = _whole(out.nbytes + _bytes(types), seconds, device) + begun
        shared = _shared(op, out, types, seconds, device, whole)
        return loops._replace(seconds=seconds + begun / device.threads, whole=whole, shared=shared)
    if (pieces := row(op).pieces) is not None:  # tiles read these where they lie; a schedule prices what they copy
        copied = types if role is Role.PIECES else types[1:]  # of an array that is updated, what no write covers
        runs = sum(slice_runs(p.ranges, out.shape) - 1 for p in pieces(tuple([t.shape for t in types]), attrs))
        whole = _whole(out.nbytes + _bytes(copied), loops.seconds, device) + runs * device.call_seconds / COPIED_RUNS
        return loops._replace(seconds=0.0, whole=whole)
    seconds = loops.seconds + steps.lines * LINE / device.bandwidth(steps.lines * LINE)
    one_by_one = device.element_seconds("take", WIDTHS.get(out.dtype.itemsize, "float64"))
    seconds += steps.gaps * one_by_one
    moved = out.nbytes + _bytes(types)
    if role is Role.GATHER:
        moved -= max(0, types[0].nbytes - touches(op, attrs, types[0], out))
    whole = _whole(moved, seconds * (SLIDING if role is Role.WINDOW else 1), device)
    if role is Role.GATHER and device.threads > 1:
        seconds *= GATHERED
    if role is Role.REDUCTION:
        axes = row(op).attr(attrs, "axes")
        if not _reduces_last(axes, types[0]):  # a thread waits for each row anew
            whole += min(seconds * device.threads, types[0].nbytes / device.single.bandwidth(types[0].nbytes))
            op = joined_by(op)
        elif op == "sum" and sums_rows(axes, types[0]):
            elements = touched(op, attrs, out, types, loops.flops)
            seconds = elements * device.element_seconds("vecdot", types[0].dtype.name)
        whole += _rows_reduced(op, axes, types[0]) * device.call_seconds
    elif role is Role.ELEMENTWISE:
        if are_numbers(op, out, types):
            return loops._replace(seconds=seconds, whole=device.call_seconds / NUMBER)
        rows, columns = _rows(out, types, steps.rows)
        whole += rows * device.call_seconds
        seconds = max(seconds, rows * device.call_seconds / device.threads)  # short ones take as long to begin
        if columns:  # each with gaps between its elements
            seconds += out.size * one_by_one
            whole += out.size * one_by_one * device.threads
    elif role is Role.LIBRARY:
        whole += PYTHON_CALLS.get(op, 0) * device.call_seconds
    return loops._replace(seconds=seconds, whole=whole)


def _element_work(
    op: str, attrs: tuple, out: TensorType, types: Sequence[TensorType], device: Device, literal: Literal | None
) -> Work:
    """What the elements cost by NumPy's loops, as `cost.work.element_work`."""
    loops = element_work(op, attrs, out, types, device, literal)
    dtype = types[0].dtype.name
    if row(op).price is PriceClass.LINEAR_ALGEBRA:
        n = max(FEWEST_ROWS, *types[0].shape[-2:])
        return loops._replace(seconds=loops.seconds * (1 + (SHORT_MATRICES.get(op, SHORT_MATRIX) / n) ** 2))
    if op in UNPACKED and dtype in PRICED_AS:  # no faster for two elements at once
        each = device.element_seconds(op, PRICED_AS[dtype][0])
    elif row(op).role is Role.REDUCTION and not _reduces_last(row(op).attr(attrs, "axes"), types[0]):
        each = device.element_seconds(joined_by(op), dtype)  # one row after another is joined to the result
    else:
        return loops
    return loops._replace(seconds=touched(op, attrs, out, types, loops.flops) * each)


def _multiplied(work: Work, out: TensorType, types: Sequence[TensorType], device: Device) -> float:
    """Seconds of a matrix product: in whole blocks of BLAS, which of a short one has smaller ones, or by NumPy's own
    loop for the smallest matrices."""
    by_numbers = work.flops * device.call_seconds / OWN_OPERATIONS / device.threads
    one = _is_one_matrix(types)
    rows, depth, columns = _sizes(types)
    matrices = 1 if one else math.prod(out.shape[:-2])
    seconds = work.seconds * _padded(rows, depth, columns)
    if rows > 1 < columns:  # BLAS copies operands, which few rows or columns do not make up for
        copied = types[0].size + types[1].size
        seconds += COPIED_OPERAND * copied * device.element_seconds("transpose", types[0].dtype.name)
        if _is_short(out, types):
            lanes = LANES // out.dtype.itemsize
            pairs = matrices * depth * _up(rows, SHORT_ROWS) * _up(columns, lanes)
            seconds = min(seconds, pairs * device.element_seconds("short_product", out.dtype.name))
    elif depth > 1 and (rows > 1 or columns > 1):
        seconds += matrices * max(rows, depth) / VECTOR_ROWS * device.call_seconds / device.threads
    seconds = min(seconds, work.seconds + by_numbers)
    if matrices > 1:  # one call of BLAS, or of that loop, for each
        seconds += matrices * device.call_seconds / STACKED_PRODUCTS / device.threads
    return seconds


def _sizes(types: Sequence[TensorType]) -> tuple[int, int, int]:
    """Rows, terms of a sum and columns of a product of two matrices, of a stack or alone."""
    rows = math.prod(types[0].shape[:-1]) if _is_one_matrix(types) else types[0].extent(-2)
    return rows, types[0].extent(-1), types[1].extent(-1)


def _is_one_matrix(types: Sequence[TensorType]) -> bool:
    """Is there one matrix on the right, so that the stack on the left is its rows?"""
    return math.prod(types[1].shape[:-2]) == 1


def _is_short(out: TensorType, types: Sequence[TensorType]) -> bool:
    """Is it a product that OpenBLAS multiplies on one thread, and on some processors without copies?"""
    return out.dtype.name in BLAS and math.prod(_sizes(types)) <= SHORT_PRODUCT


def _up(extent: int, step: int) -> int:
    return -(-extent // step) * step


def is_dot(length: int, dtype: np.dtype) -> bool:
    """Does a tile sum rows of `length` as dot products with ones? NumPy itself takes three times as long."""
    return dtype.name in BLAS and DOT_FROM <= length <= DOT_TO


def sums_rows(axes: Sequence[int], x: TensorType) -> bool:
    """Are sums of `x` over `axes` those of rows, as dot products?"""
    return tuple(axes) == tuple(range(-len(axes), 0)) and is_dot(math.prod(x.extent(a) for a in axes), x.dtype)


def _bytes(types: Sequence[TensorType]) -> int:
    return sum(t.nbytes for t in types)


def _whole(moved: int, seconds: float, device: Device) -> float:
    """Seconds of a NumPy call of one operator, on one thread, that reads and writes `moved` bytes, which come from the
    memory they fit in."""
    return device.call_seconds + max(seconds * device.threads, moved / device.single.bandwidth(moved))


def _shared(
    op: str, out: TensorType, types: Sequence[TensorType], seconds: float, device: Device, whole: float
) -> float:
    """How many of the `whole` seconds of a product on one thread BLAS saves on all."""
    if op != "matmul" or out.dtype.name not in BLAS or _is_short(out, types):
        return 0.0
    touched = out.nbytes + sum(t.nbytes for t in types)
    together = device.call_seconds + device.dispatch_seconds + max(seconds, touched / device.bandwidth(touched))
    return max(0.0, whole - together)


def _rows(out: TensorType, types: Sequence[TensorType], apart: int) -> tuple[float, bool]:
    """What it takes NumPy to begin the rows of an elementwise operator, in calls: a row ends where one operand varies
    along an axis and not along the next, or lies in rows `apart`. Short ones it walks by columns
    (`eqfuse/emit/numpy/narrow.py`): does it?
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
    by_columns = 2.0 * inner if inner <= NARROW else math.inf
    if rows <= max(apart, 1):
        return apart / ELEMENTWISE_ROWS, False
    return min(rows / ELEMENTWISE_ROWS, by_columns), inner > 1 and by_columns < rows / ELEMENTWISE_ROWS


def _reduces_last(axes: Sequence[int], x: TensorType) -> bool:
    """Is the last axis reduced of those that have more than one index?"""
    return next((a for a in range(-1, -x.rank - 1, -1) if x.extent(a) > 1), -1) in axes


def _rows_reduced(op: str, axes: Sequence[int], x: TensorType) -> float:
    """The same for a reduction."""
    run, of_last = 1, _reduces_last(axes, x)
    for axis in range(-1, -len(x.shape) - 1, -1):
        if (axis in axes) != of_last and x.extent(axis) > 1:
            break
        run *= x.extent(axis)
    if run in (0, x.size):
        return 0.0
    of_sum = op == "sum"
    by_columns = 2.0 * run if run == x.extent(-1) <= (NARROW_SUM if of_sum else NARROW_EXTREME) else math.inf
    return min(x.size / run / (SUM_ROWS if of_sum else EXTREME_ROWS), by_columns)


def _padded(*sizes: int) -> float:
    """How many times the products of a matrix product, of so many rows, terms of a sum and columns, BLAS computes. A
    vector it reads as fast as memory gives."""
    if 1 in sizes:
        return 1.0
    return math.prod(max(least / max(n, 1), 1) for n, least in zip(sizes, MICRO, strict=True))


def transposed_read(elements: int, itemsize: int, device: Device) -> Work:
    """What it takes to read an array across the axis that it lies along: by blocks, or by NumPy alone, which takes a
    cache line for every element once these are too many for a cache (`eqfuse/emit/numpy/transpose_copy.py`)."""
    seconds = elements * device.element_seconds("transpose", WIDTHS.get(itemsize, "float64"))
    alone = ALONE if elements * itemsize > device.l2_bytes else 2
    return Work(0, seconds, 0, seconds * device.threads * alone)


def work_of_gaps(elements: int, itemsize: int, device: Device) -> Work:
    """What it takes to copy so many elements of an array that has gaps between neighbours."""
    seconds = elements * device.element_seconds("take", WIDTHS.get(itemsize, "float64"))
    return Work(0, seconds, 0, seconds * device.threads)
