"""What NumPy takes in several spellings is taken in each: memory orders, axes from arrays, defaults passed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.agreement import agrees

X = np.arange(6.0).reshape(2, 3)

ORDERED: dict[str, Callable[[Any, Any], Any]] = {
    "asarray": lambda x, order: np.asarray(x, order=order), "array": lambda x, order: np.array(x, order=order),
    "copy": lambda x, order: x.copy(order), "np.copy": lambda x, order: np.copy(x, order),
    "ravel": lambda x, order: x.ravel(order), "np.ravel": lambda x, order: np.ravel(x, order),
    "flatten": lambda x, order: x.flatten(order), "astype": lambda x, order: x.astype(np.float32, order),
    "zeros_like": lambda x, order: np.add(x, 0, out=np.zeros_like(x, order=order)),
    "ufunc": lambda x, order: np.add(x, 1, order=order),
    "list": lambda x, order: np.array([x[0], x[1]], order=order),
}  # fmt: skip
IN_ROWS_OR_COLUMNS: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda x, order: x.reshape(3, 2, order=order),
    "np.reshape": lambda x, order: np.reshape(x, (3, 2), order),
    "zeros": lambda x, order: np.add(x, 0, out=np.zeros((2, 3), order=order)),
    "ones": lambda x, order: np.add(x, 0, out=np.ones((2, 3), order=order)),
    "full": lambda x, order: np.add(x, 0, out=np.full((2, 3), 2.0, order=order)),
    "empty": lambda x, order: np.add(x, 0, out=np.empty((2, 3), order=order)),
    "eye": lambda x, order: np.eye(2, 3, order=order) + x,
}  # fmt: skip


@pytest.mark.parametrize("order", ["c", "f", "a", "k", "C", "F", "A", "K", None])
@pytest.mark.parametrize("name", ORDERED | IN_ROWS_OR_COLUMNS)
def test_a_memory_order_may_be_a_small_letter_or_left_open(name: str, order: str | None) -> None:
    """As it lies shows in the order in which "K" reads it."""
    call = (ORDERED | IN_ROWS_OR_COLUMNS)[name]
    agrees(lambda x: np.ravel(call(x, order), "K"), X)
    agrees(lambda x: np.ravel(call(x.T.copy().T, order), "K"), X)


def test_a_memory_order_that_there_is_not_is_refused() -> None:
    with pytest.raises(ef.ShapeError, match="'C', 'F', 'A', not 'K'"):
        ef.trace(lambda x: x.reshape(3, 2, order="K"), X)


AXES: dict[str, Callable[[Any, Any], Any]] = {
    "transpose": lambda x, axes: np.transpose(x, axes[::-1]), "sum": lambda x, axes: np.sum(x, axes[1]),
    "mean": lambda x, axes: x.mean(axis=axes[1]), "all": lambda x, axes: np.flip(x, tuple(axes)),
    "concatenate": lambda x, axes: np.concatenate([x, x], axes[1]), "stack": lambda x, axes: np.stack([x, x], axes[1]),
    "cumsum": lambda x, axes: np.cumsum(x, axes[1]), "swapaxes": lambda x, axes: np.swapaxes(x, *axes),
    "moveaxis": lambda x, axes: np.moveaxis(x, axes, axes[::-1]), "fft": lambda x, axes: np.fft.fft(x, axis=axes[1]),
    "split": lambda x, axes: np.split(x, axes[1:], axis=axes[1]), "roll": lambda x, axes: np.roll(x, axes[1], axes[0]),
    "tensordot": lambda x, axes: np.tensordot(x, x, (axes, axes)), "sort": lambda x, axes: np.sort(-x, axes[0]),
    "tensordot of one": lambda x, axes: np.tensordot(x, x, (axes[0], axes[0])),
    "expand_dims": lambda x, axes: np.expand_dims(x, tuple(axes + 1)), "argmax": lambda x, axes: x.argmax(axes[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", AXES)
def test_axes_may_come_from_an_array_whose_values_are_known(name: str) -> None:
    def turned(x: Any) -> Any:
        axes = np.arange(x.ndim)
        axes[0], axes[1] = axes[1], axes[0]
        return AXES[name](x, np.sort(axes))

    agrees(turned, X)


def test_an_axis_that_is_an_argument_is_refused_with_the_line() -> None:
    with pytest.raises(ef.TraceError, match=r"axis(.|\n)*static_argnames(.|\n)*np\.sum\(x, axis\)"):
        ef.jit(lambda x, axis: np.sum(x, axis))(X, 1)


@pytest.mark.parametrize("function", [np.sum, np.prod, np.max, np.min, np.any, np.all, np.mean, np.std, np.nansum])
@pytest.mark.parametrize("keyword", ["keepdims", "where", "initial"])
def test_a_default_may_be_passed_on(function: Any, keyword: str) -> None:
    """As functions do whose own default is NumPy's np._NoValue."""
    agrees(lambda x: function(x, axis=0, **{keyword: np._NoValue}), X)


def test_a_default_of_a_position_may_be_passed_on() -> None:
    agrees(lambda x: (np.argmax(x, keepdims=np._NoValue), np.diff(x, prepend=np._NoValue)), X)
