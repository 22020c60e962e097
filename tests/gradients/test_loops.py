"""Gradients through loops and branches, against the same loops in Python, which are unrolled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef

RNG = np.random.default_rng(0)
W, XS, H = RNG.normal(size=(3, 3)) / 2, RNG.normal(size=(6, 3)), RNG.normal(size=3)


def cell(w: Any, h: Any, x: Any) -> Any:
    after = np.tanh(w @ h + x) * np.cos(x)
    return after, after * x + h


def scanned(w: Any, h: Any, xs: Any, reverse: bool = False) -> Any:
    last, ys = ef.scan(lambda h, x: cell(w, h, x), h, xs, reverse=reverse)
    return (last * last).sum() + np.sin(ys).sum()


def unrolled(w: Any, h: Any, xs: Any, reverse: bool = False) -> Any:
    total = 0
    for x in xs[::-1] if reverse else xs:
        h, y = cell(w, h, x)
        total = total + np.sin(y).sum()
    return (h * h).sum() + total


def alike(results: Any, wanted: Any) -> None:
    for f, w in zip(results, wanted, strict=True):
        assert f.dtype == w.dtype
        np.testing.assert_allclose(f, w, rtol=1e-9, atol=1e-12)


EVERY = (0, 1, 2)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_has_the_gradient_of_its_steps(reverse: bool) -> None:
    def both(fn: Any) -> Any:
        return ef.grad(lambda w, h, xs: fn(w, h, xs, reverse), EVERY)(W, H, XS)

    alike(both(scanned), both(unrolled))
    steps = (np.ones_like(W), np.ones_like(H), np.ones_like(XS))
    alike(ef.jvp(scanned, (W, H, XS), steps), ef.jvp(unrolled, (W, H, XS), steps))


@pytest.mark.slow
def test_a_scan_is_run_once_for_value_and_gradient() -> None:
    graph = ef.trace(ef.value_and_grad(scanned, EVERY), W, H, XS)
    loops = [n for n in graph.nodes if n.op == "scan"]
    assert [n.attr("reverse") for n in loops] == [False, True]
    alike([ef.jit(ef.value_and_grad(scanned), target="numpy")(W, H, XS)[1]], [ef.grad(unrolled)(W, H, XS)])


def test_gradients_of_gradients_go_through_scans() -> None:
    def twice(fn: Any) -> Any:
        return ef.grad(lambda w, h, xs: sum((g**2).sum() for g in ef.grad(fn, EVERY)(w, h, xs)), EVERY)(W, H, XS)

    alike(twice(scanned), twice(unrolled))
    np.testing.assert_allclose(ef.grad(lambda x: np.trace(ef.hessian(lambda y: (y**4).sum())(x)))(H), 24 * H)


def test_integers_and_constants_that_a_scan_carries_have_no_gradient() -> None:
    def f(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            n, fixed, v = carry
            return (n + 1, fixed, v * row + n * fixed), (n, v)

        (n, _, v), (ns, vs) = ef.scan(step, (0, 2.0, x[0]), x)
        return v + (vs * ns).sum() + n

    def g(x: Any) -> Any:
        v, total = x[0], 0.0
        for n in range(4):
            total = total + v * n
            v = v * x[n] + n * 2.0
        return v + total

    x = RNG.normal(size=4)
    alike([ef.grad(f)(x)], [ef.grad(g)(x)])


def test_a_loop_within_a_loop_has_a_gradient() -> None:
    def f(w: Any, h: Any) -> Any:
        def outer(h: Any, x: Any) -> Any:
            inner = ef.fori_loop(0, 3, lambda i, v: np.tanh(w @ v) * x + v * i, h)
            return inner, inner.sum()

        return ef.scan(outer, h, XS)[1].sum()

    def g(w: Any, h: Any) -> Any:
        total = 0
        for x in XS:
            for i in range(3):
                h = np.tanh(w @ h) * x + h * i
            total = total + h.sum()
        return total

    alike(ef.grad(f, (0, 1))(W, H), ef.grad(g, (0, 1))(W, H))


def test_a_branch_has_the_gradient_of_the_one_that_is_taken() -> None:
    def f(x: Any, y: Any) -> Any:
        a, b = ef.cond(x.sum() > 0, lambda x: (np.sin(x) * y, x.sum()), lambda x: (x * 3, y.sum() * 2), x)
        return (a * a).sum() + b

    for x in (H, -H):
        def g(x: Any, y: Any, positive: bool = bool(x.sum() > 0)) -> Any:
            return ((np.sin(x) * y) ** 2).sum() + x.sum() if positive else ((x * 3) ** 2).sum() + y.sum() * 2

        alike(ef.grad(f, (0, 1))(x, H), ef.grad(g, (0, 1))(x, H))
        alike(ef.jvp(f, (x, H), (H, x)), ef.jvp(g, (x, H), (H, x)))
        of_f, of_g = (ef.grad(lambda x, fn=fn: (ef.grad(fn)(x, H) ** 2).sum()) for fn in (f, g))
        alike([of_f(x)], [of_g(x)])


def test_a_loop_whose_steps_data_count_has_a_forward_derivative_alone() -> None:
    def root(a: Any) -> Any:
        def step(carry: Any) -> Any:
            x, n = carry
            return (x + a / x) / 2, n + 1

        return ef.while_loop(lambda carry: np.abs(carry[0] ** 2 - a) > 1e-12, step, (a, 0))[0]

    def power(x: Any, n: Any) -> Any:
        return ef.fori_loop(0, n, lambda i, v: v * x, 1.0)

    value, change = ef.jvp(root, (2.0,), (1.0,))
    np.testing.assert_allclose([value, change], [np.sqrt(2), 0.5 / np.sqrt(2)], rtol=1e-9)
    np.testing.assert_allclose(ef.jvp(lambda x: power(x, np.argmax(H * 0) + 3), (2.0,), (1.0,)), [8.0, 12.0])
    with pytest.raises(ef.UnsupportedOp, match="while_loop has no gradient, as data decide"):
        ef.grad(root)(2.0)


@pytest.mark.parametrize("derivative", [ef.grad, ef.jacrev, lambda f: ef.jit(ef.value_and_grad(f), target="numpy"),
                                        lambda f: ef.grad(ef.grad(f)), lambda f: lambda *args: ef.vjp(f, *args)])
def test_a_loop_that_has_no_gradient_is_refused_with_its_own_line_and_what_to_write(derivative: Any) -> None:
    def alone(x: Any, n: Any) -> Any:
        return ef.fori_loop(0, np.floor(n).astype(int), lambda i, v: v * x, 1.0)  # the one

    def within(x: Any, n: Any) -> Any:
        return ef.scan(lambda c, r: (c + alone(x, r), None), 0.0, np.ones(2) * n)[0]  # around it

    for f, comment in ((alone, "the one"), (within, "around it")):
        says = rf"(?s)fori_loop has no gradient.*np.where\(i < n, after, before\)\s+made at .*{comment}"
        with pytest.raises(ef.UnsupportedOp, match=says):
            derivative(f)(2.0, np.array(3.0))


def test_what_is_written_instead_of_a_loop_of_unknown_length_has_the_gradient_of_its_steps() -> None:
    def power(x: Any, n: Any) -> Any:
        return ef.fori_loop(0, 9, lambda i, v: np.where(i < n, v * x, v), 1.0)

    for n in (0, 3, 9):
        np.testing.assert_allclose(ef.jit(ef.grad(power), target="numpy")(2.0, np.int64(n)), n * 2.0 ** (n - 1))


def test_a_step_without_a_derivative_is_refused_with_the_line_of_the_loop() -> None:
    def f(x: Any) -> Any:
        return ef.scan(lambda c, r: (np.multiply.reduceat(c * r, [0, 1, 2]), None), x[0], x)[0].sum()

    with pytest.raises(ef.UnsupportedOp, match=r"scan of .* has no derivative: in its body, reduceat") as caught:
        ef.grad(f)(XS)
    assert "return ef.scan(lambda c, r" in str(caught.value)


@pytest.mark.slow
def test_what_is_stopped_in_a_body_counts_as_a_constant_there() -> None:
    def step(h: Any, x: Any) -> Any:
        after = np.tanh(W @ h + x) * ef.stop_gradient(h)
        return after, ef.checkpoint(lambda v: v * ef.stop_gradient(x * v))(after)

    def scanned(h: Any, xs: Any) -> Any:
        def chosen(h: Any, x: Any) -> Any:
            return ef.cond(h.sum() > 0, step, lambda h, x: (h * x, ef.softmax(ef.stop_gradient(h) * x)), h, x)

        last, ys = ef.scan(chosen, h, xs)
        return ef.fori_loop(0, 2, lambda i, v: v * ef.stop_gradient(v) + h * i, last).sum() + (ys * ys).sum()

    def unrolled(h: Any, xs: Any, signs: Any) -> Any:
        v, total = h, 0
        for x, positive in zip(xs, signs, strict=True):
            v, y = step(v, x) if positive else (v * x, ef.softmax(ef.stop_gradient(v) * x))
            total = total + (y * y).sum()
        for i in range(2):
            v = v * ef.stop_gradient(v) + h * i
        return v.sum() + total

    signs, v = [], H
    for x in XS:
        signs.append(bool(v.sum() > 0))
        v = step(v, x)[0] if signs[-1] else v * x
    assert len(set(signs)) == 2

    def python(h: Any, xs: Any) -> Any:
        return unrolled(h, xs, signs)

    steps = (np.ones_like(H), np.cos(XS))
    alike(ef.grad(scanned, (0, 1))(H, XS), ef.grad(python, (0, 1))(H, XS))
    alike(ef.jit(ef.grad(scanned, (0, 1)), target="numpy")(H, XS), ef.grad(python, (0, 1))(H, XS))
    alike(ef.jvp(scanned, (H, XS), steps), ef.jvp(python, (H, XS), steps))
    alike([ef.hessian(scanned)(H, XS)], [ef.hessian(python)(H, XS)])

    def squared(h: Any) -> Any:
        return ef.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * ef.stop_gradient(c[0]), c[1] + 1), (h, 0))[0]

    np.testing.assert_allclose(ef.jvp(squared, (H,), (H,))[1], H**8)
