"""Programs with symbolic sizes: one plan for many sizes, always NumPy's answer, and never a plan that is not proved."""

from __future__ import annotations

import threading
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.demo.programs import gelu, layer_norm, softmax, transformer
from eqfuse.ir.pytree import tree_leaves, unflatten
from tests.support.some import some

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def agrees(program: Any, function: Any, *args: Any, tol: float = 2e-4) -> None:
    got, wanted = tree_leaves(program(*args)), tree_leaves(function(*args))
    assert got[1] == wanted[1]
    for g, w in zip(got[0], wanted[0], strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol)


def batch_norm(x: Any) -> Any:
    mean = x.mean(0)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(0) + 1e-5)


def dense(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(np.float32(q.shape[-1]))) @ v


SIZES = (1, 2, 7, 64, 1000, 5000)


@pytest.mark.parametrize(
    "function", some([batch_norm, lambda x: np.cumsum(x, 0) @ x.T, softmax, gelu, lambda x: x.mean()], 2)
)
def test_one_program_serves_every_size(function: Any) -> None:
    program = ef.compile(function, ef.spec(("n", 64), np.float32))
    for n in SIZES:
        agrees(program, function, normal(n, 64), tol=2e-3)
    assert program._family.anew == 0
    assert len(program._family.plans) <= 3


def test_two_symbols_may_meet_each_other_and_the_fixed_extents() -> None:
    specs = (ef.spec(("n", 64), np.float32), ef.spec((64, "m"), np.float32), ef.spec(("m",), np.float32))
    program = ef.compile(dense, *specs)
    for n, m in ((3, 5), (5, 5), (64, 64), (64, 1), (1, 64), (1, 1), (0, 4), (4, 0), (2000, 70)):
        agrees(program, dense, normal(n, 64), normal(64, m), normal(m))
    assert program._family.anew == 0


@pytest.mark.slow
def test_a_transformer_block_is_planned_once_for_all_batches_and_lengths() -> None:
    function, (_, parameters) = transformer(2, 72, 48, 4).build(np.float32)
    leaves, structure = tree_leaves(parameters)
    specs = unflatten(structure, [ef.spec(leaf.shape, leaf.dtype) for leaf in leaves])
    program = ef.compile(function, ef.spec(("b", "t", 48), np.float32), specs)
    for b, t in ((1, 5), (2, 48), (3, 11)):
        agrees(program, function, normal(b, t, 48), parameters, tol=2e-3)
    assert program._family.anew == 0


def test_named_results_come_back_by_name() -> None:
    def named(x: Any) -> Any:
        return {"waves": np.sin(x) + x, "total": x.sum()}

    program = ef.compile(named, ef.spec(("n",), np.float64))
    for n in (1, 10, 3000):
        agrees(program, named, RNG.random(n), tol=1e-9)


def test_keywords_statics_and_defaults_take_symbols_too() -> None:
    def f(x: Any, axis: int, *, scale: Any = 2.0, shift: Any) -> Any:
        return x.sum(axis) * scale + shift

    options: dict[str, Any] = {"static_argnames": "axis"}
    program = ef.compile(f, ef.spec(("n", 3)), 0, shift=ef.spec((3,)), **options)
    x = RNG.random((9, 3))
    np.testing.assert_allclose(program(x, 0, shift=x[0]), f(x, 0, shift=x[0]))


def test_compile_takes_keyword_arguments_of_the_function() -> None:
    program = ef.compile(lambda x, *, gain: x * gain, ef.spec((3,)), gain=ef.spec((3,)))
    np.testing.assert_array_equal(program(np.arange(3.0), gain=np.full(3, 2.0)), [0, 2, 4])


def test_each_branch_on_the_size_has_its_plan() -> None:
    def f(x: Any) -> Any:
        return np.exp(x) if len(x) % 2 else np.tanh(x)

    program = ef.compile(f, ef.spec(("n",), np.float32))
    for n in (4, 5, 6, 7, 101, 64):
        agrees(program, f, normal(n))
    assert program._family.anew == 0
    assert len(program._family.plans) == 3


def test_a_branch_for_one_size_alone_is_compiled_anew_and_says_why() -> None:
    def f(x: Any) -> Any:
        return np.exp(x) if len(x) == 5 else np.tanh(x)

    program = ef.compile(f, ef.spec(("n",), np.float32))
    for n in (4, 5, 6, 7):
        agrees(program, f, normal(n))
    assert program._family.anew == 1
    assert "the function computes exp of float32[5] where it had tanh" in str(program._family)


@pytest.mark.slow
def test_a_loop_over_the_size_is_compiled_anew_with_one_warning() -> None:
    def f(x: Any) -> Any:
        total = x[0]
        for row in range(1, len(x)):
            total = total * 0.5 + x[row]
        return total

    program = ef.compile(f, ef.spec(("n", 3), np.float32), budget=ef.Budget(nodes=300, rounds=4))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in range(1, 10):
            agrees(program, f, normal(n, 3))
    (warning,) = told
    assert "compiled anew for every size of n = x.shape[0]" in str(warning.message)
    assert warning.filename == __file__


def test_the_functions_own_shape_error_is_raised_at_the_size_that_has_it() -> None:
    program = ef.compile(lambda x: x.reshape(-1, 4), ef.spec(("n",), np.float32))
    assert program(normal(12)).shape == (3, 4)
    with pytest.raises(ef.ShapeError):
        program(normal(13))
    with pytest.raises(ef.ShapeError, match="a reduction over nothing"):
        ef.compile(lambda x: x.max(), ef.spec(("n",), np.float32))(normal(0))


def test_a_function_for_small_sizes_alone_is_planned_at_one() -> None:
    def f(x: Any) -> Any:
        if len(x) > 100:
            raise ValueError("too long")
        return x + 1

    program = ef.compile(f, ef.spec(("n",), np.float32))
    agrees(program, f, normal(7))
    with pytest.raises(ValueError, match="too long"):
        program(normal(101))


def test_tiny_and_huge_sizes_have_plans_of_their_own() -> None:
    def f(a: Any, b: Any, x: Any) -> Any:
        return (a @ b) @ x

    program = ef.compile(f, *[ef.spec(shape, np.float32) for shape in (("n", 64), (64, "n"), ("n", 4))])
    for n in (2, 4000, 3, 4001):
        agrees(program, f, normal(n, 64), normal(64, n), normal(n, 4), tol=2e-2)
    assert [p.sizes for p in program._family.plans] == [(1920,), (50,)]
    products = [[x.shape for x in k.body.operators] for k in program.at(n=4000).plan.kernels]
    assert (4000, 4000) not in [shape for shapes in products for shape in shapes]


def test_prices_and_totals_are_those_of_the_size_asked_for() -> None:
    program = ef.compile(softmax, ef.spec(("n", 64), np.float32))
    small, alone = program.at(n=1000), ef.compile(softmax, ef.spec((1000, 64), np.float32))
    assert [k.price for k in small.plan.kernels] == [k.price for k in alone.plan.kernels]
    mine, theirs = small.report, alone.report
    for field in ("n_kernels", "bytes_moved", "flops", "predicted_seconds", "peak_bytes", "fusion_rate", "speedup",
                  "memory_saving", "unfused_kernels", "unfused_bytes_moved", "unfused_seconds"):  # fmt: skip
        assert getattr(mine, field) == pytest.approx(getattr(theirs, field)), field


def test_the_program_says_its_symbols_ranges_and_what_was_shown() -> None:
    program = ef.compile(dense, *[ef.spec(shape, np.float32) for shape in (("n", 64), (64, "m"), ("m",))])
    x, w, b = normal(100, 64), normal(64, 64), normal(64)
    program(x, w, b)
    assert "n = x.shape[0], m = w.shape[1] = b.shape[0]" in repr(program)
    told = str(program.explain(x, w, b))
    assert "Sizes: n = 100, m = 64, transferred from n = 100, m = 192: the same node for node" in told
    assert "plan priced at n = 1920, m = 2880, for n in 120..30720, m in 180..46080: the same node for node" in told
    assert "def program" in program.source()


def test_the_program_of_one_size_can_be_saved(tmp_path: Any) -> None:
    program = ef.compile(batch_norm, ef.spec(("n", 8), np.float32))
    program.at(n=30).save(tmp_path / "one")
    agrees(ef.load(tmp_path / "one"), batch_norm, normal(30, 8))


def test_many_sizes_keep_few_programs() -> None:
    program = ef.compile(lambda x: x + 1, ef.spec(("n",), np.float32))
    for n in range(70):
        program(np.zeros(n, np.float32))
    assert len(program._versions) == 64


def test_threads_share_one_symbolic_program() -> None:
    program = ef.compile(batch_norm, ef.spec(("n", 8), np.float32))
    data = normal(20, 8)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for n in np.random.default_rng(seed).permutation(np.arange(2, 20)):
                agrees(program, batch_norm, data[:n] + seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert program._family.transferred <= 18


BIG = 10**6


@pytest.mark.parametrize(
    ("function", "shapes", "target"),
    [
        (softmax, [(BIG, BIG)], "numpy"),
        pytest.param(
            lambda x, g, b: gelu(layer_norm(x, g, b)), [(BIG, BIG), (BIG,), (BIG,)], "cuda:h100", marks=pytest.mark.slow
        ),
        (dense, [(BIG, BIG), (BIG, BIG), (BIG,)], "numpy"),
        (dense, [(BIG, BIG), (BIG, BIG), (BIG,)], "cuda:h100"),
        (lambda x: np.pad(np.concatenate([x, x.T]), 1)[::2] * 2, [(BIG, BIG)], "numpy"),
        (lambda x, w: np.maximum(ef.conv(x, w, padding=1), 0), [(1000, 64, 4000, 4000), (64, 64, 3, 3)], "numpy"),
    ],
)
def test_huge_shapes_need_no_memory(function: Any, shapes: list[tuple[int, ...]], target: str) -> None:
    tracemalloc.start()
    try:
        program = ef.compile(function, *[ef.spec(shape, np.float32) for shape in shapes], target=target)
        program.source()
        str(program.explain())
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    assert program.report.bytes_moved > 1e12


def diffuse(u: Any, steps: Any) -> Any:
    u[1:-1] += 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
    u[0] = u[-1]
    return u.sum() * steps


@pytest.mark.parametrize("make", [lambda f: ef.compile(f, ef.spec(("n",)), 2.0), lambda f: ef.jit(f, dynamic=True)])
def test_an_argument_changed_in_place_is_changed_at_every_size(make: Any) -> None:
    run = make(diffuse)
    for n in (60, 5, 3, 2, 100):
        mine, numpys = RNG.random((2, n))
        mine[:] = numpys
        np.testing.assert_allclose(run(mine, 2.0), diffuse(numpys, 2.0))
        np.testing.assert_allclose(mine, numpys)


def noisy(x: Any, rng: Any) -> Any:
    return x + rng.normal(size=x.shape)


@pytest.mark.parametrize(
    "make",
    [
        lambda f: ef.compile(f, ef.spec(("n", 2)), np.random.default_rng(5)),
        lambda f: ef.jit(f, dynamic=True),
        lambda f: ef.jit(f),
    ],
)
def test_random_numbers_are_drawn_at_the_size_of_the_call(make: Any) -> None:
    run = make(noisy)
    mine, numpys = np.random.default_rng(1), np.random.default_rng(1)
    for n in (60, 5, 3, 0, 100):
        x = np.ones((n, 2))
        np.testing.assert_allclose(run(x, mine), noisy(x, numpys))


def test_numpy_scalars_keep_their_dtype_at_every_size() -> None:
    f = ef.jit(lambda x, s: x * s, dynamic=True)
    for n in (60, 5, 3):
        for s in (np.float64(2), 2.0, np.float32(2)):
            assert f(np.ones(n, np.float32), s).dtype == (np.ones(n, np.float32) * s).dtype


def test_results_may_nest_differently_at_another_size() -> None:
    def f(x: Any) -> Any:
        return {"halves": (x[: len(x) // 2], x[len(x) // 2 :])} if len(x) > 3 else [x * 2]

    program = ef.compile(f, ef.spec(("n",)))
    for n in (8, 3, 5, 2):
        agrees(program, f, RNG.random(n))


def test_a_program_runs_on_flat_arrays_too() -> None:
    program = ef.compile(noisy, ef.spec(("n", 2)), np.random.default_rng(5))
    x = np.ones((3, 2))
    np.testing.assert_array_equal(program.run([x, x])[0], x + x)
    mine, numpys = np.random.default_rng(1), np.random.default_rng(1)
    np.testing.assert_array_equal(program.call([x, mine])[0], noisy(x, numpys))
    with pytest.raises(ef.ShapeError, match="its rank differs"):
        program.run([])
