"""How an array lies in memory after a view: asked of NumPy, on arrays without data. In elements, not bytes."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eqfuse.ops import row
from eqfuse.ops.types import Shape, TensorType


def contiguous(shape: Shape) -> tuple[int, ...]:
    """Element strides of a C-ordered array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


@lru_cache(maxsize=4096)
def view_strides(op: str, attrs: tuple, shape: Shape, strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """Element strides after a view operator, or None when NumPy would have to copy."""
    if math.prod(shape) == 0:
        return contiguous(row(op).type([TensorType(np.dtype(np.int8), shape)], attrs).shape)
    array = as_strided(np.empty(1, np.int8), shape, strides)
    if op == "reshape":
        try:
            return np.reshape(array, *attrs, copy=False).strides
        except ValueError:
            return None
    return row(op).meaning(array, *attrs).strides


def moves_units(before: Shape, after: Shape) -> bool:
    """Does a reshape from one shape to the other only add and drop axes of extent 1?"""
    return [n for n in before if n != 1] == [n for n in after if n != 1]
