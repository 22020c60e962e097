"""Rows too long for NumPy's tiles of which later reductions need earlier ones: by parts, which are read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.emit.numpy.schedule import CascadeOfParts
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.kinds import kind_named
from tests.kernels.test_cascades import NAMES, assert_within_bounds, bodies, exp, sub
from tests.support.kernels import CPU, add, body, data, kernel, read, reduced

LONG = 150_000
LAYOUTS = ((2, LONG), (LONG,))


def run(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    results = [np.full(o.shape, 7, o.dtype) for o in graph.outputs]
    with np.errstate(all="ignore"):
        emit_kernel(kernel("row", graph), CPU).run(results, arrays)
    return results


def is_cascade(graph: Graph) -> bool:
    return isinstance(kind_named("row").schedule(graph, CPU), CascadeOfParts)


@pytest.mark.parametrize("name", NAMES)
def test_rows_by_parts_are_within_the_bounds_of_their_programs(name: str) -> None:
    number = NAMES.index(name)
    shape, dtype = LAYOUTS[number % 2], (np.float32, np.float64)[number // 2 % 2]
    graph = bodies(read(0, shape, dtype), read(1, shape, dtype))[name]
    assert is_cascade(graph)
    arrays = data(graph)
    assert_within_bounds(graph, arrays, run(graph, arrays))


def test_a_row_of_which_a_part_is_masked_or_not_finite() -> None:
    x = read(0, (6, LONG))
    graph = bodies(x, read(1, x.shape))["logsumexp"]
    (array,) = data(graph)
    array[:, : LONG // 2] = -np.inf
    array[3] = -np.inf
    array[4, 100], array[5, 100] = np.inf, np.nan
    with np.errstate(all="ignore"):
        (want,) = evaluate(graph, [array])
    (got,) = run(graph, [array])
    assert (np.isfinite(got) == np.isfinite(want)).all() and np.isnan(got[5]).all()
    np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-6)


def test_an_operand_of_rows_and_one_of_columns_are_cut_as_the_rows_are() -> None:
    x, scale, shift = read(0, (3, LONG)), read(1, (3, 1)), read(2, (1, LONG))
    moved = add(sub(x, scale), shift)
    top = reduced("max", moved)
    graph = body([x, scale, shift], top, reduced("sum", exp(sub(moved, top))))
    assert is_cascade(graph)
    arrays = data(graph)
    assert_within_bounds(graph, arrays, run(graph, arrays))


def softmax_of(shape: tuple[int, ...], extent: int) -> Graph:
    x = read(0, (*shape, extent))
    return body([x], exp(sub(x, reduced("max", x))), reduced("sum", exp(sub(x, reduced("max", x)))))


UNCUT = {
    "a length that no part divides": bodies(read(0, (3, 300_007)), read(1, (3, 300_007)))["logsumexp"],
    "rows that fit a tile": bodies(read(0, (500, 2000)), read(1, (500, 2000)))["logsumexp"],
    "results of full size": softmax_of((3,), LONG),
    "columns": bodies(read(0, (LONG, 3)), read(1, (LONG, 3)), -2)["logsumexp"],
    "16-bit floats": bodies(read(0, (3, LONG), np.float16), read(1, (3, LONG), np.float16))["logsumexp"],
}


@pytest.mark.parametrize("name", UNCUT)
def test_other_rows_are_not_cut(name: str) -> None:
    assert not is_cascade(UNCUT[name])


def logsumexp(x: Any) -> Any:
    top = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=1)) + top[:, 0]


def variance(x: Any) -> Any:
    return x.mean(axis=1), x.var(axis=1)


@pytest.mark.parametrize("fn", [logsumexp, variance])
def test_programs_of_long_rows_hold_parts_of_them_alone(fn: Any) -> None:
    x = np.random.default_rng(0).standard_normal((4, 1_000_000), np.float32)
    program = ef.compile(fn, x, target=DEVICES["cpu"])
    for got, want in zip(np.atleast_2d(program(x)), np.atleast_2d(fn(x)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert program.peak_bytes < x[0].nbytes // 2
    assert "parts of rows that are joined" in str(program.explain())
