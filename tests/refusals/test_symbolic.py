"""Symbols that do not fit: said with the argument, the axis and the two extents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef


@pytest.fixture(scope="module")
def program() -> Any:
    return ef.compile(lambda x, y: x * y, ef.spec(("n", 3)), ef.spec(("n", 3)))


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (((4, 3), (5, 3)), r"n is 4 in x.shape\[0\] and 5 in y.shape\[0\]"),
        (((4, 2), (4, 2)), r"'x' has extent 2 along axis 1, the program takes float64\[n, 3\]"),
        (((4, 3), (3,)), r"'y' has shape \(3,\), the program takes float64\[n, 3\]: its rank differs"),
    ],
)
def test_arrays_that_do_not_fit_the_symbols_are_refused(program: Any, shapes: tuple, said: str) -> None:
    with pytest.raises(ef.ShapeError, match=said):
        program(*map(np.ones, shapes))


def test_another_dtype_is_refused(program: Any) -> None:
    with pytest.raises(ef.ShapeError, match="argument 'x' is float32"):
        program(np.ones((4, 3), np.float32), np.ones((4, 3)))


def test_another_number_of_arguments_is_refused(program: Any) -> None:
    with pytest.raises(ef.ShapeError, match="nest differently"):
        program(np.ones((4, 3)))


def test_sizes_are_given_for_all_symbols(program: Any) -> None:
    with pytest.raises(ef.ShapeError, match="the symbols are n"):
        program.at(m=3)


def test_a_symbolic_program_is_not_saved(program: Any, tmp_path: Any) -> None:
    with pytest.raises(ef.EqfuseError, match=r"program.at\(n=…\).save"):
        program.save(tmp_path / "p")


@pytest.mark.parametrize("shape", [("2n",), ("n+1", 3), ("",)])
def test_a_symbol_is_written_like_a_variable(shape: tuple) -> None:
    with pytest.raises(ef.ShapeError, match="cannot name an extent"):
        ef.spec(shape)


def test_a_negative_extent_is_refused() -> None:
    with pytest.raises(ef.ShapeError, match="0 or more"):
        ef.spec((3, -1))


def test_a_graph_has_no_symbols() -> None:
    with pytest.raises(ef.TraceError, match=r"'x' is float64\[n\].*ef.compile takes symbols"):
        ef.trace(lambda x: x, ef.spec(("n",)))


def test_an_error_of_the_function_is_raised_when_it_is_compiled() -> None:
    with pytest.raises(ef.ShapeError, match="do not broadcast"):
        ef.compile(lambda x, y: x + y, ef.spec(("n", 3)), ef.spec(("n", 4)))


@pytest.mark.parametrize(
    ("dynamic", "said"),
    [
        ({"z": ("n",)}, r"dynamic names 'z'; the arrays among the arguments are 'x', 's'"),
        ({"x": ("n", "m")}, r"dynamic says \('n', 'm'\) of 'x', which has shape \(3,\)"),
        ({"x": (4,)}, "'x' has extent 3 along axis 0"),
        ({"s": ("n",)}, "'s', which is a number"),
        ({"x": ("3",)}, "cannot name an extent"),
    ],
)
def test_a_dynamic_that_does_not_fit_the_call_is_refused(dynamic: dict, said: str) -> None:
    with pytest.raises(ef.ShapeError, match=said):
        ef.jit(lambda x, s: x * s, dynamic=dynamic)(np.ones(3), 2.0)


@pytest.mark.parametrize("dynamic", ["x", ("n", 64), 3, None])
def test_a_dynamic_of_another_kind_is_refused(dynamic: Any) -> None:
    with pytest.raises(ef.TraceError, match="it takes True, or a shape by argument"):
        ef.jit(dynamic=dynamic)
