"""Steps of a loop that differ in extents: one is searched, its plan transferred to the others, proved equal there."""

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.loops import back_substitution, cholesky, thomas
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph import equality
from eqfuse.egraph.alike import alike_graphs, operators, outline, repetitions
from eqfuse.egraph.saturate import saturate, saturate_segment
from eqfuse.egraph.segments import segments
from eqfuse.extract import chosen_plan, cover_transfer, families
from eqfuse.extract.cover_transfer import CoverTransfer
from eqfuse.extract.families import saturated_like
from eqfuse.extract.flow import extract
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.plan.plan import Plan
from eqfuse.rewrites import admitted, laws_named
from tests.support.random_graphs import run_plan

CPU = DEVICES["cpu"]


def traced(built: Any) -> tuple[Graph, list[np.ndarray], Any]:
    function, arguments = built
    return ef.trace(function, *arguments), list(arguments), function(*arguments)


def assert_computes(plan: Plan, arguments: list[np.ndarray], wanted: Any) -> None:
    (got,) = run_plan(plan, arguments)
    np.testing.assert_allclose(got, wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("program", "n"), [(back_substitution, 16), pytest.param(cholesky, 24, marks=pytest.mark.slow)]
)
def test_of_steps_that_shrink_few_are_searched_and_the_plan_computes_the_program(program, n):
    graph, arguments, wanted = traced(program(n))
    space = saturate(graph)
    assert sum(s.like is None for s in space.segments) <= len(space.segments) // 2
    assert_computes(chosen_plan(space, CPU), arguments, wanted)


@pytest.mark.slow
def test_where_no_plan_can_be_transferred_each_step_is_searched(monkeypatch):
    graph, arguments, wanted = traced(back_substitution(13))
    monkeypatch.setattr(cover_transfer, "equalities", lambda pairs, *_: [False] * len(pairs))
    calls = []
    monkeypatch.setattr(families, "saturated_like", lambda *given: calls.append(given) or saturated_like(*given))
    space = saturate(graph)
    assert_computes(chosen_plan(space, CPU), arguments, wanted)
    assert len(calls) == sum(s.like is not None for s in space.segments) > 4


def test_steps_on_a_few_numbers_that_need_only_the_step_before_are_one_piece():
    def turned(x):
        for i in range(60):
            x = np.sin(x * 0.5 + (i % 7) * 0.25) * x
        return x

    assert len(segments(ef.trace(turned, ef.spec((10,), np.float32)))[0]) == 1


def test_of_a_long_loop_on_a_few_numbers_some_steps_are_searched_and_the_pieces_mean_the_whole():
    graph, arguments, wanted = traced(thomas(24))
    pieces, uses = segments(graph)
    assert operators(pieces) < len(graph.operators) // 2
    values = dict(zip(graph.inputs, arguments, strict=True))
    for use in uses:
        given = [values[n] for n in use.inputs]  # none is a view: pieces hold their views themselves
        values |= zip(use.outputs, evaluate(pieces[use.segment], given), strict=True)
    np.testing.assert_allclose(values[graph.outputs[0]], wanted)


def test_of_a_tree_that_is_rolled_back_on_some_kilobytes_few_steps_are_searched():
    def rolled_back(values: Any, payoff: Any) -> Any:
        for n in range(values.shape[1] - 1, 0, -1):
            values = np.maximum(0.5 * (values[:, 1:] + values[:, :-1]) * 0.99, payoff[:, :n] - n)
        return values

    graph = ef.trace(rolled_back, *[ef.spec((5, 50), np.float64)] * 2)
    assert operators(segments(graph)[0]) < len(graph.operators) // 3


def test_long_loops_on_large_arrays_stay_whole_since_to_store_what_is_between_steps_would_be_felt():
    def grown(x: Any) -> Any:
        for _ in range(100):
            x = np.maximum(x * 2.0 + 1.0, 0.5)
        return x

    _, uses = segments(ef.trace(grown, ef.spec((10_000,), np.float64)))
    assert len(uses) == 1


def product(rows: int, name: str = "sum") -> Graph:
    a, b = ef.spec((rows, 7), np.float64), ef.spec((7,), np.float64)
    return ef.trace(lambda a, b: getattr(np, name)((a * 2.0 + 1.0) @ b * 3.0) + 1.0, a, b)


def test_a_transferred_kernel_costs_what_it_costs_by_itself():
    laws = admitted(laws_named("all"), "reassociate")
    first = saturate_segment(product(40), laws, ef.Budget())
    (transfer,) = CoverTransfer(first, extract(first, CPU), first.laws).to([product(30)], CPU)
    assert transfer is not None
    segment, cover = transfer
    assert segment.graph == product(30) and len(cover.groups) > 1
    for g in cover.groups:
        body, _ = cover.grammar.body(g.cuts)
        assert g.state.is_view or priced(body, CPU) == (g.state, g.price)


def test_a_plan_is_not_transferred_to_a_program_that_computes_otherwise():
    first = saturate_segment(product(40), (), ef.Budget())
    assert CoverTransfer(first, extract(first, CPU), ()).to([product(30, "max")], CPU) == [None]


def test_graphs_are_alike_where_they_differ_in_extents_and_offsets_alone():
    def step(k: int, axis: int = 0) -> Graph:
        return ef.trace(lambda a: (a[k:, : k + 2] * 2.0).sum(axis), ef.spec((40, 40), np.float64))

    assert outline(step(3)) == outline(step(9))
    assert outline(step(3)) != outline(step(3, axis=1))
    assert outline(step(3)) != outline(step(39))  # a row is broadcast
    assert alike_graphs([step(k) for k in range(3, 9)], dict.fromkeys(range(6), 1)).keys() == {0, 1, 2, 4, 5}


def test_runs_are_found_between_what_does_not_repeat():
    assert repetitions("xy" + "abc" * 7 + "z" + "d" * 6) == [(2, 3, 7), (24, 1, 6)]
    assert repetitions("abcabc") == []


def test_pairs_of_graphs_are_told_apart_in_one_e_graph():
    functions = (lambda x: x + 1.0, lambda x: 1.0 + x, lambda x: x + 2.0)
    a, b, c = (ef.trace(f, ef.spec((3,), np.float64)) for f in functions)
    laws = saturate(a).segments[0].laws
    assert equality.equalities([(a, b), (a, c), (a, a)], laws, 3) == [True, False, True]
