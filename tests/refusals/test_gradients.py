"""What has no gradient is refused by an error of the right class, which names the operator and the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import DtypeError, OptionError

X = np.arange(1.0, 5.0)


def total(x: Any, n: Any = 1) -> Any:
    return (x * n).sum()


def jumpy(x: Any) -> Any:
    y = np.exp(x)
    z = np.bitwise_count(y.astype(np.int64)) + np.lcm(2, 3)
    return (np.multiply.reduceat(y, [0, 2]) * z.sum()).sum()


CALLS = [
    (lambda: ef.grad(total, 2)(X), OptionError, "argnums is 2, and total is called with 1 positional"),
    (lambda: ef.grad(total, (0, 0))(X), OptionError, "twice"),
    (lambda: ef.grad(total, "x")(X), OptionError, "argnums is 'x'"),
    (lambda: ef.grad(total)(np.arange(3)), DtypeError, "argument x is int64.3."),
    (lambda: ef.grad(total, 1)(X, 3), DtypeError, "argument n is int64"),
    (lambda: ef.grad(total)({"w": X > 2}), DtypeError, "argument x.'w'. is bool.4."),
    (lambda: ef.grad(total)("text"), ef.TraceError, "argument x holds no arrays"),
    (lambda: ef.grad(np.sin)(X), ef.ShapeError, "an array of shape .4,.: return its sum or its mean"),
    (lambda: ef.grad(lambda x: (x.sum(), x))(X), ef.ShapeError, "returns 2 values: .* has_aux=True"),
    (lambda: ef.grad(lambda x: (x > 2).sum())(X), DtypeError, "result of int64, which has no gradient"),
    (lambda: ef.grad(lambda x: (x * 1j).sum())(X), DtypeError, "of real arguments, return a real one"),
    (lambda: ef.grad(lambda x: x.sum())(X * 1j), DtypeError, "say so by holomorphic=True"),
    (lambda: ef.jacrev(lambda x: x * 1j)(X), DtypeError, "of real arguments, return its real and its imaginary part"),
    (lambda: ef.jacrev(lambda x: x)(X * 1j), DtypeError, "say holomorphic=True"),
    (lambda: ef.jacfwd(lambda x: x)(X * 1j), DtypeError, "say holomorphic=True"),
    (lambda: ef.grad(lambda x: x.sum(), holomorphic=True)(X), DtypeError, "holomorphic"),
    (lambda: ef.grad(lambda x: None)(X), ef.ShapeError, "returns no array: return what is minimised"),
    (lambda: ef.grad(total, has_aux=True)(X), ef.TraceError, "returns a pair.* and not an array"),
    (lambda: ef.grad(lambda x: (x.sum(), x, x), has_aux=True)(X), ef.TraceError, "and not 3 values"),
    (lambda: ef.grad(3), ef.TraceError, "a function or a graph is differentiated, not 3"),
    (lambda: ef.grad(lambda x: x if x.sum() > 0 else -x)(X), ef.TraceError, "ef.cond"),
    (lambda: ef.jvp(np.sin, X, (X,)), ef.TraceError, "the primals are a ndarray: give a tuple"),
    (lambda: ef.jvp(np.sin, (X,), (X, X)), ef.TraceError, "nest as"),
    (lambda: ef.jvp(np.sin, (X,), (X[1:],)), ef.ShapeError, r"float64\[3\] was given for what is float64\[4\]"),
    (lambda: ef.vjp(np.sin, X)[1](X.astype(np.float32)), DtypeError, "float32.4. was given for what is float64.4."),
    (lambda: ef.vjp(np.sign, X > 0), DtypeError, "bool"),
    (lambda: ef.vjp(np.argmax, X), DtypeError, "return it as aux"),
    (lambda: ef.vjp(total, X, 3), DtypeError, "Pass it as a float, or let the function read it from around it"),
    (lambda: ef.split_vjp(np.argmax, X), DtypeError, "no derivative: return a float\n"),
]  # fmt: skip


@pytest.mark.parametrize("call, error, words", CALLS, ids=[words for *_, words in CALLS])
def test_a_wrong_call_is_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, ef.EqfuseError) and "test_gradients.py" in str(caught.value)


def test_an_operator_without_a_derivative_is_named_with_its_line() -> None:
    with pytest.raises(ef.UnsupportedOp, match=r"reduceat of float64\[4\].* has no derivative") as caught:
        ef.grad(jumpy)(X)
    assert "return (np.multiply.reduceat" in str(caught.value)


def test_a_differentiated_function_may_not_write_to_what_is_around_it() -> None:
    def around(x: Any) -> Any:
        kept = np.zeros(4)

        def inner(y: Any) -> Any:
            kept[0] = y.sum()
            return (y * y).sum()

        return ef.grad(inner)(x) + kept

    with pytest.raises(ef.TraceError, match=r"inner, which ef.grad differentiates, writes to an array of shape"):
        ef.jit(around)(X)
