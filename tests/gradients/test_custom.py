"""Functions with a gradient of their own, and which values a backward pass keeps."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 5))
POLICIES = ef.checkpoint_policies


@ef.custom_vjp
def tenfold(x: Any, y: Any) -> Any:
    """sin(x) y, whose gradient in `x` is said to be ten times as large."""
    return np.sin(x) * y


def forward(x: Any, y: Any) -> Any:
    return tenfold(x, y), (x, y)


def backward(residuals: Any, ct: Any) -> Any:
    x, y = residuals
    return 10 * ct * np.cos(x) * y, ct * np.sin(x)


tenfold.defvjp(forward, backward)


def total(x: Any, y: Any) -> Any:
    return tenfold(x, y).sum()


def test_a_rule_takes_the_place_of_the_derivative() -> None:
    np.testing.assert_array_equal(tenfold(X, Y), np.sin(X) * Y)
    for gradient in (ef.grad(total, (0, 1)), ef.jit(ef.grad(total, (0, 1)), target="numpy")):
        gx, gy = gradient(X, Y)
        np.testing.assert_allclose(gx, 10 * np.cos(X) * Y)
        np.testing.assert_allclose(gy, np.sin(X))
    result, pullback = ef.vjp(lambda x: 2 * tenfold(x, Y), X)
    np.testing.assert_array_equal(result, 2 * np.sin(X) * Y)
    np.testing.assert_allclose(pullback(np.ones(5))[0], 20 * np.cos(X) * Y)
    np.testing.assert_allclose(ef.jacrev(lambda x: tenfold(x, Y))(X), np.diag(10 * np.cos(X) * Y))


def test_derivatives_of_a_rule_are_those_of_its_functions() -> None:
    slope = ef.grad(lambda x: (ef.grad(total)(x, Y) ** 2).sum())
    np.testing.assert_allclose(slope(X), 2 * (10 * np.cos(X) * Y) * (-10 * np.sin(X) * Y))
    np.testing.assert_allclose(ef.hessian(total)(X, Y), np.diag(-10 * np.sin(X) * Y))


def test_steps_of_loops_and_branches_have_rules() -> None:
    def steps(loop: Any, w: Any) -> Any:
        return (loop(lambda h, x: (tenfold(h, w) + x, tenfold(x, h)), np.ones(5), np.ones((3, 5)))[1] ** 2).sum()

    def unrolled(step: Any, h: Any, xs: Any) -> Any:
        rows = []
        for x in xs:
            h, y = step(h, x)
            rows.append(y)
        return h, np.stack(rows)

    gradients = [ef.grad(functools.partial(steps, loop))(Y) for loop in (ef.scan, unrolled)]
    np.testing.assert_allclose(*gradients, rtol=1e-12)

    def chosen(x: Any) -> Any:
        return ef.cond(x.sum() > 0, lambda x: tenfold(x, Y), lambda x: x, x).sum()

    np.testing.assert_allclose(ef.grad(chosen)(np.abs(X)), 10 * np.cos(np.abs(X)) * Y)
    np.testing.assert_allclose(ef.grad(chosen)(-np.abs(X)), np.ones(5))


TWO = np.full((2, 5), 0.5)


@pytest.mark.parametrize(
    "around",
    [
        lambda f: lambda x: ef.scan(lambda h, row: (f(h) + row, f(row)), x, TWO),
        lambda f: lambda x: ef.scan(lambda h, row: (ef.scan(lambda k, r: (f(k) * r, k), h, TWO)[0], row), x, TWO)[0],
        lambda f: lambda x: ef.fori_loop(0, 3, lambda i, h: f(h), x),
        lambda f: lambda x: ef.cond(x[0] > 5, lambda h: h, f, x) * x,
        lambda f: lambda x: f(f(x)),
    ],
)  # fmt: skip
def test_what_a_rule_computes_in_a_loop_or_a_branch_is_differentiated_again_in_both_modes(around: Any) -> None:
    cubed = ef.custom_vjp(lambda x: x**3)
    cubed.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x * x * ct,))

    def total(f: Any, x: Any) -> Any:
        results = around(f)(x)
        return sum((y**2).sum() for y in (results if isinstance(results, tuple) else (results,)))

    ruled, plain = (functools.partial(total, f) for f in (cubed, lambda x: x**3))
    np.testing.assert_allclose(ef.hessian(ruled)(X), ef.hessian(plain)(X), rtol=1e-12, atol=1e-12)
    ways = [ef.jvp(ef.value_and_grad(f), (X,), (Y,)) for f in (ruled, plain)]
    for value, wanted in zip(*([*values, *changes] for values, changes in ways), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)


def test_arguments_nest_may_be_left_alone_and_may_have_no_cotangent() -> None:
    @functools.partial(ef.custom_vjp, nondiff_argnums=(0,))
    def applied(fn: Any, params: Any, x: Any, places: Any, scale: float = 2.0) -> Any:
        return {"y": fn(params["w"] * x) * scale, "n": np.take(x, places)}

    def fwd(fn: Any, params: Any, x: Any, places: Any, scale: float) -> Any:
        return applied(fn, params, x, places, scale), (params["w"], x, scale)

    def bwd(fn: Any, kept: Any, ct: Any) -> Any:
        _, x, scale = kept
        return {"w": np.sum(ct["y"] * x) * scale}, None, None, None

    applied.defvjp(fwd, bwd)

    def loss(params: Any, x: Any) -> Any:
        result = applied(np.tanh, params, x, np.array([0, 1]))
        return result["y"].sum() + result["n"].sum()

    gp, gx = ef.grad(loss, (0, 1))({"w": 0.5}, X)
    np.testing.assert_allclose(gp["w"], 2 * X.sum())
    np.testing.assert_array_equal(gx, np.zeros(5))


@pytest.mark.parametrize(
    ("rule", "error", "says"),
    [
        (None, ef.UnsupportedOp, r"clip_gradient has no rule: say clip_gradient.defvjp"),
        ((lambda x: x, lambda r, ct: (ct,)), ef.TraceError, "fwd of clip_gradient returns two things"),
        ((lambda x: (x[1:], x), lambda r, ct: (ct,)), ef.ShapeError, r"float64\[4\] as its result, and clip_gradient"),
        ((lambda x: (x, x), lambda r, ct: ct), ef.TraceError, "tuple of 1 cotangents"),
        ((lambda x: (x, x), lambda r, ct: (ct[1:],)), ef.ShapeError, r"float64\[4\] for argument 0, which is float"),
        ((lambda x: (x, x), lambda r, ct: ((ct, ct),)), ef.TraceError, r"returns \(·, ·\) for argument 0"),
    ],
)  # fmt: skip
def test_a_rule_that_does_not_fit_is_refused(rule: Any, error: type, says: str) -> None:
    @ef.custom_vjp
    def clip_gradient(x: Any) -> Any:
        return x + 0

    if rule is not None:
        clip_gradient.defvjp(*rule)
    with pytest.raises(error, match=says):
        ef.grad(lambda x: clip_gradient(x).sum())(X)


def test_what_a_rule_does_not_say_is_refused() -> None:
    with pytest.raises(ef.UnsupportedOp, match=r"ef.jvp: tenfold has a rule for the backward pass alone"):
        ef.jvp(tenfold, (X, Y), (X, Y))
    with pytest.raises(ef.UnsupportedOp, match=r"ef.jacfwd: tenfold has a rule for the backward pass alone"):
        ef.jacfwd(lambda x: ef.scan(lambda h, r: (tenfold(h, r), None), x, np.ones((2, 5)))[0])(X)
    with pytest.raises(ef.TraceError, match=r"gradient of its own \(tenfold\).*give the function itself"):
        ef.grad(ef.trace(total, X, Y))(X, Y)

    def reads_around(x: Any) -> Any:
        @ef.custom_vjp
        def scaled(y: Any) -> Any:
            return y * x

        scaled.defvjp(lambda y: (y, None), lambda r, ct: (ct,))
        return scaled(x).sum()

    with pytest.raises(ef.UnsupportedOp, match="scaled reads a value from around it that changes"):
        ef.grad(reads_around)(X)


def test_an_argument_that_is_said_not_to_change_is_named_where_it_does() -> None:
    power = ef.custom_vjp(lambda x, n: x**n, nondiff_argnums=1)
    power.defvjp(lambda x, n: (x**n, x), lambda n, x, ct: (ct * n * x ** (n - 1),))
    np.testing.assert_allclose(ef.grad(lambda x, n: power(x, n).sum())(np.abs(X), 3.0), 3 * X**2)
    with pytest.raises(ef.UnsupportedOp, match="an argument of <lambda> that nondiff_argnums names changes: leave it"):
        ef.grad(lambda x, n: power(x, n).sum(), 1)(np.abs(X), 3.0)


def test_what_a_rule_stops_counts_as_a_constant_for_its_own_derivative() -> None:
    product = ef.custom_vjp(lambda x, y: np.sin(x) * y)
    def stopping(kept: Any, ct: Any) -> Any:
        return ct * np.cos(kept[0]) * ef.stop_gradient(kept[1]), None

    product.defvjp(lambda x, y: (np.sin(x) * y, (x, y)), stopping)
    of_x = ef.grad(lambda x: ef.grad(lambda y: product(y, y).sum())(x).sum())(X)
    np.testing.assert_allclose(of_x, -np.sin(X) * X)


def scaled_in_place(y: Any, z: Any = 1.0) -> Any:
    y *= 2
    y[0] += 1
    return (y * z).sum()


def test_a_write_of_a_checkpoint_to_its_argument_is_seen_outside_as_in_numpy() -> None:
    def total(x: Any, marked: Any) -> Any:
        y = x * x
        first = marked(y[1:])
        return first * y.sum() + marked(y, z=x)

    plain, marked = (functools.partial(total, marked=f) for f in (scaled_in_place, ef.checkpoint(scaled_in_place)))
    for value, gradient in (ef.value_and_grad(marked)(X), ef.jit(ef.value_and_grad(marked), target="numpy")(X)):
        np.testing.assert_allclose(value, plain(X))
        np.testing.assert_allclose(gradient, ef.grad(plain)(X))
    result, pullback = ef.vjp(marked, X)
    np.testing.assert_allclose(result, plain(X))
    np.testing.assert_allclose(pullback(1.0)[0], ef.grad(plain)(X))
    with pytest.raises(ef.TraceError, match="shares memory with another one: pass copies"):
        ef.grad(lambda x: (lambda y: ef.checkpoint(scaled_in_place)(y, y[:1]))(x * x))(X)


def test_a_function_with_a_rule_that_writes_to_its_argument_is_refused() -> None:
    ruled = ef.custom_vjp(scaled_in_place)
    ruled.defvjp(lambda y, z: (scaled_in_place(y.copy(), z), y), lambda y, ct: (2 * ct * np.ones(5), None))
    with pytest.raises(ef.TraceError, match=r"writes to its argument.*\(x.copy\(\)\)\n.*y \*= 2"):
        ef.grad(lambda x: ruled(x * x))(X)


W = RNG.normal(size=(2, 8, 8))


def block(x: Any, w: Any) -> Any:
    return np.tanh(np.cos(np.tanh(x @ w[0])) @ w[1])


def test_a_policy_says_what_a_pullback_keeps_and_changes_no_gradient() -> None:
    x, by_policy = RNG.normal(size=(64, 8)), {}
    for policy in ("nothing_saveable", "dots_saveable", "everything_saveable"):
        marked = ef.checkpoint(block, policy=getattr(POLICIES, policy))
        named = ef.checkpoint(block, policy=policy)
        result, pullback = ef.vjp(lambda x, f=marked, g=named: f(g(x, W), W), x)
        np.testing.assert_allclose(pullback(np.ones_like(result))[0], _plain(x), rtol=1e-10)
        product, kept = x @ W[0], [r for r in pullback.residuals if r.shape == x.shape]
        by_policy[policy] = len(kept), any(np.allclose(r, product) for r in kept)
    assert by_policy["nothing_saveable"][0] <= by_policy["dots_saveable"][0] < by_policy["everything_saveable"][0]
    assert [by_policy[p][1] for p in ("nothing_saveable", "dots_saveable")] == [False, True]
    for policy in ("dots", False):
        with pytest.raises(ef.EqfuseError, match=f"the policy is {policy!r}: give one of"):
            ef.checkpoint(block, policy=policy)
    inside = ef.grad(lambda x: ef.checkpoint(lambda y: (ef.stop_gradient(y) * y).sum())(x))
    np.testing.assert_array_equal(inside(x), x)


@functools.cache
def _of_plain() -> Any:
    return ef.grad(lambda x: block(block(x, W), W).sum())


def _plain(x: np.ndarray) -> Any:
    return _of_plain()(x)
