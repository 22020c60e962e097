"""The derivatives of ufuncs: against differences of high order, and in every dtype against float64."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eqfuse.dtypes import epsilon, kind
from eqfuse.errors import DtypeError, UnsupportedOp
from eqfuse.gradients.table import DERIVATIVES
from eqfuse.ops import TABLE
from eqfuse.ops.elementwise import UFUNCS, loop_dtypes
from tests.support.derivatives import difference, tangent

SMOOTH = [op for op in UFUNCS if op in DERIVATIVES and not DERIVATIVES[op].jumps and not DERIVATIVES[op].refuses]
pytestmark = pytest.mark.filterwarnings("ignore:non-integer arg n")
SHAPES = [((2, 3), (3,)), ((), (2, 1)), ((0, 3), (1, 3)), ((1,), (4, 1)), ((3,), ())]
DTYPES = ["float16", ml_dtypes.bfloat16, "float32", "complex64", "complex128"]
NEAR = [(0.15, 0.85)]
WITHIN = {  # ranges of the arguments, the last one of all further ones: where no kink is near, and no function steep
    "acosh": [(1.2, 3.0)], "power": [(0.3, 2.0)], "huber": [(0.2, 0.3), (0.4, 0.9)],
    **{op: [(2.2, 2.8), (6.2, 8.8), (0.3, 0.7)] for op in ("bdtr", "bdtrc", "nbdtr", "nbdtrc")},
    **{op: [(2, 5), (2, 5), (0.3, 0.7)] for op in ("fdtri", "betaincinv", "betainccinv")},
    "stdtrit": [(2, 5), (0.3, 0.7)], **{op: [(2.1, 2.9)] for op in ("remainder", "fmod")},
}  # fmt: skip


def _types(op: str, dtype: Any) -> list[np.dtype]:
    """The dtypes of a loop whose arguments have `dtype`, and some perhaps an integer's; none without a loop."""
    arity = UFUNCS[op].nin
    combinations = itertools.product((dtype, "int64", "int32"), repeat=arity)
    for chosen in sorted(combinations, key=lambda c: sum(d != dtype for d in c)):
        wanted = [np.dtype(d) for d in chosen]
        try:
            if dtype in chosen and list(loop_dtypes(op, *wanted)[:arity]) == wanted:
                return wanted
        except DtypeError:
            continue
    return []


def _drawn(op: str, dtypes: list[np.dtype], shapes: tuple[Any, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(op))
    within = WITHIN.get(op, NEAR)
    arrays = []
    for i, (t, shape) in enumerate(zip(dtypes, (*shapes, (), ()), strict=False)):
        lower, upper = within[min(i, len(within) - 1)]
        x = rng.uniform(lower, upper, shape)
        x = np.ceil(x) if t.kind == "i" else x + 1j * rng.uniform(0.2, 0.8, shape) if t.kind == "c" else x
        arrays.append(np.asarray(x).astype(t))
    return arrays


def _smooth_in(op: str, xs: list[np.ndarray]) -> list[list[np.ndarray | None]]:
    """Changes of one argument at a time, of those in which `op` has a derivative."""
    all_changes = []
    for position, x in enumerate(xs):
        step = np.random.default_rng(9).uniform(-1, 1, x.shape)
        step = np.asarray(step * (1 + 0.5j) if x.dtype.kind == "c" else step).astype(x.dtype)
        changes = [step if i == position else None for i in range(len(xs))]
        try:
            if kind(x.dtype) in "fc" and tangent(op, xs, changes) is not None:
                all_changes.append(changes)
        except UnsupportedOp as error:
            assert "has no derivative" in str(error)
    return all_changes


@pytest.mark.parametrize("op", SMOOTH)
def test_a_ufunc_changes_as_its_row_says(op: str) -> None:
    for shapes in SHAPES:
        xs = _drawn(op, _types(op, "float64"), shapes)
        tried = _smooth_in(op, xs)
        assert tried
        for changes in tried:
            wanted = difference(TABLE[op].meaning, xs, changes)
            np.testing.assert_allclose(tangent(op, xs, changes), wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("op", SMOOTH)
def test_the_derivative_of_a_ufunc_is_the_same_in_every_dtype(op: str) -> None:
    for dtype in DTYPES:
        dtypes = _types(op, dtype)
        if not dtypes:
            continue
        xs = _drawn(op, dtypes, SHAPES[0])
        precise = [x.astype({"c": "complex128", "f": "float64"}.get(kind(x.dtype), x.dtype)) for x in xs]
        for changes in _smooth_in(op, xs):
            exact = [None if c is None else c.astype(precise[i].dtype) for i, c in enumerate(changes)]
            change, wanted = tangent(op, xs, changes), tangent(op, precise, exact)
            assert change is not None and change.dtype == TABLE[op].meaning(*xs).dtype
            if change.dtype.kind == "c":
                np.testing.assert_allclose(wanted, difference(TABLE[op].meaning, precise, exact), rtol=1e-7, atol=1e-9)
            rtol = 40 * epsilon(change.dtype)
            np.testing.assert_allclose(change.astype(wanted.dtype), wanted, rtol=rtol, atol=rtol)
