"""What NumPy reads where it lies: parts of complex arrays are views, numbers have no axes; borders are written."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from eqfuse.emit.numpy.schedule import TiledReduction
from eqfuse.emit.numpy.scheduling import fused
from eqfuse.ir.graph import Node, node
from tests.kernels.bodies import DEVICES
from tests.support.kernels import CPU, body, judge, number, read, reduced

EVERY_DEVICE = pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
LAYOUTS = {
    "as it lies": lambda x: x,
    "columns": lambda x: node("slice", (x,), (((0, 400, 1), (1, 30, 1)),)),
    "every other": lambda x: node("slice", (x,), (((0, 400, 2), (0, 33, 3)),)),
    "backwards": lambda x: node("flip", (x,), ((-1,),)),
    "across": lambda x: node("transpose", (x,), ((1, 0),)),
}


def real(x: Node) -> Node:
    return node("real", (x,))


def imag(x: Node) -> Node:
    return node("imag", (x,))


def squares(x: Node) -> Node:
    return node("add", (node("square", (real(x),)), node("square", (imag(x),))))


@EVERY_DEVICE
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_parts_of_complex_arrays_are_right_wherever_they_lie(dtype, layout, device):
    x = read(0, (400, 33), np.dtype(dtype))
    z = LAYOUTS[layout](x)
    twice = node("multiply", (real(z), node("exp", (real(z),))))
    chosen = node("where", (node("less", (real(z), imag(z))), real(z), imag(z)))
    for outputs in ([squares(z)], [twice, imag(z)], [chosen], [real(z), node("negative", (real(z),))]):
        judge("map", body([x], *outputs), device=device)
    judge("row", body([x], squares(z), reduced("sum", squares(z), -1)), device=device)
    judge("reduce", body([x], reduced("max", node("multiply", (real(z), imag(z))), -2, -1)), device=device)


def test_tiles_read_parts_of_complex_arrays_where_they_lie():
    x = read(0, (4000, 33), np.complex128)
    source = judge("map", body([x], node("sqrt", (squares(x),))), device=DEVICES[0])
    assert "share(" in source and "square(x1.real" in source and "copyto" not in source


@EVERY_DEVICE
def test_parts_joined_with_others_are_right(device):
    x, y = read(0, (400, 33), np.complex128), read(1, (400, 33), np.float64)
    joined = node("concat", (node("sqrt", (real(x),)), y, node("square", (imag(x),))), (-1,))
    judge("map", body([x, y], node("add", (joined, number(1.0, np.float64)))), device=device)


@EVERY_DEVICE
def test_numbers_beside_arrays_are_right_whatever_their_axes(device):
    for axes, shape in product([(1,), (1, 1), (1, 1, 1)], [(640, 2), (700,), (90, 33)]):
        x, few, coefficients = read(0, shape), read(1, axes), read(2, (3,))
        one = node("slice", (coefficients,), (((1, 2, 1),),))
        scaled = node("multiply", (node("subtract", (x, few)), one))
        judge("map", body([x, few, coefficients], scaled, node("add", (few, one))), device=device)


def test_numbers_beside_arrays_are_read_without_axes():
    x, coefficients = read(0, (900,)), read(1, (3,))
    scaled = node("multiply", (x, node("slice", (coefficients,), (((1, 2, 1),),))))
    source = judge("map", body([x, coefficients], scaled))
    assert "[1, ...]" in source


def padded(x: Node, value: float, *widths: tuple[int, int]) -> Node:
    return node("pad", (x, number(value, x.dtype)), (widths,))


@EVERY_DEVICE
@pytest.mark.parametrize("kind", ["library", "map"])
def test_borders_are_written_around_what_is_padded(kind, device):
    for shape in ((40, 50), (0, 5), (5, 0)):
        x = read(0, shape)
        for widths in (((1, 1), (1, 1)), ((0, 2), (3, 0)), ((0, 0), (0, 0))):
            wide = padded(x, 3.0, *widths)
            judge(kind, body([x], wide if kind == "library" else node("sqrt", (wide,))), device=device)
    for shape in ((), (7,)):
        x = read(0, shape)
        judge(kind, body([x], padded(x, 2.0, *[(2, 1)] * len(shape))), device=device)


def test_no_thread_has_one_part_more_than_another():
    for threads, size in product((2, 3, 4), (300_000, 350_000, 1_000_000)):
        x = read(0, (size,), np.float64)
        wave = node("tanh", (node("sin", (node("log1p", (node("exp", (x,)),)),)),))
        schedule = fused(body([x], reduced("max", wave, -1)), replace(CPU, threads=threads))
        assert isinstance(schedule, TiledReduction)
        assert schedule.stage.cut.count % threads == 0
