"""Arrays in the memory of a device, of whatever library, by DLPack's methods or CUDA's `__cuda_array_interface__`.

In: an array of torch, JAX, CuPy, Numba, …. Out: where it lies and what it holds, without a copy; results as arrays of
its library. Next stop: `gpu`, and the signatures of programs.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from eqfuse.errors import TraceError

# DLPack's numbers for kinds of memory
_CUDA = frozenset({2, 13})  # of a GPU, or managed
_HOST = frozenset({1, 3, 11})  # of the host, or pinned there: NumPy reads it
_NAMES = {4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm", 14: "oneapi", 15: "webgpu", 16: "hexagon"}
SHARING_ERRORS = (BufferError, TypeError, ValueError, RuntimeError)  # by which libraries refuse to share an array


class DLPackDevice(NamedTuple):
    """A device: its kind, as DLPack numbers kinds, and its number; None where only a driver knows that."""

    kind: int
    number: int | None

    @property
    def is_cuda(self) -> bool:
        return self.kind in _CUDA

    def __str__(self) -> str:
        name = "cuda" if self.is_cuda else _NAMES.get(self.kind, f"DLPack's device {self.kind}")
        return name if self.number is None else f"{name}:{self.number}"


def dlpack_device(array: Any) -> DLPackDevice | None:
    """The device on which `array` lies. None for what lies on the host, or nowhere, or is no array."""
    if isinstance(array, (np.ndarray, np.generic)):
        return None
    if hasattr(array, "__dlpack_device__"):
        try:
            kind, number = map(int, array.__dlpack_device__())
        except SHARING_ERRORS:  # of torch's "meta" tensors, which hold nothing
            return None
        return None if kind in _HOST else DLPackDevice(kind, number)
    return DLPackDevice(2, None) if hasattr(array, "__cuda_array_interface__") else None


def array_dtype(array: Any) -> np.dtype:
    """Its dtype; torch's have names of their own. TraceError where NumPy has none of that name."""
    dtype = array.dtype
    if isinstance(dtype, np.dtype):
        return dtype
    try:
        return np.dtype(str(dtype).rpartition(".")[2])
    except TypeError:
        raise TraceError(f"an array on a device has dtype {dtype}, which NumPy has not: convert it first") from None


def byte_strides(array: Any) -> tuple[int, ...] | None:
    """Its strides; None in C order."""
    itemsize = array_dtype(array).itemsize
    if callable(getattr(array, "stride", None)):  # torch
        strides = tuple([n * itemsize for n in array.stride()])
    else:
        strides = getattr(array, "strides", None) or ()  # JAX has none: C order
    step = itemsize
    for n, stride in zip(reversed(array.shape), reversed(strides), strict=False):
        if n > 1 and stride != step and 0 not in array.shape:
            return tuple(strides)
        step *= n
    return None


def bounds(array: Any) -> tuple[int, int]:
    """The addresses of its first byte and of the one behind its last."""
    start = _start(array)
    itemsize, strides = array_dtype(array).itemsize, byte_strides(array)
    if strides is None:
        return start, start + itemsize * math.prod(array.shape)
    reach = [(n - 1) * step for n, step in zip(array.shape, strides, strict=True)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + itemsize


def _start(array: Any) -> int:
    if hasattr(getattr(array, "data", None), "ptr"):  # CuPy
        return array.data.ptr
    if not hasattr(array, "__dlpack__"):
        return array.__cuda_array_interface__["data"][0]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    capsule = array.__dlpack__()
    tensor = pointer(capsule, b"dltensor")  # a DLTensor: its data, …, the offset of its first element
    return sum(ctypes.c_uint64.from_address(tensor + field).value for field in (0, 40))


def importer(array: Any) -> Callable[[Any], Any] | None:
    """What makes arrays of the library of `array` by DLPack: its streams then wait. None where it has nothing."""
    spaces = [array.__array_namespace__()] if hasattr(array, "__array_namespace__") else []
    spaces += [sys.modules.get(kind.__module__.partition(".")[0]) for kind in type(array).__mro__]
    importers = (getattr(space, "from_dlpack", None) for space in spaces)
    return next((function for function in importers if function is not None), None)
