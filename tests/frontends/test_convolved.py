"""Contractions of sliding windows are convolutions; what only looks like one is none, and all give NumPy's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from eqfuse.frontends.numpy.trace import trace
from tests.frontends.agreement import agrees, sample

IMAGE, FILTERS, LINE = sample((2, 3, 9, 8), "float32"), sample((4, 3, 3, 2), "float32", 1), sample((5, 40), "float64")
WEIGHTS = sample((4,), "float64", 2)


def windows(x: Any, *steps: slice) -> Any:
    return sliding_window_view(x, (3, 2), axis=(2, 3))[(slice(None), slice(None), *steps)]


def padded(x: Any, value: float) -> Any:
    return np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=value)


CONVOLUTIONS: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (lambda x, w: np.einsum("ncyxij,kcij->nkyx", windows(x), w), (IMAGE, FILTERS)),
    (lambda x, w: np.einsum("kcij,ncyxij->yxkn", w, windows(x)), (IMAGE, FILTERS)),
    (lambda x, w: np.einsum("ncyxij,kcij->nkyx", windows(x, slice(None, None, 2), slice(None, None, 3)), w),
     (IMAGE, FILTERS)),
    (lambda x, w: np.einsum("ncyxij,kcij->nkyx", windows(padded(x, 0)), w), (IMAGE, FILTERS)),
    (lambda x, w: np.einsum("ncyxij,kcij->nkyx", windows(padded(x, 1)), w), (IMAGE, FILTERS)),
    (lambda x, w: np.tensordot(windows(x), w, axes=([1, 4, 5], [1, 2, 3])), (IMAGE, FILTERS)),
    (lambda x, w: np.tensordot(w, windows(x), axes=([3, 1, 2], [5, 1, 4])), (IMAGE, FILTERS)),
    (lambda x, w: np.einsum("nij,j->ni", sliding_window_view(x, 4, axis=1), w), (LINE, WEIGHTS)),
    (lambda x, w: np.einsum("nij,j->in", sliding_window_view(x, 7, axis=1)[:, :, ::2], w), (LINE, WEIGHTS)),
]  # fmt: skip
OTHERS: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (lambda x, w: np.einsum("ncyxij,kcij->ncyxk", windows(x), w), (IMAGE, FILTERS)),  # each channel on its own
    (lambda x, w: np.einsum("ncyxij,kcij->nkyxj", windows(x), w), (IMAGE, FILTERS)),  # a column of each window
    (lambda x, w: np.einsum("ncyxij,kcij->nkij", windows(x), w), (IMAGE, FILTERS)),  # over all places
    (lambda x, w: np.einsum("nij,i->nj", sliding_window_view(x, 4, axis=1), np.tile(w, 10)[:37]), (LINE, WEIGHTS)),
    (lambda x, w: np.einsum("nij,j->ni", sliding_window_view(x, 5, axis=1)[:, 1:, :4], w), (LINE, WEIGHTS)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CONVOLUTIONS)))
def test_a_contraction_of_windows_is_a_convolution(number: int) -> None:
    function, arrays = CONVOLUTIONS[number]
    agrees(function, *arrays)
    assert "conv" in str(trace(function, *arrays))


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_what_is_no_convolution_is_not_taken_for_one(number: int) -> None:
    function, arrays = OTHERS[number]
    agrees(function, *arrays)
    assert "conv" not in str(trace(function, *arrays))
