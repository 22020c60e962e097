"""Maxima and minima with a constant: other statements than NumPy's own, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.numpy.bounds import repeated
from eqfuse.ir.graph import const, node
from tests.support.kernels import add, body, judge, number, read, run

SPECIAL = np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 5e-324])


def special(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.resize(SPECIAL, shape).astype(dtype)


@pytest.mark.parametrize("shape", [(3, 64), (70_000,), (700, 500)], ids=["small", "one axis", "tiled"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("op", ["maximum", "minimum", "fmax", "fmin"])
def test_a_bound_repeated_to_a_row_gives_the_bits_of_one_number(op, dtype, shape):
    x = read(0, shape, dtype)
    for value in (0.0, -0.0, 1.0):
        for args in ((x, number(value, dtype)), (number(value, dtype), x)):
            graph = body([x], node("logical_not" if dtype == "bool" else "negative", (node(op, args),)))
            array = special(shape, dtype)
            (got,) = run("map", graph, [array])
            assert got.tobytes() == np.asarray(ef.meaning(graph, array)).tobytes(), (value, args)


def test_bounds_on_both_sides_are_one_clip():
    x = read(0, (700, 500))
    both = node("minimum", (number(1.0), node("maximum", (number(0.0), x))))
    for graph in (body([x], both), body([x], add(node("exp", (both,)), x))):
        array = special(x.shape, "float32")
        source = judge("map", graph, [array])
        assert source.count("clip(") == 1 and "maximum(" not in source
    (got,) = run("map", body([x], both), [array])
    assert got.tobytes() == np.clip(array, 0, 1).tobytes()


def test_a_bound_whose_zero_would_change_its_sign_stays_apart():
    x = read(0, (700, 500))
    graph = body([x], node("minimum", (number(1.0), node("maximum", (x, number(0.0))))))
    array = special(x.shape, "float32")
    assert "clip(" not in judge("map", graph, [array])
    (got,) = run("map", graph, [array])
    assert got.tobytes() == np.asarray(ef.meaning(graph, array)).tobytes()


def test_a_bounded_value_that_is_read_again_is_computed():
    x = read(0, (40, 50))
    positive = node("maximum", (number(0.0), x))
    judge("map", body([x], node("minimum", (number(1.0), positive)), positive))
    judge("map", body([x], add(node("minimum", (number(1.0), positive)), positive)))


def test_a_whole_array_of_a_value_that_has_been_read_holds_the_next_one():
    x, y = read(0, (30, 40)), read(1, (30, 40))
    total = x
    for i in range(8):
        total = add(total, node("exp", (node("multiply", (y, number(float(i + 2)))),)))
    source = judge("map", body([x, y], total))
    assert source.count("= empty(") <= 3


@pytest.mark.parametrize("op", ["maximum", "fmin"])
def test_a_bound_with_more_axes_than_the_array_gives_them_to_the_result(op):
    x, wide = read(0, (65,)), const(np.ones((1, 1), np.float32))
    for args in ((x, wide), (wide, x)):
        bound = node(op, args)
        assert bound.shape == np.broadcast_shapes(*(a.shape for a in repeated(bound, 65)))
