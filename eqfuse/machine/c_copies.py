"""Copies into C order by C: block by block, on several threads. In: arrays. Out: their elements in other memory.

NumPy follows the copy: of an array that lies along another axis it takes a cache line for each element, and where
extents are powers of two these lines share a few sets of the cache.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache
from pathlib import Path

import numpy as np

from eqfuse.machine.c_build import CompilerError
from eqfuse.machine.c_objects import LoadError, loaded_library
from eqfuse.machine.c_threads import runner
from eqfuse.machine.memory import ALIGNMENT
from eqfuse.machine.thread_limit import thread_count

LARGE = 1 << 17  # bytes of an array that is copied by blocks, at least: others lie in caches
AT_ONCE = 1 << 17  # bytes that a thread copies before it takes the next, at least
BLOCK, OUTER = 64, 64  # as in the C text
SIZES = (1, 2, 4, 8)  # bytes of elements: a cache line holds few larger ones


class _Axis(ctypes.Structure):
    """`extent`, and the bytes from one index to the next in the copy and in the array."""

    _fields_ = (("extent", ctypes.c_int64), ("to", ctypes.c_int64), ("source", ctypes.c_int64))


class _Copy(ctypes.Structure):
    _fields_ = (
        ("to", ctypes.c_void_p), ("source", ctypes.c_void_p), ("size", ctypes.c_int64), ("chunk", ctypes.c_int64),
        ("units", ctypes.c_int64), ("outer", ctypes.c_int64), ("across", _Axis), ("along", _Axis),
        ("outers", _Axis * OUTER),
    )  # fmt: skip


def ordered_copy(array: np.ndarray) -> np.ndarray:
    """`array`, or a copy of it, in C order and aligned, as compiled kernels read it."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    copy = np.empty(array.shape, array.dtype)
    copy_in_order(copy, array)
    return copy


def copy_in_order(to: np.ndarray, array: np.ndarray) -> None:
    """``np.copyto(to, array)`` of arrays of one shape and dtype, of which `to` lies in C order."""
    axes = _axes(to, array) if array.nbytes >= LARGE and array.itemsize in SIZES and array.flags.aligned else []
    steps = [abs(source) or math.inf for _, _, source in axes]
    by_lines = not axes or min(steps) >= ALIGNMENT or not ALIGNMENT <= steps[-1] < math.inf
    library = None if by_lines else _library()
    if library is None:
        np.copyto(to, array)
        return
    along = axes.pop(steps.index(min(steps)))
    across = axes.pop()
    units = math.prod([extent for extent, _, _ in axes] + [-(-extent // BLOCK) for extent, _, _ in (along, across)])
    copy = _Copy(
        to.ctypes.data, array.ctypes.data, array.itemsize, max(1, AT_ONCE * units // array.nbytes), units, len(axes),
        across, along, (_Axis * OUTER)(*[_Axis(*axis) for axis in axes]),
    )  # fmt: skip
    library.eqfuse_copy(ctypes.byref(copy), runner(), thread_count())


def _axes(to: np.ndarray, array: np.ndarray) -> list[tuple[int, int, int]]:
    """The axes of more than one index, as few as both arrays allow: extents, and the bytes between neighbours."""
    axes: list[tuple[int, int, int]] = []
    for extent, step, source in zip(array.shape, to.strides, array.strides, strict=True):
        if axes and axes[-1][2] == extent * source:
            axes[-1] = axes[-1][0] * extent, step, source
        elif extent > 1:
            axes.append((extent, step, source))
    return axes


@cache
def _library() -> ctypes.CDLL | None:
    """The copies in C; None where a compiler that made kernels before makes none now."""
    try:
        library = loaded_library((Path(__file__).parent / "c_copies.c").read_text())
    except (CompilerError, LoadError):
        return None
    library.eqfuse_copy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong)
    library.eqfuse_copy.restype = None
    return library
