"""Prices of library calls: by the steps that an algorithm takes, at the rate that calibration measured a step with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqfuse.cost.profiles import DEVICES
from eqfuse.cost.roofline import work
from eqfuse.emit.numpy import calibrate
from eqfuse.ir.graph import Node, node
from tests.support.kernels import read

CPU = DEVICES["cpu"]
ROWS = read(0, (16, 1024), np.float64)


def seconds(n: Node) -> float:
    return work(n.op, n.attrs, n.type, tuple([a.type for a in n.args]), CPU).seconds


def sorted_rows(rows: int, columns: int) -> Node:
    return node("sort", (read(0, (rows, columns), np.float64),), (-1, False))


def test_a_sort_takes_a_step_for_each_level_of_a_tree():
    assert seconds(sorted_rows(16, 1 << 20)) == pytest.approx(2 * seconds(sorted_rows(16 << 10, 1024)))


CALLS = {
    "sort": sorted_rows(16, 1024), "argsort": node("argsort", (ROWS,), (-1, False)),
    "stable_sort": node("sort", (ROWS,), (-1, True)), "short_sort": sorted_rows(128, 128),
    "searchsorted": node("searchsorted", (read(1, (1024,), np.float64), ROWS), ("left",)),
}  # fmt: skip


@pytest.mark.parametrize("op", calibrate._STEPS)
def test_what_calibration_measures_is_divided_by_the_steps_that_are_priced(op):
    call = CALLS[op]
    steps = call.row.flops([a.type for a in call.args], call.type, call.attrs)
    assert steps == calibrate.ELEMENTS * calibrate._STEPS[op]


def test_short_rows_and_stable_sorts_have_rates_of_their_own():
    rates = dict(CPU.elements) | {"short_sort": (("float64", 1e-10),), "stable_sort": (("float64", 1e-8),)}
    cpu = replace(CPU, elements=tuple(rates.items()))

    def seconds_of(rows: int, columns: int, stable: bool) -> float:
        n = node("sort", (read(0, (rows, columns), np.float64),), (-1, stable))
        return work(n.op, n.attrs, n.type, tuple([a.type for a in n.args]), cpu).seconds

    assert seconds_of(1000, 128, False) == pytest.approx(1000 * 128 * 7 * 1e-10)
    assert seconds_of(1000, 256, False) == pytest.approx(1000 * 256 * 8 * CPU.element_seconds("sort", "float64"))
    assert seconds_of(1000, 128, True) == pytest.approx(1000 * 128 * 7 * 1e-8)


def test_a_search_takes_the_levels_of_what_is_searched():
    few, many = read(1, (16,), np.float64), read(1, (1 << 16,), np.float64)
    for search in (lambda places: node("searchsorted", (places, ROWS), ("left",)),
                   lambda places: node("digitize", (ROWS, places), (False,)),
                   lambda places: node("interp", (ROWS, places, places), (None,))):  # fmt: skip
        assert seconds(search(many)) == pytest.approx(4 * seconds(search(few)))


def test_parts_are_found_in_linear_time():
    def parted(columns: int) -> Node:
        return node("partition", (read(0, (8, columns), np.float64),), (-1, (columns // 2,)))

    assert seconds(parted(1 << 16)) == pytest.approx(64 * seconds(parted(1 << 10)), rel=1e-3)


def test_a_transform_of_real_numbers_takes_half_the_steps_of_one_of_complex_ones():
    x, z = read(0, (50, 256), np.float64), read(0, (50, 256), np.complex128)
    assert seconds(node("rfft", (x,), (256, -1, None))) == pytest.approx(
        seconds(node("fft", (z,), (256, -1, None))) / 2, rel=1e-3
    )
