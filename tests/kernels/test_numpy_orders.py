"""Stable orders are those of NumPy, whatever is equal: numbers, zeros of either sign, NaN of any bits."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.dtypes import NARROW_FLOATS
from eqfuse.emit.numpy import orders

DTYPES = [*map(np.dtype, ("float32", "float64", "int32", "int64", "uint32", "uint64", "int8", "bool", "complex64"))]
SHAPES = [(5000,), (20_000,), (600, 7), (17, 300), (3, 9000), (40, 5, 60), (4100, 1), (900, 20), (2, 3), (0, 5), (9, 0)]


def values(shape: tuple[int, ...], dtype: np.dtype, kinds: int) -> np.ndarray:
    """About so many different numbers; of floats also zeros of both signs, infinities, and several NaN."""
    rng = np.random.default_rng(len(shape) + kinds)
    x = np.asarray(rng.integers(-kinds, kinds, shape)).astype(dtype)
    if dtype.kind == "u":
        x[..., ::3] = np.iinfo(dtype).max - x[..., ::3]
    if dtype == np.float64:
        x[..., ::5] = np.nextafter(x[..., ::5], np.inf)  # differ in their last bit alone
    if dtype.kind == "f" or dtype in NARROW_FLOATS:
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype)
        where = rng.random(shape) < 0.05
        x[where] = special[rng.integers(0, len(special), np.count_nonzero(where))]
        if dtype == np.float32:
            x.ravel()[:1].view(np.uint32)[:] = 0x7FC12345  # a NaN of other bits
    return x


@pytest.mark.parametrize("dtype", [*DTYPES, *sorted(NARROW_FLOATS, key=str)], ids=str)
@pytest.mark.parametrize("kinds", [3, 100, 10**6])
def test_the_stable_order_is_that_of_numpy(dtype: np.dtype, kinds: int) -> None:
    for shape in SHAPES:
        x = values(shape, dtype, min(kinds, 100) if dtype.itemsize < 4 else kinds)
        for axis in range(-len(shape), 0):
            wanted = np.argsort(x, axis, "stable")
            for out in (np.empty(shape, np.int64), np.empty(shape[::-1], np.int64).T):
                orders.order(out, x, axis, True)
                np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_order_sorts(dtype: np.dtype) -> None:
    x = values((7, 300), dtype, 100)
    out = np.empty(x.shape, np.int64)
    orders.order(out, x, -1, False)
    np.testing.assert_array_equal(np.take_along_axis(x, out, -1), np.sort(x, -1))
