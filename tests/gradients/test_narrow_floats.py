"""Gradients of 16-bit floats are those in double precision, rounded once or twice, however many cotangents meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef

N = 2000
FIRST = np.zeros(N, np.int64)


def added_at(x: Any) -> Any:
    counts = np.zeros(3, x.dtype)
    np.add.at(counts, FIRST, x)
    return counts.sum()


def carried(x: Any) -> Any:
    return ef.scan(lambda c, r: (c + r * x[0], c), np.zeros((), x.dtype), np.ones(N, x.dtype))[0]


MANY: dict[str, Callable[[Any], Any]] = {
    "running sums": lambda x: np.cumsum(x).sum(),
    "running sums of columns": lambda x: np.cumsum(np.broadcast_to(x[:, None], (N, 3)), 0).sum(),
    "accumulate": lambda x: np.add.accumulate(x[::-1]).sum(),
    "running maxima": lambda x: np.maximum.accumulate(x).sum(),
    "take": lambda x: x[FIRST].sum(),
    "take along an axis": lambda x: np.take_along_axis(x, FIRST, 0).sum(),
    "repeat": lambda x: np.repeat(x[:2], 1000).sum(),
    "tile": lambda x: np.tile(x[:2], 1000).sum(),
    "pad": lambda x: np.pad(x[:3], 1000, mode="edge").sum(),
    "broadcast": lambda x: (x[0] * np.ones(N, x.dtype)).sum(),
    "outer": lambda x: np.add.outer(x, x).sum(),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 1000).sum(),
    "pools": lambda x: (ef.avg_pool(x.reshape(1, 1, 40, 50), (30, 30), stride=1) * 900).sum(),
    "convolve": lambda x: np.convolve(x, np.ones(1500, x.dtype)).sum(),
    "matrix times vector": lambda x: (np.ones((N, N), x.dtype) @ x).sum(),
    "filters": lambda x: ef.conv(np.ones((4, 1, 60, 60), x.dtype), x[:9].reshape(1, 1, 3, 3)).sum(),
    "sums of slices": lambda x: np.add.reduceat(x, [0, 5]).sum(),
    "np.add.at": added_at,
    "many uses": lambda x: sum(x[0] * 1 for _ in range(600)),
    "a loop": carried,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", MANY)
def test_however_many_cotangents_meet_a_gradient_keeps_its_digits(name: str, dtype: str) -> None:
    x = np.linspace(1, 2, N).astype(dtype)
    wanted = ef.grad(MANY[name])(x.astype(np.float64))
    gradient = ef.grad(MANY[name])(x)
    assert gradient.dtype == x.dtype
    error = np.abs(gradient.astype(np.float64) - wanted)
    assert (error <= 2 * float(ml_dtypes.finfo(x.dtype).eps) * np.abs(wanted).max()).all()
