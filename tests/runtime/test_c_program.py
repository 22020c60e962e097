"""Programs of the C target: kernels and NumPy calls in one function, whatever the arguments' memory is like."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.c import haste
from eqfuse.machine import c_compiler
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C

pytestmark = needs_compiler
X = np.random.default_rng(0).standard_normal((60, 50)).astype(np.float32)
UNALIGNED = np.frombuffer(b"x" + X.tobytes(), np.float32, offset=1).reshape(60, 50)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def near(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


in_any_way = pytest.mark.parametrize(
    "argument",
    [X.T, X[::2], X[:, ::-1], np.asfortranarray(X), UNALIGNED, np.broadcast_to(X[0], (60, 50))],
    ids=["transposed", "every other row", "backwards", "columns", "unaligned", "one row for all"],
)


@in_any_way
def test_arguments_may_lie_in_any_way(argument: np.ndarray) -> None:
    near(ef.compile(softmax, argument, target="c")(argument), softmax(argument))


@in_any_way
@pytest.mark.parametrize("target", ["c", "numpy"])
def test_so_may_those_that_updates_read(argument: np.ndarray, target: str) -> None:
    def corners(x: Any, y: Any) -> Any:
        x = x.copy()
        x[1:2, :2] = y[:1, :2]
        x[2:, 3:] = y[2:, 3:]
        return x

    program = ef.compile(corners, argument, argument, target=target)
    np.testing.assert_array_equal(program(argument, argument), corners(argument, argument))
    in_order = np.ascontiguousarray(argument)
    np.testing.assert_array_equal(program(argument, -in_order), corners(argument, -in_order))
    np.testing.assert_array_equal(program(-in_order, argument), corners(-in_order, argument))


def test_kernels_read_what_calls_return_in_another_order() -> None:
    def f(x: Any) -> Any:
        q, r = np.linalg.qr(x)
        return np.exp(q.T) + 1, np.tanh(np.linalg.inv(r) * 2)

    for got, want in zip(ef.compile(f, X, target="c")(X), f(X), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_kernels_are_compiled_with_fewer_optimisations_when_the_budget_ends_and_with_all_from_the_cache() -> None:
    def f(x: Any, w: Any) -> Any:
        step = ef.fori_loop(0, 3, lambda i, s: np.tanh(s @ w) * 0.5 + np.sqrt(np.abs(s)), x)
        return softmax(step), np.exp(-x * x)

    x = np.random.default_rng(1).standard_normal((400, 400)).astype(np.float32)
    budget = ef.Budget(seconds=0)
    program = ef.compile(f, x, x.T, target="c", budget=budget)
    assert program.report.hurried == 1  # the product of the loop's step
    assert "did not suffice to compile" in str(program.explain())
    for got, want in zip(program(x, x.T), ef.meaning(ef.trace(f, x, x.T), x, x.T), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    whole = ef.compile(f, x, x.T, target="c")
    assert whole.report.hurried == 0 and "did not suffice to compile" not in str(whole.explain())


def test_kernels_that_there_is_no_time_to_compile_are_numpys_but_not_those_of_a_plan_within_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def f(x: Any) -> Any:
        step = ef.fori_loop(0, 3, lambda i, s: np.tanh(s) * 0.5 + s[::-1], x)
        return softmax(step.T), np.cumsum(x, 0)

    monkeypatch.setattr(haste, "QUICK_PACE", 1e6)
    limited = ef.compile(f, X, target="c", memory_limit=1 << 20)
    assert limited.report.uncompiled == 0
    program = ef.compile(f, X, target="c")
    assert program.report.uncompiled >= 2 and "ef.Budget(seconds=…)" in str(program.explain())
    for got, want in zip(program(X), f(X), strict=True):
        near(got, want)
    monkeypatch.undo()
    again = ef.compile(f, X, target="c")
    assert "cache" in again.report.seconds and again.report.uncompiled == 0


def test_a_plan_from_the_cache_is_compiled_within_a_budget_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal((400, 400)).astype(np.float32)
    monkeypatch.setattr(haste, "PACE", 1e6)
    hurried = ef.compile(lambda x: softmax(x @ x), x, target="c")
    assert hurried.report.hurried == 1 and hurried.report.stop_reason == "saturated"
    monkeypatch.undo()
    again = ef.compile(lambda x: softmax(x @ x), x, target="c")
    assert "cache" in again.report.seconds and again.report.hurried == 0
    near(again(x), hurried(x))


def test_kernels_products_sorts_and_loops_stand_in_one_program() -> None:
    def f(x: Any, w: Any) -> Any:
        y = np.maximum(x @ w, 0)
        ranked = np.sort(y * 2, axis=-1)[:, ::-1]
        return softmax(ranked), ef.fori_loop(0, 5, lambda i, s: s * 0.5 + 1, y)

    w = np.linspace(-1, 1, 50 * 30, dtype=np.float32).reshape(50, 30)
    program = ef.compile(f, X, w, target="c")

    def wanted() -> tuple[np.ndarray, np.ndarray]:
        y = np.maximum(X @ w, 0)
        s = y
        for _ in range(5):
            s = s * 0.5 + 1
        return softmax(np.sort(y * 2, axis=-1)[:, ::-1]), s

    for got, want in zip(program(X, w), wanted(), strict=True):
        near(got, want)
    source = program.source()
    assert "static void row_" in source and "// def program(inputs):" in source
    assert "eqf_tile_" in source and "sort(" in source


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float8_e5m2", "float8_e4m3fn"])
def test_dtypes_without_arithmetic_in_c_are_copied_by_kernels_and_computed_by_numpy(dtype: str) -> None:
    import ml_dtypes  # noqa: F401

    x = X.astype(np.dtype(dtype))
    got = ef.compile(lambda x: (x.T, x[:, ::2] + x[:, ::2]), x, target="c")(x)
    assert got[0].tobytes() == np.ascontiguousarray(x.T).tobytes()
    assert got[1].tobytes() == (x[:, ::2] + x[:, ::2]).tobytes()


@pytest.mark.slow
def test_empty_and_scalar_arrays() -> None:
    for shape in ((0, 4), (), (1,), (1, 1, 1)):
        x = np.ones(shape, np.float32)
        near(ef.compile(lambda x: (np.exp(x) * 2, x.sum()), x, target="c")(x)[0], np.exp(x) * 2)
        near(ef.compile(lambda x: (np.exp(x) * 2).sum(), x, target="c")(x), (np.exp(x) * 2).sum())


def test_arrays_of_nothing_are_not_read_and_have_sums() -> None:
    place = {"data": (8, True), "shape": (0, 50), "typestr": "<f4", "version": 3}
    nothing = np.asarray(SimpleNamespace(__array_interface__=place))
    total, spread = ef.compile(lambda x: (np.exp(x).sum(), x.var(0)), nothing, target="c")(nothing)
    assert total == 0 and np.isnan(spread).all() and spread.shape == (50,)


def test_bools_are_true_unless_all_their_bits_are_zero() -> None:
    def f(b: Any, x: Any) -> Any:
        return b & (x > 3), np.where(b, x, -x), ~b, b == (x > 5), b.sum(), b.any(), b.astype(np.int8) * 3

    b, x = np.array([0, 1, 2, 255, 128] * 40, np.uint8).view(bool), np.arange(200.0)
    for got, want in zip(ef.compile(f, b, x, target="c")(b, x), f(b, x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_negative_powers_of_integers_are_refused_as_numpy_refuses_them() -> None:
    x, n = np.arange(1, 9), np.array([2, 0, 3, 1] * 2)
    program = ef.compile(lambda x, n: x**n + 1, x, n, target="c")
    np.testing.assert_array_equal(program(x, n), x**n + 1)
    with pytest.raises(ValueError, match="negative integer powers"):
        program(x, -n)


def test_alike_kernels_that_gather_are_one_function() -> None:
    places = np.arange(40) % 7

    def gathered(x: Any, y: Any, i: Any, j: Any) -> Any:
        return np.exp(x[i]) * 2, np.exp(y[j]) * 2

    rows = X[:, :40]
    program = ef.compile(gathered, rows[0], rows[1], places, places, target="c")
    wanted = gathered(rows[0], rows[1], places, places)
    for got, want in zip(program(rows[0], rows[1], places, places), wanted, strict=True):
        near(got, want)
    with pytest.raises(IndexError):
        program(rows[0], rows[1], places, places + 99)


def test_several_threads_may_call_at_once() -> None:
    x = np.random.default_rng(1).standard_normal((700, 900)).astype(np.float32)
    program = ef.compile(lambda x: softmax(x) * x.sum(0), x, target="c")
    arguments = [x + i for i in range(8)]
    wanted = [program(a).tobytes() for a in arguments]
    wrong = []

    def call(i: int) -> None:
        for _ in range(10):
            if program(arguments[i]).tobytes() != wanted[i]:
                wrong.append(i)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_program_is_saved_loaded_and_jitted(tmp_path: Path) -> None:
    program = ef.compile(softmax, X, target="c")
    program.save(tmp_path / "program")
    loaded = ef.load(tmp_path / "program")
    assert loaded(X).tobytes() == program(X).tobytes() and loaded.source() == program.source()
    jitted = ef.jit(softmax, target="c")
    for n in (3, 7):
        near(jitted(X[:n]), softmax(X[:n]))


def test_constants_that_a_product_copies_are_copied_once() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((40, 300)).astype(np.float32)
    first, second = (rng.standard_normal(shape).astype(np.float32) / 20 for shape in ((300, 400), (400, 300)))

    def f(x: Any) -> Any:  # alike layers with constants of their own, and one that is given
        for _ in range(2):
            x = x + np.tanh(np.maximum(x @ (first * 2), 0) @ second)
        return x

    def g(x: Any, w: Any) -> Any:
        return np.maximum(np.maximum(x @ w, 0) @ second, 0)

    once, each = ef.compile(f, x, target=C), ef.compile(g, x, first, target=C)
    assert "panels" in once.source().split("// def program")[1]
    assert once.peak_bytes < first.nbytes
    bound: Any = once.executable.take()[0]
    panels = [array for name, array in bound.__globals__.items() if name.startswith("panels")]
    assert panels and all(array.ctypes.data % 64 == 0 for array in panels)
    for sign in (1, -1, 1):
        y, w = sign * x, sign * first
        np.testing.assert_allclose(once(y), f(y), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(each(y, w), g(y, w), rtol=1e-4, atol=1e-5)


def test_the_result_is_the_callers_own() -> None:
    program = ef.compile(softmax, X, target="c")
    first = program(X)
    kept = first.copy()
    first[:] = 0
    assert program(X).tobytes() == kept.tobytes()


def test_without_a_compiler_the_target_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    monkeypatch.setattr(c_compiler, "_compilers", {})
    from eqfuse.cost import targets

    targets._device_of.cache_clear()
    with pytest.raises(ef.TargetUnavailable, match="install gcc or clang"):
        ef.compile(softmax, X, target="c")
    monkeypatch.undo()
    targets._device_of.cache_clear()
