"""What a traced mask selects, x[mask]: functions of it give NumPy's numbers, or are refused with the user's line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import EqfuseError
from eqfuse.frontends.numpy.registry import TRACED_FUNCTIONS, TRACED_UFUNCS
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.evaluate import meaning
from tests.frontends.agreement import agrees

X = np.linspace(-3, 3, 12)
ROWS = X.reshape(4, 3)[::-1] * np.array([1.0, -2.0, 0.5])
SQUARE = X[:9].reshape(3, 3) ** 2 - 1.5
LEFT_OPEN = {np.empty_like}

# each is a function of what is selected whose result is assigned to where it came from
ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "where": lambda s: np.where(s > 1, s, 2), "clip": lambda s: np.clip(s, -1, 2), "x.clip": lambda s: s.clip(max=1),
    "round": lambda s: np.round(s, 1), "x.round": lambda s: s.round(1), "real": np.real, "x.imag": lambda s: s.imag,
    "conj": lambda s: s.conj(), "nan_to_num": lambda s: np.nan_to_num(1 / (s - s)), "sinc": np.sinc,
    "isclose": lambda s: np.isclose(s, 1.0, atol=0.5).astype(float), "zeros_like": np.zeros_like, "i0": np.i0,
    "full_like": lambda s: np.full_like(s, 3), "copy": lambda s: np.copy(s), "fix": np.fix, "angle": np.angle,
    "interp": lambda s: np.interp(s, [-2, 0, 1], [3, 1, 2]), "polyval": lambda s: np.polyval([1.0, 2.0, 3.0], s),
    "searchsorted": lambda s: np.searchsorted([-1, 0, 2], s), "digitize": lambda s: np.digitize(s, [0, 1]),
    "asarray": lambda s: np.asarray(s) * 2, "array": lambda s: np.array(s, np.float32) * 2,
    "select": lambda s: np.select([s > 1, s > 0], [s, -s], 7), "isin": lambda s: np.isin(np.round(s), [1, 2]),
    "piecewise": lambda s: np.piecewise(s, [s > 1], [lambda t: t * 2, 0]),
    "broadcast_arrays": lambda s: np.broadcast_arrays(s, 1.0)[0] + 1,
    "result_type": lambda s: s.astype(np.result_type(s, np.float32)), "iscomplexobj": lambda s: s + np.iscomplexobj(s),
    "a product": lambda s: s + s @ s, "dot": lambda s: s / np.dot(s, s), "nansum": lambda s: s - np.nansum(s),
    "norm": lambda s: s / np.linalg.norm(s), "average": lambda s: s - np.average(s),
    "count_nonzero": lambda s: s * np.count_nonzero(s > 0),
    "where=": lambda s: np.multiply(s, 2, where=s > 0) * (s > 0),
    "copy is another": lambda s: s.copy().__imul__(2) - s,
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("shape", [(12,), (3, 4), ()])
def test_what_is_computed_of_a_selection_may_be_assigned(name: str, shape: tuple[int, ...]) -> None:
    def assigned(x: Any) -> Any:
        y, mask = np.zeros(shape), x > -1.2
        y[mask] = ELEMENTWISE[name](x[mask])
        return y

    agrees(assigned, X.reshape(shape) if shape else X[9:10].reshape(()))


def test_selected_rows_are_worked_on_row_by_row() -> None:
    def worked(x: Any, w: Any) -> Any:
        y, mask = np.zeros((4, 2)), x[:, 0] > -2
        rows = x[mask]
        y[mask] = rows @ np.ones((3, 2)) + 1
        y[mask, 1] = rows @ x[0] - rows.sum(axis=1) + np.max(rows, -1) * np.linalg.norm(rows, axis=1)
        return y, w[mask] @ rows, rows.mean(axis=0)

    agrees(worked, ROWS, X[:4])


def test_a_selection_may_be_selected_of_and_changed() -> None:
    def clipped(x: Any) -> Any:
        y, mask = np.zeros(x.shape), x > -2
        chosen = x[mask]
        chosen[chosen < 0] *= 2
        chosen[chosen > 1.5] = np.sqrt(chosen[chosen > 1.5]) + 1
        positive = chosen[chosen > 0]
        y[mask] = chosen
        chosen[:] = 7
        return y, positive.mean(), positive[positive > 1].sum(), chosen[...].sum(), x[mask].sum()

    agrees(clipped, ROWS)


def test_a_selection_that_is_no_copy_is_the_same_one() -> None:
    def changed(x: Any) -> Any:
        first, second, third = x[x > 0], x[x > 0], x[x > 0]
        np.asarray(first, float)[...] = 1
        second.astype(float, copy=False)[...] = 1
        np.array(third)[...] = 1
        positive = first[first > 0]
        np.nan_to_num(positive, copy=False)
        return first.sum(), second.sum(), third.sum()

    agrees(changed, np.array([1.0, np.inf, -1.0, 3.0]))


def test_selected_rows_may_be_selected_of_and_changed() -> None:
    def changed(x: Any) -> Any:
        y, mask = np.zeros(x.shape), x[:, 0] > -2
        rows, large = x[mask], x[mask, 0] > 0
        rows[large] = rows[large] * 2 + 1
        rows[~large] = x[0]
        y[mask] = rows
        return y, rows[large].sum(axis=0), x

    agrees(changed, ROWS)


def test_a_norm_takes_its_order_before_its_axis() -> None:
    def lengths(x: Any) -> Any:
        y, mask = np.zeros((2, 4)), x[:, 0] > -2
        y[0, mask] = np.linalg.norm(x[mask], axis=1)
        y[1, mask] = np.linalg.norm(x[mask], ord=1, axis=-1)
        return y

    agrees(lengths, ROWS)
    for call in (lambda s: np.linalg.norm(s, 1), lambda s: np.linalg.norm(s, 1, axis=1), lambda s: np.sum(a=s)):
        with pytest.raises(ef.TraceError, match="depend on data"):
            ef.trace(lambda x, call=call: call(x[x[:, 0] > -2]), ROWS)


def test_a_part_of_a_selection_is_not_written_to() -> None:
    def written(x: Any) -> Any:
        chosen = x[x.real > 0]
        chosen.real[:] = 2
        return chosen.sum()

    with pytest.raises(ef.TraceError, match=r"real or imaginary part(.|\n)*chosen.real\[:\] = 2"):
        ef.trace(written, X * 1j)


def test_what_is_not_selected_raises_no_error() -> None:
    def powers(base: Any, exponent: Any) -> Any:
        y, mask = np.zeros(4, int), exponent >= 0
        y[mask] = base[mask] ** exponent[mask] + 2 ** exponent[mask] + base[mask] // exponent[mask]
        return y

    agrees(powers, np.arange(2, 6), np.array([-1, 2, 3, -2]))


def test_a_power_of_floats_chooses_once() -> None:
    """Other exponents than those selected may be anything."""

    def powers(x: Any, mask: Any) -> Any:
        x[mask] = np.abs(x[mask]) ** x[mask]
        return x

    graph = trace(powers, ef.spec(9), ef.spec(9, bool))
    assert [n.op for n in graph.nodes].count("where") == 1


def test_values_may_be_extracted_and_placed() -> None:
    """As SciPy's distributions and waveforms do."""

    def placed(x: Any) -> Any:
        y, inside = np.zeros(x.shape), (x > -2) & (x < 2)
        np.place(y, inside, np.extract(inside, x) / 2)
        outside = (1 - inside) & (x < 3)  # integers
        np.place(y, outside, np.extract(outside, x) + 9)
        extracted = np.extract(inside.ravel(), x)
        return y, extracted.sum(), np.compress(x[0] > 0, x[1]).mean(), x.compress(x[:, 0] > 0, axis=0).sum()

    agrees(placed, ROWS)


def test_a_known_mask_without_axes_selects_all_or_nothing() -> None:
    def selected(x: Any) -> Any:
        y = np.zeros(())
        y[np.array(True)] = x[np.array(True)].sum() + x[np.False_].sum()
        y[len(x) > 3] += np.maximum(y[len(x) > 3], 1)
        y[False] = 7
        return y

    agrees(selected, X)


def _fold(value: Any) -> Any:
    """All of a result in one number, whatever its shape."""
    first = value[0] if isinstance(value, (tuple, list)) else value
    return np.sum(np.abs(first * 1.0))


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "of a selection": lambda f, x: f(x[:, 0][x[:, 1] > -1]), "of rows": lambda f, x: f(x[x[:, 0] > 0.1]),
    "of two": lambda f, x: f(x[:, 0][x[:, 1] > -1], x[:, 2][x[:, 1] > -1]), "of all": lambda f, x: f(x[x > 0.2]),
    "of a row and rows": lambda f, x: f(x[:, 1][x[:, 0] > 0.1], x[x[:, 0] > 0.1]),
    "of rows and a row": lambda f, x: f(x[x[:, 0] > 0.1], x[:, 1][x[:, 0] > 0.1]),
    "of rows and an array": lambda f, x: f(x[x[:, 0] > 0.1], x[0]),
    "of an array and rows": lambda f, x: f(x[0], x[x[:, 0] > 0.1]),
    "of rows and rows": lambda f, x: f(x[x[:, 0] > 0.1], x[x[:, 0] > 0.1]),
    "with a number": lambda f, x: f(x[x[:, 0] > 0.1], 1),
    "with a number and an axis": lambda f, x: f(x[x[:, 0] > 0.1], 1, axis=1),
    "with an axis": lambda f, x: f(x[x[:, 0] > 0.1], axis=1), "with the first": lambda f, x: f(x[x > 0.1], axis=0),
}  # fmt: skip
FUNCTIONS = [f for f in (*TRACED_UFUNCS, *TRACED_FUNCTIONS) if f not in LEFT_OPEN]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f"{getattr(f, '__module__', '')}.{f.__name__}")
def test_every_function_of_selections_gives_numpys_numbers_or_is_refused(function: Any) -> None:
    """Of rows, or of as many rows as columns where NumPy refuses others."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, way in WAYS.items():
            any(_is_judged(name, lambda x, way=way: _fold(way(function, x)), x) for x in (ROWS, SQUARE))


def _is_judged(name: str, fn: Any, x: np.ndarray) -> bool:
    """Has NumPy an answer, which is then ours too, unless we refuse?"""
    try:
        wanted = fn(x.copy())
    except Exception:  # whatever NumPy has against it
        return False
    try:
        got = meaning(trace(fn, x), x)
    except (EqfuseError, TypeError):
        return True
    np.testing.assert_allclose(got, wanted, rtol=1e-9, err_msg=name)
    return True


def test_what_a_selection_cannot_do_is_refused_with_the_line() -> None:
    with pytest.raises(ef.TraceError, match=r"reshape of x\[mask\](.|\n)*x\[x > 0\]\.reshape\(2, -1\)"):
        ef.trace(lambda x: x[x > 0].reshape(2, -1), X)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ef.trace(lambda x: x[x > 0].nothing, X)
