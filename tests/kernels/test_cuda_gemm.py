"""Products of 16-bit floats that are summed in float32 are calls of cuBLAS, which reads the operands where they lie."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.cuda.executable import CudaExecutable
from eqfuse.kinds.product import library_seconds
from eqfuse.plan.plan import Plan
from eqfuse.runtime.program import Program
from eqfuse.testing.emulated_gpu import LAUNCHES, EmulatedGpu

GPU = EmulatedGpu()
DTYPES = [np.float16, ml_dtypes.bfloat16]
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32)


def turned(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


PRODUCTS: dict[str, tuple[Product, tuple[int, ...], tuple[int, ...]]] = {
    "matrices": (lambda a, b: wide(a) @ wide(b), (33, 20), (20, 17)),
    "rounded": (lambda a, b: (wide(a) @ wide(b)).astype(a.dtype), (33, 20), (20, 17)),
    "right one transposed": (lambda a, b: wide(a) @ wide(turned(b)), (33, 20), (17, 20)),
    "left one transposed": (lambda a, b: wide(turned(a)) @ wide(b), (20, 33), (20, 17)),
    "both transposed": (lambda a, b: wide(turned(a)) @ wide(turned(b)), (20, 33), (17, 20)),
    "reversed": (lambda a, b: wide(a[::-1]) @ wide(b[:, ::-1]), (9, 5), (5, 6)),
    "every second": (lambda a, b: wide(a[:, ::2]) @ wide(b[::2]), (9, 10), (10, 6)),
    "batch": (lambda a, b: wide(a) @ wide(b), (4, 3, 8, 5), (4, 3, 5, 9)),
    "batch turned": (lambda a, b: wide(turned(a)) @ wide(b), (4, 3, 5, 8), (4, 3, 5, 9)),
    "batch of one matrix": (lambda a, b: wide(a) @ wide(b), (4, 3, 8, 5), (5, 9)),
    "broadcast": (lambda a, b: wide(a) @ wide(b), (4, 3, 8, 5), (4, 1, 5, 9)),
    "broadcast on the left": (lambda a, b: wide(a) @ wide(b), (8, 5), (4, 3, 5, 9)),
    "axes of the batch exchanged": (
        lambda a, b: wide(np.transpose(a, (1, 0, 2, 3))) @ wide(np.transpose(b, (1, 0, 3, 2))), (4, 3, 8, 5),
        (4, 3, 9, 5),
    ),
    "heads between rows": (
        lambda a, b: wide(np.transpose(a, (1, 0, 2))) @ wide(np.transpose(b, (1, 2, 0))), (8, 3, 5), (9, 3, 5),
    ),
    "outer": (lambda a, b: wide(a) @ wide(b), (7, 1), (1, 6)),
    "inner": (lambda a, b: wide(a) @ wide(b), (1, 7), (7, 1)),
    "columns": (lambda a, b: wide(a) @ wide(b), (3, 2, 1, 6), (1, 2, 6, 1)),
    "nothing to sum": (lambda a, b: wide(a) @ wide(b), (3, 0), (0, 4)),
}  # fmt: skip


def planned(product: Product, *arrays: np.ndarray) -> Plan:
    return ef.extract(ef.saturate(ef.trace(product, *arrays)), target="cuda:h100")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_widened_operands_is_the_product_of_what_they_are_widened_from(name: str, dtype: type) -> None:
    product, *shapes = PRODUCTS[name]
    a, b = (np.random.default_rng(0).integers(-8, 9, shape).astype(dtype) for shape in shapes)
    plan, wanted = planned(product, a, b), product(a, b)
    LAUNCHES.names.clear()
    got = Program(plan, CudaExecutable(plan, GPU))(a, b)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape and np.array_equal(wide(got), wide(wanted))
    if 0 not in a.shape:
        assert [n for n in LAUNCHES.names if n not in ("product", "cupy.matmul")] == [] and len(LAUNCHES.names) == 1


def test_a_large_product_costs_what_the_library_takes_and_is_no_tiled_kernel() -> None:
    specs = [ef.spec((4096, 4096), ml_dtypes.bfloat16)] * 2
    plan = ef.extract(ef.saturate(ef.trace(lambda a, b: wide(a) @ wide(b), *specs)), target="cuda:h200")
    (kernel,) = plan.kernels
    (function,) = CudaExecutable(plan, GPU).functions
    assert function is not None and "widened_product(" in function.source
    seconds = library_seconds(function.schedule.product, plan.device)
    assert seconds < kernel.price.seconds < 1.1 * seconds
    assert kernel.price.bytes_read == 2 * 4096 * 4096 * 2
