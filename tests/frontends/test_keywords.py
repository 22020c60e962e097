"""Calls of NumPy's functions with keywords in every spelling: where NumPy answers and nothing is refused, the answers
agree."""

from __future__ import annotations

import inspect
import random
import warnings
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.numpy.registry import TRACED_FUNCTIONS
from tests.frontends.agreement import agrees
from tests.support.drawing import many

AXES = (None, 0, 1, -1, -2, (0, 1), (0,), (-1, 0), (), np.int64(0))
VALUES: dict[str, tuple[Any, ...]] = {
    "axis": AXES, "keepdims": (True, False, 1, 0), "ddof": (0, 1, 1.5), "correction": (0, 1), "k": (0, 1, -1),
    "where": (True, np.array([True, False, True]), np.array([[True], [False], [True]])), "initial": (0, 1, 2.5),
    "method": ("linear", "lower", "nearest", "weibull", "interpolated_inverted_cdf", "median_unbiased"),
    "q": (0, 1, 0.25, [0.1, 0.9]), "dtype": (None, np.float32, np.float64, complex),
    "mode": ("full", "same", "valid", "edge", "reflect", "wrap", "clip", "mean"), "shift": (1, -2, (1, 2)),
    "rowvar": (True, False, 1, 0), "bias": (True, 0), "offset": (0, 1, -1), "n": (1, 2, 3), "side": ("left", "right"),
    "decimals": (0, 1, -1), "repeats": (2, [1, 2, 0]), "reps": (2, (2, 1)), "pad_width": (1, (1, 2), ((1, 1), (0, 2))),
    "include_initial": (True, 0), "nan": (0.0, 1.5), "posinf": (None, 3.0), "compute_uv": (True, False, 0),
    "hermitian": (True, 1), "full_matrices": (True, 0), "UPLO": ("L", "U"), "ord": (None, 1, 2, np.inf, -2, "fro"),
    "norm": (None, "ortho", "forward"), "endpoint": (True, 0), "right": (True, 0), "minlength": (0, 9),
    "indices_or_sections": (1, 3, [1]), "source": (0, -1, (0, 1)), "destination": (-1, 0, (1, 0)), "p": (None, 1, -2),
    "axis1": (0, 1), "axis2": (1, 0, -1), "prepend": (0, 2.5), "append": (0, 2.5), "increasing": (True, 0),
    "invert": (True, 0), "edge_order": (1, 2), "density": (True, 0), "bins": (3, [0, 1, 2]), "kth": (0, -1),
    "order": ("C", "F", "K"), "shape": ((9,), (3, 3), (3, 3, 3)), "dx": (0.5,), "rtol": (0.1,), "equal_nan": (True, 1),
}  # fmt: skip
LEFT_OPEN = {  # memory that nobody wrote, memory orders, and factors whose signs or columns are a matter of choice
    np.empty_like, np.partition, np.argpartition, np.linalg.eigh, np.linalg.eig, np.linalg.eigvals, np.linalg.svd,
    np.require, np.common_type, np.result_type, np.min_scalar_type, np.can_cast,
}  # fmt: skip
DTYPES = ("bool", "int8", "uint8", "int64", "float16", "float32", "float64", "complex128")


def functions() -> list[Any]:
    named = {f for f in TRACED_FUNCTIONS if f not in LEFT_OPEN and getattr(f, "__module__", "").startswith("numpy")}
    return sorted((f for f in named if _parameters(f)), key=lambda f: (f.__module__, f.__name__))


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def an_array(rng: random.Random) -> np.ndarray:
    draws = np.random.default_rng(rng.randrange(1000))
    shape = rng.choice(((3, 3), (3, 3), (1, 3), (3,), (2, 3, 3), (0, 3, 3), ()))
    dtype = rng.choice(DTYPES)
    values = draws.integers(0 if dtype == "uint8" else -4, 5, shape).astype(dtype)
    return np.where(values > 3, np.nan, values).astype(dtype) if dtype.startswith("float") else values


def a_call(function: Any, rng: random.Random) -> tuple[Any, str, np.ndarray]:
    """A function of the array that is the first argument; the call as text; the array."""
    given: list[Any] = []
    keywords: dict[str, Any] = {}
    first, *rest = _parameters(function)
    array = an_array(rng)
    listed = first.kind == first.VAR_POSITIONAL or first.name in ("arrays", "tup", "arys")
    for p in rest:
        needed = p.default is p.empty and p.kind != p.VAR_KEYWORD
        if p.name in VALUES and (needed or rng.random() < 0.4):
            keywords[p.name] = rng.choice(VALUES[p.name])
        elif needed and p.kind != p.VAR_POSITIONAL:
            given.append(array if rng.random() < 0.5 else an_array(rng))

    def call(x: Any) -> Any:
        start = [(x, x)] if listed and first.kind != first.VAR_POSITIONAL else [x, x] if listed else [x]
        return function(*start, *given, **keywords)

    return call, f"np.{function.__name__}(x, {given}, {keywords}) of {array!r}", array


def check(seed: int) -> bool:
    """Whether there was something to compare."""
    rng = random.Random(seed)
    call, text, array = a_call(rng.choice(functions()), rng)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            call(array.copy())
            ef.trace(call, array)
        except (ef.EqfuseError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
            return False
        try:
            agrees(call, array)
        except ef.EqfuseError:
            return False  # the evaluator's own refusal: an index out of bounds, a singular matrix
        except Exception as error:
            raise AssertionError(f"{text}: {error}") from error
    return True


def test_a_keyword_in_any_spelling_means_what_it_means_to_numpy() -> None:
    assert sum(check(seed) for seed in range(200)) > 100


@pytest.mark.slow
def test_many_keywords_in_any_spelling_mean_what_they_mean_to_numpy() -> None:
    assert sum(check(seed) for seed in range(10_000, 10_000 + many(2_500))) > 1_000


@pytest.mark.parametrize("function", [np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float16", "float64", "complex64"])
def test_functions_that_leave_out_nan_leave_out_what_is_masked(function: Any, dtype: str) -> None:
    x = np.array([[1, 2, 3, -2], [0, 5, 0.5, 2], [0, 0, 1, 2]]).astype(dtype)
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 0, 1]]) > 0
    if dtype[0] in "fc":
        x[[0, 1, 2, 2], [1, 0, 0, 1]] = np.nan
    for axis in (None, 0, 1, (0, 1)):
        agrees(lambda x, axis=axis: function(x, axis=axis, where=mask), x)
        agrees(lambda x, axis=axis: function(x, axis=axis, where=x == x, keepdims=1), x)


@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), np.eye(3, 3, 2) + np.eye(3, 3, -2), np.diag([1.0, 0.0, -2.0])])
def test_factors_of_a_singular_hermitian_matrix_are_orthogonal(matrix: np.ndarray) -> None:
    u, s, vh = ef.jit(lambda a: np.linalg.svd(a, hermitian=True))(matrix)
    np.testing.assert_allclose(u * s @ vh, matrix, atol=1e-12)
    np.testing.assert_allclose(vh @ vh.T, np.eye(3), atol=1e-12)


def test_matrices_that_do_not_fit_are_no_product_of_several() -> None:
    with pytest.raises(ef.ShapeError, match=r"multi_dot: shapes \(1, 3\) and \(1, 3\)"):
        ef.trace(lambda a: np.linalg.multi_dot([a, a]), np.ones((1, 3)))


@pytest.mark.parametrize("call", [
    lambda x: x.argmax((0, 1)), lambda x: np.nanargmin(x, *[(0, 1)]),
    lambda x: np.putmask(np.zeros((3, 3), int), x > 0, x), lambda x: np.place(np.zeros((3, 3), int), x > 0, x),
    lambda x: np.put(np.zeros(9), x, 1),
])  # fmt: skip
def test_what_numpy_refuses_for_its_type_is_refused(call: Any) -> None:
    with pytest.raises(TypeError):
        call(np.ones((3, 3)))
    with pytest.raises(ef.EqfuseError):
        ef.jit(call)(np.ones((3, 3)))


def test_an_empty_array_of_places_keeps_its_dtype_and_an_empty_list_gives_integers() -> None:
    agrees(lambda x: np.ix_(x, [1, 2]), np.zeros(0))
    agrees(lambda x: np.ix_([], x), np.arange(3))


def test_a_number_is_put_in_the_dtype_of_the_array_and_an_array_of_no_axes_must_fit() -> None:
    def put(x: np.ndarray, value: Any) -> np.ndarray:
        kept = np.zeros((3, 3), int)
        np.putmask(kept, x > 0, value)
        return kept

    x = np.eye(3)
    agrees(lambda x: put(x, np.float64(2.5)), x)
    with pytest.raises(TypeError):
        put(x, np.array(2.5))
    with pytest.raises(ef.EqfuseError):
        ef.jit(lambda x: put(x, np.array(2.5)))(x)
