"""numexpr's own expressions, as NumPy functions: traced and compiled they give what NumPy gives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.agreement import agrees
from tests.frontends.numexpr_expressions import SECTIONS
from tests.support.some import some

DTYPES = ("int64", "float32", "float64", "complex128")
NUMERICS = ("strict", "reassociate", "approximate")
NAMES = ("a", "a2", "b", "c", "d", "e")


def arrays(dtype: str, scalar: int = 0, n: int = 100) -> tuple[Any, ...]:
    """numexpr's own arguments: `a` (for `scalar` 1) or `b` (for 2) is a number instead."""
    c = np.arange(n, dtype=dtype)
    a, a2, b = np.arange(2 * n, dtype=dtype)[::2], np.zeros((n, n), dtype), (c / n).astype(dtype)
    d, e = c, c + c
    if dtype == "complex128":
        a, b, c = a + 1j * a, b + 1j * b, c + 1j * c
    return (a[n // 2] if scalar == 1 else a, a2, b[n // 2] if scalar == 2 else b, c, d, e)


def function(*expressions: str) -> Any:
    code = [compile(text, "<numexpr>", "eval") for text in expressions]

    def evaluate(*values: Any) -> list[Any]:
        names = {name: getattr(np, name) for name in np.__all__} | dict(zip(NAMES, values, strict=True))
        return [eval(c, names) for c in code]

    return evaluate


def defined(expression: str, dtype: str) -> bool:
    """Whether NumPy has a result: it refuses some functions of complex numbers, and negative powers of integers."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(expression)(*arrays(dtype))
    except (TypeError, ValueError):
        return False
    return True


def test_these_are_numexprs_141_expressions() -> None:
    assert sum(map(len, SECTIONS.values())) == 141


@pytest.mark.parametrize("scalar", (0, 1, 2))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("section", SECTIONS)
def test_a_traced_expression_means_what_numpy_computes(section: str, dtype: str, scalar: int) -> None:
    for expression in SECTIONS[section]:
        agrees(function(expression), *arrays(dtype, scalar))


def compiled_agrees(expressions: list[str], dtype: str, numerics: str) -> None:
    fn, values = function(*expressions), arrays(dtype)
    with np.errstate(all="ignore"):
        wanted = fn(*values)
        got = ef.compile(fn, *values, numerics=numerics)(*values)
    for expression, g, w in zip(expressions, got, wanted, strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert (g.dtype, g.shape) == (w.dtype, w.shape), expression
        finite = np.isfinite(w)
        if numerics == "strict":
            np.testing.assert_array_equal(np.isnan(g), np.isnan(w), err_msg=expression)
            np.testing.assert_array_equal(g[np.isinf(w)], w[np.isinf(w)], err_msg=expression)
        elif numerics == "reassociate":
            assert not np.isfinite(g[~finite]).any(), expression
        rtol = 0 if w.dtype.kind in "bi" else 16 * np.finfo(w.dtype).eps
        np.testing.assert_allclose(g[finite], w[finite], rtol=rtol, atol=rtol, err_msg=expression)


@pytest.mark.parametrize(
    ("dtype", "numerics"),
    [("float64", n) for n in NUMERICS] + [pytest.param("complex128", n, marks=pytest.mark.slow) for n in NUMERICS[:1]],
)
@pytest.mark.parametrize("section", some(SECTIONS, 4))
def test_a_section_compiled_as_one_program_gives_numpys_numbers(section: str, dtype: str, numerics: str) -> None:
    compiled_agrees([text for text in SECTIONS[section] if defined(text, dtype)], dtype, numerics)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("section", SECTIONS)
def test_every_expression_compiled_alone_gives_numpys_numbers(section: str, dtype: str) -> None:
    """In one dtype and numerics, by turns: whole sections are compiled under all of them above."""
    for i, expression in enumerate(SECTIONS[section]):
        if DTYPES[(i + i // 8) % len(DTYPES)] == dtype and defined(expression, dtype):
            compiled_agrees([expression], dtype, NUMERICS[i % len(NUMERICS)])
