"""What a function and its caller see of types: isinstance inside goes NumPy's way, and so do scalars as results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("fn, args", [
    (lambda x: x.sum(), (X,)), (lambda x: (x[0, 0], x.mean(), x.max() * 2), (X,)), (lambda x: x[0] @ x[1], (X,)),
    (lambda x: np.linalg.norm(x), (X,)), (lambda x: x.argmax(), (X,)), (lambda x: np.std(x) > 1, (X,)),
    (lambda x: x + 1, (np.float32(2),)), (lambda x: x + 1, (np.array(2.0),)), (lambda x: x, (np.array(2.0),)),
    (lambda x: x.reshape(()), (np.ones(1),)), (lambda x: np.squeeze(x[:1, :1]), (X,)), (lambda x: np.float32(3), (X,)),
    (lambda x: np.asarray(x), (np.float64(2),)),
    (lambda s: s, (3,)), (lambda s: (s * 2, s / 2, s > 2, -s, s**2), (3,)), (lambda s: (s // 1, not 3), (2.5,)),
    (lambda b: b, (True,)), (lambda x, s: x * s, (np.float32(2), 3)),
])  # fmt: skip
def test_a_result_without_axes_has_the_type_that_numpy_gives_it(fn: Callable, args: tuple) -> None:
    wanted, got = fn(*args), ef.jit(fn)(*args)
    several = isinstance(wanted, tuple)
    for w, g in zip(wanted if several else (wanted,), got if several else (got,), strict=True):
        assert type(w) is type(g)
        assert w == g


def test_a_scalar_result_can_be_printed_hashed_and_rounded(tmp_path: Path) -> None:
    program = ef.compile(lambda x, n: {"mean": x.mean(), "n": n * 2}, X, 3)
    program.save(tmp_path / "p")
    for p in (program, ef.load(tmp_path / "p")):
        result = p(X, 3)
        assert f"{result['mean']:.2f}" == "2.50" and round(result["mean"], 1) == 2.5
        assert {result["mean"]: 1} and isinstance(result["mean"], float)
        assert type(result["n"]) is int and [0] * result["n"] == [0] * 6


def as_numpy_code_asks(x: Any, s: Any, n: Any) -> Any:
    if not isinstance(x, np.ndarray):
        x = np.array([x])
    if isinstance(s, (int, np.integer)) and not isinstance(s, bool):
        x = x * 10
    elif isinstance(s, float):
        x = x + s
    if np.isscalar(n):
        x = x - 1
    if isinstance(x.sum(), np.ndarray) or not isinstance(x.sum(), (float, np.floating, np.integer)):
        x = x * 100
    return x


@pytest.mark.parametrize("x, s, n", [
    (X, 2, 1), (X, 2.0, X), (X, True, np.float64(3)), (np.float64(3), 2, np.array(3.0)), (X, X, 1),
    (np.arange(3), np.int64(2), 1.5), (np.array(2.0), np.float32(2), True),
])  # fmt: skip
def test_branches_on_types_go_the_way_they_go_in_numpy(x: Any, s: Any, n: Any) -> None:
    np.testing.assert_array_equal(ef.jit(as_numpy_code_asks)(x, s, n), as_numpy_code_asks(x, s, n))


def test_scalars_still_stand_for_numbers_after_isinstance_has_seen_them() -> None:
    x = np.arange(12.0)
    for fn, s in (
        (lambda x, i: x[i], 3), (lambda x, i: x[i], -1), (lambda x, i: x[i], np.int64(2)),
        (lambda x, q: np.quantile(x, q), 0.3), (lambda x, s: np.clip(x, s, None), 4), (lambda x, s: x**s, 2),
        (lambda x, s: np.roll(x, 1) * s, 2.0), (lambda x, s: np.full_like(x, s), 5),
        (lambda x, s: np.where(x > s, s, x), 3), (lambda x, s: round(x.mean() * s, 2), 1.234),
    ):  # fmt: skip
        np.testing.assert_allclose(ef.jit(fn)(x, s), fn(x, s))


def test_iteration_over_a_scalar_is_a_type_error_as_in_numpy() -> None:
    def f(x: Any, s: Any) -> Any:
        return x * 2 if np.iterable(s) else x + 1

    np.testing.assert_array_equal(ef.jit(f)(X, 2.0), X + 1)
    np.testing.assert_array_equal(ef.jit(f)(X, X), X * 2)


def test_the_text_of_a_traced_value_is_refused_and_that_of_a_known_one_is_not() -> None:
    with pytest.raises(ef.TraceError, match="text of a traced float64"):
        ef.jit(lambda x: f"{x.sum():.2f}")(X)
    assert ef.jit(lambda x: {"known": f"{np.arange(3).sum():03d}", "x": x})(X)["known"] == "003"
    assert ef.jit(lambda x: x + len(f"{x}"))(X)[0, 0] == X[0, 0] + len("Tracer(float64[2, 3])")


@pytest.mark.parametrize("fn", [
    lambda x: "done", lambda x: (x, b"done"), lambda x: [x, ["a"]], lambda x: f"{x}", lambda x: {"text": f"{x}"},
])  # fmt: skip
def test_text_is_no_result(fn: Callable) -> None:
    with pytest.raises(ef.TraceError, match="returns the text"):
        ef.jit(fn)(X)


@pytest.mark.parametrize("fn, argument", [
    (lambda d: d.update(c=d["a"]), {"a": X}), (lambda d: d.pop("a"), {"a": X}), (lambda xs: xs.append(1), [X]),
    (lambda xs: xs.reverse(), [X, X]), (lambda d: d.update(n=d["n"] + 1), {"n": 1}),
])  # fmt: skip
def test_a_change_of_a_container_argument_is_refused_because_it_would_be_lost(fn: Callable, argument: Any) -> None:
    with pytest.raises(ef.TraceError, match="changes a container among its arguments"):
        ef.jit(fn)(argument)


def test_a_change_of_an_array_in_a_container_reaches_the_caller() -> None:
    def f(state: Any) -> Any:
        state["x"] += 1
        state["y"][1:] = state["x"][0]

    f(wanted := {"x": X.copy(), "y": np.zeros((3, 3))})
    ef.jit(f)(got := {"x": X.copy(), "y": np.zeros((3, 3))})
    for name in wanted:
        np.testing.assert_array_equal(got[name], wanted[name])


def test_a_numpy_scalar_and_an_array_of_rank_0_have_programs_of_their_own() -> None:
    @ef.jit
    def f(x: Any) -> Any:
        x += 1
        return x

    scalar, array = np.float64(1), np.array(1.0)
    assert f(scalar) == 2 and scalar == 1
    assert f(array) == 2 and array == 2


def test_a_generator_as_argument_draws_once_per_call() -> None:
    def f(rng: Any, x: Any) -> Any:
        return rng.normal(size=3) + x * rng.random()

    given, changed = np.random.default_rng(7), np.random.default_rng(7)
    jitted = ef.jit(f)
    for _ in range(3):
        np.testing.assert_allclose(jitted(changed, 2.0), f(given, 2.0))


def test_arrays_made_through_xp_inside_a_trace_can_be_written_to() -> None:
    def f(x: Any) -> Any:
        xp = x.__array_namespace__() if hasattr(x, "__array_namespace__") else ef.xp
        y = ef.xp.zeros((2, 3), dtype=ef.xp.float64)
        y[:, 1:] = x[:, :2]
        z = xp.asarray([1.0, 2.0, 3.0])
        z[0] = x[0, 0]
        return y + z

    np.testing.assert_array_equal(ef.jit(f)(X), f(X))


def test_a_generator_seeded_inside_draws_what_it_draws_in_numpy() -> None:
    def f(x: Any) -> Any:
        drawn = [np.random.default_rng(1).random(50), np.random.RandomState(2).normal(size=50)]
        drawn += [np.random.Generator(np.random.Philox(3)).permutation(50), np.random.default_rng(4).integers(0, 9, 50)]
        return sum(drawn) * x

    np.testing.assert_allclose(ef.jit(f)(2.0), f(2.0))


def test_a_table_made_outside_can_be_indexed_by_a_traced_array() -> None:
    table, i = np.arange(20.0) ** 2, np.array([3, -1, 7])
    for f in (lambda i: table[i], lambda i: np.asarray(table)[i]):
        np.testing.assert_array_equal(ef.jit(f)(i), table[i])
