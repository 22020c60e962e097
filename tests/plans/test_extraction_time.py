"""An extraction asks often whether it may go on, and makes no schedule that nobody needs."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.random_graphs import irregular_graph
from eqfuse.budget import Allowance
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.space import ENode
from eqfuse.extract.candidates.cuts import Cut
from eqfuse.extract.candidates.enumerate import Candidates, least
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.candidates.prices import Prices
from eqfuse.extract.covers.area_flow import cheapest
from eqfuse.extract.covers.cover import Group
from eqfuse.extract.flow import extract
from eqfuse.ir.graph import Graph
from eqfuse.kinds.kind import Kind
from tests.support.c_target import C


def filled(x: Any) -> Any:
    """Every element of an array on its own, from those above and before it."""
    out = np.zeros((8, 8))
    for i in range(1, 8):
        for j in range(1, 8):
            out[i, j] = np.maximum(out[i - 1, j], out[i, j - 1]) + x[i, j]
    return out


@pytest.mark.parametrize(
    ("device", "graph"),
    [
        (DEVICES["cpu"], irregular_graph(np.random.default_rng(3), 30)),
        (DEVICES["a100"], irregular_graph(np.random.default_rng(3), 30)),
        pytest.param(C, ef.trace(filled, ef.spec((8, 8))), marks=pytest.mark.slow),
    ],
    ids=["cpu", "a100", "many operands"],
)
def test_an_extraction_asks_often_whether_to_go_on(
    device: Device, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    (segment,) = ef.saturate(graph).segments
    joined = asked = longest = 0
    join = Grammar._join

    def counted(grammar: Grammar, eclass: int, enode: ENode, parts: tuple[Cut, ...]) -> Any:
        nonlocal joined
        joined += len(parts)
        return join(grammar, eclass, enode, parts)

    class Asked(Allowance):
        def spent(self) -> str | None:
            nonlocal asked, longest
            longest, asked = max(longest, joined - asked), joined
            return None

    monkeypatch.setattr(Grammar, "_join", counted)
    extract(segment, device, allowance := Asked())
    allowance.spent()  # and after the last question
    operands = sum(len(n.args) for c in segment.classes for n in c.nodes)
    assert longest < 4 * operands < joined / 2, "operands joined between two questions"


@pytest.mark.slow
def test_without_time_left_a_cover_takes_kernels_that_have_prices_or_the_first_that_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (segment,) = ef.saturate(irregular_graph(np.random.default_rng(3), 220)).segments
    count = 0
    schedule = Kind.schedule

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return schedule(*args)

    monkeypatch.setattr(Kind, "schedule", counted)
    schedules = {}
    for late in (False, True):
        grammar = Grammar(segment, C)
        grammar.prices.decide(math.inf)  # of calls so long that schedules are made
        candidates = Candidates(grammar, {})
        if late:
            grammar.allowance = Allowance(until=0)
        count = 0
        cover = cheapest(candidates)
        assert cover is not None
        assert len(cover.choice) <= len(segment.classes)
        schedules[late] = count
    assert schedules[True] <= len(segment.classes) and 4 * schedules[True] < schedules[False]


def test_the_cheapest_cut_is_found_without_schedules_of_those_that_are_known_to_cost_more() -> None:
    about = {"a": 1.0, "b": 3.0, "c": 2.0, "refused": 0.5}
    total = {"a": 2.5, "b": 2.9, "c": 2.2, "refused": math.inf}
    asked: list[str] = []

    def seconds(cut: Any) -> float:
        asked.append(cut.name)
        return total[cut.name]

    cuts = [SimpleNamespace(name=name, runs=total[name] < math.inf) for name in about]
    best = least(cuts, lambda cut: about[cut.name], seconds)
    assert best is cuts[2] and asked == ["refused", "a", "c"]
    assert least(cuts[3:], lambda cut: about[cut.name], seconds) is None


def test_a_search_asks_for_the_price_of_a_cheapest_cut_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of those of its class that may be cheaper, by what is known."""
    (segment,) = ef.saturate(irregular_graph(np.random.default_rng(3), 220)).segments
    grammar = Grammar(segment, C)
    grammar.prices.decide(math.inf)  # of calls so long that schedules are made
    candidates = Candidates(grammar, {})
    unpriced = [c for c, cuts in candidates.cuts.items() if len(cuts) > 3 and not any(cut.is_priced for cut in cuts)]
    cheapest_of = {c: candidates.cheapest(c) for c in unpriced}
    cuts = [cut for c in unpriced for cut in candidates.cuts[c]]
    assert all(cut is not None and cut.is_priced for cut in cheapest_of.values())
    assert 3 * sum(cut.is_priced for cut in cuts) < 2 * len(cuts)


def test_a_result_that_is_a_view_costs_a_cover_nothing_before_its_schedule_is_made_either() -> None:
    graph = ef.trace(lambda x: np.exp(x).T, ef.spec((500, 700), np.float32))
    (segment,) = ef.saturate(graph).segments
    grammar = Grammar(segment, C)
    grammar.prices.decide(math.inf)  # of calls so long that schedules are made
    cover = cheapest(Candidates(grammar, {}))
    assert cover is not None and any(cut.state.is_view for cut in cover.choice.values())


@pytest.mark.slow
def test_kernels_that_save_nothing_by_their_states_are_merged_without_schedules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (segment,) = ef.saturate(irregular_graph(np.random.default_rng(3), 25)).segments
    several = 0
    priced = Prices.kernel

    def counted(self: Prices, cuts: tuple[Cut, ...], *rest: Any) -> Any:
        nonlocal several
        several += len(cuts) > 1
        return priced(self, cuts, *rest)

    monkeypatch.setattr(Prices, "kernel", counted)
    extract(segment, C)
    assert several
    several = 0
    monkeypatch.setattr(Group, "rough", property(lambda group: len(group.cuts) - 1.0))
    extract(segment, C)
    assert not several
