"""Scans and the methods of ufuncs, traced, give NumPy's dtypes, shapes and values."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.frontends.numpy.registry import TRACED_METHODS
from tests.frontends.agreement import DTYPES, agrees, sample

FOLDED = sorted((u for u, method in TRACED_METHODS if method == "accumulate"), key=lambda u: u.__name__)
SCANS = {
    "cumsum": np.cumsum, "cumprod": np.cumprod, "nancumsum": np.nancumsum, "nancumprod": np.nancumprod,
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SCANS)
def test_a_scan_agrees_with_numpy_along_every_axis_and_in_every_dtype(name, dtype):
    function = SCANS[name]
    for shape in ((), (0,), (1,), (3, 1), (2, 3, 4)):
        for axis in (None, 0, -1):
            agrees(lambda a, ax=axis: function(a, axis=ax), sample(shape, dtype))
    x = sample((2, 3), dtype)
    for wanted in (bool, np.int8, np.float32, np.float64):
        agrees(lambda a, d=wanted: function(a, axis=1, dtype=d), x)


def test_scans_leave_out_nan_when_asked():
    x = np.array([1.0, np.nan, 2.0, np.nan, 3.0])
    agrees(lambda a: (np.nancumsum(a), np.nancumprod(a), np.cumsum(a)), x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32"])
@pytest.mark.parametrize("function", [np.cumulative_sum, np.cumulative_prod], ids=lambda f: f.__name__)
def test_a_cumulative_function_agrees_with_numpy(function, dtype):
    for initial in (False, True):
        agrees(lambda a, i=initial: function(a, axis=1, include_initial=i), sample((2, 3), dtype))
        agrees(lambda a, i=initial: function(a, include_initial=i, dtype=np.float64), sample((4,), dtype))
    agrees(function, sample((2, 3), dtype))  # NumPy wants an axis


@pytest.mark.parametrize("ufunc", FOLDED, ids=lambda u: u.__name__)
def test_the_methods_of_a_ufunc_agree_with_numpy(ufunc):
    for dtype in ("bool", "int8", "int64", "float16", "float64"):
        _methods_agree(ufunc, abs(sample((3, 4), dtype).astype("float64")).astype(dtype))


def _methods_agree(ufunc, x):
    agrees(lambda a: ufunc.accumulate(a), x)
    agrees(lambda a: ufunc.accumulate(a, axis=-1), x)
    agrees(lambda a: ufunc.reduceat(a, [0, 2, 1, 3], axis=1), x)
    agrees(lambda a: ufunc.reduce(a), x)
    for axis in (1, None, (0, 1), ()):
        agrees(lambda a, ax=axis: ufunc.reduce(a, axis=ax, keepdims=True), x)
    agrees(lambda a: ufunc.reduce(a, axis=0, initial=1), x)
    agrees(lambda a: ufunc.reduce(a, axis=(0, 1), initial=1, keepdims=True), x)
    agrees(ufunc.reduce, x[:0])
    agrees(ufunc.reduce, x[0, 0])
    agrees(ufunc.accumulate, x[0, 0])


@pytest.mark.parametrize("ufunc", [np.add, np.maximum, np.logical_or, np.bitwise_xor, np.hypot, np.multiply])
def test_a_dtype_given_to_a_method_decides_as_in_numpy(ufunc):
    for dtype in ("bool", "int8", "float32"):
        for wanted in (np.int64, np.float32, bool):
            x = sample((3, 4), dtype)
            agrees(lambda a, d=wanted: ufunc.reduce(a, dtype=d), x)
            agrees(lambda a, d=wanted: ufunc.accumulate(a, dtype=d), x)
            agrees(lambda a, d=wanted: ufunc.reduceat(a, [0, 2], dtype=d), x)


def test_reductions_of_nothing_take_the_value_they_start_from():
    for ufunc in (np.maximum, np.fmin, np.add, np.subtract):
        agrees(lambda a, u=ufunc: u.reduce(a, axis=1, initial=3), np.ones((2, 0)))
    agrees(lambda a: np.add.reduce(a, initial=None), np.ones((0, 2)))


def test_reduceat_takes_traced_indices_and_raises_numpys_error_beyond_the_end():
    x = sample((6,), "float64")
    agrees(np.add.reduceat, x, np.array([0, 4, 2]))
    agrees(np.add.reduceat, x, np.array([0, 6]))
