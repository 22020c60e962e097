"""Under strict numerics traced functions give NumPy's bits, where its loops or the rounding of constants decide."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import eqfuse as ef
CLIPPED = [(), (8,), (1,), (1, 1), (3, 8), (8, 3), (2, 3, 8)]
BOUNDS = [(), (1,), (1, 1), (8,), (3, 8)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_strict_clip_keeps_the_zero_that_numpy_keeps(dtype):
    cases = []
    for shape, low, high in product(CLIPPED, BOUNDS, BOUNDS):
        try:
            np.broadcast_shapes(shape, low, high)
        except ValueError:
            continue
        for zero in (np.zeros((), dtype), -np.zeros((), dtype)):
            array = np.full(shape, zero)
            cases.append((array, np.full(low, -zero), np.ones(high, dtype)))
            cases.append((array, -np.ones(low, dtype), np.full(high, -zero)))

    def clips(cases):
        return [np.clip(*case) for case in cases]

    results = ef.compile(clips, cases, numerics="strict")(cases)
    other = [
        [a.shape for a in case]
        for case, got, wanted in zip(cases, results, clips(cases), strict=True)
        if np.asarray(got).tobytes() != np.asarray(wanted).tobytes()
    ]
    assert not other
