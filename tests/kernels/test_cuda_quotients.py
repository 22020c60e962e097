"""A row divided by one number is divided by way of its reciprocal: what the quotients are, on the emulator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import emit_kernel, module_source
from eqfuse.ir.graph import node
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.support.kernels import PRICE, body, read, reduced

pytestmark = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")


def quotients(*arrays: np.ndarray) -> list[np.ndarray]:
    """Each over the largest of each of its rows. All are compiled together."""
    kernels = []
    for x in arrays:
        given = read(0, x.shape, x.dtype)
        kernel = Kernel("row", body([given], node("divide", (given, reduced("max", given)))), (0,), (1,), PRICE)
        kernels.append(emit_kernel(kernel, profile("h100")))
        assert "quotient(" in kernels[-1].source
    code, results = module_source([cuda.source for cuda in kernels]), [np.empty_like(x) for x in arrays]
    for x, cuda, result in zip(arrays, kernels, results, strict=True):
        cudasim.CpuRawKernel(code, cuda.name)(cuda.grid, cuda.block, (x, result))
    return results


def test_quotients_of_a_row_are_rounded_once() -> None:
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.uniform(-2, 2, (500, 200)), rng.integers(-10, 11, (500, 200)))
    arrays = [x.astype(dtype) for dtype in (np.float32, np.float16, ml_dtypes.bfloat16)]
    for given, got in zip(arrays, quotients(*arrays), strict=True):
        assert np.array_equal(got, given / given.max(-1, keepdims=True)), given.dtype


def test_quotients_of_a_row_are_whole_where_they_can_be() -> None:
    x = np.zeros((300, 200), np.float32)
    divisors = np.arange(1, 301, dtype=np.float32)[:, None]
    x[:, :199] = -divisors * np.arange(199, dtype=np.float32)
    x[:, 199:] = divisors
    assert np.array_equal(quotients(x)[0], -np.concatenate([np.arange(199), [-1]]) * np.ones((300, 1)))


def test_zeros_and_infinities_divide_as_in_numpy() -> None:
    x = np.full((4, 200), -np.inf, np.float32)
    x[0, :3], x[1, :3], x[2, :3], x[3, :3] = (0, -1, -np.inf), (np.inf, 1, 0), (1, np.nan, 2), (7, 0, -3)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(quotients(x)[0], x / x.max(-1, keepdims=True))
