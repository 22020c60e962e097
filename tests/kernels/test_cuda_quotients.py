"""A row divided by one number is divided by way of its reciprocal: what the quotients are, on the emulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.profiles import device
from eqfuse.emit.cuda.kernels import emit_kernel, module_source
from eqfuse.ir.graph import node
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.support.kernels import PRICE, body, read, reduced

pytestmark = pytest.mark.skipif(bool(cudasim.available()), reason=cudasim.available() or "available")


def quotients(x: np.ndarray) -> np.ndarray:
    """`x` over the largest of each row."""
    given = read(0, x.shape, x.dtype)
    kernel = Kernel("row", body([given], node("divide", (given, reduced("max", given)))), (0,), (1,), PRICE)
    cuda = emit_kernel(kernel, device("h100"))
    assert "quotient(" in cuda.source
    found = np.empty_like(x)
    cudasim.CpuRawKernel(module_source([cuda.source]), cuda.name)(cuda.grid, cuda.block, (x, found))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_quotients_of_a_row_are_rounded_once(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.uniform(-2, 2, (500, 200)), rng.integers(-10, 11, (500, 200))).astype(dtype)
    assert np.array_equal(quotients(x), x / x.max(-1, keepdims=True))


def test_quotients_of_a_row_are_whole_where_they_can_be() -> None:
    x = np.zeros((300, 200), np.float32)
    divisors = np.arange(1, 301, dtype=np.float32)[:, None]
    x[:, :199] = -divisors * np.arange(199, dtype=np.float32)
    x[:, 199:] = divisors
    assert np.array_equal(quotients(x), -np.concatenate([np.arange(199), [-1]]) * np.ones((300, 1)))


def test_zeros_and_infinities_divide_as_in_numpy() -> None:
    x = np.full((4, 200), -np.inf, np.float32)
    x[0, :3], x[1, :3], x[2, :3], x[3, :3] = (0, -1, -np.inf), (np.inf, 1, 0), (1, np.nan, 2), (7, 0, -3)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(quotients(x), x / x.max(-1, keepdims=True))
