"""The derivatives of the other nonlinear operators, against differences of high order, and JAX's choices at kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.gradients.linalg import ROWS as LINALG
from eqfuse.gradients.loops import ROWS as LOOPS
from eqfuse.gradients.table import DERIVATIVES
from eqfuse.ops import TABLE
from eqfuse.ops.elementwise import UFUNCS
from tests.support.derivatives import difference, tangent

NAN = np.array([[0.3, np.nan, 0.9, 0.1, 0.5], [0.2, 0.4, 0.8, 0.1, np.nan]])
METHODS = ("linear", "hazen", "weibull", "median_unbiased", "lower", "higher", "nearest", "midpoint")
# operator: arguments, or shapes of such; attributes
CASES: dict[str, list[tuple[list[Any], tuple]]] = {
    **{op: [([(2, 3, 4)], ((-3, -1),)), ([(1, 3)], ((-2,),)), ([()], ((),)), ([(0, 3)], ((-1,),))]
       for op in ("prod", "max", "min")},
    "window_max": [([(2, 5, 4)], ((2, 2), (2, 2), ((0, 0), (0, 1)))), ([(7,)], ((3,), (2,), ((1, 2),)))],
    "sort": [([(3, 5)], (-1, False)), ([(4, 2)], (-2, True))],
    "partition": [([(3, 5)], (-1, (1, 3)))],
    "median": [([(3, 4)], ((-1,),)), ([(3, 5)], ((-2, -1),)), ([(1,)], ((-1,),))],
    **{op: [([(3, 6), np.array([0.33, 0.71]) * scale], ((-1,), method)) for method in METHODS]
       + [([(3, 2, 5), np.asarray(0.4 * scale)], ((-3, -1), "linear"))]
       for op, scale in (("quantile", 1), ("percentile", 100))},
    "nanmedian": [([NAN], ((-1,),))],
    **{op: [([NAN, np.array([0.33, 0.71]) * scale], ((-1,), "linear"))]
       for op, scale in (("nanquantile", 1), ("nanpercentile", 100))},
    "histogram_bin_edges": [([(2, 3)], (4, None)), ([(5,)], (3, (0.0, 1.0)))],
    "reduceat": [([(2, 6), np.array([1, 4, 2, 2])], ("add", -1)), ([(5, 2), np.array([0, 3])], ("add", -2))],
    "interp": [([np.array([0.1, 0.9, 1.5, 2.2]), np.array([0.3, 1.1, 2.0]), (3,)], (None,)),
               ([np.array([[0.1], [1.5], [2.2]]), np.array([0.3, 1.1]), (2,), (), ()], (None,))],
    "cumprod": [([(5, 2)], (-2,)), ([(2, 1)], (-1,)), ([(0,)], (-1,))],
    "accumulate": [([(2, 6)], ("maximum", -1)), ([(6, 2)], ("fmin", -2))],
    "fold": [([(2, 3)], (ufunc, (-1,))) for ufunc in ("logaddexp", "logaddexp2", "hypot", "fmax", "fmin")],
}  # fmt: skip


def test_every_nonlinear_operator_has_a_case() -> None:
    rest = {op for op, row in DERIVATIVES.items() if not (row.transpose or row.jumps or row.refuses or op in LOOPS)}
    assert rest - UFUNCS.keys() - LINALG.keys() == CASES.keys()


def apart(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Values of which no two are near."""
    return np.asarray(0.2 + rng.permutation(int(np.prod(shape))).reshape(shape) / 20)


@pytest.mark.parametrize("op", CASES)
def test_an_operator_changes_as_its_row_says(op: str) -> None:
    rng = np.random.default_rng(1)
    for given, attrs in CASES[op]:
        xs = [g if isinstance(g, np.ndarray) else apart(g, rng) for g in given]
        for position, x in enumerate(xs):
            if x.dtype.kind != "f":
                continue
            steps = [rng.uniform(-1, 1, x.shape) if i == position else None for i in range(len(xs))]
            wanted = difference(lambda *a, op=op, attrs=attrs: TABLE[op].meaning(*a, *attrs), xs, steps)
            change = tangent(op, xs, steps, attrs)
            np.testing.assert_allclose(0 * wanted if change is None else change, wanted, rtol=1e-7, atol=1e-9)


KINKS: list[tuple[Any, float, float]] = [
    (np.abs, 0.0, 0.0),
    (lambda x: np.maximum(x, 0), 0.0, 0.5),
    (lambda x: np.minimum(x, 1), 1.0, 0.5),
    (lambda x: np.clip(x, 0, 1), 1.0, 0.5),
    (lambda x: np.max(np.stack([x, x * 3 - 2, x - 1])), 1.0, 2.0),
    (lambda x: np.min(np.stack([x, x * 3 - 2, x + 1])), 1.0, 2.0),
    (np.sign, 0.0, 0.0),
    (np.floor, 2.0, 0.0),
    (np.sqrt, 0.0, np.inf),
    (lambda x: x**0.0, 0.0, 0.0),
    (lambda x: np.power(0.0, x), 2.0, 0.0),
    (lambda x: np.hypot(x, 0.0), 0.0, 0.0),
    (lambda x: np.prod(np.stack([x, 2.0 * x + 3, x + 5])), 0.0, 15.0),
    (lambda x: np.prod(np.stack([x, 2.0 * x])), 0.0, 0.0),
]


@pytest.mark.parametrize("fn, point, wanted", KINKS)
def test_at_a_kink_the_derivative_is_what_jax_chooses(fn: Any, point: float, wanted: float) -> None:
    with np.errstate(all="ignore"):
        assert ef.grad(fn)(point) == wanted


@pytest.mark.parametrize("count", [64, 65, 71, 90])
def test_a_long_product_changes_by_the_products_of_all_others_whatever_is_zero(count: int) -> None:
    rng = np.random.default_rng(count)
    x, step = rng.uniform(0.8, 1.2, count), rng.normal(size=count)
    x[count // 3] = 0
    once = np.array([np.prod(np.delete(x, i)) for i in range(count)])
    twice = np.array([[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(count)] for i in range(count)])
    of_product = ef.grad(np.prod)
    np.testing.assert_allclose(of_product(x), once, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ef.jvp(of_product, (x,), (step,))[1], twice @ step, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(ef.grad(lambda x: (of_product(x) * step).sum())(x), twice @ step, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("count", [64, 70, 600])
def test_long_running_products_change_by_the_products_of_all_others_whatever_is_zero(count: int) -> None:
    rng = np.random.default_rng(count)
    x, step, weights = rng.uniform(0.8, 1.2, count), rng.normal(size=count), rng.normal(size=count)
    x[count // 3] = 0
    slopes = np.zeros((count, count))
    for i in range(count):
        slopes[i:, i] = np.cumprod(np.concatenate([x[:i], [1.0], x[i + 1 :]]))[i:]
    gradient = ef.grad(lambda x: (np.cumprod(x) * weights).sum())
    np.testing.assert_allclose(ef.jvp(np.cumprod, (x,), (step,))[1], slopes @ step, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradient(x), weights @ slopes, rtol=1e-9, atol=1e-12)
    forward = ef.jvp(gradient, (x,), (step,))[1]
    np.testing.assert_allclose(forward, difference(gradient, [x], [step]), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ef.grad(lambda x: (gradient(x) * step).sum())(x), forward, rtol=1e-9, atol=1e-12)
