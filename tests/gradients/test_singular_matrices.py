"""Gradients at matrices without full rank, or with equal values: finite where there is a derivative, NaN where there is
none, and no error where the function has a value. What is of one matrix of a stack leaves the others alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.support.derivatives import difference


def of_rank(order: int, rank: int, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    """A matrix of small whole numbers, whose rows behind the first `rank` are others' sums, or 0: LAPACK finds exact
    zeros."""
    rng = np.random.default_rng(seed)
    a = np.asarray(rng.integers(1, 4, (order, order)), dtype)
    if np.dtype(dtype).kind == "c":
        a += 1j * rng.integers(0, 3, (order, order))
    a[rank:] = a[0] if rank else 0
    return a


def cofactors(a: np.ndarray) -> np.ndarray:
    """By the determinants of what is left without a row and a column."""
    order = len(a)
    result = np.ones_like(a)
    for i, j in np.ndindex(a.shape):
        left = np.delete(np.delete(a, i, 0), j, 1)
        result[i, j] = (-1) ** (i + j) * (np.linalg.det(left) if order > 1 else 1)
    return result


@pytest.mark.parametrize("target", ["evaluated", "numpy", "cpu"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 6, 60])
def test_a_determinant_changes_by_its_cofactors_whatever_the_rank(order: int, dtype: str, target: str) -> None:
    ranks = sorted({max(order - lost, 0) for lost in range(4)}) if order < 60 else [0]
    stack = np.stack([of_rank(order, rank, dtype) for rank in ranks])
    gradient: Any = ef.grad(lambda a: np.linalg.det(a).real.sum())
    if target != "evaluated":
        gradient = ef.jit(gradient, target=target)
    result, within = gradient(stack), 1e-4 if dtype == "float32" else 1e-10
    for a, each in zip(stack, result, strict=True):
        wanted = cofactors(a.astype(np.result_type(dtype, np.float64))) if order < 60 else np.zeros_like(a)
        np.testing.assert_allclose(each, wanted, rtol=within, atol=within * max(1, np.abs(wanted).max()))


def test_a_determinant_of_zero_is_a_kink_of_no_order_up_to_three_rows() -> None:
    for order in (1, 2, 3):
        a, step = of_rank(order, order - 1), np.random.default_rng(1).normal(size=(order, order))
        gradient = ef.grad(np.linalg.det)
        change = ef.jvp(gradient, (a,), (step,))[1]
        np.testing.assert_allclose(change, difference(gradient, [a], [step]), rtol=1e-7, atol=1e-9)


def test_the_logarithm_of_a_determinant_of_zero_leaves_the_others_of_a_stack_alone() -> None:
    for order in (3, 4, 60):
        stack = np.stack([np.eye(order) * 2 + 0.1, of_rank(order, order - 1), np.eye(order)])
        value, gradient = ef.value_and_grad(lambda a: np.linalg.slogdet(a)[1][::2].sum())(stack)
        np.testing.assert_allclose(value, np.linalg.slogdet(stack[::2])[1].sum(), rtol=1e-12)
        np.testing.assert_allclose(gradient[::2], np.linalg.inv(stack[::2]).mT, rtol=1e-12, atol=1e-12)
        everywhere = ef.grad(lambda a: np.linalg.slogdet(a)[1].sum())(stack)
        np.testing.assert_allclose(everywhere[::2], gradient[::2], rtol=1e-12)
        assert not np.isfinite(everywhere[1]).any()


def orthogonal(order: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(3).normal(size=(order, order)))[0]


@pytest.mark.parametrize("a", [np.eye(3), orthogonal(4), np.diag([2.0, 2, 1]), np.eye(4)[:, :2] * 3])
def test_a_pseudo_inverse_has_a_gradient_where_singular_values_are_equal(a: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    step, weights = rng.normal(size=a.shape), rng.normal(size=a.T.shape)

    def loss(a: Any) -> Any:
        return (np.linalg.pinv(a) * weights).sum()

    gradient = ef.grad(loss)
    np.testing.assert_allclose((gradient(a) * step).sum(), difference(loss, [a], [step]), rtol=1e-7)
    change = ef.jvp(gradient, (a,), (step,))[1]
    np.testing.assert_allclose(change, difference(gradient, [a], [step], 1e-4), rtol=1e-5, atol=1e-7)


SOLVERS: dict[str, Callable[[Any], Any]] = {
    "lstsq": lambda a: np.linalg.lstsq(a, np.arange(1.0, 11).reshape(5, 2))[0],
    "pinv": np.linalg.pinv,
    "pinv of a stack": lambda a: np.linalg.pinv(np.stack([a, a * 2]), rtol=1e-10),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_what_small_singular_values_do_not_count_in_changes_among_matrices_of_a_rank(name: str) -> None:
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=(5, 2)), rng.normal(size=(2, 4))
    steps = [rng.normal(size=left.shape), rng.normal(size=right.shape)]

    def loss(left: Any, right: Any) -> Any:
        return np.sin(SOLVERS[name](left @ right)).sum()

    gradients = ef.grad(loss, (0, 1))(left, right)
    change = sum((g * s).sum() for g, s in zip(gradients, steps, strict=True))
    np.testing.assert_allclose(change, difference(loss, [left, right], steps), rtol=1e-7)


def symmetric(a: Any) -> Any:
    return (a + np.swapaxes(a, -1, -2)) / 2


VECTORS: dict[str, Callable[[Any], Any]] = {
    "eigh": lambda a: np.linalg.eigh(symmetric(a))[1], "svd": lambda a: np.linalg.svd(a)[0],
}  # fmt: skip
VALUES: dict[str, Callable[[Any], Any]] = {
    "eigh": lambda a: np.linalg.eigh(symmetric(a))[0], "eigvalsh": lambda a: np.linalg.eigvalsh(symmetric(a)),
    "svd": lambda a: np.linalg.svd(a)[1], "svdvals": np.linalg.svdvals, "a norm": lambda a: np.linalg.norm(a, "nuc"),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_equal_values_have_no_gradient_and_say_so(name: str) -> None:
    assert np.isnan(ef.grad(lambda a: (VECTORS[name](a) ** 3).sum())(np.diag([1.0, 1, 2]))).any()


@pytest.mark.parametrize("name", VALUES)
def test_the_sum_of_equal_values_has_a_gradient(name: str) -> None:
    a, step = np.diag([1.0, 1, 2]), np.random.default_rng(0).normal(size=(3, 3))

    def loss(a: Any) -> Any:
        return VALUES[name](a).sum()

    np.testing.assert_allclose((ef.grad(loss)(a) * step).sum(), difference(loss, [a], [step]), rtol=1e-7)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **VECTORS, **{f"values of {name}": f for name, f in VALUES.items()},
    "det": np.linalg.det, "slogdet": lambda a: np.linalg.slogdet(a)[1], "pinv": np.linalg.pinv,
    "lstsq": lambda a: np.linalg.lstsq(a, np.ones((len(a), 1)))[0], "qr": lambda a: np.linalg.qr(a)[1],
    "q of qr": lambda a: np.linalg.qr(a)[0], "eigvals": lambda a: np.linalg.eigvals(a.astype(complex)).real,
    "power": lambda a: np.linalg.matrix_power(a, 3), "inv": np.linalg.inv, "cholesky": np.linalg.cholesky,
    "solve": lambda a: np.linalg.solve(a, np.ones((len(a), 1))), "trace": np.linalg.trace,
    **{f"cond {p}": lambda a, p=p: np.linalg.cond(a, p) for p in (None, 1, 2, "fro", "nuc", np.inf, -1)},
    **{f"norm {p}": lambda a, p=p: np.linalg.norm(a, p) for p in (None, 1, 2, "nuc", -2, np.inf)},
    "rank": lambda a: np.linalg.matrix_rank(a) * a, "hermitian pinv": lambda a: np.linalg.pinv(a, hermitian=True),
}  # fmt: skip
MATRICES = {
    "zero": np.zeros((4, 4)), "one": np.eye(4), "of one row": np.zeros((1, 1)), "of rank 3": of_rank(4, 3),
    "of rank 1": of_rank(4, 1), "of equal values": np.diag([2.0, 2, 1, 1]), "large": of_rank(60, 30),
    "nilpotent": np.eye(4, k=1), "large and zero": np.zeros((70, 70)),
}  # fmt: skip


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_there_is_a_gradient_or_nan_where_the_function_has_a_value(name: str, matrix: str) -> None:
    function, a = FUNCTIONS[name], MATRICES[matrix]
    try:
        with np.errstate(all="ignore"):
            function(a)
    except np.linalg.LinAlgError:
        with pytest.raises(np.linalg.LinAlgError):
            ef.grad(lambda a: np.sum(function(a)))(a)
        return
    for gradient in (ef.grad(lambda a: np.sum(function(a))), ef.jit(ef.grad(lambda a: np.sum(function(a))))):
        assert gradient(a).shape == a.shape
