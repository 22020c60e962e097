"""Products of 16-bit floats by cuBLAS, summed in float32. (CuPy's matmul takes no bfloat16, and rounds float16.)

In: a GPU. Out: the function that library calls name `gemm` (`emit/cuda/calls.py`). Next stop: `machine/gpu.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.machine.gpu import Gpu

# cudaDataType_t of library_types.h; cublasComputeType_t, cublasOperation_t and cublasGemmAlgo_t of cublas_api.h
TYPES = {"float32": 0, "float16": 2, "bfloat16": 14}
COMPUTE_32F, DEFAULT = 68, -1
AS_IT_IS, TRANSPOSED = 0, 1


def gemm_on(gpu: Gpu) -> Callable[[Any, Any, Any], None]:
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)

    def gemm(a: Any, b: Any, out: Any) -> None:
        """Writes the product of `a` [..., m, k] and `b` [..., k, n], both of one 16-bit type, into `out` [..., m, n]
        of that type or float32, which is C-ordered."""
        if not a.shape[-1]:
            out[...] = 0
            return
        batch = out.shape[:-2]
        if math.prod(b.shape[:-2]) == 1:  # one tall matrix times another one
            a, b, batch = gpu.arrays.reshape(a, (-1, a.shape[-1])), gpu.arrays.reshape(b, b.shape[-2:]), ()
        (a, turn_a, lead_a, step_a), (b, turn_b, lead_b, step_b) = (_matrices(gpu, x, batch) for x in (a, b))
        (_, m, k), n = a.shape, b.shape[-1]
        # cuBLAS counts columns first: in its eyes this is the product of b transposed and a transposed
        gpu.cublas.gemmStridedBatchedEx(
            gpu.cublas_handle(), turn_b, turn_a, n, m, k,
            one.ctypes.data, gpu.address(b), TYPES[b.dtype.name], lead_b, step_b,
            gpu.address(a), TYPES[a.dtype.name], lead_a, step_a,
            zero.ctypes.data, gpu.address(out), TYPES[out.dtype.name], n, m * n, math.prod(batch), COMPUTE_32F, DEFAULT,
        )  # fmt: skip

    return gemm


def _matrices(gpu: Gpu, x: Any, batch: tuple[int, ...]) -> tuple[Any, int, int, int]:
    """`x` for each entry of `batch`, as matrices that cuBLAS reads where they lie, or a copy: whether their rows lie
    across, elements from one row (or column) to the next, and from one matrix to the next."""
    rows, columns = x.shape[-2:]
    x = gpu.arrays.reshape(gpu.arrays.broadcast_to(x, (*batch, rows, columns)), (-1, rows, columns))
    step, down, across = (s // x.dtype.itemsize for s in x.strides)
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return x, AS_IT_IS, max(down, columns), step
    if (down == 1 or rows == 1) and across >= rows:
        return x, TRANSPOSED, across, step
    return x.copy(order="C"), AS_IT_IS, columns, rows * columns
