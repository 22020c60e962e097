"""Views that compiled kernels would be given copies of: which go inside these, and that they compute the same."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.segments import segments
from eqfuse.extract import chosen_plan
from eqfuse.extract.view_reads import views_inside
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.plan.plan import Plan
from eqfuse.rewrites import admitted, laws_named
from eqfuse.show.attribution import rests_on
from tests.support.c_target import C
from tests.support.random_graphs import run_plan

SHORT = ef.Budget(nodes=200, rounds=3)


@cache
def electromagnetic(n: int, steps: int = 6) -> Graph:
    """Steps that are alike, each of which reads slices of what the one before has left."""

    def program(ex: Any, ey: Any, hz: Any, source: Any) -> Any:
        for t in range(steps):
            ey[0, :] = source[t]
            ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
            ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
            hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
        return ex, ey, hz

    return ef.trace(program, *[ef.spec((n, n + 1), np.float64)] * 3, ef.spec((steps,), np.float64))


def recursive(n: int) -> Graph:
    """Columns of an image that a recursive filter goes through: each is read as a view of its own."""

    def program(image: Any) -> Any:
        y = np.empty_like(image)
        y[:, 0] = image[:, 0]
        for j in range(1, 8):
            y[:, j] = np.sqrt(image[:, j] * image[:, j - 1] + 0.5) + np.exp(-y[:, j - 1])
        return y

    return ef.trace(program, ef.spec((n, n), np.float64))


@cache
def plan_of(graph: Graph, device: Any = C) -> Plan:
    return chosen_plan(ef.saturate(graph, budget=SHORT), device)


def copied(plan: Plan) -> list[int]:
    """The bytes of slices with gaps that elementwise kernels read as arrays."""
    slices = {k.writes[0]: k for k in plan.kernels if k.is_view}
    read = [v for k in plan.kernels if k.template.pointwise for v in k.reads if v in slices]
    return [
        plan.types[v].nbytes for v in read
        if plan.types[v].shape[1:] != plan.types[slices[v].reads[0]].shape[1:]
    ]  # fmt: skip


@pytest.mark.slow
def test_alike_steps_read_slices_of_large_arrays_where_these_lie() -> None:
    graph = electromagnetic(400)
    assert len(segments(graph)[1]) > 1
    assert not copied(plan_of(graph))


@pytest.mark.parametrize("make", [electromagnetic, recursive])
@pytest.mark.parametrize("n", [9, pytest.param(400, marks=pytest.mark.slow)])
def test_kernels_with_views_inside_compute_what_the_program_means(make: Any, n: int) -> None:
    graph = make(n)
    rng = np.random.default_rng(0)
    arrays = [rng.random(a.shape) for a in graph.inputs]
    for got, wanted in zip(run_plan(plan_of(graph), arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_kernels_that_are_alike_stay_so_where_what_they_read_is_small() -> None:
    graph = electromagnetic(9)
    plan = plan_of(graph)
    assert copied(plan)
    assert views_inside(plan) is plan


@pytest.mark.slow
def test_what_a_plan_with_views_inside_rests_on_is_proved_again() -> None:
    plan = plan_of(electromagnetic(400))
    needed = rests_on(plan, admitted(laws_named("all"), "reassociate"), seconds=60)
    assert "not proved" not in needed.doubt
    assert len(needed.kernels) == sum(not k.is_view for k in plan.kernels)


def test_numpy_reads_views_as_they_are() -> None:
    plan = plan_of(electromagnetic(400), DEVICES["cpu"])
    assert views_inside(plan) is plan
