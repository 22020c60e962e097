"""Arguments as arrays of the device, and results as arrays of the library that the arguments are of.

In: an argument, of the host, of CuPy or of a library that shares its arrays. Out: CuPy's arrays, and the way back. Next
stop: `executable.py`.
"""

from __future__ import annotations

from typing import Any

from eqfuse.errors import TargetUnavailable, TraceError
from eqfuse.ir.accepted import ndarray
from eqfuse.machine.device_arrays import SHARING_ERRORS, DLPackDevice, dlpack_device, importer
from eqfuse.machine.gpu import Gpu


def argument_array(gpu: Gpu, array: Any, name: str) -> Any:
    """The argument `name`, no array of `gpu`: over the same memory where it lies on a CUDA device, else on the host."""
    device = _device(array, name)
    return ndarray(array, f"the argument {name!r}") if device is None else _adopted(gpu, array, name)


def device_of(gpu: Gpu, array: Any, name: str) -> int | None:
    """The number of the CUDA device on which the argument `name` lies. None for the host."""
    if gpu.holds(array):
        return gpu.device_of(array)
    device = _device(array, name)
    if device is not None and device.number is None:
        return gpu.device_of(_adopted(gpu, array, name))
    return None if device is None else device.number


def as_kind(gpu: Gpu, result: Any, like: Any) -> Any:
    """`result`, an array of `gpu`, as the library of the array `like` has it; on the host where `like` lies there, or
    is None."""
    if gpu.holds(like):
        return result
    if dlpack_device(like) is None:
        return gpu.download(result)
    imported = importer(like)
    if imported is None:
        return result
    try:
        return imported(result)
    except SHARING_ERRORS as error:
        library = type(like).__module__.partition(".")[0]
        raise TraceError(
            f"{library} does not take a result of {result.dtype.name}: {error}. Pass arrays of CuPy, as by "
            "cupy.from_dlpack: then the results are of it too"
        ) from None


def _device(array: Any, name: str) -> DLPackDevice | None:
    device = dlpack_device(array)
    if device is not None and not device.is_cuda:
        raise TargetUnavailable(
            f"the argument {name!r} lies on {device}, the program runs on a CUDA device: copy it there, or to the host"
        )
    return device


def _adopted(gpu: Gpu, array: Any, name: str) -> Any:
    try:
        return gpu.adopt(array)
    except SHARING_ERRORS as error:
        raise TraceError(f"the argument {name!r} cannot be read where it lies: {error}") from None
