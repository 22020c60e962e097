"""scipy.special's ufuncs, traced, give SciPy's dtypes, shapes and values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from eqfuse.frontends.numpy.registry import TRACED_UFUNCS
from tests.frontends.agreement import agrees, sample

SPECIAL = [
    u for n, u in vars(scipy.special).items() if isinstance(u, np.ufunc) and u in TRACED_UFUNCS and u.__name__ == n
]


@pytest.mark.parametrize("ufunc", SPECIAL, ids=lambda u: u.__name__)
def test_a_special_function_agrees_with_scipy(ufunc):
    for dtype in ("bool", "int32", "float16", "float32", "float64"):
        agrees(ufunc, *(abs(sample((5,), dtype, i).astype("float64")).astype(dtype) for i in range(ufunc.nin)))
    agrees(ufunc, *(sample((2, 1) if i else (3,), "float64", i) / 4 for i in range(ufunc.nin)))
    agrees(lambda x: ufunc(*[x] * (ufunc.nin - 1), 0.5), np.array([0.25, 1.0, np.nan, np.inf, -np.inf, -1.0]))


def test_bessel_functions_of_numpy_agree_with_it():
    for dtype in ("bool", "int32", "float32", "float64"):
        agrees(np.i0, sample((2, 3), dtype))


def test_functions_scipy_writes_in_numpy_agree_with_it():
    for dtype in ("int32", "float32", "float64"):
        x = sample((3, 4), dtype) * 100
        for axis in (None, 0, (0, 1)):
            for function in (scipy.special.softmax, scipy.special.log_softmax, scipy.special.logsumexp):
                agrees(lambda a, f=function, ax=axis: f(a, axis=ax), x)
        agrees(lambda a: scipy.special.logsumexp(a, axis=1, b=a * a, keepdims=True), x)
    agrees(scipy.special.logsumexp, np.array([-np.inf, -np.inf]))
