"""Whatever is extracted is right, and `flow` is never worse than greedy."""

import random
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import TargetUnavailable
from eqfuse.extract import EXTRACTORS, chosen_plan
from eqfuse.extract.candidates import prices
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.candidates.work import set_bits, union
from eqfuse.extract.covers.cover import Cover
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.ir.evaluate import evaluate
from eqfuse.kinds import State, classify
from tests.support.random_graphs import random_graph, run_plan, scrambled
from tests.support.some import some

GREEDY = [name for name in EXTRACTORS if name.startswith("greedy")]


def seconds(plan) -> float:
    return plan.seconds


def agree(plan, graph, arrays):
    for got, wanted in zip(run_plan(plan, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", some(range(12), 3))
def test_every_program_extracted_under_scrambled_prices_equals_the_evaluator(seed):
    rng = np.random.default_rng(seed)
    graph, arrays = random_graph(rng)
    space = saturate(graph)
    device = scrambled(rng, ("cpu", "a100")[seed % 2])
    for extractor in EXTRACTORS if seed < 8 else (*GREEDY, "flow"):  # "exact" takes its time
        agree(chosen_plan(space, device, extractor), graph, arrays)


SEEDS = [pytest.param(s, marks=pytest.mark.slow if s % 3 != 1 else ()) for s in range(14)]


@pytest.mark.parametrize("seed", SEEDS)
def test_flow_is_never_worse_than_the_best_greedy_plan(seed):
    graph, _ = random_graph(np.random.default_rng(1000 + seed), operators=16)
    space, device = saturate(graph), DEVICES[("cpu", "h100")[seed % 2]]
    best = min(seconds(chosen_plan(space, device, name)) for name in GREEDY)
    assert seconds(chosen_plan(space, device, "flow")) <= best * (1 + 1e-12)


def diffused(u, steps):
    """Steps of diffusion in place; laws read the new inside off every later version of the array, and back."""
    for _ in range(steps):
        change = np.zeros_like(u)
        change[1:-1, 1:-1] = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        u = u + 0.1 * change
        u[0, :] = 1.0
        u[:, 0] = u[:, 1]
        u[:, -1] = u[:, -2]
    return u


def test_classes_that_equal_slices_of_each_other_do_not_hide_the_cheapest_plan():
    def predicted(steps):
        graph = trace(lambda u: diffused(u, steps), spec((700, 703), np.float64))
        return seconds(chosen_plan(saturate(graph), DEVICES["cpu"], "flow"))

    one, three = (predicted(n) for n in (1, 3))
    assert three <= 3.02 * one


@cache
def of_twenty_operators():
    return saturate(random_graph(np.random.default_rng(7), operators=20)[0])


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_every_kernel_of_a_plan_has_the_kind_it_says(extractor):
    device = DEVICES["cpu"]
    for kernel in chosen_plan(of_twenty_operators(), device, extractor).kernels:
        state = classify(kernel.body, device)
        assert isinstance(state, State)
        assert state.kind == kernel.kind or (state.kind == "view" and kernel.kind == "map")


def test_the_readme_has_a_row_for_every_extractor():
    rows = (Path(__file__).parents[2] / "extract" / "README.md").read_text()
    assert not [name for name in EXTRACTORS if f"`{name}`" not in rows and not name.endswith("+algebra")]


def test_an_unknown_extractor_is_refused_with_the_known_ones():
    graph, _ = random_graph(np.random.default_rng(0))
    with pytest.raises(TargetUnavailable, match=r"no extractor 'best'.*flow"):
        chosen_plan(saturate(graph), DEVICES["cpu"], "best")


def test_a_move_whose_new_kernels_would_read_one_another_in_a_circle_is_taken_back():
    def cut(reads, seconds):
        state = State("map", (), ())
        facts = {"cost": seconds, "about": seconds, "runs": True}
        return SimpleNamespace(leaves=dict.fromkeys(reads, 0), reads=reads, state=state, **facts)

    cover = Cover(SimpleNamespace(free=set()), [0])
    assert cover.take({0: cut([1], 1.0), 1: cut([], 5.0)})
    circle = {2: cut([3], 0.1), 3: cut([2], 0.1)}
    assert not cover.attempt({0: cut([2], 0.5)}, circle.get)
    assert (sorted(cover.choice), cover.cost) == ([0, 1], 6.0)
    assert cover.attempt({0: cut([2], 0.5)}, {2: cut([], 0.1)}.get)
    assert sorted(cover.choice) == [0, 2]


def test_the_bytes_of_a_view_are_found_without_looking_at_the_views_of_other_kernels(monkeypatch):
    looked_at = []

    def counted(mask):
        looked_at.append(mask.bit_count())
        return set_bits(mask)

    space = saturate(trace(lambda x: [-x[i : i + 2] for i in range(50)], spec((52,), np.float32)), laws="none")
    monkeypatch.setattr(prices, "set_bits", counted)
    assert len(chosen_plan(space, DEVICES["cpu"], "unfused").kernels) == 50
    assert max(looked_at) == 1


def test_the_body_of_a_kernel_is_made_once(monkeypatch):
    calls = []
    make = Grammar._body
    monkeypatch.setattr(Grammar, "_body", lambda grammar, cuts: (calls.append((grammar, cuts)), make(grammar, cuts))[1])
    chosen_plan(saturate(trace(lambda x: np.exp(x).sum(axis=0) + x, spec((4, 4), np.float32))), DEVICES["cpu"])
    assert len({(id(grammar), cuts) for grammar, cuts in calls}) == len(calls) > 1


def test_operators_are_kept_by_how_often_they_run_and_no_number_of_times_stands_for_none() -> None:
    """In steps that shrink each has other numbers: empty sets of them would be walked over for every kernel."""
    rng = random.Random(0)
    works = [{rng.choice((0.0, 1.0, rng.random())): 1 << rng.randrange(8)} for _ in range(200)]
    merged = union(works)
    assert all(merged.values())
    assert sum(mask.bit_count() for times, mask in merged.items() if times) <= 8
    last = {number: times for each in works for times, mask in each.items() for number in set_bits(mask) if times}
    assert {number: times for times, mask in merged.items() for number in set_bits(mask) if times} == last
