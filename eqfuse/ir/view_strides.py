"""How an array lies in memory after a view: asked of NumPy, on arrays without data. In elements, not bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eqfuse.ir.graph import Node
from eqfuse.ops import row
from eqfuse.ops.types import Shape, TensorType


def contiguous(shape: Shape) -> tuple[int, ...]:
    """Element strides of a C-ordered array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


class StridedView(NamedTuple):
    """Where the elements of a view lie in its array: the first one, how many there are, and how far apart, by axis."""

    first: int
    shape: Shape
    strides: tuple[int, ...]


def view_strides(op: str, attrs: tuple, shape: Shape, strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """Element strides after a view operator, or None when NumPy would have to copy."""
    view = _strided(shape, strides, ((op, attrs),))
    return view and view.strides


def strided(shape: Shape, chain: Sequence[Node]) -> StridedView | None:
    """The views `chain`, one after the other, of a C-ordered array of `shape`. None where NumPy would have to copy."""
    return _strided(shape, contiguous(shape), tuple([(view.op, view.attrs) for view in chain]))


@lru_cache(maxsize=8192)
def _strided(shape: Shape, strides: tuple[int, ...], chain: tuple[tuple[str, tuple], ...]) -> StridedView | None:
    if math.prod(shape) == 0:
        for op, attrs in chain:
            shape = row(op).type([TensorType(np.dtype(np.int8), shape)], attrs).shape
        return StridedView(0, shape, contiguous(shape))
    first = array = as_strided(np.empty(1, np.int8), shape, strides)
    for op, attrs in chain:
        if op == "reshape":
            try:
                array = np.reshape(array, *attrs, copy=False)
            except ValueError:
                return None
        elif array.ndim or op == "broadcast_to":  # others do nothing to a number, of which `np.flip` copies
            array = row(op).meaning(array, *attrs)
    return StridedView(array.ctypes.data - first.ctypes.data, array.shape, array.strides)
