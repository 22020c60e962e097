"""Loops in loops that tracing unrolled: tables filled element by element are loops over their rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import eqfuse as ef
from tests.support.random_nested import random_nested
from tests.support.rolling import is_rolled, of_any_length, rolled_graph

__all__ = ["of_any_length"]
RNG = np.random.default_rng(5)


def operators(graph: ef.Graph) -> Counter[str]:
    return Counter(n.op for n in graph.operators)


@pytest.mark.slow
def test_many_random_loops_in_loops_compute_the_same_when_rolled() -> None:
    assert sum(is_rolled(random_nested, seed) for seed in range(100)) > 50


def table_filled(s, gap):
    h = np.zeros((21, 21))
    h[0], h[:, 0] = -gap * np.arange(21), -gap * np.arange(21)
    for i in range(1, 21):
        for j in range(1, 21):
            h[i, j] = np.maximum(np.maximum(h[i - 1, j - 1] + s[i - 1, j - 1], h[i - 1, j] - gap), h[i, j - 1] - gap)
    return h


def error_diffused(s, gap):
    h = s.copy()
    for i in range(20):
        for j in range(20):
            rounded = np.round(h[i, j])
            h[i, j], error = rounded, gap * (h[i, j] - rounded)
            if j + 1 < 20:
                h[i, j + 1] += error
            if i + 1 < 20:
                h[i + 1, j] += error
    return np.clip(h, 0, 1)


@pytest.mark.parametrize("filled", [table_filled, error_diffused])
@pytest.mark.parametrize("read", [lambda h: h, lambda h: h[-1, -1]])
def test_a_table_filled_element_by_element_is_a_loop_over_its_rows(filled, read):
    graph = rolled_graph(lambda s, gap: read(filled(s, gap)), RNG.uniform(size=(20, 20)), 0.3)
    assert 1 <= operators(graph)["scan"] <= 2 and len(graph.operators) < 250  # the first row may be another


@pytest.mark.parametrize("places", [
    lambda i: slice(i, i + 2), lambda i: slice(i % 20, i % 20 + 2), lambda i: 3 * i % 50,
])  # fmt: skip
def test_slices_of_two_arrays_written_in_turn_keep_their_order(places) -> None:
    def fn(x, y):
        out, rows = np.zeros(50), (np.tanh(x), np.tanh(y))
        for i in range(40):
            out[places(i)] = rows[i % 2][i] if isinstance(places(i), slice) else rows[i % 2][i, 0]
        return out

    rolled_graph(fn, *RNG.normal(size=(2, 40, 2)))
