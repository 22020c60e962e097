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
    return ef.scan(lambda h, r: (np.log(h - r + 1), None), x + 1, np.ones((3, 3)))[0].sum()


def counted(x: Any, n: int) -> Any:
    def body(i: Any, carries: Any) -> Any:
        a, b = carries
        harmless = np.where(a < 0, 0, np.sqrt(a))
        y = np.sqrt(a + 5 - i) + harmless
        return a, b + y

    return ef.fori_loop(3, n, body, (x, x))[1].sum()


def searched(x: Any) -> Any:
    def body(carries: Any) -> Any:
        a, b, i = carries
        spoilt = a + np.log(x[1] - (i == 2))
        return np.maximum(spoilt, b), b + a, i + 1  # `b` gets it a step later

    return ef.while_loop(lambda carries: carries[2] < 6, body, (x, x, 0))[1]


def nested(x: Any) -> Any:
    def outer(h: Any, r: Any) -> Any:
        def inner(i: Any, c: Any) -> Any:
            q = np.arccos(c + i)
            return np.minimum(c, q)

        return ef.fori_loop(0, 4, inner, h - r), None

    return ef.scan(outer, x / 4 + 1, np.ones((3, 3)))[0]


def alike(x: Any) -> Any:
    first = ef.scan(lambda h, r: (np.log(h), None), x + 1000, np.ones((2, 3)))[0]
    other = ef.scan(lambda h, r: (np.log(h), None), x - 1, np.ones((2, 3)))[0]  # alike steps
    return first, other


def branched(x: Any) -> Any:
    return ef.cond(x[0] > 0, lambda x: np.log(x - 1.5), lambda x: x, x)


def rooted(x: Any) -> Any:
    def step(h: Any, r: Any) -> Any:
        s = np.sqrt(h)  # whose derivative is infinite at 0
        return (s * 0).sum() + h * r, None

    return ef.scan(step, x, np.ones((4, 3)))[0].sum()


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
        (ef.jit(steps, target="numpy"),
         r"log makes the first NaN, of float64\[3\] at \(0,\), at index 2 of scan\s+made at .*log\(h.*\s+run at .*sc"),
        (ef.jit(lambda x: counted(x, 9), target="numpy"),
         r"sqrt makes .* at \(1,\), at index 6 of scan\s+made at .*y = .*\s+run at .*fori_loop"),
        (ef.jit(counted, target="numpy"),
         r"sqrt makes .*, at index 6 of fori_loop\s+made at .*y = .*\s+run at .*fori_loop"),
        (ef.jit(searched, target="numpy"),
         r"log makes .*, in step 2 of while_loop\s+made at .*spoilt.*\s+run at .*while_loop"),
        (ef.jit(nested, target="numpy"),
         r"acos makes .*, at index 1 of scan, at index 0 of scan\s+made at .*q = .*\s+run at .*fori.*\s+run at .*scan"),
        (ef.jit(alike, target="numpy"), r"log makes .*, at index 0 of scan\s+made at .*other = .*\s+run at .*other = "),
        (ef.jit(branched, target="numpy"), r"log makes .*, in a branch of if_else\s+made at .*ef.cond"),
        (ef.grad(rooted), r"in the derivative of sqrt, at index 3 of scan\s+differentiated at .*s = np.sqrt\(h\)"),
        (lambda x: ef.jvp(lambda x: counted(x, 9), (x,), (x,)),
         r"sqrt makes .* at \(1,\), at index 6 of scan\s+made at .*y = .*\s+run at .*fori_loop"),
        (lambda x: ef.jvp(root, (x,), (x,)), r"derivative of sqrt\s+differentiated at .*y = np.sqrt\(x\)"),
        (lambda x: ef.jvp(rooted, (x,), (x,)), r"derivative of sqrt, at index 0 of scan\s+differentiated at .*s = "),
        (lambda x: ef.jacrev(lambda x: root(x) + x)(x), r"of sqrt, at index 0 of scan\s+differentiated at .*y = "),
        (lambda x: ef.jacfwd(root)(x), r"of sqrt, at index 0 of scan\s+differentiated at .*y = "),
    ],
)
def test_the_operator_and_the_line_of_the_first_nan_are_named(call: Callable[..., Any], says: str) -> None:
    given = (X, 9) if "index 6 of fori_loop" in says else (X,)
    call(*given)
    with ef.debug_nans(), pytest.raises(ef.NanError, match=says) as caught:
        call(*given)
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
