"""What a program needs of a GPU: memory, transfers, functions compiled from source, library calls.

In: nothing; a GPU is found when a program is first called. Out: `Gpu`: CuPy's here, the emulator's for tests
(`eqfuse/testing/emulated_gpu.py`). Next stop: `emit/cuda/executable.py`.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, suppress
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from eqfuse.errors import TargetUnavailable
from eqfuse.machine.cublas import Products
from eqfuse.machine.nvrtc import FAST, NVRTC_FLAGS, STRICT, compile_cuda

WAIT_KERNEL = """extern "C" __global__ void wait() {
    const long long begun = clock64();
    while (clock64() - begun < 2000000) {}  // cycles: about a millisecond
}
"""
GPU_ALIGNMENT = 16  # bytes: what CUDA functions expect of every array


class Gpu(Protocol):
    """One kind of device memory. Arrays are those of `arrays`, whose functions are named and called as NumPy's."""

    arrays: ModuleType
    special: ModuleType

    def current_stream(self) -> tuple[Hashable, Hashable]:
        """The current device and its current stream: calls on one stream run in order."""

    def module(self, source: str, strict: bool, specific: bool = False) -> Any:
        """The compiled functions of CUDA text, for `function`. No product is contracted into a sum. Where `strict`,
        subnormal numbers are not flushed to zero either; where `specific`, it is compiled with what this architecture
        alone has (sm_90a)."""

    def function(self, module: Any, name: str, shared_bytes: int = 0) -> Callable[..., Any]:
        """One of them, called with (grid, block, arguments): a launch of blocks that have so much shared memory
        beside what they declare themselves."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """A C-ordered array with any contents."""

    def upload(self, array: np.ndarray) -> Any:
        """A C-ordered copy on the device."""

    def download(self, array: Any) -> np.ndarray:
        """A copy on the host, complete when this returns."""

    def holds(self, array: Any) -> bool:
        """Does `array` lie on the device?"""

    @property
    def devices(self) -> int:
        """How many there are."""

    def device_of(self, array: Any) -> int:
        """The number of the device on which `array` lies, one of `arrays`."""

    def on(self, device: int) -> AbstractContextManager[Any]:
        """Within it, this is the current device."""

    def adopt(self, array: Any) -> Any:
        """An array of `arrays` over the memory of one of another library, for which the current stream waits."""

    def address(self, array: Any) -> int: ...

    def copy(self, target: Any, source: Any) -> None:
        """Copy what `source` holds into `target`, which lies as it does: both in C order."""

    def product(self, a: Any, b: Any, out: Any = None) -> Any:
        """``a @ b``, which may be captured, as the `matmul` of `arrays` may not. `out` may be float32 where `a` and `b`
        are of a 16-bit type."""

    def finish(self) -> None:
        """Wait for the work on the current stream."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """What starts again, on the current stream and all at once, what `work` starts, which itself starts nothing.
        Memory that `work` takes stays its own. Calls of the result on two streams must not overlap."""

    def seconds(self, work: Callable[[], None], times: int = 1) -> float:
        """How long the device is busy with what `work` starts on the current stream, on average over `times`."""


class CupyGpu:
    """The GPU as CuPy drives it."""

    def __init__(self, cupy: ModuleType, special: ModuleType) -> None:
        self.arrays: Any = cupy
        self.special = special
        self._thread = threading.local()  # `workspace`: what products may use while they are captured
        self._workspaces: dict[Hashable, Any] = {}  # the same, by device and stream

    @property
    def name(self) -> str:
        """What the driver calls the device."""
        return self.arrays.cuda.runtime.getDeviceProperties(0)["name"].decode()

    def current_stream(self) -> tuple[Hashable, Hashable]:
        cuda = self.arrays.cuda
        device = cuda.runtime.getDevice() if self.devices > 1 else 0
        stream = cuda.get_current_stream().ptr
        if stream == cuda.runtime.streamPerThread:  # one name for a stream of each thread
            return device, (stream, threading.get_ident())
        return device, stream

    def module(self, source: str, strict: bool, specific: bool = False) -> Any:
        if not strict and not specific:
            return self.arrays.RawModule(code=source, options=NVRTC_FLAGS)
        cuda = self.arrays.cuda  # whose own compiler flushes subnormal numbers to zero, and never asks for sm_90a
        module, arch = cuda.Module(), f"sm_{cuda.Device().compute_capability}{'a' * specific}"
        module.load(compile_cuda(source, arch, STRICT if strict else FAST).cubin)
        return module

    def function(self, module: Any, name: str, shared_bytes: int = 0) -> Callable[..., Any]:
        function = module.get_function(name)
        function = getattr(function, "kernel", function)  # RawModule's look up at every launch which device this is
        if not shared_bytes:
            return function
        driver = self.arrays.cuda.driver
        driver.funcSetAttribute(function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
        return functools.partial(function, shared_mem=shared_bytes)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return self.arrays.ndarray(shape, dtype)

    def upload(self, array: np.ndarray) -> Any:
        return self.arrays.array(array, order="C")

    def download(self, array: Any) -> np.ndarray:
        return self.arrays.asnumpy(array)

    def holds(self, array: Any) -> bool:
        return isinstance(array, self.arrays.ndarray)

    @functools.cached_property
    def devices(self) -> int:
        return self.arrays.cuda.runtime.getDeviceCount()

    def device_of(self, array: Any) -> int:
        return array.device.id

    def on(self, device: int) -> AbstractContextManager[Any]:
        return self.arrays.cuda.Device(device)

    def adopt(self, array: Any) -> Any:
        return self.arrays.from_dlpack(array) if hasattr(array, "__dlpack__") else self.arrays.asarray(array)

    def address(self, array: Any) -> int:
        return array.data.ptr

    def copy(self, target: Any, source: Any) -> None:
        target.data.copy_from_device_async(source.data, source.nbytes)

    def product(self, a: Any, b: Any, out: Any = None) -> Any:
        if out is None:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            out = self.empty((*batch, *a.shape[-2:-1], *b.shape[-1:][: b.ndim - 1]), np.result_type(a.dtype, b.dtype))
        self._products.into(a, b, out, getattr(self._thread, "workspace", None))
        return out

    @functools.cached_property
    def _products(self) -> Products:
        return Products(self.arrays)

    def finish(self) -> None:
        self.arrays.cuda.get_current_stream().synchronize()

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        cuda, here = self.arrays.cuda, self.current_stream()
        if "_products" in vars(self) and here not in self._workspaces:
            self._workspaces[here] = self.empty((_workspace_bytes(cuda),), np.dtype(np.uint8))
        pool, stream = cuda.MemoryPool(), cuda.Stream(non_blocking=True)
        with cuda.using_allocator(pool.malloc), stream:
            stream.begin_capture()
            try:
                self._thread.workspace = self._workspaces.get(here)
                work()
            except BaseException:
                with suppress(Exception):  # what was captured may be no graph
                    stream.end_capture()
                raise
            finally:
                self._thread.workspace = None
            graph = stream.end_capture()
        return functools.partial(_launched, graph, pool)

    def seconds(self, work: Callable[[], None], times: int = 1) -> float:
        cuda = self.arrays.cuda
        start, end = cuda.Event(), cuda.Event()
        self._wait((1,), (1,), ())  # the host starts all of the work before the device begins with it
        start.record()
        for _ in range(times):
            work()
        end.record()
        end.synchronize()
        return cuda.get_elapsed_time(start, end) / 1e3 / times  # from milliseconds

    @functools.cached_property
    def _wait(self) -> Any:
        return self.arrays.RawModule(code=WAIT_KERNEL).get_function("wait")


def _launched(graph: Any, _pool: Any) -> None:
    """Start a graph, which works in memory of a pool that lives as long."""
    graph.launch()


def _workspace_bytes(cuda: Any) -> int:
    """What cuBLAS may use of a device, as its manual advises."""
    return (32 << 20) if int(cuda.Device().compute_capability) >= 90 else (4 << 20)


def ready(gpu: Gpu, array: Any) -> Any:
    """`array` on the device as CUDA functions take it: C-ordered and aligned; a copy when it is not."""
    if array.flags.c_contiguous and gpu.address(array) % GPU_ALIGNMENT == 0:
        return array
    return array.copy(order="C")


@functools.cache
def cupy_gpu() -> CupyGpu:
    """The GPU of this machine; TargetUnavailable when there is none that CuPy can use."""
    try:
        import cupy
        from cupy_backends.cuda.libs import nvrtc

        if cupy.cuda.runtime.driverGetVersion() == 0 or cupy.cuda.runtime.getDeviceCount() == 0:
            raise TargetUnavailable("there is no NVIDIA driver or no GPU here")
        nvrtc.getVersion()
        return CupyGpu(cupy, importlib.import_module("cupyx.scipy.special"))
    except Exception as error:  # `import cupy` raises OSError in an unwritable home
        raise TargetUnavailable(
            f"running a program compiled for a GPU needs one, with CuPy ({error}); install the "
            "extra for your driver, eqfuse[cuda13] or eqfuse[cuda12], or compile with target='cpu'. "
            "source() and report need neither"
        ) from None
