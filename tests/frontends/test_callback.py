"""`ef.pure_callback` calls a function as it is, compiled, traced or not, and programs go on around it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import eqfuse as ef
from eqfuse.runtime import disk_cache
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.gpu import program_on

F64 = np.float64
X = np.linspace(0.5, 3.0, 24).reshape(4, 6)


def counted(x: np.ndarray) -> np.ndarray:
    """No tracer gets through it."""
    return np.array([[float(v) ** 2 if v > 1 else -1.0 for v in row] for row in x])


def around(x: Any) -> Any:
    return np.sqrt(ef.pure_callback(counted, x, x * 2) + 2) * x


TARGETS = ["numpy", "c"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_function_that_cannot_be_traced_runs_within_a_program(target: str) -> None:
    wanted = np.sqrt(counted(X * 2) + 2) * X
    program = ef.compile(around, X, target=target)
    np.testing.assert_allclose(program(X), wanted, rtol=1e-12)
    np.testing.assert_allclose(program(X[::-1] + 1), np.sqrt(counted(X[::-1] * 2 + 2) + 2) * (X[::-1] + 1), rtol=1e-12)
    np.testing.assert_allclose(around(X), wanted, rtol=1e-12)
    assert program.report.n_kernels == 3


EMULATED = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")


def on_a_gpu(f: Callable[[Any], Any]) -> ef.Program:
    plan = ef.extract(ef.saturate(ef.trace(f, X)), target="cuda:a100")
    return program_on(plan, EmulatedGpu())  # type: ignore[arg-type]


@EMULATED
def test_it_runs_on_the_host_of_a_gpu() -> None:
    program = on_a_gpu(around)
    assert "on_host('pure_callback'" in program.source()
    np.testing.assert_allclose(program(X), around(X), rtol=1e-12)


def several(tree: dict[str, Any], mode: str, *, shift: int) -> tuple[Any, dict[str, Any]]:
    assert mode == "shifted"
    return tree["a"] + shift, {"sum": float(tree["b"].sum()), "count": tree["b"].size}


def nested(a: Any, b: Any, shift: Any) -> Any:
    types = (ef.spec(a.shape), {"sum": ef.spec(()), "count": ef.spec((), np.int64)})
    moved, totals = ef.pure_callback(several, types, {"a": a * 2, "b": b}, "shifted", shift=shift)
    return moved / totals["sum"], totals["count"] + 1


@pytest.mark.parametrize("target", TARGETS)
def test_arguments_and_results_nest_and_strings_stay_strings(target: str) -> None:
    program = ef.compile(nested, X, X[0], 3, target=target)
    for shift in (3, -1):
        got, wanted = program(X, X[0], shift), nested(X, X[0], shift)
        np.testing.assert_allclose(got[0], wanted[0], rtol=1e-12)
        assert got[1] == wanted[1] == 7 and got[1].dtype == np.int64


@EMULATED
def test_several_results_come_from_the_host() -> None:
    both = lambda x: ef.pure_callback(lambda a: (a + 1, a.sum()), (x, ef.spec(())), x * 2)  # noqa: E731
    for got, wanted in zip(on_a_gpu(both)(X), both(X), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_the_same_call_is_made_once_and_one_whose_result_nobody_uses_not_at_all() -> None:
    calls = []

    def noted(x: np.ndarray) -> np.ndarray:
        calls.append(x.shape)
        return x + 1

    def twice(x: Any) -> Any:
        ef.pure_callback(noted, x[0], x[0])
        return ef.pure_callback(noted, x, x) * ef.pure_callback(noted, x, x)

    program = ef.compile(twice, X)
    assert not calls, "it is not called while it is traced"
    np.testing.assert_allclose(program(X), (X + 1) ** 2)
    assert calls == [X.shape]


def test_methods_of_one_object_are_one_function_and_those_of_two_are_not() -> None:
    class Scaled:
        def __init__(self, by: float) -> None:
            self.by = by

        def times(self, x: np.ndarray) -> np.ndarray:
            return x * self.by

    two, three = Scaled(2.0), Scaled(3.0)

    def calls(*objects: Scaled) -> int:
        graph = ef.trace(lambda x: [ef.pure_callback(o.times, x, x) for o in objects], X)
        np.testing.assert_array_equal(ef.meaning(graph, X), [X * o.by for o in objects])
        return sum(n.op == "pure_callback" for n in graph.nodes)

    assert (calls(two, two), calls(two, three)) == (1, 2)


def halved_cosine(x: Any) -> Any:
    return ef.pure_callback(np.cos, x, x) * 0.5


LOOPS: dict[str, Callable[[Any], Any]] = {
    "of Python's": lambda x: [x := halved_cosine(x) for _ in range(40)][-1],
    "a fori_loop": lambda x: ef.fori_loop(0, 5, lambda _, c: halved_cosine(c), x),
    "a scan": lambda x: ef.scan(lambda c, row: (halved_cosine(c) + row, c), x[0], x),
    "a while_loop": lambda x: ef.while_loop(lambda c: c.max() > 0.46, halved_cosine, x),
    "a branch": lambda x: ef.cond(x.sum() > 0, halved_cosine, lambda c: c, x),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_call_it(name: str, target: str) -> None:
    got, wanted = ef.compile(LOOPS[name], X, target=target)(X), LOOPS[name](X)
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12)


@EMULATED
@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_on_a_gpu_call_it(name: str) -> None:
    for got, wanted in zip(on_a_gpu(LOOPS[name])(X), LOOPS[name](X), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_result_is_an_array_of_its_own_though_the_function_returns_its_argument(compiled: bool) -> None:
    x, kept = X.copy(), np.zeros(3)
    f = lambda x: ef.pure_callback(lambda a: (a, kept), (x, kept), x)  # noqa: E731
    for result in (ef.jit(f) if compiled else f)(x):
        result += 1
    assert (x == X).all() and not kept.any()


def test_without_arguments_it_is_a_constant() -> None:
    f = lambda x: x + ef.pure_callback(lambda: np.float64(3), ef.spec(()))  # noqa: E731
    np.testing.assert_array_equal(ef.jit(f)(X), X + 3)


def test_sizes_may_change() -> None:
    f = ef.jit(dynamic=True)(lambda x: ef.pure_callback(np.sin, x, x) + 1)
    for n in (3, 5, 400):
        np.testing.assert_allclose(f(np.ones(n)), np.sin(np.ones(n)) + 1)
    assert "2 sizes transferred" in str(f)


def test_a_rule_gives_it_a_gradient_and_without_one_it_is_refused() -> None:
    @ef.custom_vjp
    def sine(x: Any) -> Any:
        return ef.pure_callback(np.sin, x, x)

    sine.defvjp(lambda x: (sine(x), x), lambda x, ct: (ct * ef.pure_callback(np.cos, x, x),))
    np.testing.assert_allclose(ef.jit(ef.grad(lambda x: (sine(x) ** 2).sum()))(X), np.sin(2 * X), rtol=1e-12)
    with pytest.raises(ef.UnsupportedOp, match=r"custom_vjp[\s\S]*test_callback"):
        ef.grad(lambda x: ef.pure_callback(np.sin, x, x).sum())(X)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "another shape": (lambda x: x[:2], ef.ShapeError, r"float64\[2, 6\] as result 0.*float64\[4, 6\]"),
    "another dtype": (lambda x: x.astype(np.float32), TypeError, r"returned float32\[4, 6\]"),
    "other containers": (lambda x: (x, x), ef.TraceError, r"returned \(·, ·\)"),
    "a write to its argument": (lambda x: x.sort(), ValueError, "read-only"),
    "its own error": (lambda x: 1 / 0, ZeroDivisionError, "division"),
}


@pytest.mark.parametrize("target", [None, *TARGETS])
@pytest.mark.parametrize("name", REFUSED)
def test_what_it_returns_is_checked_and_its_errors_are_its_own(name: str, target: str | None) -> None:
    callback, error, text = REFUSED[name]
    f = lambda x: ef.pure_callback(callback, x, x) + 1  # noqa: E731
    with pytest.raises(error, match=text):
        f(X) if target is None else ef.compile(f, X, target=target)(X)


@pytest.mark.parametrize("target", TARGETS)
def test_an_error_within_a_program_names_the_line_that_calls_it(target: str) -> None:
    program = ef.compile(lambda x: ef.pure_callback(np.shape, x, x) + 1, X, target=target)
    with pytest.raises(ef.TraceError, match=r"test_callback.py:\d+: program\(X\)"):
        program(X)


def test_arguments_of_its_own_are_checked_when_it_is_called() -> None:
    for f, text in (
        (lambda x: ef.pure_callback(3, x, x), "takes a function first"),  # type: ignore[arg-type]
        (lambda x: ef.pure_callback(np.sin, 3, x), r"ef\.spec\(shape, dtype\)"),
        (lambda x: ef.pure_callback(np.sin, x, object()), r"arguments\[0\]"),
    ):
        for run in (f, ef.jit(f)):
            with pytest.raises(ef.TraceError, match=text):
                run(X)


def test_a_program_that_calls_one_is_in_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    graph = ef.trace(around, X)
    assert ef.parse(str(graph)) == graph and "'counted'" in str(graph)
    monkeypatch.setattr(disk_cache, "write_atomically", lambda *_: pytest.fail("a plan was written"))
    with pytest.raises(ef.EqfuseError, match="function of yours"):
        ef.compile(around, X).save(tmp_path / "program")


@pytest.mark.outside
def test_a_program_that_calls_one_is_no_onnx_model(tmp_path: Any) -> None:
    pytest.importorskip("onnx")
    with pytest.raises(ef.EqfuseError, match="function of yours"):
        ef.compile(around, X).to_onnx(tmp_path / "program.onnx")


def test_text_of_another_process_gives_a_function_that_is_not_called() -> None:
    code = "import numpy as np, eqfuse as ef; print(ef.trace(lambda x: ef.pure_callback(np.sin, x, x), np.ones(3)))"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    with pytest.raises(ef.EqfuseError, match=r"sin, called by ef\.pure_callback, is code of another process"):
        ef.meaning(ef.parse(text), np.ones(3))


@pytest.mark.parametrize("f", [lambda x: float(x[0, 0]), lambda x: gaussian_filter(x, 1.0)])
def test_refusals_of_what_cannot_be_traced_name_it(f: Callable[..., Any]) -> None:
    with pytest.raises(ef.TraceError, match=r"by ef\.pure_callback"):
        ef.jit(f)(X)
