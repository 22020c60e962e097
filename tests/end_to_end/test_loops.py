"""Programs with loops, compiled: they compute what NumPy does by Python's statements, wherever they run."""

from __future__ import annotations

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ir.pytree import tree_leaves
from eqfuse.plan import memory
from eqfuse.plan.loops import loop_of
from eqfuse.runtime import disk_cache
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.drawing import many
from tests.support.gpu import program_on
from tests.support.loops import LOOPED, adaptive, assert_same, cg, lstm, plain_cg
from tests.support.random_loops import random_loops
from tests.support.some import some

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
RNG = np.random.default_rng(3)


@pytest.mark.parametrize("name", some(LOOPED, 2))
def test_a_compiled_loop_computes_what_python_does(name, tmp_path):
    fn, plain, args, exact = LOOPED[name]
    program = ef.compile(fn, *args, target="numpy")
    before = [np.copy(a) for a in args]
    for _ in range(3):  # arenas of earlier calls are taken again
        assert_same(program(*args), plain(*args), exact)
    for array, kept in zip(args, before, strict=True):
        np.testing.assert_array_equal(array, kept)
    program.save(tmp_path / "loop.eqf")
    assert_same(ef.load(tmp_path / "loop.eqf")(*args), plain(*args), exact)


def compiled_alike(seed: int) -> None:
    text, fn, args = random_loops(seed)
    program = ef.compile(fn, *args, target="numpy")
    for _ in range(2):
        np.testing.assert_allclose(program(*args), fn(*args), rtol=1e-7, atol=1e-9, err_msg=text)


@pytest.mark.parametrize("seed", range(4))
def test_random_loops_are_compiled_to_the_same(seed: int) -> None:
    compiled_alike(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_random_loops_are_compiled_to_the_same(part: int) -> None:
    for seed in range(1000 + part, 1000 + part + 4 * many(3), 4):
        compiled_alike(seed)


@emulated
@pytest.mark.parametrize(
    "name", some(["adaptive", "lstm", "mixed", "choices", "nested", "backwards", "backwards, empty"], 2)
)
def test_a_loop_runs_on_a_gpu(name):
    fn, plain, args, exact = LOOPED[name]
    compiled, before = ef.compile(fn, *args, target="cuda:h100"), [np.copy(a) for a in args]
    assert_same(program_on(compiled.plan, EmulatedGpu())(*args), plain(*args), exact)
    for array, kept in zip(args, before, strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.slow
@emulated
def test_loops_on_a_gpu_count_from_where_they_begin_and_go_backwards_where_they_are_told():
    def program(x, n):
        known = ef.fori_loop(5, 8, lambda i, v: v * 3 + i, x)
        counted = ef.fori_loop(n - 3, n, lambda i, v: v * 2 + i, x)
        filled = ef.fori_loop(n - 3, n, lambda i, v: placed(v, i, v[i] * 2 + i), x)
        rows = np.stack([x, x * 2, x * 5])
        return known, counted, filled, ef.scan(lambda c, r: (c * 2 + r, c), x, rows, reverse=True)

    def placed(v, i, value):
        v[i] = value
        return v

    x, n = np.arange(1.0, 9.0), np.int64(7)
    wanted = program(x.copy(), n)
    program_on_gpu = program_on(ef.compile(program, x, n, target="cuda:h100").plan, EmulatedGpu())
    for _ in range(2):
        assert_same(program_on_gpu(x, n), wanted)
    np.testing.assert_array_equal(x, np.arange(1.0, 9.0))


@pytest.mark.parametrize("target", ["numpy", "cuda:h100"])
def test_a_program_with_a_loop_says_what_a_step_does(target):
    program = ef.compile(adaptive, *LOOPED["adaptive"].args, target=target)
    text = str(program.explain())
    assert "as many steps as data decide, 32 taken for the price, each" in text
    assert "step:" in program.source() and "while_loop" in str(program.plan)
    assert "while_loop" in program._repr_html_()


def test_a_loop_is_priced_by_its_steps():
    def f(n):
        return lambda x: ef.fori_loop(0, n, lambda i, v: np.tanh(v * 2), x)

    few, some, many = (ef.compile(f(n), np.ones(1000), target="numpy").report for n in (10, 20, 40))
    ten = some.predicted_seconds - few.predicted_seconds
    assert many.predicted_seconds - some.predicted_seconds == pytest.approx(2 * ten, rel=0.01)
    assert 0 < few.predicted_seconds - ten < 1e-4  # what the loop takes before its first step
    assert many.flops == 4 * few.flops


def test_the_memory_of_a_step_counts():
    def f(a, x):
        return ef.fori_loop(0, 9, lambda i, v: np.sin(a * v) @ v, x)

    args = np.ones((300, 300)), np.ones(300)
    assert ef.compile(f, *args, target="numpy", laws="none").peak_bytes >= args[0].nbytes / 64
    limited = ef.compile(f, *args, target="numpy", memory_limit=4 * args[0].nbytes)
    assert limited.peak_bytes <= 4 * args[0].nbytes


@pytest.mark.parametrize("which", ["a walk", "a scan"])
def test_a_call_takes_no_more_memory_than_the_program_says(which):
    if which == "a walk":
        fn, args = LOOPED["monte carlo"].fn, (RNG.normal(size=(20, 50_000)), 100.0, 0.03)
    else:
        fn, args = lambda x: ef.scan(lambda c, r: (np.tanh(c + r), c * 2), x[0], x), (np.ones((20, 40_000)),)
    program = ef.compile(fn, *args, target="numpy")
    program(*args)
    memory.arenas.forget()
    memory.results.forget()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    results = program(*args)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    returned = sum(o.nbytes for o in tree_leaves(results)[0])
    assert peak - before - returned <= program.peak_bytes + (24 << 10)  # of Python's own objects


def test_a_plan_with_a_loop_is_found_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    args = LOOPED["choices"].args
    disk_cache._memory.clear()
    first = ef.compile(LOOPED["choices"].fn, *args, target="numpy")
    disk_cache._memory.clear()
    second = ef.compile(LOOPED["choices"].fn, *args, target="numpy")
    assert "cache" in second.report.seconds
    assert str(second.plan) == str(first.plan) and second.source() == first.source()
    assert_same(second(*args), LOOPED["choices"].plain(*args))


def test_a_step_of_a_compiled_loop_is_optimised_once_with_the_condition_after_it():
    program = ef.compile(LOOPED["newton"].fn, 2.0, target="numpy")
    (kernel,) = [k for k in program.plan.kernels if loop_of(k.body)]
    first, step = kernel.inner
    assert len(step.outputs) == len(first.outputs) + 2


def test_jit_takes_loops_at_every_size():
    jitted = ef.jit(lambda a, v: ef.fori_loop(0, 4, lambda i, v: np.tanh(a @ v) + i, v), target="numpy")
    for n in (5, 9, 12):
        a, v = RNG.normal(size=(n, n)), RNG.normal(size=n)
        wanted = v
        for i in range(4):
            wanted = np.tanh(a @ wanted) + i
        np.testing.assert_allclose(jitted(a, v), wanted, rtol=1e-9)


def test_a_program_for_all_sizes_takes_loops():
    program = ef.compile(lambda x: ef.fori_loop(0, 5, lambda i, v: np.sin(v) + i, x), ef.spec(("n",)), target="numpy")
    for n in (3, 8):
        x = RNG.normal(size=n)
        v = x
        for i in range(5):
            v = np.sin(v) + i
        np.testing.assert_allclose(program(x), v)


def test_the_plan_of_a_loop_is_carried_to_other_numbers_of_steps():
    def f(c, xs):
        return ef.scan(lambda c, x: (np.tanh(c + x), None), c, xs)[0]

    program = ef.compile(f, ef.spec((4,)), ef.spec(("n", 4)), target="numpy")
    for n in (3, 40, 7, 0):
        xs, c = RNG.normal(size=(n, 4)), np.ones(4)
        for x in xs:
            c = np.tanh(c + x)
        np.testing.assert_allclose(program(np.ones(4), xs), c)
    assert "0 compiled anew" in str(program._family)


def test_an_extracted_plan_has_the_plans_of_its_steps():
    graph = ef.trace(lstm, *LOOPED["lstm"].args)
    program = ef.emit(ef.extract(ef.saturate(graph), "numpy"))
    assert_same(program(*LOOPED["lstm"].args), LOOPED["lstm"].plain(*LOOPED["lstm"].args))


@pytest.mark.parametrize("numerics", ["strict", "approximate"])
def test_a_loop_keeps_the_numerics_that_are_asked_for(numerics):
    args = LOOPED["monte carlo"].args
    program = ef.compile(LOOPED["monte carlo"].fn, *args, target="numpy", numerics=numerics, verify=True)
    (kernel,) = [k for k in program.plan.kernels if loop_of(k.body)]
    assert kernel.inner[0].numerics == numerics
    assert_same(program(*args), LOOPED["monte carlo"].plain(*args))


def test_random_inputs_do_not_verify_a_loop_that_may_not_end():
    with pytest.raises(ef.EqfuseError, match="may never end"):
        ef.compile(LOOPED["newton"].fn, 2.0, target="numpy", verify=True)


def test_threads_may_run_one_loop_at_once():
    args = LOOPED["cg"].args
    program, wanted = ef.compile(cg, *args, target="numpy"), plain_cg(*args)
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: program(*args), range(80)):
            np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-8)


def test_an_error_in_a_step_leaves_the_program_usable():
    def f(a, b):
        return ef.fori_loop(0, 2, lambda i, v: np.linalg.solve(a * (i + v[0] * 0), v), b)

    program = ef.compile(f, np.eye(3), np.ones(3), target="numpy")
    with pytest.raises(np.linalg.LinAlgError):
        program(np.eye(3), np.ones(3))

    def g(a, b):
        return ef.fori_loop(0, 2, lambda i, v: np.linalg.solve(a + v[0] * 0, v), b)

    program = ef.compile(g, np.eye(3), np.ones(3), target="numpy")
    with pytest.raises(np.linalg.LinAlgError):
        program(np.zeros((3, 3)), np.ones(3))
    np.testing.assert_allclose(program(2 * np.eye(3), np.ones(3)), np.full(3, 0.25))


def test_a_loop_of_constants_runs_when_the_program_is_built():
    table = RNG.normal(size=20)

    def f(x):
        return x * ef.fori_loop(0, 3, lambda i, v: v * table, table)

    program = ef.compile(f, np.ones(20), target="numpy")
    assert not any(loop_of(k.body) for k in program.plan.kernels)
    np.testing.assert_allclose(program(np.ones(20)), table**4)
