"""Views that strides cannot express are copied in order, whatever their shape and type, and however they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.c.device import compiled_device

C = compiled_device(DEVICES["cpu"])
SOURCE = (4, 6, 2, 3)


def copies(x: Any) -> list[Any]:
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)
    return [
        x.transpose(0, 2, 1, 3).reshape(8, 18), x.T.reshape(-1), x[:, ::-2].reshape(-1), x[1:, :, ::-1].reshape(3, 36),
        np.broadcast_to(x[:, :1], x.shape).reshape(24, 6), x[:0].T.reshape(0, 4), windows.reshape(16, -1),
        x.transpose(1, 0, 2, 3).reshape(6, 24),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "float16", "complex128"])
def test_views_are_copied_in_order(dtype: str) -> None:
    x = (np.random.default_rng(0).normal(size=SOURCE) * 9).astype(dtype)
    program = ef.compile(copies, x, target=C)
    for given in (x, np.asfortranarray(x), np.repeat(x, 2, axis=3)[..., ::2]):
        for got, wanted in zip(program(given), copies(x), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_many_short_runs_are_copied_by_loops_of_our_own() -> None:
    program = ef.compile(lambda x: x.transpose(0, 2, 1, 3).reshape(256, 512, 2), np.zeros((256, 32, 16, 2)), target=C)
    assert len([k for k in program.plan.kernels if not k.is_view]) == 1 and program.executable.text
