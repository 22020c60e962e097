"""Kernels write over values that nobody reads later, where each place is read by what writes there, and not later:
results, arguments and what is read again stay as they are.

Sorting is a kernel of its own, which nothing fuses with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.c.schedule import LoopsSchedule, loops_schedule
from eqfuse.ir.pytree import tree_leaves
from eqfuse.runtime.program import Program
from tests.support.c_target import emitted
from tests.support.drawing import many
from tests.support.random_graphs import random_graph

CPU = DEVICES["cpu"]  # prices that are the same everywhere
TARGETS = {"numpy": CPU, "c": replace(CPU, target="c")}
X = np.random.default_rng(0).normal(size=(301, 257))
WIDE = np.random.default_rng(1).normal(size=(701, 503))  # of several chunks, and tiles
SMALL = 64 << 10  # bytes of small values, and what kernels work in


def both(x: Any) -> Any:
    return np.sort(x, axis=0), np.sort(x, axis=1)


def of_two(x: Any) -> Any:
    down, across = both(x)
    return np.sort(down * across + 1, axis=0)


def column_totals(x: Any) -> Any:
    kept = np.sort(np.sort(x, axis=0)[3:4], axis=1)
    return np.sort((x * x).sum(axis=0, keepdims=True) + kept, axis=1)


def row_totals(x: Any) -> Any:
    return np.sort((x * x).sum(axis=1, keepdims=True) + np.sort(x[:, :1], axis=0), axis=0)


def total(x: Any) -> Any:
    return np.sort((x * x).sum(keepdims=True) + np.sort(x[:1, :1], axis=0), axis=0)


def product(x: Any) -> Any:
    return np.sort((x @ x.T) @ x / len(x) + np.sort(x, axis=1) ** 2, axis=0)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.sort(e / e.sum(axis=1, keepdims=True) + np.sort(x, axis=1), axis=0)


def far_sine(x: Any) -> Any:
    return np.sort(np.sin(1e9 * np.sort(x, axis=1)), axis=0)


def row_by_row(x: Any) -> Any:
    """(The totals of rows are of what the maps read.)"""
    y = np.sort(x, axis=0)
    return np.sort(y - y.mean(axis=1, keepdims=True), axis=1)


def two_results(x: Any) -> Any:
    """(Of one kernel: the rows less what is their largest element, and where that stands.)"""
    y = np.sort(x, axis=0)
    most = y.max(axis=1, keepdims=True)
    return np.sort(y - most, axis=1) * np.sort(y == most, axis=1)


OVERWRITING: list[Callable[[Any], Any]] = [
    of_two, column_totals, row_totals, total, product, softmax, row_by_row, two_results,
]  # fmt: skip


def whole_row(x: Any) -> Any:
    """(Every row needs the first one.)"""
    y = np.sort(x, axis=0)
    return np.sort(2 * y - y[0], axis=1)


def turned(x: Any) -> Any:
    y = np.sort(x, axis=0)
    return np.sort(y + y[::-1], axis=1)


def read_again(x: Any) -> Any:
    y = np.sort(x, axis=0)
    return np.sort(np.sort(y + 1, axis=1)[::-1] * y[::-1], axis=0)


def returned(x: Any) -> Any:
    y = np.sort(x, axis=0)
    return y, np.sort(y * 2, axis=1)


def returned_view(x: Any) -> Any:
    y = np.sort(x, axis=0)
    return y[1:5, ::2], np.sort(y * 2, axis=1)


def seen_twice(x: Any) -> Any:
    """(By an element of its own and by another.)"""
    y = np.sort(x, axis=0)
    return np.sort(y * 2 + y.reshape(-1)[::-1].reshape(y.shape), axis=1)


def argument(x: Any) -> Any:
    return np.sort(x * 2 + 1, axis=0)


KEEPING: list[Callable[[Any], Any]] = [
    whole_row, turned, seen_twice, read_again, returned, returned_view, argument, far_sine,
]  # fmt: skip


def judge(program: Program, function: Callable[[Any], Any], x: np.ndarray) -> None:
    """Its results are those of NumPy, and neither those of an earlier call nor the argument change."""
    before = x.copy()
    first = program(x)
    wanted = function(before)
    program(x[::-1].copy())
    np.testing.assert_array_equal(x, before)
    for got, w in zip(tree_leaves(first)[0], tree_leaves(wanted)[0], strict=True):
        assert got.shape == w.shape
        assert (np.abs(got - w) <= 1e-9 * (np.abs(w) + np.abs(w).max(axis=-1, keepdims=True))).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("function", [*OVERWRITING, *KEEPING], ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", [X, WIDE], ids=["small", "wide"])
def test_programs_compute_what_they_say_wherever_their_values_lie(target: str, function: Any, x: np.ndarray) -> None:
    judge(ef.compile(function, x, target=TARGETS[target], laws="none"), function, x)


@pytest.mark.parametrize("function", OVERWRITING, ids=lambda f: f.__name__)
def test_a_value_that_is_read_last_by_its_own_elements_is_written_over(function: Any) -> None:
    program = ef.compile(function, X, target=TARGETS["c"], laws="none")
    assert ", over v" in program.source()


@pytest.mark.parametrize("function", KEEPING, ids=lambda f: f.__name__)
def test_a_value_is_kept_that_is_wanted_later_or_by_other_elements(function: Any) -> None:
    program = ef.compile(function, X, target=TARGETS["c"], laws="none")
    assert ", over v" not in program.source()


def test_results_lie_over_what_no_later_pass_over_the_row_reads() -> None:
    graph = ef.trace(lambda y: (y * y, y / np.exp(y).sum(axis=1, keepdims=True)), X)
    schedule = loops_schedule(graph, TARGETS["c"])
    assert isinstance(schedule, LoopsSchedule) and len(schedule.passes) == 2
    assert [*schedule.overlays.values()] == [{1}]


def test_arrays_that_may_lie_in_one_place_are_not_said_to_lie_apart() -> None:
    """A compiler that took them for apart might read an element again for one result, once another one is written."""
    graph = ef.trace(lambda y: (y == y.max(axis=1, keepdims=True), y - y.max(axis=1, keepdims=True)), X)
    text = emitted("row", graph).text.source
    assert "restrict w0" in text and "restrict w1" not in text and "restrict r0" not in text
    alone = ef.trace(lambda y: y - y.max(axis=1, keepdims=True), X)
    assert "restrict r0" in emitted("row", alone).text.source


@pytest.mark.parametrize("target", TARGETS)
def test_a_chain_of_maps_holds_two_values(target: str) -> None:
    def swept(x: Any) -> Any:
        down, across = both(x)
        for _ in range(3):
            down = np.sort(down * across, axis=0)
        return np.sort(down + across, axis=0).sum(axis=0)

    program = ef.compile(swept, X, target=TARGETS[target], laws="none")
    np.testing.assert_allclose(program(X), swept(X), rtol=1e-7)
    assert program.peak_bytes <= 3 * X.nbytes + SMALL


def overwriting_programs(target: str, extractor: str, seeds: range) -> int:
    """How many of these random programs write over values; all give what they mean, and leave arguments alone."""
    overwriting = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        graph, arrays = random_graph(rng, 40, (1, 37, 90), all_results=seed % 2 == 0)
        before = [a.copy() for a in arrays]
        program = ef.compile(graph, target=TARGETS[target], extractor=extractor, laws="none")
        overwriting += ", over v" in program.source()
        got = program.run(arrays)
        for after, kept in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(after, kept)
        for g, w in zip(got, ef.meaning(graph, *arrays), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)
    return overwriting


@pytest.mark.parametrize("extractor", ["unfused", "greedy-priority", "flow"])
@pytest.mark.parametrize("target", TARGETS)
def test_random_programs_mean_what_they_did(target: str, extractor: str) -> None:
    assert overwriting_programs(target, extractor, range(4)) or extractor != "unfused"


@pytest.mark.slow
@pytest.mark.parametrize("extractor", ["unfused", "greedy-priority", "flow"])
@pytest.mark.parametrize("target", TARGETS)
def test_many_random_programs_mean_what_they_did(target: str, extractor: str) -> None:
    assert overwriting_programs(target, extractor, range(100, 100 + many(30))) or extractor != "unfused"
