"""`ef.xp` is the Array API's namespace: every name, every signature, and the same answers traced and not."""

from __future__ import annotations

import inspect
from typing import Any

import array_api_compat
import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.evaluate import meaning
from tests.frontends.agreement import agrees, sample
from tests.frontends.array_api import BINARY, CALLS, CONSTANTS, DTYPES, FUNCTIONS, UNARY

X, N = sample((3, 4), "float64"), sample((3, 4), "int32", 1)
M = X.T @ X + 4 * np.eye(4)
V = np.sort(sample((6,), "float64", 2))

# Their results' shapes depend on data.
REFUSED = ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")
SIGNATURES = {line.partition("(")[0]: line.partition("(")[2][:-1] for line in FUNCTIONS.split("\n") if line}


def attribute(name: str) -> Any:
    value: Any = ef.xp
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_every_constant_and_dtype_is_there():
    for name in CONSTANTS.split():
        value = getattr(ef.xp, name)
        assert value is getattr(np, name)
    for name in DTYPES.split():
        assert np.dtype(getattr(ef.xp, name)).name == name
    assert ef.xp.__array_api_version__ == "2024.12"


@pytest.mark.parametrize("name", [*UNARY.split(), *BINARY.split()])
def test_every_elementwise_function_takes_its_arguments(name: str):
    function = attribute(name)
    arity = 1 if name in UNARY.split() else 2
    assert function.nin == arity if isinstance(function, np.ufunc) else callable(function)


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_function_can_be_called_as_the_standard_writes_it(name: str):
    by_position, _, by_keyword = SIGNATURES[name].replace("*, ", "*").partition("*")
    names = [p for p in by_position.split(", ") if p not in ("/", "")]
    positional_only = names[: by_position.split(", ").index("/")] if "/" in by_position else []
    keywords = [k for k in by_keyword.split(", ") if k]
    function = attribute(name)
    if isinstance(function, np.ufunc):
        assert function.nin == len(names)
        return
    signature = inspect.signature(function)
    signature.bind(*names, **dict.fromkeys(keywords))
    rest = names[len(positional_only) :]  # may be passed by either
    signature.bind(*positional_only, **dict.fromkeys([*rest, *keywords]))


def test_every_function_of_the_standard_has_a_sample_call():
    assert set(SIGNATURES) - set(CALLS) == {"__array_namespace_info__", "from_dlpack"}


def operands(name: str) -> list[np.ndarray]:
    """Arrays on which the elementwise function `name` is defined."""
    if name.startswith("bitwise"):
        return [abs(N), np.abs(N).T.reshape(3, 4) % 5]
    if name in ("acosh", "log", "log10", "log1p", "log2", "sqrt", "pow"):
        return [abs(X) + 1, X]
    if name in ("acos", "asin", "atanh"):
        return [X / 8, X]
    return [X, np.where(X.T.reshape(3, 4) == 0, 0.5, X.T.reshape(3, 4))]


@pytest.mark.parametrize("name", [*UNARY.split(), *BINARY.split()])
def test_an_elementwise_function_gives_traced_what_it_gives_on_arrays(name: str):
    function = attribute(name)
    arrays = operands(name)[: 1 if name in UNARY.split() else 2]
    agrees(lambda *args: function(*args), *arrays)


@pytest.mark.parametrize("name", sorted(CALLS.keys() - set(REFUSED)))
def test_a_function_gives_traced_what_it_gives_on_arrays(name: str):
    agrees(lambda *args: CALLS[name](ef.xp, *args), X, N, M, V)


@pytest.mark.parametrize("name", REFUSED)
def test_a_function_whose_shape_depends_on_data_is_refused_by_name(name: str):
    with pytest.raises(ef.EqfuseError, match=f"np.{name}"):
        trace(lambda *args: CALLS[name](ef.xp, *args), X, N, M, V)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_on_arrays_the_namespace_is_the_standards(name: str):
    compat = array_api_compat.array_namespace(X)
    for mine, theirs in zip(_flat(CALLS[name](ef.xp, X, N, M, V)), _flat(CALLS[name](compat, X, N, M, V)), strict=True):
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype
        if name == "unique_values":  # in any order, says the standard
            mine, theirs = np.sort(mine), np.sort(theirs)
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def test_a_traced_array_names_this_namespace():
    def f(x: Any) -> Any:
        assert x.__array_namespace__() is array_api_compat.array_namespace(x, 1.5, None) is ef.xp
        assert x.device == "cpu"
        assert x.__array_namespace__(api_version="2024.12") is ef.xp
        assert x.to_device("cpu") is x
        assert array_api_compat.is_array_api_obj(x)
        return x + 1

    trace(f, X)


@pytest.mark.parametrize("use, words", [
    (lambda x: x.__array_namespace__(api_version="2019.01"), "2019.01"),
    (lambda x: x.to_device("gpu"), "target="),
    (lambda x: ef.xp.from_dlpack(x), "DLPack"),
    (lambda x: range(x.astype(int).sum()), "index"),
])  # fmt: skip
def test_what_a_traced_array_cannot_do_is_refused(use: Any, words: str):
    with pytest.raises((ef.EqfuseError, ValueError), match=words):
        trace(use, X)


def test_the_namespace_answers_for_itself():
    info = ef.xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is False
    assert info.capabilities()["data-dependent shapes"] is False
    assert ef.xp.expand_dims(X).shape == (1, 3, 4)  # the standard's default axis
    assert info.default_device() == "cpu" and info.devices() == ["cpu"]
    assert info.default_dtypes()["real floating"] == ef.xp.float64
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}


def test_a_stable_descending_sort_keeps_the_order_of_equals():
    zeros = np.array([0.0, -0.0, 1.0, -0.0, 0.0])
    for fn in (lambda x: ef.xp.sort(x, descending=True), lambda x: x[ef.xp.argsort(x, descending=True)]):
        np.testing.assert_array_equal(np.signbit(fn(zeros)), [False, False, True, True, False])


# ---- code as its authors write it for xp


def softmax(x: Any, axis: int | None = None) -> Any:
    """In the style of scipy.special."""
    xp = array_api_compat.array_namespace(x)
    peak = xp.max(x, axis=axis, keepdims=True)
    e = xp.exp(x - peak)
    return e / xp.sum(e, axis=axis, keepdims=True)


def logsumexp(a: Any, b: Any) -> Any:
    xp = array_api_compat.array_namespace(a, b)
    peak = xp.max(xp.where(b == 0, -xp.inf, a), axis=-1, keepdims=True)
    peak = xp.where(xp.isfinite(peak), peak, xp.asarray(0, dtype=a.dtype))
    s = xp.sum(b * xp.exp(a - peak), axis=-1)
    return xp.log(s) + xp.squeeze(peak, axis=-1)


def standard_scale(x: Any) -> Any:
    """In the style of sklearn.preprocessing."""
    xp = array_api_compat.array_namespace(x)
    mean, scale = xp.mean(x, axis=0), xp.std(x, axis=0)
    scale = xp.where(scale < 10 * xp.finfo(scale.dtype).eps, xp.asarray(1.0, dtype=scale.dtype), scale)
    return (x - mean) / scale


def min_max_scale(x: Any, feature_range: tuple[float, float] = (0, 1)) -> Any:
    xp = array_api_compat.array_namespace(x)
    low, high = xp.min(x, axis=0), xp.max(x, axis=0)
    span = xp.where(high - low == 0, xp.ones_like(low), high - low)
    scale = (feature_range[1] - feature_range[0]) / span
    return xp.clip(x * scale + feature_range[0] - low * scale, *feature_range)


def pairwise_distances(x: Any, y: Any) -> Any:
    xp = array_api_compat.array_namespace(x, y)
    squares = xp.sum(x * x, axis=1)[:, None] - 2 * (x @ y.T) + xp.sum(y * y, axis=1)[None, :]
    return xp.sqrt(xp.clip(squares, min=0.0))


def zmap(scores: Any, compare: Any) -> Any:
    """In the style of scipy.stats."""
    xp = array_api_compat.array_namespace(scores, compare)
    mean = xp.mean(compare, axis=0, keepdims=True)
    deviation = xp.std(compare, axis=0, correction=1, keepdims=True)
    z = (scores - mean) / deviation
    constant = xp.all(compare == compare[:1, :], axis=0, keepdims=True)
    return xp.where(constant, xp.asarray(xp.nan, dtype=z.dtype), z)


def rankdata(x: Any) -> Any:
    xp = array_api_compat.array_namespace(x)
    order = xp.argsort(x, axis=-1, stable=True)
    return xp.astype(xp.argsort(order, axis=-1, stable=True), xp.float64) + 1


def confusion(scores: Any, labels: Any) -> Any:
    xp = array_api_compat.array_namespace(scores, labels)
    predicted = xp.astype(xp.argmax(scores, axis=1), labels.dtype)
    classes = xp.arange(scores.shape[1], dtype=labels.dtype)
    true, guessed = labels[:, None] == classes, predicted[:, None] == classes
    return xp.matmul(xp.astype(true.T, xp.int64), xp.astype(guessed, xp.int64))


LABELS = np.array([0, 3, 1])


@pytest.mark.parametrize("fn, args", [
    (softmax, (X,)), (logsumexp, (X, abs(X))), (standard_scale, (X,)), (min_max_scale, (X,)),
    (pairwise_distances, (X, M)), (zmap, (X, X + N)), (confusion, (X, LABELS)),
    (rankdata, (X,)),
])  # fmt: skip
def test_code_written_for_xp_compiles_and_agrees_with_numpy(fn: Any, args: tuple):
    agrees(fn, *args)
    np.testing.assert_allclose(ef.jit(fn)(*args), fn(*args), rtol=1e-12)
    np.testing.assert_allclose(meaning(trace(fn, *args), *args), fn(*args), rtol=1e-12)
