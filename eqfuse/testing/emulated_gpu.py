"""A GPU on the CPU, for tests of programs. In: nothing. Out: `EmulatedGpu`, whose memory is NumPy's and whose CUDA
functions run on `cudasim`. As with CuPy, its arrays do not mix with the host's, and new memory holds anything.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special

from eqfuse.dtypes import BFLOAT16
from eqfuse.testing.cudasim import CpuRawModule
from eqfuse.testing.cupy_stand_in import StandInModule

# functions that start nothing on the device: views, memory, facts
QUIET = frozenset({
    "transpose", "reshape", "broadcast_to", "flip", "ravel", "as_strided", "moveaxis", "sliding_window_view",
    "expand_dims", "squeeze", "swapaxes", "empty", "empty_like", "asarray", "shape", "ndim", "size", "result_type",
    "broadcast_shapes", "broadcast_arrays", "asnumpy", "real", "imag", "atleast_1d", "atleast_2d", "may_share_memory",
})  # fmt: skip


class LaunchRecord(threading.local):
    """The names of what this thread started on the device, in order; what one call does inside is its own.

    `captured`: what is to run later, as a graph, while a thread captures one. Then a CUDA function does not run; other
    calls do, for their results, and again with the graph.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.captured: list[Callable[[], None]] | None = None
        self._inside = False

    def record(self, name: str, work: Callable[[], Any]) -> Any:
        """What `work` returns, which starts `name`."""
        if self._inside:
            return work()
        quiet = name.rpartition(".")[2] in QUIET
        if not quiet:
            self.names.append(name)
        self._inside = True
        try:
            result = work()
        finally:
            self._inside = False
        if self.captured is not None and not quiet:
            self.captured.append(partial(_again, work, result))
        return result

    def waits(self) -> None:
        """Refuse what a thread that captures may not do, as a GPU does."""
        if self.captured is not None:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing")


def _again(work: Callable[[], Any], result: Any) -> None:
    """Do `work` once more, which left its result in `result`."""
    inside, LAUNCHES._inside = LAUNCHES._inside, True
    try:
        rerun = work()
        if isinstance(result, np.ndarray) and rerun is not result:
            _host(result)[...] = _host(rerun)
    finally:
        LAUNCHES._inside = inside


LAUNCHES = LaunchRecord()


class DeviceArray(np.ndarray):
    """An array in the emulated device's memory."""

    def __setitem__(self, key: Any, value: Any) -> None:
        assert not _overlaps(_host(self)[key], _host(value)), "a copy on a GPU reads what it writes"
        LAUNCHES.record("copy", lambda: super(DeviceArray, self).__setitem__(key, value))

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        return LAUNCHES.record("astype", lambda: super(DeviceArray, self).astype(*args, **kwargs))

    def get(self) -> np.ndarray:
        """A copy on the host."""
        LAUNCHES.waits()
        return np.array(_host(self))

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        return LAUNCHES.record("copy", lambda: super(DeviceArray, self).copy(*args, **kwargs))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", ())
        arrays = [_host(a) for a in _on_device((*inputs, *out))]
        if out:
            kwargs["out"] = tuple(arrays[len(inputs) :])
        result = LAUNCHES.record(ufunc.__name__, lambda: getattr(ufunc, method)(*arrays[: len(inputs)], **kwargs))
        return out[0] if out else _marked(result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        list(_on_device((*args, *kwargs.values())))
        run = super().__array_function__
        return _marked(LAUNCHES.record(func.__name__, lambda: run(func, types, args, kwargs)))


def _overlaps(target: Any, value: Any) -> bool:
    """Do two arrays share memory, other than as the same elements?"""
    if not isinstance(value, np.ndarray) or not np.shares_memory(target, value):
        return False
    one, other = target.__array_interface__, value.__array_interface__
    return any(one[fact] != other[fact] for fact in ("data", "strides", "shape"))


def _marked(value: Any) -> Any:
    return np.asarray(value).view(DeviceArray) if isinstance(value, (np.ndarray, np.generic)) else value


def _launched(function: Any, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any]) -> None:
    if LAUNCHES.captured is None:
        function(grid, block, arguments)
    else:
        LAUNCHES.captured.append(partial(_at_addresses, function, grid, block, [*map(_remembered, arguments)]))


def _remembered(argument: Any) -> Any:
    """An argument as a graph remembers it: of an array, the address alone."""
    return (argument.ctypes.data, argument.dtype) if isinstance(argument, np.ndarray) else argument


def _at_addresses(function: Any, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any]) -> None:
    function(grid, block, [_array_at(*a) if isinstance(a, tuple) else a for a in arguments])


def _array_at(address: int, dtype: np.dtype) -> np.ndarray:
    """An array that starts at an address; what is read is that alone."""
    memory: Any = (ctypes.c_char * dtype.itemsize).from_address(address)
    return np.frombuffer(memory, dtype)


def _replayed(captured: Sequence[Callable[[], None]]) -> None:
    LAUNCHES.names.append("graph")
    for work in captured:
        work()


class _SharedArray:
    """What an array shares by DLPack, with memory that is the host's."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        return self._array.__dlpack__(stream=1)


class EmulatedGpu:
    """One device with one stream, the legacy default one."""

    devices = 1
    arrays = StandInModule("cupy", np, _marked, LAUNCHES.record)
    special = StandInModule("special", scipy.special, _marked, LAUNCHES.record)

    def current_stream(self) -> tuple[Hashable, Hashable]:
        return 0, 0

    def module(self, source: str, strict: bool, specific: bool = False) -> CpuRawModule:
        return CpuRawModule(source)

    def function(self, module: CpuRawModule, name: str, shared_bytes: int = 0) -> Callable[..., Any]:
        """It is captured where its thread captures a graph."""
        function = module.get_function(name)
        function.max_dynamic_shared_size_bytes = max(shared_bytes, function.max_dynamic_shared_size_bytes)
        return partial(_launched, partial(function, shared_mem=shared_bytes))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8).fill(0xFF)
        return array.view(DeviceArray)

    def upload(self, array: np.ndarray) -> DeviceArray:
        LAUNCHES.waits()
        if isinstance(array, DeviceArray):
            raise TypeError("the array is on the device already")
        return np.array(array, order="C").view(DeviceArray)

    def download(self, array: DeviceArray) -> np.ndarray:
        return array.get()

    def holds(self, array: Any) -> bool:
        return isinstance(array, DeviceArray)

    def device_of(self, array: DeviceArray) -> int:
        return 0

    def on(self, device: int) -> AbstractContextManager[None]:
        return nullcontext()

    def adopt(self, array: Any) -> DeviceArray:
        if hasattr(array, "__dlpack__"):
            return np.from_dlpack(_SharedArray(array)).view(DeviceArray)
        told = dict(array.__cuda_array_interface__)
        return np.asarray(SimpleNamespace(__array_interface__=told)).view(DeviceArray)

    def address(self, array: DeviceArray) -> int:
        return array.ctypes.data

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        target[...] = source

    def product(self, a: DeviceArray, b: DeviceArray, out: DeviceArray | None = None) -> DeviceArray:
        if out is None or (out.dtype == a.dtype and a.dtype != BFLOAT16):
            product: DeviceArray = self.arrays.matmul(a, b, out=out)
            return product
        result, wide = _host(out), [_host(x).astype(np.float32) for x in _on_device((a, b))]
        LAUNCHES.record("product", partial(np.matmul, *wide, out=result, casting="unsafe"))
        return out

    def finish(self) -> None:
        """Work is done when it is started."""
        LAUNCHES.waits()

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        LAUNCHES.waits()
        LAUNCHES.captured = captured = list[Callable[[], None]]()
        try:
            work()
        finally:
            LAUNCHES.captured = None
        return partial(_replayed, captured)

    def seconds(self, work: Callable[[], None], times: int = 1) -> float:
        started = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - started) / times


def _on_device(values: Any) -> Iterator[Any]:
    """`values`; TypeError, as from CuPy, when an array among them lies on the host."""
    for value in values:
        if isinstance(value, np.ndarray) and not isinstance(value, DeviceArray) and value.ndim:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>: the array is not on the device")
        yield value


def _host(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, DeviceArray) else value
