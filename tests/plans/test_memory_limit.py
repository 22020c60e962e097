"""A limit of memory: calls stay under it, results stay the same, and what it costs is as little as was found.

The networks are one step of training each, forward and backward by hand: activations wait to be read in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.losses import TRAINING
from eqfuse.benches.corpus.training_steps import TrainingStep, attention_block, perceptron
from eqfuse.benches.traced_memory import call_bytes
from eqfuse.benches.training import loss_of
from eqfuse.cost.profiles import DEVICES
from eqfuse.extract.memory.recompute import _missing
from eqfuse.ir.pytree import tree_leaves
from eqfuse.runtime.program import Program
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C
from tests.support.random_graphs import random_graph, run_plan

SHARES = (0.8, 0.6)
SHORT = ef.Budget(seconds=120, nodes=400, rounds=2)  # which work ends, and not the clock
CPU = DEVICES["cpu"]  # prices that are the same everywhere
PYTHON = 48 << 10  # bytes of Python's own objects in a call

def chain(rows: int = 400, width: int = 250) -> TrainingStep:
    """Running sums, which nothing fuses with, read again in reverse order."""
    x = np.random.default_rng(0).normal(size=(rows, width))

    def function(x: Any) -> Any:
        values = [x]
        for i in range(4):
            values.append(np.cumsum(np.tanh(values[-1]), axis=i % 2))
        total = values[-1]
        for m in reversed(values):
            total = np.cumsum(total * m, axis=0) / 100
        return total

    return function, (x,)


NETWORKS: dict[str, Callable[[], TrainingStep]] = {
    "chain": chain, "perceptron": perceptron, "attention block": attention_block,
}  # fmt: skip
MOST = ["chain", pytest.param("perceptron", marks=pytest.mark.slow)]


def compiled(name: str, limit: float | None = None) -> Program:
    function, arguments = NETWORKS[name]()  # (found in the cache where it was compiled before)
    return ef.compile(function, *arguments, target=CPU, budget=SHORT, memory_limit=limit)


@cache
def free(name: str) -> Program:
    return compiled(name)


@cache
def least(name: str) -> int:
    with pytest.raises(ef.MemoryLimitError) as refused:
        compiled(name, 0)
    return refused.value.least


def limits(name: str, shares: Sequence[float] = SHARES) -> list[float]:
    """Shares of the peak without a limit, but for those that cannot be had."""
    sizes = [share * free(name).peak_bytes for share in shares]
    return [limit for limit in sizes if limit >= least(name)]


def results(program: Program, name: str) -> list[np.ndarray]:
    return tree_leaves(program(*NETWORKS[name]()[1]))[0]


def judge(name: str, shares: Sequence[float]) -> None:
    """Under each limit: the same results, no more memory than it says, and no less time than under a looser one."""
    wanted = results(free(name), name)
    before = 0.0
    for limit in limits(name, shares):
        program = compiled(name, limit)
        for got, w in zip(results(program, name), wanted, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-4, atol=1e-5 * np.abs(w).max())
        assert program.report.peak_bytes == program.peak_bytes <= program.report.memory_limit == int(limit)
        assert call_bytes(program, NETWORKS[name]()[1]) <= limit + PYTHON
        assert program.report.predicted_seconds >= before
        before = program.report.predicted_seconds


@pytest.mark.slow
def test_under_a_limit_calls_hold_less_for_more_time_and_the_same_results() -> None:
    judge("chain", SHARES)


@pytest.mark.slow
@pytest.mark.parametrize("name, shares", [("perceptron", [0.4]), ("attention block", [0.4])])
def test_the_same_under_other_limits(name: str, shares: list[float]) -> None:
    judge(name, shares)


@pytest.mark.parametrize("name", MOST)
def test_training_steps_can_do_with_six_tenths_of_their_memory(name: str) -> None:
    assert least(name) <= 0.6 * free(name).peak_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST)
def test_a_refusal_gives_the_least_peak_which_can_be_had(name: str) -> None:
    with pytest.raises(ef.MemoryLimitError, match=f"memory_limit={least(name)} or more"):
        compiled(name, least(name) - 1)
    assert compiled(name, least(name)).peak_bytes == least(name)


@pytest.mark.slow
def test_what_is_computed_again_is_fused_again() -> None:
    plans = [free("perceptron").plan, compiled("perceptron", 0.6 * free("perceptron").peak_bytes).plan]
    kernels = [len(plan.kernels) for plan in plans]
    operators = [sum(len(k.body.operators) for k in plan.kernels) for plan in plans]
    assert operators[1] - operators[0] > 2 * (kernels[1] - kernels[0]) >= 0


def test_without_a_limit_or_with_a_loose_one_the_plan_is_the_same() -> None:
    loose = compiled("chain", 1e12)
    assert str(loose.plan) == str(free("chain").plan)


def test_plans_under_a_limit_are_the_same_in_every_run() -> None:
    function, arguments = chain()
    space = ef.saturate(ef.trace(function, *arguments), budget=SHORT)
    limit = 0.6 * free("chain").peak_bytes
    assert str(ef.extract(space, CPU, memory_limit=limit)) == str(ef.extract(space, CPU, memory_limit=limit))


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_mean_the_same_within_any_limit(seed: int) -> None:
    graph, arrays = random_graph(np.random.default_rng(seed), 30, (40, 60))
    wanted = ef.meaning(graph, *arrays)
    space = ef.saturate(graph, budget=SHORT)
    with pytest.raises(ef.MemoryLimitError) as refused:
        ef.extract(space, CPU, memory_limit=0)
    peak = ef.emit(ef.extract(space, CPU)).peak_bytes
    for limit in (refused.value.least, (refused.value.least + peak) // 2):
        plan = ef.extract(space, CPU, memory_limit=limit)
        program = ef.emit(plan)
        assert program.peak_bytes <= limit
        for planned, got, w in zip(run_plan(plan, arrays), program.run(arrays), wanted, strict=True):
            np.testing.assert_allclose(planned, w, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(got, w, rtol=1e-9, atol=1e-9)


def test_a_jitted_function_keeps_the_limit() -> None:
    function, arguments = chain()
    limit = 0.7 * free("chain").peak_bytes
    jitted = ef.jit(target=CPU, memory_limit=limit, budget=SHORT)(function)
    np.testing.assert_allclose(jitted(*arguments), function(*arguments), rtol=1e-9)
    assert jitted.program(*arguments).peak_bytes <= limit


def test_a_saved_program_keeps_its_limit(tmp_path: Any) -> None:
    program = compiled("chain", 0.7 * free("chain").peak_bytes)
    program.save(tmp_path / "program")
    loaded = ef.load(tmp_path / "program")
    assert str(loaded.plan) == str(program.plan)
    assert (loaded.peak_bytes, loaded.report.memory_limit) == (program.peak_bytes, program.report.memory_limit)


@pytest.mark.parametrize("limit", [-1, "1GB", True, float("nan"), float("inf"), [1], 1j])
def test_what_is_no_number_of_bytes_is_refused(limit: Any) -> None:
    with pytest.raises(ef.EqfuseError, match="give a number of bytes"):
        ef.compile(np.tanh, np.ones(3), memory_limit=limit)
    with pytest.raises(ef.EqfuseError, match="give a number of bytes"):
        ef.jit(np.tanh, memory_limit=limit)


def test_a_limit_is_for_one_size() -> None:
    with pytest.raises(ef.EqfuseError, match="one size"):
        ef.compile(np.tanh, ef.spec(("n", 64), np.float32), memory_limit=1 << 20)
    with pytest.raises(ef.EqfuseError, match="one size"):
        ef.jit(np.tanh, dynamic=True, memory_limit=1 << 20)


@pytest.mark.parametrize("reads, computed", [({1: [2], 2: [1]}, []), ({1: [2, 3], 2: [3], 3: []}, [3, 2, 1])])
def test_kernels_that_would_read_each_other_are_no_way_to_compute_what_is_missing(
    reads: dict[int, list[int]], computed: list[int]
) -> None:
    def step(leaves: list[int], eclass: int) -> Any:
        return SimpleNamespace(group=SimpleNamespace(leaves=leaves), eclass=eclass)

    grammar = SimpleNamespace(free=frozenset())
    held = SimpleNamespace(grammar=grammar, together=lambda cuts: step(reads[cuts[0]], cuts[0]))
    now: Any = SimpleNamespace(steps=[], held=held)
    candidates: Any = SimpleNamespace(cheapest=lambda eclass: eclass)
    missing = _missing(now, candidates, 0, cast(Any, SimpleNamespace(leaves=[1])))
    assert [cast(Any, s).eclass for s in missing] == computed


# ---- large values block by block


def cross_entropy(rows: int = 128, width: int = 16, words: int = 4096) -> TrainingStep:
    rng = np.random.default_rng(3)

    def loss(h: Any, w: Any, labels: Any) -> Any:
        scores = h @ w
        shifted = scores - scores.max(-1, keepdims=True)
        return (np.log(np.exp(shifted).sum(-1)) - np.take_along_axis(shifted, labels[:, None], -1)[:, 0]).mean()

    arguments = rng.normal(size=(rows, width)), rng.normal(size=(width, words)), rng.integers(0, words, rows)
    return ef.value_and_grad(loss, (0, 1)), arguments


def attention(length: int = 512, width: int = 16) -> TrainingStep:
    rng = np.random.default_rng(4)

    def loss(q: Any, k: Any, v: Any) -> Any:
        return (ef.softmax(q @ k.T / 4) @ v).sum()

    return ef.value_and_grad(loss, (0, 1, 2)), tuple(rng.normal(size=(length, width)) for _ in range(3))


BLOCKS = {"cross-entropy": (cross_entropy, 128 * 4096 * 8), "attention": (attention, 512 * 512 * 8)}


@pytest.mark.slow
@pytest.mark.parametrize("name, target", [("cross-entropy", CPU), ("attention", "c")], ids=["numpy", "c"])
def test_scores_are_never_held_whole_where_the_limit_is_below_them(name: str, target: Any) -> None:
    network, nbytes = BLOCKS[name]
    function, arguments = network()
    program = ef.compile(function, *arguments, target=target, budget=SHORT, memory_limit=nbytes / 2)
    wanted = tree_leaves(ef.meaning(ef.trace(function, *arguments), *arguments))[0]
    for got, w in zip(tree_leaves(program(*arguments))[0], wanted, strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-9, atol=1e-12)
    assert call_bytes(program, arguments) <= nbytes / 2 + PYTHON
    assert not any(t.nbytes >= nbytes for t in program.plan.types)
    assert "blocks, by 1 loop" in str(program.explain())


def gates(rows: int = 2048, width: int = 256) -> TrainingStep:
    def function(z: Any) -> Any:
        i, f, o, g = (np.tanh(z[:, k * width : (k + 1) * width]) for k in range(4))
        return (i * f + o * g) / (1 + i * i + f * f + o * o + g * g)

    return function, (np.random.default_rng(5).normal(size=(rows, 4 * width)).astype(np.float32),)


def test_tiles_are_smaller_where_they_hold_what_the_limit_does_not_leave() -> None:
    function, arguments = gates()
    free = ef.compile(function, *arguments, target=CPU, budget=SHORT)
    program = ef.compile(function, *arguments, target=CPU, budget=SHORT, memory_limit=0.7 * free.peak_bytes)
    assert program.report.predicted_seconds <= 1.1 * free.report.predicted_seconds and not program.report.rolled
    assert call_bytes(program, arguments) <= 0.7 * free.peak_bytes + PYTHON
    np.testing.assert_allclose(program(*arguments), function(*arguments), rtol=1e-4)


@needs_compiler
@pytest.mark.slow
def test_a_limit_that_a_step_of_few_blocks_keeps_is_not_refused() -> None:
    (training,) = [t for t in TRAINING if t.name == "LSTM cell"]
    step, arguments = ef.value_and_grad(loss_of(training), tuple(range(training.count))), training.arguments()
    limit = ef.compile(step, *arguments, target=C).peak_bytes // 4
    program = ef.compile(step, *arguments, target=C, memory_limit=limit)
    assert program.peak_bytes <= limit
    assert program.report.predicted_seconds <= 1.5 * program.report.unlimited_seconds
    for got, wanted in zip(tree_leaves(program(*arguments))[0], tree_leaves(step(*arguments))[0], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())
