"""Calls and choices that do not fit: other dtypes and shapes than compiled for, and names that nothing has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.extract import EXTRACTORS
from eqfuse.hardware import DEVICES
from eqfuse.rewrites import FAMILIES

X = np.ones((3, 4), np.float32)


def f(x: Any) -> Any:
    return np.tanh(x) + 1


@pytest.fixture(scope="module")
def program() -> ef.Program:
    return ef.compile(f, X, target="numpy")


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.bool_])
def test_another_dtype_than_compiled_for_is_refused_with_both_named(program: ef.Program, dtype: Any) -> None:
    with pytest.raises(ef.ShapeError, match=r"argument 'x' is \w+\[3, 4\].*compiled for float32\[3, 4\]"):
        program(X.astype(dtype))


@pytest.mark.parametrize("dtype", [">f4", "M8[s]", "O", "S4", "V4"])
def test_a_dtype_that_numpy_reads_differently_is_refused_too(program: ef.Program, dtype: str) -> None:
    with pytest.raises(ef.ShapeError, match="argument 'x'"):
        program(np.zeros((3, 4), dtype))


@pytest.mark.parametrize("argument", [X[:2], X[None], X.T, X[0, 0], 1.0, [1.0, 2.0], "text", None])
def test_another_shape_than_compiled_for_is_refused(program: ef.Program, argument: Any) -> None:
    with pytest.raises(ef.ShapeError):
        program(argument)


@pytest.mark.parametrize("arguments", [(), (X, X), ((X,),), ({"x": X},)])
def test_arguments_that_nest_differently_are_refused(program: ef.Program, arguments: tuple) -> None:
    with pytest.raises(ef.EqfuseError):
        program(*arguments)


def test_a_keyword_that_the_function_does_not_have_is_refused(program: ef.Program) -> None:
    with pytest.raises(ef.EqfuseError, match="do not fit"):
        program(X, y=X)


def test_a_refused_call_leaves_the_program_usable(program: ef.Program) -> None:
    with pytest.raises(ef.ShapeError):
        program(X.astype(np.float64))
    np.testing.assert_allclose(program(X), f(X), rtol=1e-6)


@pytest.mark.parametrize("target", ["gpu", "cuda:", "cuda:h999", "cuda:cpu", "CUDA", "", "numpy ", None, 3])
def test_an_unknown_target_is_refused_and_the_known_ones_listed(target: Any) -> None:
    gpus = [f"cuda:{name}" for name, device in DEVICES.items() if device.kind == "gpu"]
    with pytest.raises(ef.TargetUnavailable) as refused:
        ef.compile(f, X, target=target)
    assert all(name in str(refused.value) for name in ("numpy", "cpu", "cuda", *gpus))


@pytest.mark.parametrize("extractor", ["ilp2", "", "Flow", None, ["flow"]])
def test_an_unknown_extractor_is_refused_and_the_known_ones_listed(extractor: Any) -> None:
    with pytest.raises(ef.TargetUnavailable) as refused:
        ef.compile(f, X, target="numpy", extractor=extractor)
    assert all(name in str(refused.value) for name in EXTRACTORS)


@pytest.mark.parametrize("laws", ["algebraic", ["algebra", "nonsense"], "", 3, None, [[]]])
def test_an_unknown_law_is_refused_and_the_families_listed(laws: Any) -> None:
    with pytest.raises(ef.LawError) as refused:
        ef.compile(f, X, target="numpy", laws=laws)
    assert all(name in str(refused.value) for name in FAMILIES)


@pytest.mark.parametrize("numerics", ["fast", "", None, ["strict"]])
def test_unknown_numerics_are_refused_and_the_known_ones_listed(numerics: Any) -> None:
    with pytest.raises(ef.EqfuseError) as refused:
        ef.compile(f, X, target="numpy", numerics=numerics)
    assert all(name in str(refused.value) for name in ("strict", "reassociate", "approximate"))


@pytest.mark.parametrize("choice", [{"target": "gpu"}, {"extractor": "ilp2"}, {"laws": "x"}, {"numerics": "fast"}])
def test_jit_refuses_unknown_choices_at_the_first_call(choice: dict[str, str]) -> None:
    with pytest.raises(ef.EqfuseError):
        ef.jit(**choice)(f)(X)  # type: ignore[call-overload]
