"""`ef.jacfwd`, `ef.jacrev`, `ef.hessian` and `ef.check_grad`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef

A = np.random.default_rng(0).normal(size=(3, 4))
X = np.array([0.3, -0.2, 0.9, 1.1])


def curve(x: Any) -> Any:
    return np.sin(A @ x) * x[0]


def of_curve(x: np.ndarray) -> np.ndarray:
    return np.cos(A @ x)[:, None] * A * x[0] + np.sin(A @ x)[:, None] * np.eye(4)[0]


@pytest.mark.parametrize("jacobian", [ef.jacfwd, ef.jacrev])
def test_a_jacobian_has_the_axes_of_the_result_and_then_those_of_the_argument(jacobian: Any) -> None:
    np.testing.assert_allclose(jacobian(curve)(X), of_curve(X), rtol=1e-12)
    np.testing.assert_allclose(ef.jit(jacobian(curve), target="numpy")(X), of_curve(X), rtol=1e-12)
    by_matrix = jacobian(lambda w, x: w @ x, (0, 1))(A, X)
    np.testing.assert_allclose(by_matrix[0], np.einsum("ij,k->ijk", np.eye(3), X))
    np.testing.assert_allclose(by_matrix[1], A)
    trees = jacobian(lambda p: {"y": p["a"] * p["b"], "z": p["b"].sum()})({"a": 2.0, "b": X})
    np.testing.assert_allclose(trees["y"]["a"], X)
    np.testing.assert_allclose(trees["y"]["b"], 2 * np.eye(4))
    np.testing.assert_allclose(trees["z"]["b"], np.ones(4))
    assert trees["z"]["a"] == 0


def test_jacfwd_takes_complex_results_of_real_arguments() -> None:
    def spectrum(x: Any) -> Any:
        return np.fft.fft(np.sin(x))

    wanted = np.fft.fft(np.diag(np.cos(X)), axis=0)
    np.testing.assert_allclose(ef.jacfwd(spectrum)(X), wanted, rtol=1e-12)
    for target in ("numpy", "c"):
        np.testing.assert_allclose(ef.jit(ef.jacfwd(spectrum), target=target)(X), wanted, rtol=1e-12)


def test_the_hessian_is_the_matrix_of_second_derivatives() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x**3) + np.prod(x) * y

    hessian = ef.hessian(f)(X, 2.0)
    wanted = 6 * np.diag(X) + 2 * (np.prod(X) / np.outer(X, X)) * (1 - np.eye(4))
    np.testing.assert_allclose(hessian, wanted, rtol=1e-10)
    np.testing.assert_allclose(ef.jit(ef.hessian(f), target="numpy")(X, 2.0), wanted, rtol=1e-10)
    (_, xy), (yx, yy) = ef.hessian(f, (0, 1))(X, 2.0)
    np.testing.assert_allclose(xy, np.prod(X) / X)
    np.testing.assert_allclose(yx, xy)
    assert yy == 0
    assert ef.hessian(lambda x: x**4)(2.0) == 48.0


def test_check_grad_compares_with_differences() -> None:
    def f(params: Any, x: Any, n: int) -> Any:
        return {"y": np.tanh(x @ params["w"]) * n, "total": (x * params["scale"]).sum()}

    args = {"w": A.T, "scale": 0.5}, X[None], 3
    assert ef.check_grad(f, *args) < 1e-8
    narrow = {"w": A.T.astype(np.float32), "scale": 0.5}, X[None].astype(np.float32), 3
    assert ef.check_grad(f, *narrow) < 1e-3
    assert ef.check_grad(lambda z: np.abs(z) ** 2 + z.conj() * 2, X + 1j) < 1e-8


def test_check_grad_names_the_argument_whose_derivative_is_wrong() -> None:
    def f(x: Any, w: Any) -> Any:
        return (x * ef.stop_gradient(w)).sum()

    with pytest.raises(AssertionError, match="where w changes, f changes by what its derivative says only up to"):
        ef.check_grad(f, X, X)
    with pytest.raises(ef.EqfuseError, match="no argument of f is a float"):
        ef.check_grad(f, 3, 4)


def test_check_grad_checks_the_mode_that_there_is() -> None:
    def rule(times: float) -> Any:
        square = ef.custom_vjp(lambda x: x * x)
        square.defvjp(lambda x: (x * x, x), lambda x, ct: (times * x * ct,))
        return square

    def looped(x: Any, f: Any) -> Any:
        return ef.scan(lambda h, row: (f(h) + row, f(row)), x, A)

    def doubled(x: Any, stops: Any) -> Any:
        return ef.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * stops(c[0]), c[1] + 1), (x, 0))

    assert ef.check_grad(rule(2), X) < 1e-8 and ef.check_grad(lambda x: looped(x, rule(2)), X) < 1e-8
    for wrong in (rule(2.001), rule(np.nan)):
        with pytest.raises(AssertionError, match="where x changes"):
            ef.check_grad(wrong, X)
    with pytest.raises(AssertionError, match="where x changes"):
        ef.check_grad(lambda x: looped(x, rule(2.001)), X)
    assert ef.check_grad(lambda x: doubled(x, lambda h: h), X) < 1e-8
    with pytest.raises(ef.UnsupportedOp, match="reduceat"):
        ef.check_grad(lambda x: np.multiply.reduceat(x, [0, 2]), X)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_check_grad_tells_right_from_wrong_at_every_scale(scale: float) -> None:
    def f(x: Any, wrong: float) -> Any:
        return (np.sin(x) + wrong * ef.stop_gradient(x)) * scale

    assert ef.check_grad(lambda x: f(x, 0.0), X) < 1e-8
    with pytest.raises(AssertionError, match="where x changes"):
        ef.check_grad(lambda x: f(x, 1e-4), X)
    assert ef.check_grad(lambda x: f(x, 0.0).sum() + 1e7 * scale, X) < 1e-6, "a large constant beside it"


def test_check_grad_leaves_out_results_that_do_not_change_smoothly() -> None:
    assert ef.check_grad(lambda x: {"y": x * x, "best": np.argmax(x), "above": x > 0, "name": "square"}, X) < 1e-8
    with pytest.raises(AssertionError, match="no result of argmax is a float"):
        ef.check_grad(np.argmax, X)
