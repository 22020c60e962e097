"""The order of kernels: what a program holds at a time is little, and updates write where they did.

Running sums are kernels of their own, which nothing fuses with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.checkpointing import chain
from eqfuse.cost.profiles import DEVICES
from eqfuse.extract.memory.order import in_less_memory
from eqfuse.plan.plan import Plan
from tests.support.program_order import peak_in_program_order
from tests.support.random_graphs import random_graph, run_plan

CPU = DEVICES["cpu"]  # prices that are the same everywhere
X = np.random.default_rng(0).normal(size=(256, 256))
SMALL = 64 << 10  # bytes of small values, and what kernels work in


def swept(x: Any, times: int) -> Any:
    for i in range(times):
        x = np.cumsum(np.tanh(x), axis=i % 2)
    return x


def test_a_limit_that_another_order_keeps_costs_nothing() -> None:
    function, arguments = chain(6)
    free = ef.compile(function, *arguments, target=CPU)
    limit = 0.9 * peak_in_program_order(free)
    limited = ef.compile(function, *arguments, target=CPU, memory_limit=limit)
    assert str(limited.plan) == str(free.plan) and free.peak_bytes <= limit


def test_values_that_are_read_at_the_end_are_made_there() -> None:
    def late(x: Any) -> Any:
        down, across = np.cumsum(x, axis=0), np.cumsum(x, axis=1)
        return np.tanh(down + across * swept(x, 6).sum(axis=0)).sum(axis=0)

    program = ef.compile(late, X, target=CPU)
    np.testing.assert_allclose(program(X), late(X), rtol=1e-9)
    assert program.peak_bytes <= 4 * X.nbytes + SMALL  # what the last kernel reads and works in


@pytest.mark.parametrize("depth", [3, 6])
def test_a_gradient_of_weights_is_taken_while_its_factors_are_there(depth: int) -> None:
    """Held are a hidden layer per layer and two gradients, not a gradient per layer too."""
    width, rows = 64, 2048
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=(width, width)) / 8 for _ in range(depth)]

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = np.tanh(x @ w)
        return (x * x).mean()

    program = ef.compile(ef.value_and_grad(loss), weights, rng.normal(size=(rows, width)), target=CPU)
    assert program.peak_bytes <= (depth + 2.5) * rows * width * 8


def scrambled(plan: Plan, rng: np.random.Generator) -> Plan:
    """`plan`, its kernels in any order that computes what they read first."""
    left, kernels = [*plan.kernels], []
    while left:
        unmade = {v for k in left for v in k.writes}
        ready = [k for k in left if unmade.isdisjoint(k.reads)]
        kernels.append(ready[rng.integers(len(ready))])
        left.remove(kernels[-1])
    return replace(plan, kernels=tuple(kernels))


def test_each_of_many_values_is_used_up_before_the_next_is_made() -> None:
    def total(x: Any) -> Any:
        down = [np.cumsum(x[k:], axis=0) for k in range(80)]  # of many shapes, which no loop holds
        return sum(np.cumsum(d, axis=1).sum(axis=0) for d in down)

    plan = scrambled(ef.compile(total, X, target=CPU, laws="none").plan, np.random.default_rng(0))
    before, after = ef.emit(plan), ef.emit(in_less_memory(plan))
    np.testing.assert_allclose(after(X), total(X), rtol=1e-9)
    assert before.peak_bytes >= 15 * X.nbytes
    assert after.peak_bytes <= 3 * X.nbytes + 80 * X[0].nbytes + SMALL


@pytest.mark.parametrize("seed", range(12))
def test_kernels_in_order_compute_what_they_did(seed: int) -> None:
    graph, arrays = random_graph(np.random.default_rng(seed))
    plan = ef.extract(ef.saturate(graph, laws="none"), target=CPU)
    other = in_less_memory(scrambled(plan, np.random.default_rng(seed)))
    assert sorted(map(str, other.kernels)) == sorted(map(str, plan.kernels))
    for got, wanted in zip(run_plan(other, arrays), run_plan(plan, arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("seed", range(24))
def test_a_call_never_holds_more_than_in_the_order_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, _ = random_graph(rng, 40, (64, 96))
    plan = scrambled(ef.extract(ef.saturate(graph, laws="none"), target=CPU, extractor="unfused"), rng)
    assert ef.emit(in_less_memory(plan)).peak_bytes <= ef.emit(plan).peak_bytes


def test_any_order_of_kernels_ends_in_one_that_holds_little() -> None:
    def late(x: Any) -> Any:
        return np.cumsum(np.cumsum(x, axis=0) * np.cumsum(x + 1, axis=1) * swept(x, 5), axis=0)

    plan = ef.compile(late, X, target=CPU).plan
    held = {ef.emit(in_less_memory(scrambled(plan, np.random.default_rng(seed)))).peak_bytes for seed in range(8)}
    assert max(held) <= ef.emit(plan).peak_bytes


def test_a_reader_runs_before_the_update_that_writes_over_what_it_reads() -> None:
    def filled(x: Any) -> Any:
        buffer = np.cumsum(x, axis=0)
        before = np.cumsum(buffer, axis=1)
        buffer[3:9] = 0
        return np.cumsum(before * swept(buffer, 6), axis=0)

    program = ef.compile(filled, X, target=CPU)
    np.testing.assert_allclose(program(X), filled(X), rtol=1e-9)
    kernels = program.plan.kernels
    (update,) = [i for i, k in enumerate(kernels) if k.body.outputs[0].op == "slice_scatter"]
    assert [i for i, k in enumerate(kernels) if kernels[update].reads[0] in k.reads] == [update - 1, update]
