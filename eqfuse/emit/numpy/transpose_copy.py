"""Copies of transposed arrays, block by block: neighbours in memory are read together, whichever axis they lie along.

NumPy follows the result, so that each element of a transposed operand takes a cache line; where extents are powers of
two those lines share a few sets of the cache (2048 x 2048 float32: 6.6 ns an element on one thread, 0.8 by blocks).
Each block is copied as it lies into a buffer whose rows are an odd number of cache lines apart, and from there across.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product

import numpy as np

from eqfuse.cost.work import LINE
from eqfuse.ir.graph import Node
from eqfuse.ir.views import leaf_chain, strides_after
from eqfuse.ops import Role

COPY_BUFFER = 128 << 10  # bytes for one block
SIDE = 128  # elements of a block along the axis that its neighbours in memory lie on

Index = tuple[slice, ...]


def run_axis(n: Node) -> int | None:
    """The axis (negative) along which `n`, an array behind views, lies in memory, where it is read across that axis.

    None for all others: what is computed, and arrays that are read as they lie, or whose lines are shared anyway.
    """
    if n.row.role not in (Role.LEAF, Role.VIEW):
        return None
    leaf, chain = leaf_chain(n)
    strides = strides_after(leaf.type, chain) if leaf.op == "input" else None
    if strides is None or not n.type.size:
        return None
    rank = len(n.shape)
    axes = [a for a in range(-rank, 0) if n.shape[a] > 1]
    if not axes or abs(strides[axes[-1]]) * n.dtype.itemsize < LINE:
        return None
    moving = [a for a in axes if strides[a]]
    along = min(moving, key=lambda a: abs(strides[a]))
    reused = n.shape[along] * n.dtype.itemsize >= LINE > abs(strides[along]) * n.dtype.itemsize
    return along if along != axes[-1] and strides[axes[-1]] and reused else None


def copy_transposed(out: np.ndarray, x: np.ndarray, buffer: np.ndarray, number: int | None = None) -> None:
    """``copyto(out, x)`` through `buffer` (`COPY_BUFFER` bytes); of block number `number` only, where one is named."""
    shape, order, blocks = _blocks(x.shape, x.strides, x.itemsize)
    rows = buffer[: math.prod(shape) * x.itemsize].view(x.dtype).reshape(shape).transpose(order)
    for place, part in blocks if number is None else blocks[number : number + 1]:
        block = rows[part]
        np.copyto(block, x[place])
        np.copyto(out[place], block)


def block_count(x: np.ndarray) -> int:
    """How many blocks `copy_transposed` copies `x` in."""
    return _count(x.shape, x.strides, x.itemsize)


def blocks_behind(n: Node) -> int:
    """The same for a leaf behind views that need no copy."""
    leaf, chain = leaf_chain(n)
    strides = strides_after(leaf.type, chain)
    assert strides is not None
    return _count(n.shape, tuple(s * n.dtype.itemsize for s in strides), n.dtype.itemsize)


def _count(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    block, _, _ = _extents(shape, strides, itemsize)
    return math.prod(-(-n // b) for n, b in zip(shape, block, strict=True))


@lru_cache(maxsize=512)
def _blocks(
    shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[Index, Index]]]:
    """The shape of the buffer, the order of its axes in `shape`, and each block's place and part of the buffer."""
    block, along, pitch = _extents(shape, strides, itemsize)
    others = [a for a in range(len(shape)) if a != along]
    order = [0] * len(shape)
    for i, a in enumerate([*others, along]):
        order[a] = i
    starts = [range(0, n, b) for n, b in zip(shape, block, strict=True)]
    blocks = []
    for first in product(*starts):
        ends = [min(i + b, n) for i, b, n in zip(first, block, shape, strict=True)]
        place = tuple(map(slice, first, ends))
        blocks.append((place, tuple(slice(0, e - i) for i, e in zip(first, ends, strict=True))))
    return (*[block[a] for a in others], pitch), tuple(order), blocks


def _extents(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[list[int], int, int]:
    """The extents of a block, the axis that its array lies along, and the elements from one row of the buffer to the
    next."""
    moving = [a for a, n in enumerate(shape) if n > 1 and strides[a]] or [len(shape) - 1]
    along = min(moving, key=lambda a: (abs(strides[a]), -a))
    block = [1] * len(shape)
    block[along] = max(1, min(shape[along], SIDE))
    line = max(1, LINE // itemsize)
    pitch = (-(-block[along] // line) | 1) * line
    left = max(1, COPY_BUFFER // (pitch * itemsize))
    for a in reversed(range(len(shape))):
        if a != along:
            block[a] = max(1, min(shape[a], left))
            left //= block[a]
    return block, along, pitch
