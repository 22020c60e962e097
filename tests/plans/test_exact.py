"""`exact` finds the optimum over the candidates, or says how far from it the plan is at most."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.budget import Meter
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import datasheet
from eqfuse.egraph.saturate import saturate
from eqfuse.egraph.space import Segment
from eqfuse.extract import chosen_plan, exact, flow
from eqfuse.extract.candidates.enumerate import Candidates
from eqfuse.extract.covers import area_flow
from eqfuse.extract.covers.cover import Cover
from eqfuse.extract.covers.nearest import ABOVE_CHEAPEST
from eqfuse.extract.solver import binary
from eqfuse.extract.solver.binary import BinaryProgram, Solution, minimise
from eqfuse.extract.solver.columns import Column, Columns
from eqfuse.plan.plan import Plan
from tests.support.random_graphs import random_graph, scrambled


def seconds(plan: Plan) -> float:
    return plan.seconds


@pytest.mark.parametrize("seed", range(6))
def test_no_heuristic_beats_it_and_its_bound_holds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, _ = random_graph(rng, operators=12)
    device = scrambled(rng, ("cpu", "a100")[seed % 2])
    space = saturate(graph)
    plan = chosen_plan(space, device, "exact")
    assert plan.bound is not None and plan.bound <= seconds(plan) * (1 + 1e-9)
    assert seconds(plan) <= seconds(chosen_plan(space, device, "flow")) * (1 + 1e-12)
    assert plan.gap is not None and plan.gap < 1e-4 + ABOVE_CHEAPEST
    for segment in space.segments:
        best, _ = exact.optimum(segment, device)
        assert best.bound is not None and best.cost <= best.bound * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_on_small_programs_it_finds_what_trying_every_choice_finds(seed: int) -> None:
    rng = np.random.default_rng(300 + seed)
    graph, _ = random_graph(rng, operators=4)
    device = scrambled(rng, "cpu")
    for segment in saturate(graph).segments:
        best, candidates, covers = flow.search(segment, device)
        roots = Cover(candidates.grammar, segment.roots).roots
        found_columns = Columns(candidates, covers, roots)
        found_columns.grow(4.0)
        columns = found_columns.all
        optimum, _ = exact.optimum(segment, device)
        cheapest = _by_trying(columns, roots, candidates.grammar.free)
        if best.grammar is candidates.grammar:
            assert optimum.cost == pytest.approx(cheapest, rel=1e-6)
        assert optimum.cost <= cheapest * (1 + 1e-6)


def _by_trying(columns: list[Column], roots: tuple[int, ...], free: set[int]) -> float:
    """The cost of the cheapest cover of `roots`, each class computed once, by depth-first search."""
    best = math.inf

    def extend(wanted: frozenset[int], chosen: tuple[Column, ...], cost: float) -> None:
        nonlocal best
        if cost >= best:
            return
        stored = {eclass for c in chosen if not c.alias for eclass in c.group.outputs}
        read = {leaf for c in chosen for leaf in c.group.leaves if leaf not in free}
        results = stored | {eclass for c in chosen for eclass in c.group.outputs}
        missing = sorted((read - stored) | (wanted - results))
        if not missing:
            if not exact._circle(chosen, _Free(free)):  # type: ignore[arg-type]
                best = cost
            return
        for c in columns:
            fits = missing[0] in c.group.outputs and not (c.alias and missing[0] in read)
            if fits and not any(eclass in stored for eclass in c.group.outputs):
                extend(wanted, (*chosen, c), cost + c.seconds)

    extend(frozenset(roots), (), 0.0)
    return best


class _Free:
    def __init__(self, free: set[int]) -> None:
        self.free = free


@pytest.mark.parametrize("seed", range(5))
def test_both_solvers_find_the_same_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ortools", reason="the extra `exact` (ortools) is not installed")
    rng = np.random.default_rng(seed)
    program = _random_program(rng)
    first = minimise(program, (), 5.0)
    second = binary._highs(program, 5.0)
    assert first.chosen is not None and second.chosen is not None
    costs = [sum(program.costs[v] for v in s.chosen or ()) for s in (first, second)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-6)
    assert all(s.bound <= costs[0] * (1 + 1e-6) for s in (first, second))


@pytest.mark.parametrize("seed", range(5))
def test_a_binary_program_is_solved_to_what_trying_every_choice_finds(seed: int) -> None:
    program = _random_program(np.random.default_rng(100 + seed))
    cheapest = math.inf
    for choice in itertools.product((0, 1), repeat=len(program.costs)):
        if all(low <= sum(c * choice[v] for v, c in row.items()) <= high for row, low, high in program.rows):
            cheapest = min(cheapest, sum(c * x for c, x in zip(program.costs, choice, strict=True)))
    solution = minimise(program, (), 5.0)
    assert solution.chosen is not None
    assert sum(program.costs[v] for v in solution.chosen) == pytest.approx(cheapest, rel=1e-6)
    assert solution.bound == pytest.approx(cheapest, rel=1e-4)


def _random_program(rng: np.random.Generator) -> BinaryProgram:
    """A cover of twelve things by ten sets, two of which exclude one another; all sets together but one are a cover."""
    costs = [float(c) for c in rng.uniform(1e-6, 1e-4, 10)]
    rows = []
    for _ in range(12):
        sets = rng.choice(10, 4, replace=False)
        rows.append((dict.fromkeys(map(int, sets), 1), 1.0, math.inf))
    return BinaryProgram(costs, [*rows, ({0: 1, 1: 1}, -math.inf, 1.0)])


def test_kernels_that_need_one_another_are_not_chosen() -> None:
    circles = [(1, (2,)), (2, (3,)), (3, (1,))]
    chosen = [_column(eclass, reads) for eclass, reads in circles]
    assert sorted(exact._circle(chosen, _Free(set()))) == [1, 2, 3]  # type: ignore[arg-type]
    assert not exact._circle(chosen[:2], _Free({3}))  # type: ignore[arg-type]
    row, _, most = exact._refused([1, 2, 3], chosen)
    assert row == {0: 1, 1: 1, 2: 1} and most == 2


def _column(eclass: int, reads: tuple[int, ...]) -> Column:
    class Kernel:
        outputs, leaves = (eclass,), dict.fromkeys(reads, 4)

    return Column(Kernel(), 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("id", ["G27", "G28"])
def test_kernels_of_several_outputs_are_found_without_the_help_of_the_search(
    id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G28 is one kernel of three results."""
    device = datasheet("a100")
    function, types = GRAPHS[id].program(False)
    (segment,) = saturate(ef.trace(function, *(ef.spec(t.shape, t.dtype) for t in types))).segments
    best, candidates, _ = flow.search(segment, device)

    def unmerged(segment: Segment, device: Device, *rest: Any) -> tuple[Cover, Candidates, list[Cover]]:
        cover = area_flow.cheapest(candidates)
        assert cover is not None
        cover.groups = cover.single_groups()
        return cover, candidates, [cover]

    start = unmerged(segment, device)[0].cost
    monkeypatch.setattr(flow, "search", unmerged)
    optimum, _ = exact.optimum(segment, device)
    assert optimum.cost == pytest.approx(best.cost, rel=1e-6)
    assert optimum.cost < 0.9 * start and max(len(g.cuts) for g in optimum.groups) > 1


@pytest.mark.slow
def test_the_gap_is_reported_and_explained() -> None:
    def normalise(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)

    program = ef.compile(normalise, ef.spec((512, 512)), extractor="exact")
    gap = program.report.optimality_gap
    assert gap is not None and 0 <= gap < ABOVE_CHEAPEST + 1e-4  # one that is nearer to what was written may be chosen
    assert "from the optimum" in str(program.explain())
    assert ef.compile(normalise, ef.spec((512, 512))).report.optimality_gap is None


def test_without_any_bound_the_gap_is_infinite_not_zero() -> None:
    plan = ef.extract(ef.saturate(ef.trace(np.exp, ef.spec((1000, 1000)))), extractor="exact")
    assert replace(plan, bound=0.0).gap == math.inf
    assert replace(plan, bound=seconds(plan)).gap == 0


@pytest.mark.parametrize("seed", range(2))
def test_every_budget_that_gives_a_bound_gives_one_over_the_same_kernels(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a larger one cannot give a worse gap. The solver here knows no clock: its bound is the relaxation's."""

    def relaxation(program: BinaryProgram, hint: Sequence[int], seconds: float) -> Solution:
        return Solution(tuple(hint), binary.relaxed(program, 60).bound, seconds)

    monkeypatch.setattr(exact, "minimise", relaxation)
    rng = np.random.default_rng(seed)
    graph, _ = random_graph(rng, operators=14, all_results=True)
    space, device = saturate(graph), scrambled(rng)
    meters = [Meter(ef.Budget(optimum=0.01 * 9**i)) for i in range(3)]
    plans = [chosen_plan(space, device, "exact", proved=False, meter=meter) for meter in meters]
    assert plans[0].gap == math.inf
    assert [seconds(plan) for plan in plans] == [pytest.approx(seconds(plans[0]), rel=1e-12)] * 3
    assert len({plan.bound for plan in plans if plan.gap != math.inf}) == 1


def test_its_time_is_part_of_the_budget_and_without_any_it_gives_the_plan_of_flow() -> None:
    x, budget = ef.spec((512, 512)), ef.Budget(optimum=0.0)
    plans = [ef.compile(np.exp, x, extractor=e, budget=budget).plan for e in ("exact", "flow")]
    assert str(plans[0]) == str(plans[1]) and plans[0].gap == math.inf
    space = ef.saturate(ef.trace(np.exp, x))
    assert ef.extract(space, extractor="exact", budget=budget).gap == math.inf
    assert ef.extract(space, extractor="exact").gap == pytest.approx(0, abs=1e-5)
