"""Kernels call quick functions of arguments that are not far, and others where one is: with one answer for an element.

Inputs: kernels of sin, cos and tan over arrays with far elements. The reference is NumPy in a wider type.
"""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.emit.c.kernels import Module, loaded, module_text
from eqfuse.emit.c.ops import QUICK_FUNCTIONS
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import node
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import emitted, judge, run_all
from tests.support.kernels import add, body, read, reduced, softmax

LIMITS = {"float32": 2.0**17, "float64": 2.0**24}


def arrays(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Near arguments, the same with far ones among them, and which these are."""
    near = (np.random.default_rng(0).standard_normal(60_000) * 1000).astype(dtype)
    near[:4] = 0.0, -0.0, np.nan, np.nextafter(np.dtype(dtype).type(LIMITS[dtype]), 0)
    mixed, far = near.copy(), np.zeros(near.shape, bool)
    far[[5, 30_000, 59_998, 59_999]] = True
    mixed[far] = [LIMITS[dtype], -1e9, np.inf, 1e30]
    return near, mixed, far


@needs_compiler
@pytest.mark.parametrize("dtype", LIMITS)
def test_an_element_has_the_same_bits_however_far_the_others_are(dtype: str) -> None:
    near, mixed, far = arrays(dtype)
    x = read(0, near.shape, dtype)
    kernels = [emitted("map", body([x], node(op, (x,)))) for op in QUICK_FUNCTIONS]
    for op, (alone,), (beside,) in zip(
        QUICK_FUNCTIONS, run_all(kernels, [[near]] * 3), run_all(kernels, [[mixed]] * 3), strict=True
    ):
        assert alone[~far].tobytes() == beside[~far].tobytes()
        with np.errstate(invalid="ignore"):
            exact = getattr(np, op)(mixed.astype(np.float64 if dtype == "float32" else np.longdouble))
        np.testing.assert_allclose(beside, exact, rtol=4 * np.finfo(dtype).eps, atol=0)
        assert np.signbit(alone[1]) == (op != "cos")


@needs_compiler
@pytest.mark.parametrize("dtype", LIMITS)
def test_what_is_reduced_and_what_is_written_over_its_argument_is_computed_anew_too(dtype: str) -> None:
    _, mixed, _ = arrays(dtype)
    mixed[2], mixed[59_998] = 1.0, -1e20
    x, wide = read(0, mixed.shape, dtype), read(0, (20, 3000), dtype)
    bodies = [
        body([x], reduced("sum", node("sin", (x,)))), body([wide], softmax(node("cos", (wide,)))),
        body([wide], reduced("max", node("tan", (wide,)), -2)),
    ]  # fmt: skip
    data = [[mixed], [mixed.reshape(20, 3000)], [mixed.reshape(20, 3000)]]
    judge([emitted(kind, b) for kind, b in zip(("reduce", "row", "reduce"), bodies, strict=True)], bodies, data)

    graph = body([x], add(node("sin", (x,)), x))
    kernel = emitted("map", graph)
    (wanted,) = evaluate(graph, [mixed])
    function = loaded([Module(module_text([kernel]), [kernel])])[kernel.name]
    kernel.called(function, ()).run([mixed], [mixed])
    np.testing.assert_allclose(mixed, wanted, rtol=1e-6)


def test_quick_functions_stand_beside_the_others_in_the_text_and_only_where_there_are_any() -> None:
    x = read(0, (100,))
    texts = [emitted("map", body([x], node(op, (x,)))).text.source for op in ("sin", "exp")]
    assert ["_quick" in text for text in texts] == [True, False]
