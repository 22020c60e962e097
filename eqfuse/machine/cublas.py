"""Products of matrices by cuBLAS, called directly: CuPy's `matmul` refuses to be captured into a CUDA graph.

In: CuPy, which brings the library. Out: `Products`. Next stop: `machine/gpu.py`.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from eqfuse.dtypes import BFLOAT16
from eqfuse.errors import EqfuseError

NEITHER, TRANSPOSED = 0, 1  # CUBLAS_OP_N, CUBLAS_OP_T
DEFAULT = -1  # CUBLAS_GEMM_DEFAULT
SUM32, SUM64 = 68, 70  # CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F
CUBLAS_INT = 2**31 - 1  # extent or step: cuBLAS takes them as int


class ElementType(NamedTuple):
    """How cuBLAS calls a dtype and the sums of its products, and the coefficients 1 and 0."""

    kind: int
    sums: int
    one: Any
    zero: Any


_ONE, _ZERO = (ctypes.c_float * 2)(1, 0), (ctypes.c_float * 2)()
_ONE64, _ZERO64 = (ctypes.c_double * 2)(1, 0), (ctypes.c_double * 2)()
ELEMENT_TYPES = {
    np.dtype(np.float16): ElementType(2, SUM32, _ONE, _ZERO), BFLOAT16: ElementType(14, SUM32, _ONE, _ZERO),
    np.dtype(np.float32): ElementType(0, SUM32, _ONE, _ZERO),
    np.dtype(np.complex64): ElementType(4, SUM32, _ONE, _ZERO),
    np.dtype(np.float64): ElementType(1, SUM64, _ONE64, _ZERO64),
    np.dtype(np.complex128): ElementType(5, SUM64, _ONE64, _ZERO64),
}  # fmt: skip


class Matrices(NamedTuple):
    """How an operand lies, as cuBLAS is told, which counts columns first: `step` elements between its rows or columns,
    `stride` between the matrices of a batch."""

    transposed: int
    step: int
    stride: int


class BatchedProduct(NamedTuple):
    """A product of so many `pairs` of matrices: (m, k) @ (k, n)."""

    m: int
    n: int
    k: int
    a: Matrices
    b: Matrices
    pairs: int


class Products:
    """Products on the devices of `cupy`."""

    def __init__(self, cupy: ModuleType) -> None:
        self._cupy: Any = cupy
        self._library = _library(cupy)
        self._handles: dict[int, ctypes.c_void_p] = {}  # by device
        self._lock = threading.Lock()  # a handle has one stream at a time

    def into(self, a: Any, b: Any, out: Any, workspace: Any = None) -> None:
        """``a @ b``, into `out`, which is C-ordered, and float32 where it is not of the dtype of `a` and `b`.
        `workspace`: memory for cuBLAS, which takes some of its own where none is given; a graph needs it."""
        element, size = ELEMENT_TYPES.get(a.dtype), a.dtype.itemsize
        wider = out.dtype != a.dtype
        if element is None or a.dtype != b.dtype or (wider and size != 2) or self._library is None:
            self._by_cupy(a, b, out)
            return
        product = planned(a.shape, a.strides, b.shape, b.strides, out.shape, size)
        if product is None and (workspace is not None or size == 2) and out.size:
            a, b = (self._in_order(x, out) for x in (a, b))
            product = planned(a.shape, a.strides, b.shape, b.strides, out.shape, size)
        if product is None:
            self._by_cupy(a, b, out)
            return
        with self._lock:
            self._call(product, element, a, b, out, workspace)

    def _by_cupy(self, a: Any, b: Any, out: Any) -> None:
        """CuPy multiplies no bfloat16, and 16-bit floats not into float32."""
        if a.dtype == BFLOAT16 or (a.dtype == np.float16 and out.dtype != a.dtype):
            a, b = a.astype("float32"), b.astype("float32")
        if out.dtype == a.dtype:
            self._cupy.matmul(a, b, out=out)
        else:
            out[...] = self._cupy.matmul(a, b)

    def _call(self, product: BatchedProduct, element: ElementType, a: Any, b: Any, out: Any, workspace: Any) -> None:
        cuda, library = self._cupy.cuda, self._library
        m, n, k, left, right, pairs = product
        kind, sums, one, zero = element
        out_kind = ELEMENT_TYPES[out.dtype].kind
        handle = self._handle(cuda.runtime.getDevice())
        _done(library.cublasSetStream_v2(handle, cuda.get_current_stream().ptr))
        if workspace is not None:
            _done(library.cublasSetWorkspace_v2(handle, workspace.data.ptr, workspace.nbytes))
        if pairs == 1:
            status = library.cublasGemmEx(
                handle, right.transposed, left.transposed, n, m, k, one, b.data.ptr, kind, right.step, a.data.ptr, kind,
                left.step, zero, out.data.ptr, out_kind, n, sums, DEFAULT,
            )  # fmt: skip
        else:
            status = library.cublasGemmStridedBatchedEx(
                handle, right.transposed, left.transposed, n, m, k, one, b.data.ptr, kind, right.step, right.stride,
                a.data.ptr, kind, left.step, left.stride, zero, out.data.ptr, out_kind, n, m * n, pairs, sums, DEFAULT,
            )  # fmt: skip
        _done(status)

    def _in_order(self, x: Any, out: Any) -> Any:
        """A copy of an operand, one of its matrices for each of the result."""
        whole = x.shape if x.ndim < 2 else (*out.shape[: out.ndim - 2], *x.shape[-2:])
        return self._cupy.broadcast_to(x, whole).copy(order="C")

    def _handle(self, device: int) -> ctypes.c_void_p:
        if device not in self._handles:
            handle = ctypes.c_void_p()
            _done(self._library.cublasCreate_v2(ctypes.byref(handle)))
            self._handles[device] = handle
        return self._handles[device]


@lru_cache(maxsize=1024)
def planned(
    a_shape: tuple[int, ...], a_strides: tuple[int, ...], b_shape: tuple[int, ...], b_strides: tuple[int, ...],
    out_shape: tuple[int, ...], itemsize: int,
) -> BatchedProduct | None:  # fmt: skip
    """The product of arrays that lie so, or None where cuBLAS does not take them as they are."""
    m, k, n = (a_shape[-2] if len(a_shape) > 1 else 1), a_shape[-1], (b_shape[-1] if len(b_shape) > 1 else 1)
    batch = out_shape[: len(out_shape) - (len(a_shape) > 1) - (len(b_shape) > 1)]
    a_steps, b_steps = (
        tuple([step // itemsize for step in strides]) if not any(step % itemsize for step in strides) else None
        for strides in (a_strides, b_strides)
    )
    if not (m and n and k) or 0 in batch or a_steps is None or b_steps is None:
        return None
    if len(a_shape) == 1:
        a_shape, a_steps = (1, k), (k, *a_steps)
    if len(b_shape) == 1:
        b_shape, b_steps = (k, 1), (*b_steps, 1)
    a, b = _matrices(a_shape, a_steps, batch), _matrices(b_shape, b_steps, batch)
    if a is None or b is None or max(m, n, k, a.step, b.step) > CUBLAS_INT:
        return None
    return BatchedProduct(m, n, k, a, b, int(np.prod(batch, dtype=np.int64)))


def _matrices(shape: Sequence[int], steps: Sequence[int], batch: Sequence[int]) -> Matrices | None:
    *_, rows, columns = shape
    down, right = steps[-2:]
    stride = _stride(shape[:-2], steps[:-2], batch)
    if stride is None:
        return None
    if (right == 1 or columns == 1) and (down >= columns or rows == 1):
        return Matrices(NEITHER, down if rows > 1 else columns, stride)
    if (down == 1 or rows == 1) and (right >= rows or columns == 1):
        return Matrices(TRANSPOSED, right if columns > 1 else rows, stride)
    return None


def _stride(shape: Sequence[int], steps: Sequence[int], batch: Sequence[int]) -> int | None:
    """The one distance between the matrices of a `batch`; None where there is none."""
    over = len(batch) - len(shape)
    full = [0] * over + [0 if n == 1 else step for n, step in zip(shape, steps, strict=True)]
    stride, count = None, 1
    for n, step in zip(reversed(batch), reversed(full), strict=True):
        if n == 1:
            continue
        if stride is None:
            stride = step
        if step != stride * count or step < 0:
            return None
        count *= n
    return stride or 0


def _library(cupy: Any) -> Any:
    """The cuBLAS that CuPy has loaded, its functions declared; None where it is not found."""
    word, number, large, pointer = ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
    try:
        importlib.import_module("cupy_backends.cuda.libs.cublas")
        library = _loaded(cupy)
        library.cublasCreate_v2.argtypes = (pointer,)
        library.cublasSetStream_v2.argtypes = (pointer, pointer)
        library.cublasSetWorkspace_v2.argtypes = (pointer, pointer, ctypes.c_size_t)
        library.cublasGemmEx.argtypes = (
            pointer, word, word, number, number, number, pointer, pointer, word, number, pointer, word, number,
            pointer, pointer, word, number, word, word,
        )  # fmt: skip
        library.cublasGemmStridedBatchedEx.argtypes = (
            pointer, word, word, number, number, number, pointer, pointer, word, number, large, pointer, word, number,
            large, pointer, pointer, word, number, large, number, word, word,
        )  # fmt: skip
    except (ImportError, OSError, AttributeError):
        return None
    return library


def _loaded(cupy: Any) -> ctypes.CDLL:
    """OSError where it is not loaded and cannot be. AttributeError on Windows, which does not say what is."""
    name, only_loaded = f"libcublas.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}", os.RTLD_NOLOAD | os.RTLD_NOW
    try:
        return ctypes.CDLL(name, mode=only_loaded)
    except OSError:
        cupy.cuda.Device().cublas_handle  # noqa: B018 - with its first handle CuPy loads the library
    try:
        return ctypes.CDLL(name, mode=only_loaded)
    except OSError:
        return ctypes.CDLL(name)


def _done(status: int) -> None:
    if status:
        raise EqfuseError(f"cuBLAS did not compute a product of matrices (its status is {status})")
