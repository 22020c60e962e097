"""Inverses of triangles and changes of their factors do what the operators mean, on either side of every order at which
another way is taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqfuse.emit.numpy import cholesky, inverses
from eqfuse.ops import TABLE

CALLS: dict[str, Callable[..., None]] = {
    "inv_triangular": inverses.inv_triangular, "inv_slogdet": inverses.inv_slogdet,
    "cholesky_change": cholesky.cholesky_change, "cholesky_cotangent": cholesky.cholesky_cotangent,
}  # fmt: skip
BORDERS = {
    "inv_triangular": [inverses.NUMPY_ORDER, inverses.LAPACK_ORDER, 2 * inverses.LAPACK_ORDER],
    "inv_slogdet": [inverses.FACTORED_ORDER, 3 * inverses.LAPACK_ORDER],
    "cholesky_change": [5], "cholesky_cotangent": [cholesky.FACTOR_ROWS, 2 * cholesky.FACTOR_ROWS + 5],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("op", CALLS)
def test_every_order_gives_what_the_operator_means(op: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for order in {1, *BORDERS[op], *(b + 1 for b in BORDERS[op])}:
        for stack in ((), (2, 3) if order < 50 else (2,), (0,)):
            xs = []
            for _ in range(2 if op.startswith("cholesky") else 1):
                x = rng.normal(size=(*stack, order, order)) + 1j * rng.normal(size=(*stack, order, order))
                xs.append((x if dtype[0] == "c" else x.real).astype(dtype))
            if op.startswith("cholesky"):
                xs[0] = np.tril(xs[0])
            if op != "inv_slogdet":
                xs[0] += 2 * np.sqrt(order) * np.eye(order, dtype=dtype)
            wanted = TABLE[op].meaning(*xs)
            for given in (xs, [np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2) for x in xs]):
                out = np.full_like(wanted, np.nan)
                CALLS[op](*given, out)
                within = 1e-2 if op == "inv_slogdet" else 1e-4  # random matrices may be near to singular ones
                within = within if dtype in ("float32", "complex64") else within * 1e-8
                np.testing.assert_allclose(out, wanted, rtol=0, atol=within * np.abs(wanted).max(initial=1))
            if op != "inv_slogdet" and op.startswith("inv"):
                assert not np.triu(out, 1).any()


@pytest.mark.parametrize("order", [4, 40, 100, 200])
@pytest.mark.parametrize("op", ["inv_triangular", "inv_slogdet"])
def test_of_singular_matrices_and_of_nan_there_is_no_inverse_and_of_others_of_the_stack_there_is(
    op: str, order: int
) -> None:
    a = np.stack([np.tril(np.ones((order, order)))] * 3)
    a[1, order // 2, order // 2] = np.nan
    a[2, order // 3] = 0
    wanted = TABLE[op].meaning(a)
    out = np.zeros_like(wanted)
    CALLS[op](a, out)
    inverses, wanted_inverses = (x[: a.size].reshape(a.shape) for x in (np.ravel(out), np.ravel(wanted)))
    np.testing.assert_allclose(inverses[0], wanted_inverses[0], atol=1e-12)
    assert np.isnan(inverses[1]).any() and np.isnan(inverses[2]).all() and np.isnan(wanted_inverses[2]).all()
    if op == "inv_slogdet":
        np.testing.assert_allclose(out[a.size :].reshape(2, 3)[:, ::2], [[1, 0], [0, -np.inf]], atol=1e-12)
