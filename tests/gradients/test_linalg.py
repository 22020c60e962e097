"""Gradients of solvers and decompositions, of real and complex matrices and stacks of these, against differences.

Vectors have no one sign or phase: what is differentiated does not depend on these.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.gradients.linalg import ROWS
from eqfuse.ops import TABLE
from tests.support.derivatives import difference, tangent


def h(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def weighed(x: Any) -> Any:
    """A real number that depends on all parts of all elements."""
    places = np.arange(x.size).reshape(x.shape)
    return (x.real * np.cos(places) + x.imag * np.sin(places + 1)).sum()


def hermitian(a: Any) -> Any:
    return (a + h(a)) / 2


def of_eigh(a: Any) -> Any:
    w, v = np.linalg.eigh(hermitian(a))
    return v * np.sin(w)[..., None, :] @ h(v)


def of_svd(a: Any) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([u * np.sin(s)[..., None, :] @ vh, u * s[..., None, :] @ h(u) @ a], -2)


def of_qr(a: Any) -> Any:
    q, r = np.linalg.qr(a)
    phases = np.sign(np.diagonal(r, axis1=-2, axis2=-1).real)
    return np.concatenate([q * phases[..., None, :], np.swapaxes(r, -1, -2)], -2)


def of_lstsq(a: Any) -> Any:
    x, _, _, singular = np.linalg.lstsq(a, np.cos(a[:, :2]))
    return np.concatenate([np.ravel(x), singular])


SQUARE, TALL, WIDE = (2, 4, 4), (2, 5, 3), (3, 4)
CASES: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "solve": (lambda a: np.linalg.solve(a, np.sin(a[..., :2]) + 1), [SQUARE, (1, 1)]),
    "inv": (np.linalg.inv, [SQUARE, (3, 3)]),
    "cholesky": (lambda a: np.linalg.cholesky(a @ h(a)), [SQUARE, (1, 1)]),
    "det": (np.linalg.det, [SQUARE, (3, 3)]),
    "slogdet": (lambda a: np.linalg.slogdet(a)[0] * 3 + np.linalg.slogdet(a)[1], [SQUARE, (3, 3)]),
    "eigh": (of_eigh, [SQUARE, (1, 1)]),
    "eigvalsh": (lambda a: np.linalg.eigvalsh(hermitian(a)), [SQUARE]),
    "eigvals": (lambda a: np.sin(np.linalg.eigvals(a)).sum(-1), [(4, 4)]),
    "svd": (of_svd, [SQUARE, TALL, WIDE]),
    "svdvals": (lambda a: np.linalg.svd(a, compute_uv=False), [SQUARE, WIDE]),
    "cond": (lambda a: sum(np.linalg.cond(a, order) for order in (None, "fro", "nuc", 1)), [SQUARE]),
    "lstsq": (of_lstsq, [(5, 3), (3, 4)]),
    "qr": (of_qr, [SQUARE, TALL, WIDE, (2, 3, 5)]),
    "pinv": (np.linalg.pinv, [SQUARE, TALL, WIDE]),
}


# operators that gradients alone are made of, and how many arguments they take
INNER = {"inv_triangular": 1, "inv_slogdet": 1, "cholesky_change": 2, "cholesky_cotangent": 2}
ELSEWHERE = {"full_rank", "cofactors"}  # test_singular_matrices.py has the latter


def test_every_operator_of_linear_algebra_has_a_case() -> None:
    assert {op for op, row in ROWS.items() if not row.refuses} == CASES.keys() | INNER.keys() | ELSEWHERE


# the eigenvalues of real matrices have no one dtype
TYPED = [(op, dtype) for op in CASES for dtype in ("float64", "complex128") if (op, dtype) != ("eigvals", "float64")]


@pytest.mark.parametrize("op, dtype", TYPED)
def test_the_gradient_is_that_of(op: str, dtype: str) -> None:
    function, shapes = CASES[op]

    def loss(a: Any) -> Any:
        return weighed(function(a))

    for shape in shapes:
        rng = np.random.default_rng(3)

        def drawn(shape: Any = shape, rng: Any = rng) -> np.ndarray:
            x = rng.normal(size=shape)
            return x + 1j * rng.normal(size=shape) if dtype == "complex128" else x

        a, step = drawn() + 2 * np.eye(*shape[-2:]), drawn()
        gradient = ef.grad(loss)(a)
        wanted = difference(loss, [a], [step])
        np.testing.assert_allclose((gradient * step).sum().real, wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("op", sorted(CASES.keys() - {"eigvals"}))  # vectors have no derivative
def test_the_gradient_changes_as_its_differences_say(op: str) -> None:
    def loss(a: Any) -> Any:
        return weighed(CASES[op][0](a))

    rng, gradient = np.random.default_rng(5), ef.grad(loss)
    a, step = rng.normal(size=(3, 3)) + 2 * np.eye(3), rng.normal(size=(3, 3))
    change = ef.jvp(gradient, (a,), (step,))[1]
    np.testing.assert_allclose(change, difference(gradient, [a], [step], 1e-4), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ef.grad(lambda a: (gradient(a) * step).sum().real)(a), change, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("op", INNER)
def test_what_gradients_are_made_of_changes_as_its_row_says(op: str) -> None:
    rng = np.random.default_rng(2)
    xs = [rng.normal(size=SQUARE) + 3 * np.eye(4) for _ in range(INNER[op])]
    for position in range(INNER[op]):
        steps = [rng.normal(size=SQUARE) if i == position else None for i in range(INNER[op])]
        if op.startswith("cholesky"):
            xs[0], steps[0] = np.tril(xs[0]), None if steps[0] is None else np.tril(steps[0])
        wanted = difference(TABLE[op].meaning, xs, steps)
        np.testing.assert_allclose(tangent(op, xs, steps), wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("op", CASES)
def test_value_and_gradient_take_at_most_four_times_the_operations_of_cubic_order(op: str) -> None:
    def operations(function: Any) -> int:
        nodes = ef.trace(function, ef.spec((60, 60), "complex128" if op == "eigvals" else "float64")).operators
        costly = [n for n in nodes if n.op in ROWS or n.op == "matmul"]
        return sum(n.row.flops([a.type for a in n.args], n.type, n.attrs) for n in costly)

    def loss(a: Any) -> Any:
        return weighed(CASES[op][0](a))

    assert round(operations(ef.value_and_grad(loss)) / operations(loss), 1) <= 4


@pytest.mark.parametrize("op, dtype", [("eigvalsh", float), ("eigvals", complex), ("svdvals", float)])
def test_values_whose_derivative_needs_vectors_are_computed_with_them_once(op: str, dtype: type) -> None:
    a: Any = (np.random.default_rng(0).normal(size=(4, 4)) + 2 * np.eye(4)).astype(dtype)

    def loss(a: Any) -> Any:
        return weighed(CASES[op][0](a))

    graph = str(ef.trace(ef.value_and_grad(loss), a))
    assert len(re.findall(r" (eig|eigh|eigvals|eigvalsh|svd|svdvals)\(", graph)) == 1
    value, pullback = ef.vjp(loss, a)
    np.testing.assert_allclose([value, ef.value_and_grad(loss)(a)[0]], [loss(a)] * 2, rtol=1e-12)
    assert not {n.op for n in ef.trace(pullback, 1.0).operators} & {"eig", "eigh", "svd"}


@pytest.mark.parametrize("values", [lambda a: np.linalg.eigh(a)[0], lambda a: np.linalg.svd(a)[1]])
def test_a_part_that_nobody_reads_has_no_part_in_the_gradient(values: Any) -> None:
    graph = ef.trace(ef.grad(lambda a: np.sin(values(a)).sum()), np.eye(4))
    assert sum(n.op == "matmul" for n in graph.operators) <= 2, "those of the values: vectors times vectors"


def test_the_triangular_factor_has_the_derivative_of_its_lower_and_upper_form() -> None:
    a = np.array([[4.0, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]])
    lower, upper = (ef.grad(lambda a, u=u: weighed(np.linalg.cholesky(a, upper=u)))(a) for u in (False, True))
    for gradient, is_upper in ((lower, False), (upper, True)):
        np.testing.assert_allclose(gradient, gradient.T, rtol=1e-12)
        step = hermitian(np.arange(9.0).reshape(3, 3))
        wanted = difference(lambda a, u=is_upper: weighed(np.linalg.cholesky(a, upper=u)), [a], [step])
        np.testing.assert_allclose((gradient * step).sum(), wanted, rtol=1e-8)


def test_a_singular_vector_has_a_gradient_though_another_value_is_zero() -> None:
    def first(a: Any) -> Any:
        u = np.linalg.svd(a, full_matrices=False)[0][:, 0]
        return (u * u[0] * np.arange(1.0, 4)).sum()  # (whatever its sign)

    a, step = np.zeros((3, 2)), np.random.default_rng(0).normal(size=(3, 2))
    a[0, 0] = 2
    np.testing.assert_allclose((ef.grad(first)(a) * step).sum(), difference(first, [a], [step]), rtol=1e-7)
