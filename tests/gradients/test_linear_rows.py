"""Transposes keep the pairing: <A x, y> is <x, transpose(A) y>, exactly on small whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqfuse.gradients.table import DERIVATIVES
from eqfuse.ops import TABLE
from eqfuse.ops.types import TensorType
from tests.support.derivatives import pairing, whole_numbers

INDEX = np.array([[0, 2], [2, -1]])
ALONG = np.array([[0, 2, 2], [1, -1, 0]])

# operator: shapes of its arguments, or arrays that are no floats; attributes
CASES: dict[str, list[tuple[list[Any], tuple]]] = {
    **{op: [([(2, 3), (3,)], ()), ([(), (2, 1)], ()), ([(0, 2), (1,)], ())]
       for op in ("add", "subtract", "multiply")},
    "divide": [([(2, 3), np.array([1.0, -2, 4])], ()), ([(), np.array([[0.5], [1]])], ())],
    **{op: [([(2, 3)], ()), ([()], ())] for op in ("negative", "conj")},
    **{op: [([(2, 3, "c")], ()), ([(0, "c")], ())] for op in ("real", "imag")},
    "complex": [([(2, 3), (3,)], ())],
    "where": [([np.array([True, False, True]), (2, 3), ()], ()), ([np.array(True), (3,), (3,)], ())],
    "cast": [([(2, 3)], (np.dtype(np.float32),)), ([(2,)], (np.dtype(np.complex128),))],
    "sum": [([(2, 3, 4)], ((-3, -1),)), ([(0, 3)], ((-2,),)), ([()], ((),)), ([(1, 2)], ((-2,),))],
    "transpose": [([(2, 3, 4)], ((2, 0, 1),))],
    "reshape": [([(2, 3)], ((3, 1, 2),)), ([()], ((1, 1),))],
    "broadcast_to": [([(3, 1)], ((2, 3, 4),)), ([()], ((2, 2),)), ([(1, 2)], ((0, 2),))],
    "slice": [([(5, 4)], (((1, 5, 2), (0, 3, 1)),)), ([(5, 4)], (((1, 3, 1), (1, 4, 1)),)), ([(3,)], (((0, 0, 1),),))],
    "flip": [([(2, 3)], ((-1,),))],
    "sliding_window": [([(5, 4)], (((-2, 3), (-1, 2)),)), ([(4,)], (((-1, 1),),)), ([(3, 2)], (((-2, 2), (-2, 2)),))],
    "concat": [([(2, 1), (2, 3), (2, 0)], (-1,))],
    "pad": [([(2, 3), ()], (((1, 0), (0, 2)),)), ([(0,), ()], (((1, 2),),))],
    "take": [([(3, 2), INDEX], (-2,)), ([(2, 3), np.array(1)], (-1,))],
    "take_along_axis": [([(3, 3), ALONG], (-2,)), ([(2, 3), ALONG], (-1,))],
    "slice_scatter": [([(4, 3), (2, 3), (1, 2)], ((((1, 3, 1), (0, 3, 1)), ((2, 3, 1), (0, 3, 2))),))],
    "scatter": [([(3, 2), INDEX, (2, 2, 2)], (-2, mode)) for mode in ("set", "add", "subtract", "multiply")]
    + [([(2, 3), np.array([2, 0]), (2, 2)], (-1, "set")), ([(3,), np.array(-1), ()], (-1, "set"))],
    "cumsum": [([(2, 3)], (-1,)), ([(0, 3)], (-2,))],
    "bincount": [([np.array([0, 2, 2]), (3,)], (4,))],
    "window_sum": [([(2, 5, 4)], ((2, 2), (2, 2), ((0, 0), (0, 0)))), ([(6,)], ((3,), (2,), ((1, 2),))),
                   ([(5,)], ((2,), (3,), ((1, 0),))), ([(0, 3)], ((2,), (1,), ((0, 0),)))],
    "conv": [([(2, 4, 5, 6), (6, 2, 3, 2)], ((2, 1), ((1, 0), (0, 1)), (1, 2), 2)),
             ([(1, 1, 7), (2, 1, 2)], ((3,), ((0, 0),), (2,), 1)), ([(2, 3, 4), (1, 3, 1)], ((2,), ((2, 1),), (1,), 1)),
             ([(2, 2, 3), (4, 1, 3)], ((1,), ((3, 4),), (1,), 2))],
    **{op: [([(a,), (b,)], (mode,)) for mode in ("full", "same", "valid") for a, b in ((5, 3), (4, 4), (2, 5))]
       for op in ("convolve", "correlate")},
    **{op: [([(2, e)], (n, -1, norm)) for e, n, norm in ((4, 4, None), (3, 4, "forward"), (4, 2, None), (1, 1, None))]
       for op in ("fft", "ifft", "rfft")},
    "irfft": [([(3, 2, "c")], (n, -2, norm)) for n, norm in ((4, None), (2, "forward"), (4, "forward"))],
    "solve": [([np.array([[1.0, 1], [0, 2]]), (2, 3)], ()), ([np.array([[[2.0]], [[1]]]), (1, 1)], ())],
    **{op: [([np.array([[1.0, 0], [3, 2]]), (2, 2)], ())] for op in ("cholesky_change", "cholesky_cotangent")},
    "full_rank": [([(3,), np.array(2)], (2,))],
    "matmul": [([(2, 3), (3, 4)], ()), ([(5, 2, 3), (3, 4)], ()), ([(2, 3), (5, 3, 4)], ()),
               ([(5, 1, 2, 3), (4, 3, 1)], ()), ([(2, 0), (0, 3)], ()), ([(0, 2, 3), (3, 1)], ())],
}  # fmt: skip


REAL = {"complex", "bincount", "rfft"}  # operators that take no complex numbers


def _argument(value: Any, dtype: str, rng: np.random.Generator) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value.astype(dtype) if value.dtype.kind == "f" else value
    parts = isinstance(value[-1:], tuple) and value[-1:] == ("c",)
    shape = value[:-1] if parts else value
    return whole_numbers(TensorType(np.dtype("complex128" if parts else dtype), shape), rng)


def _cases() -> list[tuple[str, list[Any], tuple]]:
    return [(op, args, attrs) for op, cases in CASES.items() for args, attrs in cases]


def test_every_operator_with_a_transpose_has_a_case() -> None:
    assert {op for op, row in DERIVATIVES.items() if row.transpose is not None} == CASES.keys()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("op", CASES)
def test_a_transpose_keeps_the_pairing_of(op: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for given, attrs in CASES[op]:
        xs = [_argument(g, dtype, rng) for g in given]
        if dtype == "complex128" and (op in REAL or (op == "cast" and attrs[0].kind != "c")):
            continue
        row = DERIVATIVES[op]
        for position in range(len(xs)) if row.linear is None else row.linear:
            if xs[position].dtype.kind not in "fc" or (position == 2 and "multiply" in attrs):
                continue
            result = TABLE[op].type([TensorType(x.dtype, x.shape) for x in xs], attrs)
            y = whole_numbers(result, rng)
            left, right = pairing(op, position, xs, y, attrs)
            assert left == right, f"{op}{attrs} in argument {position}: {left} and {right}"
