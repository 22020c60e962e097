"""NumPy's own lists of what can be overridden: every name agrees with NumPy, or is refused by name."""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing.overrides import get_overridable_numpy_array_functions, get_overridable_numpy_ufuncs

import eqfuse as ef
from eqfuse.dtypes import supported
from eqfuse.errors import EqfuseError, TraceError
from eqfuse.frontends.numpy.reference import functions, ufuncs
from eqfuse.frontends.numpy.refused import refusal
from eqfuse.frontends.numpy.registry import TRACED_FUNCTIONS, TRACED_UFUNCS
from eqfuse.ir.pytree import tree_leaves
from eqfuse.ops.numpy_names import title
from tests.frontends import numpy_cases, numpy_library_cases
from tests.frontends.agreement import sample

NUMPY_REFUSES = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, np.linalg.LinAlgError)


def accepted(dtype: str) -> bool:
    try:
        return bool(supported(np.dtype(dtype), dtype))
    except TraceError:
        return False


DTYPES = [d for d in (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
) if accepted(d)]  # fmt: skip
SHAPES = ((), (0, 3), (3,), (4,), (2, 3), (3, 3), (2, 3, 4))
EXACT = {
    **numpy_cases.MOVES, **numpy_cases.WRITES, **numpy_cases.LIKE, **numpy_cases.QUESTIONS,
    **numpy_library_cases.PLACES,
}  # fmt: skip
CASES = {**EXACT, **numpy_cases.NUMBERS, **numpy_library_cases.NUMBERS}


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """What NumPy gives, or None when it refuses."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return fn(*args)
        except NUMPY_REFUSES:
            return None


def meaning_as_typed(fn: Callable[..., Any], *args: Any) -> Any:
    """What the graph of `fn` means, whose results have the types that the graph says."""
    graph = ef.trace(fn, *args)
    result = ef.meaning(graph, *args)
    leaves = tree_leaves(result)[0]
    if len(leaves) == len(graph.outputs) and all(isinstance(leaf, (np.ndarray, np.generic)) for leaf in leaves):
        assert [(leaf.dtype, leaf.shape) for leaf in leaves] == [(o.dtype, o.shape) for o in graph.outputs]
    return result


def agrees(fn: Callable[..., Any], *args: Any, exact: bool = False, run: Callable[..., Any] | None = None) -> bool:
    """Assert that `fn` traced and evaluated gives NumPy's result; where NumPy refuses, that tracing refuses. Whether
    there was a result to compare."""
    run = run or meaning_as_typed
    expected = outcome(fn, *args)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if expected is None:
            with pytest.raises((EqfuseError, *NUMPY_REFUSES)):
                run(fn, *args)
                pytest.fail("NumPy refuses this")
            return False
        got = run(fn, *args)
    wanted, results = tree_leaves(expected)[0], tree_leaves(got)[0]
    assert len(wanted) == len(results)
    for w, g in zip(wanted, results, strict=True):
        same(w, g, exact)
    return True


def same(wanted: Any, got: Any, exact: bool) -> None:
    """Equal dtype, shape, values and NaN pattern; `wanted` may be a Python scalar where tracing gives an array."""
    if not isinstance(wanted, (np.ndarray, np.generic)):
        assert wanted == got or wanted != wanted
        return
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    assert isinstance(got, np.ndarray) == isinstance(wanted, np.ndarray)
    if exact or wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(got, wanted)
        return
    finite = np.abs(wanted[np.isfinite(wanted)])
    eps = np.finfo(wanted.dtype).eps
    np.testing.assert_allclose(got, wanted, rtol=64 * eps, atol=16 * eps * finite.max(initial=0).astype("f8"))


# ---- the lists


def test_every_overridable_ufunc_is_supported_or_refused_by_name_and_none_is_both():
    for ufunc in get_overridable_numpy_ufuncs():
        assert (ufunc in TRACED_UFUNCS) != (refusal(title(ufunc)) is not None), title(ufunc)


def test_every_overridable_function_is_supported_or_refused_by_name_and_none_is_both():
    known = {title(f) for f in TRACED_FUNCTIONS}
    undecided = {title(f) for f in get_overridable_numpy_array_functions()
                 if (title(f) in known) == (refusal(title(f)) is not None)}  # fmt: skip
    assert not undecided


def test_every_supported_function_has_a_case():
    listed = {title(f) for f in get_overridable_numpy_array_functions()}
    assert not (listed & {title(f) for f in TRACED_FUNCTIONS}) - CASES.keys()


def test_as_many_are_supported_as_promised():
    """NumPy's list of a fresh process: others grow it as they are imported."""
    assert len(ufuncs().supported) >= 91  # of 127; the other 36 take only strings or dates
    assert len(functions().supported) >= 200


# ---- what is supported


def values(dtype: str) -> np.ndarray:
    """A sample with the dtype's extremes in it."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 0, 1, 2, 5, 7], dtype)
    if kind == "f":
        info = np.finfo(dtype)
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, info.max, info.smallest_subnormal, -1.5, 0.5, 2, 3]
        return np.array(special, dtype)
    return sample((6,), dtype)


ELEMENTWISE = [f for f in get_overridable_numpy_ufuncs() if f in TRACED_UFUNCS and f.signature is None]
LOOSE = {"log1p": 4}


@pytest.mark.parametrize("ufunc", sorted((f for f in ELEMENTWISE if f.nin == 1), key=title), ids=title)
def test_a_unary_ufunc_agrees_for_every_dtype_shape_and_extreme(ufunc):
    compared = [agrees(ufunc, values(dtype)) for dtype in DTYPES]
    compared += [agrees(ufunc, sample(shape, dtype)) for shape in SHAPES for dtype in ("bool", "int8", "float32")]
    assert any(compared)


@pytest.mark.parametrize("ufunc", sorted((f for f in ELEMENTWISE if f.nin == 2), key=title), ids=title)
def test_a_binary_ufunc_agrees_for_every_dtype_shape_and_pair_of_extremes(ufunc):
    """(`test_dtypes.py` has every pair of dtypes.)"""
    pairs = [*zip(DTYPES, DTYPES, strict=True), *zip(DTYPES, DTYPES[3:] + DTYPES[:3], strict=True)]
    compared = [agrees(ufunc, values(a)[:, None], values(b)) for a, b in pairs]
    for other in ((), (0, 3), (2, 1), (2, 3)):
        compared.append(agrees(ufunc, sample((2, 3), "int32"), sample(other, "int32", 1)))
        compared.append(agrees(ufunc, sample((2, 3), "float64"), sample(other, "float64", 1)))
    assert any(compared)


@pytest.mark.parametrize("name", CASES)
def test_a_function_agrees_for_every_dtype_and_shape(name):
    """Every shape of one dtype; every other dtype, by turns, of a matrix, or of a vector where NumPy refuses that.
    (Other uses of the same function: below.)"""
    compared = []
    for case in CASES[name][:1]:
        compared += [agrees(case, np.array(sample(shape, "float64")), exact=name in EXACT) for shape in SHAPES]
        for dtype in DTYPES[[*CASES].index(name) % 2 :: 2]:
            compared.append(any(agrees(case, sample(shape, dtype), exact=name in EXACT) for shape in ((2, 3), (4,))))
    assert any(compared)


@pytest.mark.parametrize("name", [name for name in CASES if name != "np.fft.hfft"])
def test_each_use_of_a_function_agrees_where_there_are_no_elements(name):
    """(Weights that sum to zero NumPy refuses when it has added them up, which a compiled program does not; a padded
    transform of nothing, NumPy's hfft takes from memory that nobody wrote.)"""
    for case, shape in product(CASES[name][: 2 if name == "np.average" else None], ((0,), (3, 0))):
        agrees(case, np.ones(shape), exact=name in EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_function_agrees_for_every_dtype_and_every_shape(name):
    for i, case in enumerate(CASES[name]):
        for turn, shape in enumerate(SHAPES, i):  # dtypes by turns: of other uses fewer
            for dtype in DTYPES[turn % 4 :: 4] if i == 0 else DTYPES[turn % 8 :: 8]:
                agrees(case, np.array(sample(shape, dtype)), exact=name in EXACT)


def compiled(fn: Callable[..., Any], *args: Any) -> Any:
    return ef.compile(fn, *args, target="numpy")(*args)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES)[::5])
def test_a_compiled_function_agrees(name):
    """(Most functions are of operators that others are of as well.)"""
    for dtype in ("float32", "int64"):
        for shape in ((2, 3), (3, 3), (4,), (2, 3, 4)):
            x = sample(shape, dtype)
            compared = [agrees(case, x, exact=name in EXACT, run=compiled) for case in CASES[name]]
            if any(compared):
                return
    pytest.fail("NumPy refuses every case")


@pytest.mark.slow
@pytest.mark.parametrize("ufunc", sorted(ELEMENTWISE, key=title), ids=title)
def test_a_compiled_ufunc_agrees(ufunc):
    compared = [agrees(ufunc, *(values(d) for _ in range(ufunc.nin)), run=compiled) for d in ("int32", "float64")]
    assert any(compared)


# ---- what is refused


def named(error: EqfuseError, function: Any) -> bool:
    row = refusal(title(function))
    return row is not None and all(part in str(error) for part in (title(function), row.why, row.instead))


@pytest.mark.parametrize("ufunc", [f for f in get_overridable_numpy_ufuncs() if refusal(title(f))], ids=title)
def test_a_refused_ufunc_says_why_and_what_to_write_instead(ufunc):
    with pytest.raises(TraceError) as refused:
        ef.trace(lambda x: ufunc(*[x] * ufunc.nin), ef.spec((3,)))
    assert named(refused.value, ufunc)


def call(function: Any, x: Any) -> Any:
    """`function` with `x` for every argument it needs, or as its `like`."""
    name = title(function)
    if name in ("np.fromfile", "np.genfromtxt", "np.loadtxt"):
        return getattr(np, name.removeprefix("np."))("nowhere", like=x)
    if name in ("np.savez", "np.savez_compressed"):
        return function("nowhere", x)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return function(x, x)
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return function(*[x] * max(len(needed), 1))


@pytest.mark.parametrize(
    "function", sorted((f for f in get_overridable_numpy_array_functions() if refusal(title(f))), key=title), ids=title
)
def test_a_refused_function_says_why_and_what_to_write_instead(function):
    with pytest.raises(TraceError) as refused:
        ef.trace(lambda x: call(function, x), ef.spec((3,)))
    assert named(refused.value, function)


@pytest.mark.parametrize("use", [
    lambda x: np.repeat(x, x.astype(int)), lambda x: np.delete(x, x.astype(int)),
    lambda x: np.insert(x, x.astype(int), 0),
    lambda x: np.compress(x > 0, x[None], 1), lambda x: np.extract(x[1:] > 0, x),
    lambda x: np.pad(x, x.astype(int)[:1]),
    lambda x: np.roll(x, x.astype(int)[0], 0), lambda x: np.ix_(x > 0),
])  # fmt: skip
def test_counts_places_and_masks_that_are_traced_are_refused(use):
    with pytest.raises(TraceError, match="is a traced value: the shape of the result depends on data"):
        ef.trace(use, ef.spec((3,)))


def test_counts_places_and_masks_may_be_made_inside():
    x = sample((3,), "float64")
    for use in (
        lambda x: np.repeat(x, np.array([1, 0, 2])), lambda x: np.delete(x, np.array([0])),
        lambda x: np.pad(x, np.ones(2, int)),
        lambda x: np.compress(np.arange(3) > 0, x), lambda x: np.insert(x, np.zeros(2, int), np.ones(2)),
    ):  # fmt: skip
        assert agrees(use, x)


# ---- the README


def test_the_reference_in_the_readme_is_up_to_date():
    subprocess.run([sys.executable, "-m", "eqfuse.frontends.numpy.reference", "--check"], check=True)
