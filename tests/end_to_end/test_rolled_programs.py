"""Compiled programs whose Python loops are loops again: the same results on every target, and they say so."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.loops import filled, lstm, monte_carlo, python_sum, stack, taps
from eqfuse.cost.profiles import DEVICES
from eqfuse.plan.loops import loop_of
from eqfuse.runtime import disk_cache
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.gpu import program_on

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
RNG = np.random.default_rng(3)


def loops(program: ef.Program) -> int:
    return sum(loop_of(k.body) is not None for k in program.plan.kernels)


def walk(xs, w, h):
    """Forty steps that read one row each."""
    total = np.zeros_like(h)
    for t in range(40):
        h = np.tanh(xs[t] @ w + np.sin(h) * 0.5 + np.cos(h) * h + 0.01 * t)
        total = total + h * h * np.exp(-h)
    return h, total


def smoothed(x):
    for _ in range(150):
        x = np.sin(x) * 0.5 + x
    return x


CPU = DEVICES["cpu"]  # of fixed figures: whether a loop is cheaper depends on them
WALK = RNG.normal(size=(40, 6)), RNG.normal(size=(6, 6)), RNG.normal(size=6)


@pytest.mark.slow
@pytest.mark.parametrize("build", [lambda: lstm(64), lambda: monte_carlo(400)])
def test_a_long_loop_of_python_is_a_loop_of_few_kernels(build):
    fn, args = build()
    program = ef.compile(fn, *args, target=CPU)
    assert loops(program) == 1 and program.report.n_kernels < 12
    assert "rolled into a loop" in program.report.rolled[0]
    assert f"Before the search: {program.report.rolled[0]}" in str(program.explain())
    np.testing.assert_allclose(program(*args), fn(*args), rtol=1e-9)


@pytest.mark.parametrize("build", [lambda: python_sum(2000), lambda: stack(690), lambda: filled(500)])
def test_what_a_loop_does_to_independent_pieces_is_one_kernel(build):
    fn, args = build()
    program = ef.compile(fn, *args, target=CPU)
    assert program.report.n_kernels <= 2 and not loops(program) and len(program.report.rolled) == 1
    np.testing.assert_allclose(program(*args), fn(*args), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_pointwise_steps_are_a_loop_only_where_what_they_carry_lies_near_a_core():
    near = CPU.l2_bytes
    few, many = RNG.normal(size=near // 32), ef.spec((near // 4,))
    looped, unrolled = (ef.compile(smoothed, x, target=CPU, laws="none") for x in (few, many))
    assert loops(looped) == 1 and not loops(unrolled) and unrolled.report.n_kernels < 8
    np.testing.assert_allclose(looped(few), smoothed(few), rtol=1e-9)


def test_shifted_slices_of_one_array_stay_in_one_kernel():
    fn, args = taps(49)
    assert ef.compile(fn, *args, target=CPU).report.n_kernels == 1


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["strict", "reassociate", "approximate"])
def test_a_rolled_program_is_verified_against_numpy_s_statements(numerics):
    program = ef.compile(walk, *WALK, target=CPU, numerics=numerics, verify=True)
    assert loops(program) == 1
    for got, wanted in zip(program(*WALK), walk(*WALK), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9)


@pytest.mark.slow
def test_a_rolled_program_is_saved_cached_and_exported(tmp_path, monkeypatch):
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path / "cache"))
    disk_cache._memory.clear()
    first = ef.compile(walk, *WALK, target=CPU)
    disk_cache._memory.clear()
    second = ef.compile(walk, *WALK, target=CPU)
    assert "cache" in second.report.seconds and second.report.rolled == first.report.rolled
    first.save(tmp_path / "walk.eqf")
    loaded = ef.load(tmp_path / "walk.eqf")
    assert loaded.report.rolled == first.report.rolled
    for program in (second, loaded):
        for got, wanted in zip(program(*WALK), walk(*WALK), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-9)


@pytest.mark.outside
def test_a_rolled_program_is_exported_to_onnx_as_a_loop(tmp_path):
    onnx = pytest.importorskip("onnx")
    ef.compile(walk, *WALK, target=CPU).to_onnx(tmp_path / "walk.onnx")
    model = onnx.load(tmp_path / "walk.onnx")
    assert any(n.op_type == "Loop" or n.op_type == "Scan" for f in model.functions for n in f.node)


@pytest.mark.slow
def test_a_limit_of_memory_holds_for_rolled_programs():
    fn, args = monte_carlo(150)
    limit = 12 * args[1].nbytes
    program = ef.compile(fn, *args, target=CPU, memory_limit=limit)
    assert loops(program) and program.peak_bytes <= limit
    np.testing.assert_allclose(program(*args), fn(*args), rtol=1e-9)


@pytest.mark.slow
def test_a_loop_that_needs_more_than_the_limit_of_memory_stays_unrolled():
    x = RNG.normal(size=10_000)
    looped = ef.compile(smoothed, x, target=CPU, laws="none")
    limit = looped.peak_bytes - 1
    program = ef.compile(smoothed, x, target=CPU, laws="none", memory_limit=limit)
    assert loops(looped) == 1 and not program.report.rolled and program.peak_bytes <= limit
    np.testing.assert_allclose(program(x), smoothed(x), rtol=1e-9)


@emulated
def test_a_rolled_program_runs_on_a_gpu():
    compiled = ef.compile(walk, *WALK, target="cuda:h100", laws="none")
    assert loops(compiled) == 1
    for got, wanted in zip(program_on(compiled.plan, EmulatedGpu())(*WALK), walk(*WALK), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9)


@pytest.mark.slow
def test_the_plan_of_a_rolled_program_serves_other_sizes():
    def f(x):
        s = x[0]
        for i in range(20):
            s = np.tanh(s + x[i]) * np.cos(s) + np.sin(s * 2.0) * np.exp(-s * s)
        return s

    program = ef.compile(f, ef.spec((20, "n")), target=CPU, laws="none")
    for n in (3_011, 4_009):
        x = RNG.normal(size=(20, n))
        np.testing.assert_allclose(program(x), f(x), rtol=1e-9)


@pytest.mark.slow
def test_ten_thousand_operators_are_a_few_kernels():
    fn, args = lstm(360)
    args = tuple(0.1 * a for a in args)  # a larger one is chaotic
    graph = ef.trace(fn, *args)
    assert len(graph.operators) > 10_000
    program = ef.compile(graph, target=CPU)
    assert len(program.plan.graph.operators) < 10
    np.testing.assert_allclose(program(*args), fn(*args), rtol=1e-6, atol=1e-9)
