"""Covers are sound, whoever chose them: results computed, reads stored, nothing in a circle, prices added up."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.budget import Budget
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.saturate import saturate
from eqfuse.egraph.space import Segment
from eqfuse.extract import EXTRACTORS, chosen_plan, exact, flow, greedy
from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.covers.area_flow import area_flow, transplants
from eqfuse.extract.covers.cover import ROUNDOFF, Cover
from eqfuse.extract.moves.improve import improve
from eqfuse.extract.moves.merge import merged_group
from eqfuse.extract.programs.as_written import without_laws, without_laws_together
from eqfuse.extract.programs.cheapest_operators import cheapest_unfused
from eqfuse.extract.solver.columns import Columns
from eqfuse.extract.unfused import unfused_cover
from tests.support.random_graphs import random_graph, run_plan, scrambled

SHORT = Budget(nodes=300, rounds=4)


@cache
def spaces(seed: int, operators: int) -> tuple[list[Segment], Device]:
    """Random programs of many results, which kernels of several outputs may share, and random prices."""
    rng = np.random.default_rng(seed)
    graph, _ = random_graph(rng, operators, all_results=True)
    return list(saturate(graph, budget=SHORT).segments), scrambled(rng, ("cpu", "a100")[seed % 2])


def assert_sound(cover: Cover) -> None:
    written = set(cover.grammar.free)
    for group in cover.groups:
        assert group.leaves.keys() <= written, "a kernel reads what has not been written"
        assert not group.leaves.keys() & set(group.outputs)
        written |= set(group.outputs)
    assert set(cover.grammar.segment.roots) <= written
    taken = {eclass for group in cover.groups for eclass in group.leaves}
    assert not any(g.price.seconds == 0 and taken & set(g.outputs) for g in cover.groups), "a copy costs nothing"
    assert cover.cost == pytest.approx(sum(g.price.seconds for g in cover.groups), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("extractor", ["flow", "exact"])
def test_results_are_computed_reads_are_stored_and_nothing_is_in_a_circle(extractor: str, seed: int) -> None:
    segments, device = spaces(seed, 10)
    for segment in segments:
        assert_sound(EXTRACTORS[extractor](segment, device))


@pytest.mark.parametrize("seed", range(3))
def test_regrouping_never_makes_a_cover_costlier_and_keeps_it_sound(seed: int) -> None:
    segments, device = spaces(40 + seed, 14)
    for segment in segments:
        _, candidates, covers = flow.search(segment, device)
        for cover in covers:
            if cover.grammar is candidates.grammar and cover.groups:
                before = cover.cost
                flow.regroup(cover, candidates)
                assert cover.cost <= before
                assert_sound(cover)


@pytest.mark.parametrize("seed", range(2))
def test_a_move_is_refused_unmade_only_where_it_would_not_pay(seed: int) -> None:
    segments, device = spaces(200 + seed, 14)
    refused = 0
    for segment in segments:
        grammar = Grammar(segment, device)
        candidates, starts = area_flow(grammar, [])
        for cover in starts:
            for eclass, cuts in candidates.cuts.items():
                for cut in cuts if eclass in cover.choice else ():
                    before = cover.cost
                    if cover._saves_nothing({eclass: cut}):
                        refused += 1
                        assert not cover.move({eclass: cut}, candidates.cheapest) or cover.cost > before - 2 * ROUNDOFF
                        cover.undo()
                        cover.cost = before
    assert refused


@pytest.mark.parametrize("seed", range(2))
def test_a_start_that_is_left_would_have_ended_where_another_did(seed: int) -> None:
    segments, device = spaces(220 + seed, 14)
    for segment in segments:
        grammar = Grammar(segment, device)
        written = greedy.starts(unfused_cover(Grammar(without_laws(segment), device)))
        candidates, starts = area_flow(grammar, transplants(written, grammar))
        alone, met = [s.copy() for s in starts], set()
        for cover in alone:
            improve(cover, candidates, set())
        kept = [cover for cover in starts if improve(cover, candidates, met)]
        assert {frozenset(c.choice.values()) for c in kept} == {frozenset(c.choice.values()) for c in alone}


@pytest.mark.parametrize("seed", range(2))
def test_programs_in_the_same_classes_fuse_as_each_does_alone(seed: int) -> None:
    segments, device = spaces(240 + seed, 14)
    for segment in segments:
        programs = [segment, cheapest_unfused(Grammar(segment, device))]
        written = without_laws_together(programs)
        shared = Grammar(written[0], device)
        for program, in_both in zip(programs, written, strict=True):
            alone = greedy.starts(unfused_cover(Grammar(without_laws(program), device)))
            beside = greedy.starts(unfused_cover(shared.for_segment(in_both)))
            assert [len(c.choice) for c in beside] == [len(c.choice) for c in alone]
            assert [c.cost for c in beside] == pytest.approx([c.cost for c in alone], rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_flow_is_never_worse_than_greedy_on_programs_of_many_results(seed: int) -> None:
    segments, device = spaces(120 + seed, 14)
    for segment in segments:
        best = min(cover.cost for cover in greedy.plans(segment, device))
        assert flow.extract(segment, device).cost <= best * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_every_kernel_of_the_search_is_a_candidate_of_exact(seed: int) -> None:
    """Else its bound would say nothing of what `flow` chose."""
    segments, device = spaces(60 + seed, 12)
    for segment in segments:
        best, candidates, covers = flow.search(segment, device)
        if best.grammar is candidates.grammar:
            columns = Columns(candidates, covers, Cover(best.grammar, segment.roots).roots)
            assert len(columns.places(best.groups)) == len(best.groups)


@pytest.mark.parametrize("seed", range(2))
def test_without_ortools_the_same_optimum_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    segments, device = spaces(20 + seed, 8)
    covers = [exact.extract(segment, device) for segment in segments]
    monkeypatch.setitem(sys.modules, "ortools", None)
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    for segment, cover in zip(segments, covers, strict=True):
        other = exact.extract(segment, device)
        assert other.cost == pytest.approx(cover.cost, rel=1e-6)
        assert other.bound == pytest.approx(cover.bound, rel=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_programs_of_many_results_equal_the_evaluator_under_scrambled_prices(seed: int) -> None:
    rng = np.random.default_rng(80 + seed)
    graph, arrays = random_graph(rng, operators=16, all_results=True)
    plan = chosen_plan(saturate(graph, budget=SHORT), scrambled(rng, ("a100", "cpu")[seed % 2]), "flow")
    wanted = run_plan(chosen_plan(saturate(graph, laws="none"), plan.device, "unfused"), arrays)
    for got, value in zip(run_plan(plan, arrays), wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("extractor", ["flow", "exact"])
def test_the_same_plan_comes_twice(extractor: str) -> None:
    """Byte for byte."""
    texts = []
    for _ in range(2):
        rng = np.random.default_rng(7)
        graph, _ = random_graph(rng, 14, all_results=True)
        plan = chosen_plan(saturate(graph, budget=SHORT), scrambled(rng, "cpu"), extractor)
        texts.append("\n".join([str(plan), *(f"{k.reads} {k.writes} {k.price} {k.body}" for k in plan.kernels)]))
    assert texts[0] == texts[1]


def test_a_copy_of_a_view_that_takes_another_in_is_a_copy_still() -> None:
    graph = ef.trace(lambda x: np.cumsum(x[:, ::2].T, 0), ef.spec((64, 64), np.float32))
    (segment,) = ef.saturate(graph, laws="none").segments
    grammar = Grammar(segment, DEVICES["cpu"])
    sliced, turned = (segment.origin[n] for n in segment.graph.operators[:2])
    first, second = (
        grammar.join(c, segment.classes[c].nodes[0], (grammar.leaf(segment.classes[c].nodes[0].args[0]),))
        for c in (sliced, turned)
    )
    assert isinstance(first, Cut) and isinstance(second, Cut)
    kernel = merged_group(grammar, (first,), (second,), ())
    assert kernel is not None and kernel.outputs == (turned,)
    assert kernel.state.kind == "map" and kernel.price.seconds > 0


@pytest.mark.parametrize("target", ["cpu", "a100"])
def test_a_greedy_plan_with_operators_that_change_nothing_is_a_start_of_the_search(target: str) -> None:
    """A law merges such an operator's class with one that it is made of, in the same kernel or read by it."""

    def program(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        a = np.abs(np.abs(np.sin(x)))  # made of itself in one kernel
        b = (a @ y).reshape(6, 6)  # of what another kernel stores
        c = np.abs(b.T.T * b) + np.maximum(b, b)
        return c, np.sqrt(np.exp(c.sum(0)) + 0.0), np.tanh(np.negative(-a))

    graph = ef.trace(program, np.ones((6, 6)), np.ones((6, 6)))
    (segment,) = saturate(graph, numerics="approximate", budget=SHORT).segments
    grammar = Grammar(segment, DEVICES[target])
    (written,) = without_laws_together((segment,))
    plans = greedy.starts(unfused_cover(Grammar(written, grammar.device, grammar)))
    moved = transplants(plans, grammar)
    assert len(moved) == len(plans)
    for cover in moved:
        assert set(cover.roots) <= {*cover.choice, *grammar.free} and all(c.runs for c in cover.choice.values())
