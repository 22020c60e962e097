"""Arrays that lie along another axis than the last, read by C kernels or returned, are copied by blocks."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.machine import c_copies
from eqfuse.machine.c_build import CompilerError
from eqfuse.machine.c_copies import copy_in_order, ordered_copy
from tests.support.c_kernels import needs_compiler

pytestmark = needs_compiler
DTYPES = (np.bool_, np.int8, np.float16, np.uint32, np.float32, np.int64, np.complex64, np.complex128)
SHAPES = ((300, 500), (1, 64, 1, 4100), (67, 5, 1, 131), (3, 2, 70, 9, 65), (130_001, 3), (2, 130_003), (64, 64, 64))
GUARD = 64  # elements on either side of a copy


@pytest.fixture
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each array that is copied by blocks."""
    calls: list[int] = []
    library = c_copies._library
    monkeypatch.setattr(c_copies, "_library", lambda: calls.append(1) or library())
    return calls


def lying(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array of `shape` whose axes lie in any order, some backwards, with gaps, or all in one place."""
    order = rng.permutation(len(shape))
    steps = [int(rng.choice((1, 1, 1, -1, 2, -3))) for _ in shape]
    extents = [n * abs(s) for n, s in zip(shape, steps, strict=True)]
    memory = rng.integers(0, 256, (*(extents[a] for a in order), dtype.itemsize), np.uint8)
    if dtype == np.bool_:
        memory &= 1
    x = memory.view(dtype)[..., 0].transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)]
    return np.broadcast_to(x[:1], shape) if rng.random() < 0.1 else x


def test_copies_hold_the_elements_in_order_and_nothing_beside_them_is_written(by_blocks: list[int]) -> None:
    rng = np.random.default_rng(0)
    for case in range(72):
        dtype = np.dtype(DTYPES[case % len(DTYPES)])
        x = lying(rng, SHAPES[case % len(SHAPES)], dtype)
        memory = np.full((x.size + 2 * GUARD) * dtype.itemsize, 77, np.uint8)
        to = memory.view(dtype)[GUARD:-GUARD].reshape(x.shape)
        copy_in_order(to, x)
        assert to.tobytes() == x.tobytes(), (x.shape, x.strides, dtype)
        ends = GUARD * dtype.itemsize
        assert (memory[:ends] == 77).all() and (memory[-ends:] == 77).all()
    assert len(by_blocks) > 18


def test_what_lies_in_order_is_not_copied_and_what_is_not_aligned_is() -> None:
    x = np.arange(600.0).reshape(20, 30)
    assert ordered_copy(x) is x
    odd = np.empty(x.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(x.shape)
    odd[...] = x
    assert ordered_copy(odd).flags.aligned and np.array_equal(ordered_copy(odd), x)


def test_arguments_in_fortran_order_and_results_that_are_transposed_are_copied_by_blocks(by_blocks: list[int]) -> None:
    x = np.random.default_rng(1).standard_normal((300, 400)).astype(np.float32)
    scaled = ef.compile(lambda x: x * 2, x, target="c")
    assert np.array_equal(scaled(np.asfortranarray(x)), x * 2)
    assert len(by_blocks) == 1
    turned = ef.compile(lambda x: np.ascontiguousarray(x.T), x, target="c")
    assert np.array_equal(turned(x), x.T) and turned(x).flags.c_contiguous
    assert len(by_blocks) == 3


def test_where_the_compiler_fails_numpy_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_text: str) -> None:
        raise CompilerError("the disk is full")

    monkeypatch.setattr(c_copies, "loaded_library", fails)
    monkeypatch.setattr(c_copies, "_library", c_copies._library.__wrapped__)
    x = np.random.default_rng(0).random((500, 600), np.float32).T
    assert np.array_equal(ordered_copy(x), x)
