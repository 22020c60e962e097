"""However a call is written, a jitted function gets what Python gives it, or an error where Python raises one."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import ArgumentError
from eqfuse.ir.parameters import CallForms


def plain(a: Any, b: Any = 2.0, c: Any = 3.0) -> Any:
    return a - b * c


def of_all_kinds(a: Any, /, b: Any = 2.0, *rest: Any, c: Any = 3.0, **more: Any) -> Any:
    return a - b * c + 5 * sum(rest) + sum(7 * value for value in more.values())


def by_name(*, b: Any, c: Any = 3.0) -> Any:
    return b - c


FUNCTIONS = (plain, of_all_kinds, by_name)


def calls() -> Iterator[tuple[tuple, dict[str, Any]]]:
    """Up to four arguments by position, and others by name, in any order."""
    for count in range(5):
        for names in itertools.chain.from_iterable(itertools.permutations("abcd", n) for n in range(4)):
            yield tuple(map(float, range(10, 10 + count))), dict(zip(names, (0.5, 1.5, 2.5), strict=False))


@pytest.mark.parametrize("static", [(), ("c",), ("b", "c"), ("rest",), ("more",)], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arguments_are_bound_as_python_binds_them(function: Callable, static: tuple[str, ...]) -> None:
    parameters = inspect.signature(function)
    named_static = frozenset(static) & parameters.parameters.keys()
    forms = CallForms(parameters, named_static)
    for args, kwargs in calls():
        try:
            expected = parameters.bind(*args, **kwargs).arguments
        except TypeError:
            if kwargs or named_static:  # else tracing calls the function itself
                with pytest.raises(ArgumentError):
                    forms.split(args, kwargs)
            continue
        if named_static and "a" in kwargs and function is of_all_kinds:
            with pytest.raises(ArgumentError, match="'a' has the name of a parameter by position"):
                forms.split(args, kwargs)
            continue
        for _ in range(2):  # the second time by the form of the first
            (positional, named), fixed = forms.split(args, kwargs)
            rest = {name: named.pop(name) for name in ("rest",) if name in named}  # behind a static one
            bound = parameters.bind_partial(*positional, **named).arguments
            assert {**bound, **rest, **fixed} == expected
            assert fixed.keys() == {name for name in static if name in expected}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_jitted_function_gives_what_it_gives_uncompiled(function: Callable) -> None:
    jitted = ef.jit(function, budget=ef.Budget(seconds=0))
    arrays = [np.arange(3.0) + n for n in range(3)]
    for args, kwargs in (((arrays[0],), {}), (tuple(arrays), {}), (tuple(arrays[:1]), {"c": arrays[1], "b": arrays[2]}),
                         ((), {"b": arrays[1], "c": arrays[2]}), ((), {"c": arrays[1], "b": arrays[2]})):  # fmt: skip
        try:
            expected = function(*args, **kwargs)
        except TypeError:
            with pytest.raises(ef.EqfuseError):
                jitted(*args, **kwargs)
        else:
            np.testing.assert_array_equal(jitted(*args, **kwargs), expected)
