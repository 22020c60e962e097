"""cuBLAS on the CPU, for tests of programs: matrices by their addresses, counted by columns, as cuBLAS has them.

In: what counts calls. Out: `CublasStandIn`, with the functions of cuBLAS that eqfuse calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

DTYPES = {0: np.float32, 2: np.float16, 14: ml_dtypes.bfloat16}  # by cudaDataType_t
COMPUTE_32F = 68


class CublasStandIn:
    """`counted(name, work)` does the work of a call and takes note of it."""

    def __init__(self, counted: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._counted = counted

    def gemmStridedBatchedEx(
        self, handle: int, transa: int, transb: int, m: int, n: int, k: int,
        alpha: int, a: int, atype: int, lda: int, stride_a: int, b: int, btype: int, ldb: int, stride_b: int,
        beta: int, c: int, ctype: int, ldc: int, stride_c: int, batch: int, compute: int, algo: int,
    ) -> None:  # fmt: skip
        """c = alpha a b + beta c: [m, k] x [k, n], of which a and b may lie transposed."""
        if compute != COMPUTE_32F or atype != btype or ctype not in (0, atype):
            raise ValueError("CUBLAS_STATUS_NOT_SUPPORTED")
        left = _matrices(a, atype, (k, m) if transa else (m, k), lda, stride_a, batch)
        right = _matrices(b, btype, (n, k) if transb else (k, n), ldb, stride_b, batch)
        out = _matrices(c, ctype, (m, n), ldc, stride_c, batch)
        scale, kept = (ctypes.c_float.from_address(p).value for p in (alpha, beta))

        def work() -> None:
            parts = [np.swapaxes(x, 1, 2) if turned else x for x, turned in ((left, transa), (right, transb))]
            found = scale * np.matmul(*(x.astype(np.float32) for x in parts))
            out[...] = (found + kept * out if kept else found).astype(out.dtype)

        self._counted("cublas.gemmStridedBatchedEx", work)


def _matrices(
    address: int, dtype: int, extents: tuple[int, int], lead: int, stride: int, batch: int
) -> np.ndarray:
    """`batch` matrices whose columns lie `lead` elements apart."""
    rows, columns = extents
    if lead < max(1, rows):
        raise ValueError("CUBLAS_STATUS_INVALID_VALUE")
    size = np.dtype(DTYPES[dtype]).itemsize
    nbytes = size * ((batch - 1) * stride + (columns - 1) * lead + rows)
    memory = np.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), np.uint8).view(DTYPES[dtype])
    return np.lib.stride_tricks.as_strided(memory, (batch, rows, columns), (size * stride, size, size * lead))
