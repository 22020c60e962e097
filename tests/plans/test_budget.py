"""A budget bounds a whole compile: what it does not allow to search is planned by cheaper means, right all the same,
and the report says how much. Time is told by a clock that the test moves."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse import budget as limits
from eqfuse import compiler
from eqfuse.benches.corpus.random_graphs import irregular_graph
from eqfuse.benches.scale import graph_of
from eqfuse.budget import ALL_LAWS, AS_WRITTEN, CHEAP_LAWS, FUSION_ONLY, SECONDS_LIMIT, Allowance, Budget
from eqfuse.compiler import compile_graph
from eqfuse.cost.profiles import DEVICES
from eqfuse.demo import programs as examples
from eqfuse.egraph import saturate as stop
from eqfuse.extract.covers.cover import Group
from eqfuse.extract.covers.nearest import ABOVE_CHEAPEST
from eqfuse.extract.memory.timeline import SegmentMemory, TimelineStep
from eqfuse.ir.pytree import tree_leaves
from eqfuse.rewrites import laws_named
from eqfuse.rewrites.simplifier import SIMPLIFIER
from eqfuse.runtime import disk_cache
from eqfuse.show import progress
from eqfuse.specialise import compile as of_functions
from eqfuse.specialise.calls import FunctionCall


class Clock:
    """A clock of the processor and of the wall that advances by `tick` seconds whenever it is read."""

    def __init__(self, tick: float) -> None:
        self.tick, self.now = tick, 0.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own_clock = Clock(0.0)
    monkeypatch.setattr(time, "thread_time", own_clock)
    monkeypatch.setattr(time, "perf_counter", own_clock)
    return own_clock


@pytest.fixture(autouse=True)
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "find", lambda key, graph: None)


def small() -> Any:
    return irregular_graph(np.random.default_rng(1), 24)


@cache
def searched() -> ef.Program:
    """The program of `small`, within no limit that it meets."""
    return ef.compile(small(), target="numpy")


def arguments(graph: ef.Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(n.type.shape).astype(n.dtype) for n in graph.inputs]


def right(program: ef.Program, graph: ef.Graph) -> bool:
    given = arguments(graph)
    wanted = tree_leaves(ef.meaning(graph, *given))[0]
    got = tree_leaves(program(*given))[0]
    return all(np.allclose(a, b, rtol=1e-6, atol=1e-9) for a, b in zip(got, wanted, strict=True))


@pytest.mark.parametrize("limit", [2.0, 1.9])
def test_seconds_of_a_compiler_that_is_waited_for_count_and_those_of_another_program_do_not(
    monkeypatch: pytest.MonkeyPatch, limit: float
) -> None:
    used, passed = Clock(0.0), Clock(0.0)
    monkeypatch.setattr(time, "thread_time", used)
    monkeypatch.setattr(time, "perf_counter", passed)
    meter = limits.Meter(Budget(seconds=limit))
    stage = meter.within(0.5)
    with stage.waiting():
        used.now, passed.now = 0.25, 1.75
    assert meter.allowance.left == meter.anew().allowance.left == pytest.approx(limit - 1.75)
    assert stage.allowance.spent() == SECONDS_LIMIT and meter.allowance.spent() is None
    passed.now += 100
    assert meter.allowance.left == pytest.approx(limit - 1.75)


def by_ticks(clock: Clock, seconds: float, tick: float) -> tuple[ef.Graph, ef.Program]:
    clock.tick = tick
    graph = small()
    return graph, ef.compile(graph, target=DEVICES["cpu"], budget=Budget(seconds=seconds))


@pytest.mark.parametrize("waited", [0.0, 0.2, 50.0])
def test_seconds_are_those_of_the_processor_however_long_it_was_waited_for(
    monkeypatch: pytest.MonkeyPatch, waited: float
) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(time, "thread_time", clock)
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now * (1 + waited))
    allowance = Allowance(until=1.0)
    for clock.now in (0.0, 0.5, 0.999):
        assert not any(allowance.spent() for _ in range(100))
    clock.now = 1.0
    assert SECONDS_LIMIT in [allowance.spent() for _ in range(100)]


def test_without_any_time_operators_run_as_written(clock: Clock) -> None:
    graph, program = by_ticks(clock, seconds=0.0, tick=0.0)
    report = program.report
    assert report.searched == {AS_WRITTEN: len(graph.operators)} and report.stop_reason == "seconds"
    assert report.n_kernels == report.unfused_kernels and right(program, graph)


@pytest.mark.slow
def test_each_level_is_met_on_the_way_down_and_each_is_right(clock: Clock) -> None:
    met, prices = [], []
    for tick in (0.0, 0.05, 0.4, 1.0):
        graph, program = by_ticks(clock, seconds=10.0, tick=tick)
        met += program.report.searched
        prices.append(program.report.predicted_seconds)
        assert right(program, graph) and sum(program.report.searched.values()) == len(graph.operators)
    assert list(dict.fromkeys(met)) == [ALL_LAWS, FUSION_ONLY, AS_WRITTEN]
    near = 1 + ABOVE_CHEAPEST  # of plans about as cheap, that nearest to the program as written is taken
    assert all(more <= near * less for more, less in itertools.pairwise(prices)), "more time gave a costlier plan"


def test_the_exact_extractor_says_too_that_it_found_no_more_than_fusion(clock: Clock) -> None:
    clock.tick = 0.08
    program = ef.compile(small(), target="numpy", extractor="exact", budget=Budget(seconds=10.0))
    assert set(program.report.searched) == {FUSION_ONLY} and program.report.stop_reason == "seconds"


def test_a_plan_that_the_clock_cut_short_says_so_and_what_to_do(clock: Clock) -> None:
    _, program = by_ticks(clock, seconds=10.0, tick=0.3)
    text = str(program.explain())
    assert program.report.stop_reason == "seconds"
    assert "planned by cheaper means: " in text and "ef.Budget(seconds=" in text


def test_a_whole_search_says_nothing_of_cheaper_means() -> None:
    graph = irregular_graph(np.random.default_rng(1), 10)
    program = ef.compile(graph, target="numpy")
    assert program.report.searched == {ALL_LAWS: len(graph.operators)}
    assert "cheaper means" not in str(program.explain())


def test_memory_that_runs_out_ends_a_search_as_the_clock_does(monkeypatch: pytest.MonkeyPatch) -> None:
    held = itertools.count(0, 100 << 20)
    monkeypatch.setattr(limits, "resident_bytes", lambda: next(held))
    graph = small()
    program = ef.compile(graph, target="numpy", budget=Budget(bytes=150 << 20))
    assert program.report.stop_reason == "bytes" and right(program, graph)


def test_a_round_ends_where_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_LOOKS", 1)
    graph = ef.trace(lambda *x: sum(a * b for a, b in itertools.pairwise(x)), *[ef.spec((4, 4))] * 12)
    whole = ef.saturate(graph, laws=["all", "distribution"])
    held = itertools.count(0, 1 << 20)
    monkeypatch.setattr(limits, "resident_bytes", lambda: next(held))
    cut = ef.saturate(graph, laws=["all", "distribution"], budget=Budget(bytes=2 << 20))
    assert cut.stop_reason == "bytes" and cut.n_nodes < whole.n_nodes


def test_the_memory_of_this_process_is_known() -> None:
    """In a process of its own: what another test gave back may be given out again, and is still held."""
    look = "from eqfuse.machine.memory import resident_bytes; before = resident_bytes(); import numpy as np"
    look += "; block = np.ones(64 << 20, np.uint8); print(before, resident_bytes())"
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout
    before, after = map(int, said.split())
    assert before > 1 << 20 and after - before > (64 << 20) // 2


@pytest.mark.parametrize("program", examples.small_programs(), ids=lambda program: program.name)
@pytest.mark.parametrize("target", ["numpy", "cuda:a100"])
def test_the_least_budget_gives_right_programs(program: Any, target: str) -> None:
    function, given = program.build(np.float32)
    compiled = ef.compile(function, *given, target=target, budget=Budget(seconds=0.0))
    assert compiled.report.stop_reason == "seconds"
    if target == "numpy":
        for a, b in zip(tree_leaves(compiled(*given))[0], tree_leaves(function(*given))[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)


def test_a_loop_of_a_program_without_time_is_right() -> None:
    def steps(x: Any) -> Any:
        return ef.fori_loop(0, 5, lambda i, y: np.sin(y) * 2 + y, x)

    x = np.linspace(0, 1, 7)
    program = ef.compile(steps, x, target="numpy", budget=Budget(seconds=0.0))
    np.testing.assert_allclose(program(x), steps(x))
    assert set(program.report.searched) == {AS_WRITTEN}


@pytest.mark.slow
def test_the_steps_of_a_loop_have_their_share_of_the_time(clock: Clock) -> None:
    """What is around the loop may take all the time that it is given; the step is searched all the same."""

    def steps(x: Any) -> Any:
        for _ in range(60):
            x = np.sin(x) * 1.5 + x
        return ef.fori_loop(0, 50, lambda i, y: np.tanh(y * 2 + 1) - y, x)

    clock.tick = 2e-3
    program = ef.compile(steps, np.linspace(0, 1, 7), target="numpy", budget=Budget(seconds=10.0))
    (loop,) = (k for k in program.plan.kernels if k.inner)
    assert len(loop.inner[0].kernels) == 1


def test_what_a_larger_program_left_no_time_for_is_searched_when_it_is_asked_for_alone(clock: Clock) -> None:
    def step(i: Any, y: Any) -> Any:
        return np.tanh(y * 3 + 1) - y

    x = np.linspace(0, 1, 7)
    clock.tick = 5.0
    whole = ef.compile(lambda x: ef.fori_loop(0, 50, step, x), x, target="numpy")
    assert whole.report.stop_reason == "seconds"
    clock.tick = 0.0
    (loop,) = (k for k in whole.plan.kernels if k.inner)
    assert compile_graph(loop.inner[0].graph, target="numpy").report.stop_reason == "saturated"


@pytest.mark.slow
def test_what_keeps_a_limit_of_memory_ends_with_the_budget_and_a_refusal_says_so(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kernel that is tried takes a second. Those of the plan that exceeds the limit are looked at in any case."""
    monkeypatch.setattr(limits, "_GLANCES", 1)
    look, ticks = SegmentMemory.step, itertools.count()

    def slow(held: SegmentMemory, group: Group) -> TimelineStep:
        clock.now += 1.0
        next(ticks)
        return look(held, group)

    monkeypatch.setattr(SegmentMemory, "step", slow)
    graph = irregular_graph(np.random.default_rng(1), 40)
    free = ef.compile(graph, target=DEVICES["cpu"])
    tried = []
    for seconds in (1e6, 4.0 * len(free.plan.kernels)):
        before = next(ticks)
        with pytest.raises(ef.MemoryLimitError) as refused:
            ef.compile(graph, target=DEVICES["cpu"], memory_limit=0, budget=Budget(seconds=seconds))
        tried.append(next(ticks) - before)
        assert ("ef.Budget(seconds=" in str(refused.value)) == (seconds < 1e6)
    assert tried[1] < 8 * len(free.plan.kernels) < tried[0]


def test_time_spent_on_the_trace_is_of_the_budget(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(whole: Any) -> Any:
        def traced(*args: Any, **kwargs: Any) -> Any:
            clock.now += 100.0
            return whole(*args, **kwargs)

        return traced

    def function(x: Any) -> Any:
        return np.exp(x) + 1

    monkeypatch.setattr(of_functions, "trace", slowly(of_functions.trace))
    monkeypatch.setattr(FunctionCall, "trace", slowly(FunctionCall.trace))
    x = np.ones(3)
    for program in (ef.compile(function, x, target="numpy"), ef.jit(function, target="numpy").program(x)):
        assert program.report.searched == {AS_WRITTEN: 2}


def test_segments_that_run_most_often_are_searched_first(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of("blocks 3")
    pieces, where = stop.segments(graph)
    uses = {piece: sum(use.segment == i for use in where) for i, piece in enumerate(pieces)}
    assert len(set(uses.values())) > 1
    order: list[int] = []
    whole = stop.saturate_segment

    def noted(graph: ef.Graph, *rest: Any) -> Any:
        order.append(uses[graph])
        return whole(graph, *rest)

    monkeypatch.setattr(stop, "saturate_segment", noted)
    stop.saturate(graph, budget=Budget(rounds=1))
    assert order == sorted(order, reverse=True)


def test_cheap_laws_are_laws_of_a_simplifier(clock: Clock) -> None:
    graph = ef.trace(lambda x: (x * 1).T.T + np.log(np.exp(x) * np.exp(x)), ef.spec((8, 8)))
    segment = stop.saturate_segment(graph, laws_named("all"), Budget(), level=CHEAP_LAWS)
    assert segment.laws_fired and set(segment.laws_fired) <= SIMPLIFIER


def test_a_part_of_an_allowance_ends_no_later_than_the_whole(clock: Clock) -> None:
    whole = Allowance(until=8.0)
    assert (whole.part(0.5).until, whole.part(1.0).until) == (4.0, 8.0)
    clock.now = 9.0
    assert whole.part(1.0).left == 0.0 and whole.part(1.0).spent() == "seconds"


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What eqfuse logs, from now on."""
    handler, logger, texts = logging.Handler(), logging.getLogger("eqfuse"), list[str]()
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield texts
    logger.setLevel(level)
    logger.removeHandler(handler)


def until(happened: Callable[[], object]) -> None:
    ended = time.monotonic() + 60
    while not happened() and time.monotonic() < ended:
        time.sleep(0.01)


@pytest.mark.parametrize("stage", ["trace", "rolled", "saturate_segment", "chosen_plan", "emit"])
def test_a_long_stage_of_a_compile_leaves_one_line_in_the_log_while_it_lasts(
    stage: str, lines: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.01)
    place = {"trace": of_functions, "saturate_segment": stop}.get(stage, compiler)
    whole = getattr(place, stage)
    during: list[list[str]] = []

    def slowly(*args: Any, **kwargs: Any) -> Any:
        until(lambda: lines)
        during.append(lines.copy())
        return whole(*args, **kwargs)

    monkeypatch.setattr(place, stage, slowly)
    ef.compile(lambda x: np.exp(x) + 1, np.ones(3), target="numpy")
    assert len(lines) == 1 and during[0] == lines
    assert "tracing" in lines[0] or "of the budget left" in lines[0]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("limit", ["seconds", "bytes"])
def test_what_ended_a_search_before_its_time_is_reported_and_explained(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as growing:  # a process may also give memory back
        growing.setattr("eqfuse.budget.resident_bytes", itertools.count().__next__)
        program = ef.compile(small(), target="numpy", budget=Budget(**{limit: 0}))
    assert program.report.stop_reason == limit
    assert f"The {limit} of the budget ended the search" in str(program.explain())
    whole = searched()
    assert whole.report.stop_reason not in ("seconds", "bytes") and "of the budget ended" not in str(whole.explain())


def test_a_short_compile_says_nothing(lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ef.compile(ef.trace(np.exp, ef.spec((3,))), target="numpy")
    assert not lines and capsys.readouterr() == ("", "")
