"""numpy.linalg, traced, gives NumPy's dtypes, shapes and values; no decomposition is computed twice."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.agreement import agrees

FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")


def matrices(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Well-conditioned: close to diagonal, with distinct values on it."""
    random = np.random.default_rng(seed)
    matrix = random.normal(size=shape) * 0.3
    if dtype in COMPLEX:
        matrix = matrix + 0.3j * random.normal(size=shape)
    matrix = matrix + np.eye(shape[-2], shape[-1]) * np.arange(2, 2 + shape[-1])
    return matrix.astype(dtype)


def hermitian(*shape: int, dtype: str = "float64") -> np.ndarray:
    a = matrices(*shape, dtype=dtype)
    return ((a + a.swapaxes(-1, -2).conj()) / 2).astype(dtype)


SQUARE = {
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": np.linalg.slogdet,
    "solve": lambda a: np.linalg.solve(a, a[..., :2]),
    "matrix_power": lambda a: [np.linalg.matrix_power(a, n) for n in (0, 1, 2, 3, 6, -2)],
    "trace": lambda a: np.linalg.trace(a, offset=1),
    "diagonal": lambda a: np.linalg.diagonal(a, offset=-1),
    "matmul": lambda a: np.linalg.matmul(a, a),
}
TALL = {
    "svd": np.linalg.svd,
    "svd, reduced": lambda a: np.linalg.svd(a, full_matrices=False),
    "svdvals": np.linalg.svdvals,
    "qr": np.linalg.qr,
    "qr, complete": lambda a: np.linalg.qr(a, "complete"),
    "qr, r": lambda a: np.linalg.qr(a, mode="r"),
    "qr, raw": lambda a: np.linalg.qr(a, "raw"),
}
HERMITIAN = {
    "cholesky": np.linalg.cholesky,
    "cholesky, upper": lambda a: np.linalg.cholesky(a, upper=True),
    "eigh": np.linalg.eigh,
    "eigh, upper": lambda a: np.linalg.eigh(a, "U"),
    "eigvalsh": np.linalg.eigvalsh,
}


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
@pytest.mark.parametrize("name", SQUARE)
def test_a_function_of_square_matrices_agrees_with_numpy(name, dtype):
    for shape in ((3, 3), (2, 1, 4, 4), (1, 1)):
        agrees(SQUARE[name], matrices(*shape, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
@pytest.mark.parametrize("name", HERMITIAN)
def test_a_function_of_hermitian_matrices_agrees_with_numpy(name, dtype):
    for shape in ((3, 3), (2, 4, 4)):
        agrees(HERMITIAN[name], hermitian(*shape, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
@pytest.mark.parametrize("name", TALL)
def test_a_decomposition_of_any_matrix_agrees_with_numpy(name, dtype):
    for shape in ((5, 3), (3, 5), (2, 4, 3)):
        agrees(TALL[name], matrices(*shape, dtype=dtype))


@pytest.mark.parametrize("hermitian_", [False, True])
def test_what_numpy_composes_of_singular_values_agrees_with_numpy(hermitian_):
    a = hermitian(2, 4, 4) if hermitian_ else matrices(2, 5, 3)
    agrees(lambda x: np.linalg.pinv(x, hermitian=hermitian_), a)
    agrees(lambda x: np.linalg.pinv(x, rtol=0.2, hermitian=hermitian_), a)
    agrees(lambda x: np.linalg.pinv(x, 1e-3), a)
    agrees(lambda x: np.linalg.matrix_rank(x, hermitian=hermitian_), a)
    agrees(lambda x: np.linalg.matrix_rank(x, 2.5), a)
    agrees(lambda x: np.linalg.matrix_rank(x, rtol=0.7), a)
    agrees(lambda x: np.linalg.svd(x, compute_uv=False, hermitian=hermitian_), a)
    agrees(lambda x: np.linalg.svd(x, hermitian=hermitian_), a)


ORDERS = (None, 2, -2, 1, -1, math.inf, -math.inf, "fro", "nuc")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_norm_or_condition_of_matrices_agrees_with_numpy(order, dtype):
    a = matrices(2, 4, 4, dtype=dtype)
    agrees(lambda x: np.linalg.cond(x, order), a)
    for keepdims in (False, True):
        for axis in ((0, 2), (-1, 0), (1, 2)):
            agrees(lambda x, k=keepdims, ax=axis: np.linalg.norm(x, order, ax, k), a)
        if order is not None:
            agrees(lambda x, k=keepdims: np.linalg.matrix_norm(x, keepdims=k, ord=order), a)


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128"])
@pytest.mark.parametrize("order", [None, 2, 0, 1, 3, 2.5, -1, math.inf, -math.inf])
def test_a_norm_of_vectors_agrees_with_numpy(order, dtype):
    a = matrices(2, 3, 4, dtype=dtype)
    for keepdims in (False, True):
        for axis in (0, -1):
            agrees(lambda x, k=keepdims, ax=axis: np.linalg.norm(x, order, ax, k), a)
        for axis in (None, 1, (0, 2)):
            agrees(lambda x, k=keepdims, ax=axis: np.linalg.vector_norm(x, axis=ax, keepdims=k, ord=order or 2), a)
    agrees(lambda x: np.linalg.norm(x), a)
    agrees(lambda x: np.linalg.norm(x, keepdims=True), a)


def test_least_squares_agree_with_numpy():
    tall, wide, right = matrices(6, 3), matrices(3, 6), matrices(6, 2)
    agrees(np.linalg.lstsq, tall, right)
    agrees(np.linalg.lstsq, tall, right[:, 0])
    agrees(lambda a, b: np.linalg.lstsq(a, b, rcond=0.4)[0], tall, right)
    agrees(np.linalg.lstsq, wide, right[:3])
    agrees(np.linalg.lstsq, tall.astype(np.float32), right.astype(np.float32))
    agrees(np.linalg.lstsq, tall * (1 + 1j), right)


def test_residuals_of_a_rank_deficient_system_are_refused_when_they_are_asked_for():
    a, b = np.ones((4, 2)), np.arange(4.0)
    agrees(lambda a, b: np.linalg.lstsq(a, b)[0], a, b)
    program = ef.compile(lambda a, b: np.linalg.lstsq(a, b)[1], a, b)
    with pytest.raises(np.linalg.LinAlgError, match="rank 1, not 2"):
        program(a, b)


def test_products_of_many_matrices_agree_with_numpy():
    a, b, c = matrices(3, 5), matrices(5, 2, seed=1), matrices(2, 4, seed=2)
    agrees(lambda *m: np.linalg.multi_dot(m), a, b, c)
    agrees(lambda *m: np.linalg.multi_dot(m), a[0], b, c)
    agrees(lambda *m: np.linalg.multi_dot(m), a, b, c[:, 0])
    agrees(lambda *m: np.linalg.multi_dot(m), a[0], b, c, c[0])
    agrees(lambda *m: np.linalg.multi_dot(m), a, b)
    agrees(np.linalg.tensorsolve, matrices(6, 6).reshape(2, 3, 6), a[:2, :3])
    agrees(lambda x, y: np.linalg.tensorsolve(x, y, axes=(1,)), matrices(6, 6).reshape(2, 6, 3), a[:2, :3])
    agrees(lambda x: np.linalg.tensorinv(x, 1), matrices(6, 6).reshape(6, 2, 3))
    agrees(lambda x, y: np.linalg.vecdot(x, y, axis=0), a, a[::-1])
    agrees(np.linalg.outer, a[0], b[0])
    agrees(np.linalg.tensordot, a, b)


@pytest.mark.parametrize("m, n", [(3, 3), (3, 2), (2, 3), (2, 2)])
def test_cross_products_agree_with_numpy(m, n):
    a, b = matrices(4, 3)[:, :m], matrices(4, 3, seed=1)[:, :n]
    agrees(np.cross, a, b)
    agrees(lambda x, y: np.cross(x, y, axisa=0, axisb=0), a.T, b.T)
    agrees(lambda x, y: np.cross(x, y, axisc=0), a, b[0])
    agrees(np.linalg.cross, a, b)
    agrees(lambda x, y: np.linalg.cross(x, y, axis=0), a.T, b.T)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "bfloat16"])
def test_other_dtypes_are_computed_in_double_or_refused_as_in_numpy(dtype):
    a = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]]).astype(dtype)
    for function in (np.linalg.inv, np.linalg.det, np.linalg.svd, np.linalg.qr, np.linalg.eigh, np.linalg.pinv):
        agrees(function, a)
    agrees(np.linalg.solve, a, a.astype(np.float32))


def test_empty_matrices_agree_with_numpy():
    for shape in ((0, 0), (0, 3, 3)):
        for function in (np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.eigh, np.linalg.cholesky):
            agrees(function, np.ones(shape))
    agrees(np.linalg.svd, np.ones((0, 3)))
    agrees(np.linalg.qr, np.ones((0, 3)))
    agrees(np.linalg.pinv, np.ones((0, 3)))


@pytest.mark.parametrize("function", [np.linalg.inv, np.linalg.svd, np.linalg.eigh, np.linalg.qr, np.linalg.det])
def test_vectors_and_oblong_matrices_are_refused_as_in_numpy(function):
    agrees(function, np.ones(3))
    agrees(function, np.ones((2, 3)))


def test_a_singular_matrix_raises_numpys_own_error_when_the_program_runs():
    program = ef.compile(lambda a: np.linalg.inv(a) + 1, np.eye(2))
    np.testing.assert_array_equal(program(np.eye(2)), np.eye(2) + 1)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        program(np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        ef.compile(np.linalg.cholesky, np.eye(2))(-np.eye(2))


def test_a_decomposition_is_computed_once_however_many_of_its_parts_are_used():
    graph = ef.trace(lambda a: (lambda u, s, v: (u * s) @ v + s.sum())(*np.linalg.svd(a)), np.eye(3))
    assert sum(n.op == "svd" for n in graph.nodes) == 1
    graph = ef.trace(lambda a: np.linalg.svd(a)[1] + np.linalg.svd(a).S, np.eye(3))
    assert sum(n.op == "svd" for n in graph.nodes) == 1


def test_eigenvalues_of_a_real_matrix_are_refused_and_of_a_complex_one_agree_with_numpy():
    for function in (np.linalg.eig, np.linalg.eigvals):
        with pytest.raises(ef.TraceError, match="real or complex values, as the data decides"):
            ef.trace(function, np.eye(2))
        agrees(function, matrices(2, 3, 3, dtype="complex128"))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32"])
def test_the_pseudo_inverse_of_nothing_has_the_dtype_that_it_has_in_numpy(dtype: str) -> None:
    x = np.zeros((2, 0, 3), dtype)
    inverse = ef.meaning(ef.trace(np.linalg.pinv, x), x)
    np.testing.assert_array_equal(inverse, np.linalg.pinv(x), strict=True)
