"""Narrow arrays are taken by columns: the results of whole arrays, in fewer and longer runs."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.ir.graph import const, node
from tests.support.kernels import add, body, cast, judge, number, read, reduced

CASES = [
    *[(op, dtype) for op in ("sum", "prod", "max", "min") for dtype in ("float32", "int32", "float16")],
    ("sum", "complex64"), ("prod", "float64"), ("max", "bool"), ("any", "bool"), ("all", "bool"),
]  # fmt: skip


@pytest.mark.parametrize("shape", [(300, 2), (5, 300, 7), (2, 400, 1, 4)])
@pytest.mark.parametrize("op,dtype", CASES)
def test_reductions_along_short_rows_and_across_them(op, dtype, shape):
    x = read(0, shape, dtype)
    value = node("maximum", (x, x)) if dtype == "bool" else node("multiply", (x, number(0.5, dtype)))
    for axes in ((-1,), (-2,), (-3, -2)[-len(shape) + 1 :]):
        judge("reduce", body([x], reduced(op, value, *axes)))


def test_columns_of_sums_are_added_in_the_order_of_a_row():
    x = read(0, (1000, 5))
    source = judge("reduce", body([x], reduced("sum", add(x, x))))
    assert "for q in range(1, 5):" in source


def test_a_row_meets_every_row_by_columns():
    x, row, column = read(0, (1000, 3)), read(1, (1, 3)), read(2, (1000, 1))
    source = judge("map", body([x, row, column], add(node("multiply", (x, row)), column)))
    assert source.count("for q in range(3):") == 2


def test_a_slice_with_gaps_is_taken_by_columns_and_one_without_is_not():
    x = read(0, (1000, 5))
    gaps = node("slice", (x,), (((0, 1000, 1), (1, 4, 1)),))
    assert "for q in" in judge("map", body([x], node("square", (gaps,))))
    assert "for q in" not in judge("map", body([x], node("square", (node("exp", (x,)),))))
    negated = node("negative", (gaps,))  # NumPy writes wrong answers between gaps
    assert "for q in" not in judge("map", body([x], negated))


def test_wide_few_and_one_dimensional_arrays_are_taken_whole():
    for shape, axes in (((1000, 40), (-1,)), ((20, 3), (-1,)), ((900,), (-1,)), ((1000, 3), (-2, -1))):
        x = read(0, shape)
        assert "for q in" not in judge("reduce", body([x], reduced("sum", add(x, x), *axes)))


def test_a_cast_beside_a_sum_of_columns_keeps_its_dtype():
    x = read(0, (500, 2), np.int64)
    judge("reduce", body([x], reduced("sum", cast(x, np.float64), -2)))


def test_tiles_are_taken_by_columns_too():
    x, row, lengths = read(0, (60_000, 1, 3)), read(1, (4, 3)), read(2, (60_000, 4, 1))
    apart = node("subtract", (x, row))
    far = reduced("sum", node("exp", (node("multiply", (apart, lengths)),)))
    source = judge("reduce", body([x, row, lengths], far))
    assert "share(" in source and source.count("for q in range(3):") == 2 and "for q in range(1, 3):" in source


@pytest.mark.parametrize(("rows", "columns", "one_by_one"), [(16, 4, False), (500, 4, True), (500, 65, False)])
def test_what_is_added_to_many_short_rows_that_indices_name_is_added_by_columns(rows, columns, one_by_one):
    x, places, values = read(0, (50, columns)), const(np.arange(rows) % 50), read(1, (rows, columns))
    scattered = node("scatter", (x, places, values), (-2, "add"))
    assert ("for q in" in judge("library", body([x, values], scattered))) == one_by_one
