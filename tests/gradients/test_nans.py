"""`ef.debug_nans` names the operator and the line that made the first NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

X = np.array([1.0, 0.0, 2.0])


def root(x: Any) -> Any:
    y = np.sqrt(x)  # whose derivative is infinite at 0
    return (y * 0).sum()


def cancelling(x: Any) -> Any:
    y = x - x  # through which an infinity comes twice
    return np.sqrt(y).sum()


def steps(x: Any) -> Any:
    return ef.scan(lambda h, r: (np.log(h - r), None), x, np.ones((3, 3)))[0].sum()


def masked(x: Any) -> Any:
    harmless = np.where(x > 0, np.log(x - 1), x)
    return harmless[1:2], np.arcsin(x)


def twice(x: Any) -> Any:
    return ef.grad(root)(x).sum()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (ef.grad(root), r"multiply makes the first NaN, of float64\[3\] at \(1,\), in the derivative of sqrt"),
        (ef.jit(ef.grad(root), target="numpy"), r"derivative of sqrt\s+differentiated at .*y = np.sqrt\(x\)"),
        (ef.grad(twice), r"differentiated at .*y = np.sqrt\(x\)"),
        (ef.grad(cancelling), r"in the derivative of subtract\s+differentiated at .*y = x - x"),
        (ef.jit(masked, target="numpy"), r"asin makes the first NaN, of float64\[3\] at \(2,\)\s+made at .*arcsin"),
        (ef.jit(steps, target="numpy"), r"scan makes the first NaN, of float64\[3\].*\s+made at .*ef.scan"),
    ],
)
def test_the_operator_and_the_line_of_the_first_nan_are_named(call: Callable[..., Any], says: str) -> None:
    call(X)
    with ef.debug_nans(), pytest.raises(ef.NanError, match=says) as caught:
        call(X)
    assert isinstance(caught.value, FloatingPointError)


def test_results_without_a_nan_and_those_of_nans_given_are_as_they_are() -> None:
    with ef.debug_nans():
        assert ef.grad(root)(X + 1).sum() == 0
        assert np.isnan(ef.jit(lambda x: x + 1, target="numpy")(np.array([np.nan]))).all()
        with ef.debug_nans(False):
            assert np.isnan(ef.grad(root)(X)).any()


def test_an_argument_that_is_changed_is_looked_at() -> None:
    def fill(x: Any) -> None:
        x[0] = np.log(x[1] - 5)

    with ef.debug_nans(), pytest.raises(ef.NanError, match="log makes the first NaN"):
        ef.jit(fill, target="numpy")(X.copy())
