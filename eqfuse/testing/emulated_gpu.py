"""A GPU on the CPU, for tests of programs. In: nothing. Out: `EmulatedGpu`, whose memory is NumPy's and whose CUDA
functions run on `cudasim`. As with CuPy, its arrays do not mix with the host's, and new memory holds anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
import scipy.special

from eqfuse.testing.cublas_stand_in import CublasStandIn
from eqfuse.testing.cudasim import CpuRawModule
from eqfuse.testing.cupy_stand_in import StandIn

# functions that start nothing on the device: views, memory, facts
QUIET = frozenset({
    "transpose", "reshape", "broadcast_to", "flip", "ravel", "as_strided", "moveaxis", "sliding_window_view",
    "expand_dims", "squeeze", "swapaxes", "empty", "empty_like", "asarray", "shape", "ndim", "size", "result_type",
    "broadcast_shapes", "broadcast_arrays", "asnumpy", "real", "imag", "atleast_1d", "atleast_2d", "may_share_memory",
})  # fmt: skip


class Launches:
    """The names of what was started on the device, in order; what one call does inside is its own."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._inside = False

    def record(self, name: str, work: Callable[[], Any]) -> Any:
        """What `work` returns, which starts `name`."""
        if self._inside:
            return work()
        if name.rpartition(".")[2] not in QUIET:
            self.names.append(name)
        self._inside = True
        try:
            return work()
        finally:
            self._inside = False


LAUNCHES = Launches()


class DeviceArray(np.ndarray):
    """An array in the emulated device's memory."""

    def __setitem__(self, key: Any, value: Any) -> None:
        LAUNCHES.record("copy", lambda: super(DeviceArray, self).__setitem__(key, value))

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        return LAUNCHES.record("astype", lambda: super(DeviceArray, self).astype(*args, **kwargs))

    def get(self) -> np.ndarray:
        """A copy on the host."""
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


def _marked(value: Any) -> Any:
    return np.asarray(value).view(DeviceArray) if isinstance(value, (np.ndarray, np.generic)) else value


class EmulatedGpu:
    """One device with one stream."""

    arrays = StandIn("cupy", np, _marked, LAUNCHES.record)
    special = StandIn("special", scipy.special, _marked, LAUNCHES.record)
    cublas = CublasStandIn(LAUNCHES.record)

    def cublas_handle(self) -> int:
        return 0

    def current_stream(self) -> tuple[Hashable, Hashable]:
        return 0, 0

    def module(self, source: str, strict: bool) -> CpuRawModule:
        return CpuRawModule(source)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8).fill(0xFF)
        return array.view(DeviceArray)

    def upload(self, array: np.ndarray) -> DeviceArray:
        if isinstance(array, DeviceArray):
            raise TypeError("the array is on the device already")
        return np.array(array, order="C").view(DeviceArray)

    def download(self, array: DeviceArray) -> np.ndarray:
        return array.get()

    def holds(self, array: Any) -> bool:
        return isinstance(array, DeviceArray)

    def address(self, array: DeviceArray) -> int:
        return array.ctypes.data

    def finish(self) -> None:
        """Work is done when it is started."""

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
