"""What NumPy takes in several spellings is taken in each: memory orders, axes, integers, defaults passed on."""

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


NUMBERS: dict[str, Callable[[Any, Callable[[int], Any]], Any]] = {
    "x.transpose": lambda x, i: x[0].transpose(i(0)) + x.transpose(i(1), i(0))[:, 0].sum(),
    "tensordot": lambda x, i: np.tensordot(x, x.T, i(1)), "fftshift": lambda x, i: np.fft.fftshift(x, i(1)),
    "quantile": lambda x, i: np.quantile(x, 0.3, i(0)), "nanmedian": lambda x, i: np.nanmedian(x, i(0)),
    "average": lambda x, i: np.average(x, axis=i(1), weights=x[0]), "rot90": lambda x, i: np.rot90(x, i(1)),
    "roll": lambda x, i: np.roll(x, i(1), i(0)), "repeat": lambda x, i: np.repeat(x, i(2), i(0)),
    "tile": lambda x, i: np.tile(x, i(2)),
    "split": lambda x, i: np.split(x, i(3), i(1)),
    "pad": lambda x, i: np.pad(x, i(2)),
    "diff": lambda x, i: np.diff(x, i(2)), "triu": lambda x, i: np.triu(x, i(1)), "diag": lambda x, i: np.diag(x, i(1)),
    "eye": lambda x, i: np.eye(i(2), i(3), i(1)) + x,
    "trace": lambda x, i: x.trace(i(1)),
    "zeros": lambda x, i: np.zeros(i(3)) + x,
    "vander": lambda x, i: np.vander(x[0], i(3)),
    "round": lambda x, i: np.round(x / 3, i(1)),
    "var": lambda x, i: x.var(ddof=i(1)),
    "reshape": lambda x, i: x.reshape(i(3), i(2)) + x.reshape(i(6))[0], "squeeze": lambda x, i: x[:1].squeeze(i(0)),
    "broadcast_to": lambda x, i: np.broadcast_to(x[0], (i(2), i(3))) + np.broadcast_to(x[0, 0], i(3)),
    "an array of extents": lambda x, i: np.broadcast_to(x, np.array([i(2), i(2), i(3)])),
    "insert": lambda x, i: np.insert(x, i(1), 5, i(1)), "delete": lambda x, i: np.delete(x, i(1), i(1)),
    "partition": lambda x, i: np.partition(x, i(1))[:, 1], "take": lambda x, i: x.take(i(1), i(0)),
    "norm": lambda x, i: np.linalg.norm(x, i(1), i(0)), "fft": lambda x, i: np.fft.fft(x, i(3), i(0)),
    "gradient": lambda x, i: np.gradient(x, i(2), axis=i(0)),
    "trapezoid": lambda x, i: np.trapezoid(x, dx=i(2), axis=i(0)),
    "apply_over_axes": lambda x, i: np.apply_over_axes(np.sum, x, i(1)),
    "count": lambda x, i: np.count_nonzero(x, i(0)),
    "slices": lambda x, i: x[i(0) : i(2), :: i(2)], "compress": lambda x, i: np.compress([True, False], x, i(0)),
    "histogram": lambda x, i: np.histogram(x, i(4), (0, 10)), "polyint": lambda x, i: np.polyint(x[0], i(1)),
}  # fmt: skip


@pytest.mark.parametrize("kind", [int, np.int64, np.int8])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_may_be_one_of_numpys_integers(name: str, kind: Callable[[int], Any]) -> None:
    agrees(lambda x: NUMBERS[name](x, kind), X)


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
