"""What a gather is charged for: the cache lines it touches, not all of what it takes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import eqfuse as ef
from eqfuse.cost.profiles import datasheet


def read(function: Callable[..., Any], *shapes: tuple[int, ...], integers: tuple[int, ...] = ()) -> int:
    """Bytes that the one kernel of `function` reads of its first argument."""
    given = [ef.spec(shape, np.float32) for shape in shapes] + [ef.spec(integers, np.int64)] * bool(integers)
    plan = ef.extract(ef.saturate(ef.trace(function, *given), laws="none"), target=datasheet("a100"))
    (kernel,) = [k for k in plan.kernels if not k.is_view]
    return kernel.price.bytes_read - 8 * int(np.prod(integers))


def test_one_element_of_each_row_costs_a_cache_line_a_row() -> None:
    assert read(lambda x, i: np.take_along_axis(x, i, axis=1), (1000, 5000), integers=(1000, 1)) == 1000 * 64


def test_whole_rows_cost_their_own_bytes() -> None:
    assert read(lambda x, i: np.take(x, i, axis=0), (50_000, 768), integers=(16,)) == 16 * 768 * 4


def test_no_more_is_read_than_there_is() -> None:
    assert read(lambda x, i: np.take(x, i, axis=1), (4, 8), integers=(100,)) == 4 * 8 * 4


def test_indices_that_are_also_what_is_taken_from_are_read_whole() -> None:
    graph = ef.trace(lambda i: np.take(i, i, axis=0), ef.spec((64,), np.int64))
    plan = ef.extract(ef.saturate(graph, laws="none"), target=datasheet("a100"))
    assert sum(k.price.bytes_read for k in plan.kernels) == 64 * 8
