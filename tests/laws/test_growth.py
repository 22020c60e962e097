"""Growth: every family ends by itself on the benchmark programs, and laws that never end stop at the caps."""

from __future__ import annotations

import functools
import operator
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS, Case
from eqfuse.demo.programs import small_programs, transformer
from eqfuse.egraph.engine import Round
from eqfuse.egraph.saturate import Saturation, saturate
from eqfuse.ir.graph import Graph
from eqfuse.ir.pytree import tree_leaves
from eqfuse.rewrites import FAMILIES, OPT_IN
from tests.programs.every import PROGRAMS

ROOM = ef.Budget(nodes=20_000)
WHOLE_BOOK = ["all", *sorted(OPT_IN)]
LARGEST = {"all": 10, "grouping": 10}  # times the nodes of the program, at any time; of one family 6


@functools.cache
def programs() -> dict[str, Graph]:
    graphs = {}
    for id, case in GRAPHS.items():
        function, types = case.program(small=True)
        graphs[id] = ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types])
    for example in small_programs():
        function, arguments = example.build(np.float32)
        graphs[example.name] = ef.trace(function, *arguments)
    return graphs


@pytest.mark.slow
@pytest.mark.parametrize("laws", ["all", *[*FAMILIES][::2]])
def test_laws_end_by_themselves_on_every_benchmark_program(laws: str) -> None:
    """Opt-in families too, as long as they are alone."""
    for name, graph in programs().items():
        space = saturate(graph, laws=laws, numerics="approximate", budget=ROOM)
        assert space.stop_reason == "saturated", name
        for segment in space.segments:
            assert max(segment.nodes_per_round) <= LARGEST.get(laws, 6) * segment.nodes_per_round[0], name


@pytest.mark.parametrize(
    "function",
    [lambda x: ((x - x) + np.pi) - np.pi, lambda x: ((x - x).astype(float) + 3.3) - 3.3,
     lambda x: np.mod((x - x) + np.pi, 2 * np.pi) - np.pi - (x - x), lambda x: np.unwrap(np.broadcast_to(x, (3, 3)))],
)  # fmt: skip
def test_a_value_that_equals_itself_and_a_constant_makes_no_constants_for_ever(function: Any) -> None:
    """Within a round no limit is asked: egglog derives constants to their fixpoint."""
    graph = ef.trace(function, np.arange(3))
    space = ef.saturate(graph, budget=ef.Budget(nodes=300))
    assert space.n_nodes < 3_000
    plan = ef.extract(space, target="numpy")
    np.testing.assert_allclose(ef.emit(plan)(np.arange(3)), function(np.arange(3)), atol=1e-12)


@functools.cache
def as_people_write_them() -> dict[str, Graph]:
    graphs = {}
    for program in PROGRAMS[::10]:
        arguments, named = program.arguments(program.small)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = ef.trace(program.function, *arguments, static_argnames=program.static, **named)
        if len(graph.nodes) <= 340:
            graphs[program.name] = graph
    return graphs


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted({*FAMILIES} - OPT_IN))
def test_every_family_ends_by_itself_on_programs_as_people_write_them(family: str) -> None:
    """A slice or a reshape moves one operator a round: layout takes up to 37 of them and 13 times the nodes."""
    for name, graph in as_people_write_them().items():
        space = saturate(graph, laws=family, numerics="approximate", budget=ef.Budget(60, nodes=30_000, rounds=64))
        assert space.stop_reason == "saturated", name
        for segment in space.segments:
            assert max(segment.nodes_per_round) <= 16 * segment.nodes_per_round[0], name


def test_twelve_transformer_blocks_saturate_small_under_the_default_book() -> None:
    function, arguments = transformer(batch=1, tokens=8, width=12, heads=3, blocks=12).build(np.float32)
    space = saturate(ef.trace(function, *arguments), budget=ROOM)
    assert space.stop_reason == "saturated"
    assert all(max(s.nodes_per_round) <= 10 * s.nodes_per_round[0] for s in space.segments)


def sum_of_ten(*terms: Any) -> Any:
    return functools.reduce(operator.add, terms)


def product_of_sums(*terms: Any) -> Any:
    pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return functools.reduce(operator.mul, pairs)


def matrix_product_of_sums(*terms: Any) -> Any:
    pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return functools.reduce(operator.matmul, pairs)


ENDLESS = {"associativity": sum_of_ten, "distribution": product_of_sums, "products": matrix_product_of_sums}


@pytest.mark.parametrize(("function", "nodes"), zip(ENDLESS.values(), (50, 400, 50), strict=True), ids=ENDLESS)
def test_raw_associativity_and_distribution_stop_at_the_cap_and_the_answer_is_right(
    function: Any, nodes: int
) -> None:
    rng = np.random.default_rng(0)
    terms = [rng.integers(-2, 3, (4, 4)) / 2 for _ in range(10)]
    budget = ef.Budget(nodes=nodes)
    graph = ef.trace(function, *terms)
    (segment,) = saturate(graph, laws=WHOLE_BOOK, numerics="approximate", budget=budget).segments
    assert segment.stop_reason == "nodes"
    assert nodes // 2 <= max(segment.nodes_per_round) <= 2 * nodes
    program = ef.compile(graph, laws=WHOLE_BOOK, numerics="approximate", budget=budget)
    assert program.report.stop_reason == "nodes"
    (got,) = tree_leaves(program(*terms))[0]
    np.testing.assert_array_equal(got, function(*terms))  # halves: every order gives these bits


@pytest.mark.parametrize("case", [GRAPHS[id] for id in ("G5", "G17", "G30")], ids=lambda case: case.id)
def test_the_whole_book_with_what_is_opt_in_gives_the_right_answer(case: Case) -> None:
    function, types = case.program(small=True)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(t.shape).astype(t.dtype) for t in types]
    program = ef.compile(function, *given, laws=WHOLE_BOOK, budget=ef.Budget(nodes=600))
    for got, wanted in zip(tree_leaves(program(*given))[0], tree_leaves(function(*given))[0], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_each_law_is_reported_with_its_matches_and_its_seconds() -> None:
    report = ef.compile(lambda a, b, c: a @ b + a @ c, *[ef.spec((32, 32), np.float32)] * 3, laws="all").report
    assert report.laws_fired["common_left_factor"] >= 1
    assert set(report.laws_fired) <= set(report.law_seconds)
    assert all(seconds > 0 for seconds in report.law_seconds.values())


def test_the_seconds_of_the_laws_are_within_those_of_saturation() -> None:
    function, arguments = transformer(batch=1, tokens=8, width=12, heads=3).build(np.float32)
    graph = ef.trace(function, *arguments)
    start = time.perf_counter()
    space = saturate(graph, budget=ROOM)
    assert 0 < sum(space.law_seconds.values()) < time.perf_counter() - start
    for segment in space.segments:
        assert set(segment.laws_fired) <= set(segment.law_seconds)


class ScriptedEngine:
    """One whose rounds end with these numbers of nodes, each of them cut by their limit."""

    cut = "nodes"

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.seconds: dict[str, float] = {}

    @property
    def size(self) -> int:
        return self.sizes[0]

    def load(self, rules: Sequence[Any]) -> None: ...

    def round(self, room: float, allowance: Any, resting: frozenset[str]) -> Round:
        del self.sizes[0]
        return Round(True, {})


@pytest.mark.parametrize(
    "sizes, rounds",
    [
        ((1000, 1040, 1080, 1120, 1160), 4),  # less than half full
        ((1500, 1530, 1900, 2000), 3),  # the first may be of little use
        ((1500, 1800, 1830, 2000), 2),  # the second was an offer of what the first declined
        ((1500, 1800, 1790, 2000), 3),  # merging is of use
        ((1500, 1500, 2000), 1),
    ],
)
def test_a_round_that_is_cut_and_offers_again_what_hardly_any_match_makes_use_of_is_the_last(
    sizes: Sequence[int], rounds: int
) -> None:
    engine: Any = ScriptedEngine(sizes)
    assert len([*Saturation(engine, [], ef.Budget(nodes=2500, rounds=len(sizes) - 1))]) == rounds
