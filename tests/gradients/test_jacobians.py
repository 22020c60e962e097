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


def test_the_hessian_is_the_matrix_of_second_derivatives() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x**3) + np.prod(x) * y

    found = ef.hessian(f)(X, 2.0)
    wanted = 6 * np.diag(X) + 2 * (np.prod(X) / np.outer(X, X)) * (1 - np.eye(4))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
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
