"""Functions that are no array program: refused while tracing, at the user's own line, with what to do instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

X = ef.spec((3, 4), np.float32)


def branch(x: Any) -> Any:
    if x.sum() > 0:  # here
        return x
    return -x


def loop(x: Any) -> Any:
    while np.abs(x).max() > 1:  # here
        x = x / 2
    return x


def number(x: Any) -> Any:
    return x * float(x[0, 0])  # here


def choice(x: Any) -> Any:
    return [1, 2, 3][x[0, 0].astype(np.int64)]  # here


def extent(x: Any) -> Any:
    return np.zeros(x[0, 0].astype(np.int64))  # here


OUTSIDE = np.zeros((3, 4), np.float32)


def in_place_result(x: Any) -> Any:
    return np.exp(x, out=OUTSIDE)  # here


def text_result(x: Any) -> Any:
    return object()


def chosen_by_mask(x: Any) -> Any:
    return x[x > 0]  # here


def distinct(x: Any) -> Any:
    return np.unique(x)  # here


def saved(x: Any) -> Any:
    return np.savetxt("nowhere", x)  # here


def addition(x: Any) -> Any:
    return x + np.zeros(5, np.float32)  # here


def product(x: Any) -> Any:
    return x @ x  # here


def reshaped(x: Any) -> Any:
    return x.reshape(5, 5)  # here


def wrong_axis(x: Any) -> Any:
    return x.sum(axis=2)  # here


def joined(x: Any) -> Any:
    return np.concatenate([x, x[:, :2]])  # here


def inner(x: Any) -> Any:
    return x @ x  # here


def outer(x: Any) -> Any:
    return ef.softmax(inner(x))


def line_of(function: Callable[..., Any]) -> str:
    """``file:line`` of the line of `function` that is marked."""
    lines, first = inspect.getsourcelines(function)
    (marked,) = (i for i, line in enumerate(lines) if line.rstrip().endswith("# here"))
    return f"{__file__}:{first + marked}"


@pytest.mark.parametrize("function", [branch, loop, number, choice, extent, chosen_by_mask])
def test_a_function_that_depends_on_data_is_refused_at_its_own_line(function: Callable[..., Any]) -> None:
    with pytest.raises((ef.TraceError, ef.UnsupportedOp)) as refused:
        ef.trace(function, X)
    assert line_of(function) in str(refused.value)


@pytest.mark.parametrize("function", [distinct, saved])
def test_a_function_that_cannot_be_traced_is_named_at_the_users_line(function: Callable[..., Any]) -> None:
    with pytest.raises(ef.TraceError, match=r"np\.(unique|savetxt) cannot be traced: .* Instead: ") as refused:
        ef.trace(function, X)
    assert line_of(function) in str(refused.value)


def test_writing_into_an_array_outside_is_refused_at_the_users_line() -> None:
    with pytest.raises(ef.EqfuseError) as refused:
        ef.trace(in_place_result, X)
    assert line_of(in_place_result) in str(refused.value)


def whole_written(x: Any) -> Any:
    y = np.ndarray(x.shape)
    y[...] = x  # here
    return y


def element_written(x: Any) -> Any:
    y = np.ndarray(3)
    y[0] = x[0, 0]  # here
    return y


@pytest.mark.parametrize("function", [whole_written, element_written])
def test_a_write_into_an_array_that_its_class_has_made_says_what_to_make_it_by(function: Callable[..., Any]) -> None:
    with pytest.raises(ef.TraceError, match=r"np\.empty\(shape\) (for|where) np\.ndarray\(shape\)") as refused:
        ef.trace(function, X)
    assert line_of(function) in str(refused.value)


@pytest.mark.parametrize("function", [addition, product, reshaped, wrong_axis, joined])
def test_shapes_that_do_not_fit_are_refused_at_the_users_line(function: Callable[..., Any]) -> None:
    with pytest.raises(ef.ShapeError) as refused:
        ef.trace(function, X)
    assert line_of(function) in str(refused.value)


def test_the_line_named_is_the_innermost_of_the_users_own() -> None:
    with pytest.raises(ef.ShapeError) as refused:
        ef.trace(outer, X)
    assert line_of(inner) in str(refused.value)


def test_the_line_is_named_when_jit_traces_at_the_first_call() -> None:
    with pytest.raises(ef.TraceError) as refused:
        ef.jit(branch)(np.ones((3, 4), np.float32))
    assert line_of(branch) in str(refused.value)


def test_a_result_that_is_no_array_is_refused_by_its_type() -> None:
    with pytest.raises(ef.TraceError, match=r"returns a builtins\.object"):
        ef.trace(text_result, X)


@pytest.mark.parametrize("argument", [object(), np.array(["a"]), np.array([object()]), np.zeros(2, "M8[s]")])
def test_an_argument_that_is_no_array_of_numbers_is_refused_by_name(argument: Any) -> None:
    with pytest.raises(ef.EqfuseError, match="argument 'x'"):
        ef.trace(lambda x: x, argument)


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "@"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_in_place_operator_that_does_not_cast_is_named_as_written(operator: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def program(x, y):\n    x {operator}= y\n    return x", names)
    y = ef.spec((3, 3), np.float32 if operator not in ("&", "|", "^", "<<", ">>") else np.int64)
    with pytest.raises(TypeError) as refused:
        ef.trace(names["program"], ef.spec((3, 3), np.int16 if y.dtype != np.int64 else np.bool_), y)
    assert f"x {operator}= y" in str(refused.value)
    assert f"Write x = x {operator} y" in str(refused.value)


def test_an_out_that_does_not_cast_is_refused_with_what_to_write() -> None:
    with pytest.raises(ef.ShapeError, match=r"(?s)float64 cannot be cast to .*int16.*Write into an array of float64"):
        ef.trace(lambda x: np.multiply(x, 1.5, out=x), ef.spec((3,), np.int16))


class Model:
    def __init__(self) -> None:
        self.w = np.ones(4, np.float32)

    @ef.jit
    def __call__(self, x: Any) -> Any:
        return x * self.w


def test_a_method_of_an_ordinary_class_is_refused_with_what_a_static_self_means() -> None:
    with pytest.raises(ef.TraceError, match=r"'self' is a .*Model, .*dataclass.*static_argnames.* read once"):
        Model()(np.ones((3, 4), np.float32))


@pytest.mark.parametrize("value", [np.float64(2), np.ones(3), np.int16(3)])
def test_an_attribute_that_numpy_does_not_have_is_missed_as_in_numpy(value: Any) -> None:
    def program(x: Any) -> Any:
        return x.foo

    with pytest.raises(AttributeError) as by_numpy:
        program(value)
    with pytest.raises(AttributeError) as refused:
        ef.compile(program, value)
    assert str(by_numpy.value).startswith(str(refused.value))


def test_the_text_of_a_traced_number_is_refused_with_what_to_do() -> None:
    with pytest.raises(ef.TraceError, match="Return it, and write about it outside"):
        ef.trace(lambda x: f"{x.sum():.3f}", X)


@pytest.mark.parametrize("compiled", [lambda f, *given: ef.jit(f), ef.compile])
def test_arguments_that_overlap_are_named(compiled: Callable[..., Any]) -> None:
    def program(scale: Any, a: Any, boxes: Any) -> Any:
        a += boxes["b"] * scale
        return a

    memory = np.ones(5)
    program = compiled(program, 2, np.ones(4), {"b": np.ones(4)})
    with pytest.raises(ef.ShapeError, match=r"(?s)argument 'a' in place.*shares: \"boxes\['b'\]\"\. Pass a copy"):
        program(2, memory[1:], {"b": memory[:-1]})
    memory.flags.writeable = False
    with pytest.raises(ef.ShapeError, match="argument 'a' in place, which is read-only"):
        program(2, memory[1:], {"b": np.ones(4)})
