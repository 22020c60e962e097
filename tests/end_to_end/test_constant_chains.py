"""What adds or multiplies many constants one after another does so once, and is planned as soon as a short program."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.egraph.constants import Constants
from eqfuse.ops.literal import Literal

X = np.random.default_rng(0).normal(size=1000)


def operators(program):
    return [n.op for k in program.plan.kernels for n in k.body.nodes if n.args]


def added(x):
    for i in range(60):
        x = x + (1.0 + 0.1 * i)
    return x


def multiplied_then_divided(x):
    for i in range(30):
        x = x * (1.1 + 0.1 * i)
    for i in range(30):
        x = x / (1.1 + 0.2 * i)
    return x


def doubled_and_quartered(x):
    for _ in range(40):
        x = x * 2.0
    for _ in range(20):
        x = x / 4.0
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sixty_added_constants_are_one(dtype):
    x = X.astype(dtype)
    program = ef.compile(added, x, target="numpy")
    assert operators(program) == ["add"] and program.report.stop_reason == "saturated"
    assert program.report.rolled == ("59 constants met others of one sum or product",)
    np.testing.assert_allclose(program(x), added(x), rtol=4e-7 if dtype == np.float32 else 1e-15)


def test_factors_meet_where_their_product_is_not_rounded_or_the_user_takes_approximations():
    exact = ef.compile(doubled_and_quartered, X, target="numpy")
    np.testing.assert_array_equal(exact(X), doubled_and_quartered(X))
    assert len(operators(exact)) <= 1
    kept = ef.compile(multiplied_then_divided, X, target="numpy")
    assert len(operators(kept)) > 40
    one = ef.compile(multiplied_then_divided, X, target="numpy", numerics="approximate")
    assert operators(one) == ["multiply"]
    for program in (kept, one):
        np.testing.assert_allclose(program(X), multiplied_then_divided(X), rtol=1e-14)


def test_strict_programs_keep_every_addition():
    program = ef.compile(added, X, target="numpy", numerics="strict")
    assert operators(program) == ["add"] * 60 and not program.report.rolled
    np.testing.assert_array_equal(program(X), added(X))


def test_signs_that_cancel_are_not_added_up():
    def alternating(x):
        for i in range(40):
            x = x + (-1) ** i * 0.1 * (i + 1)
        return x

    program = ef.compile(alternating, X, target="numpy")
    assert operators(program).count("add") + operators(program).count("subtract") > 30
    np.testing.assert_allclose(program(X), alternating(X), rtol=1e-14, atol=1e-14)


@pytest.mark.slow
def test_values_on_the_way_that_are_results_stay():
    def on_the_way(x):
        sums = []
        for i in range(30):
            x = x + 0.5 * i
            sums.append(x)
        return tuple(sums)

    program = ef.compile(on_the_way, X, target="numpy")
    for got, wanted in zip(program(X), on_the_way(X), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-15)


@pytest.mark.parametrize("laws", ["all", "none", ["subtract_known"]])
def test_what_meets_nothing_is_the_program_as_it_was(laws):
    def apart(x):
        for i in range(20):
            x = np.sqrt(np.abs(x - 0.5 * (i + 1)))
        for i in range(20):
            x = x - 0.1 * (-1) ** i
        return x

    graph = ef.trace(apart, X)
    program = ef.compile(graph, target="numpy", laws=laws)
    np.testing.assert_allclose(program(X), apart(X), rtol=1e-12, atol=1e-12)
    if laws != "all":
        assert program.plan.graph.outputs == graph.outputs and not program.report.rolled


def test_the_steps_of_a_loop_are_folded_too():
    def looped(x):
        return ef.fori_loop(0, 5, lambda i, y: added(np.cos(y)), x)

    program = ef.compile(looped, X, target="numpy")
    (step,) = [p for k in program.plan.kernels for p in k.inner]
    assert sum(len(k.body.operators) for k in step.kernels) == 2
    np.testing.assert_allclose(program(X), looped(X), rtol=1e-13)


def test_jit_plans_such_chains_for_any_size():
    program = ef.jit(added, target="numpy", dynamic=True)
    for size in (7, 300, 5000):
        x = np.linspace(-1.0, 1.0, size)
        np.testing.assert_allclose(program(x), added(x), rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_a_constant_becomes_the_first_that_it_equals_up_to_rounding(dtype):
    rng, known, slack = np.random.default_rng(1), Constants(), 2 * float(np.finfo(dtype).eps)
    kept: list[Literal] = []
    for _ in range(300):
        literal = Literal(np.asarray(rng.integers(-3, 4) * (1 + slack * rng.integers(-2, 3) / 2), dtype))
        wanted = next((k for k in kept if np.allclose(k.array, literal.array, rtol=slack, atol=0)), None)
        assert known.near(literal, slack) is wanted
        if wanted is None:
            kept.append(known.keep(literal))
