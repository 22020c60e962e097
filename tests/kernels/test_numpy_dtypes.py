"""Kernels of every kind, in every dtype, against the evaluator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqfuse import dtypes
from eqfuse.errors import ShapeError
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.kinds import State, classify
from tests.kernels.test_numpy_panels import TINY
from tests.support.kernels import CPU, add, body, data, judge, mul, read, reduced, run

EVERY = pytest.mark.parametrize("dtype", dtypes.TENSORS, ids=lambda d: d.name)
COMPLEX = pytest.mark.parametrize("dtype", [np.dtype("c8"), np.dtype("c16")], ids=lambda d: d.name)
LARGE = replace(CPU, threads=2, call_seconds=0.0, dispatch_seconds=0.0)  # always worth tiling


def _judged(graph: Graph) -> None:
    for device in (TINY, LARGE):
        state = classify(graph, device)
        assert isinstance(state, State), state
        judge(state.kind, graph, data(graph), device)


def _x(dtype: np.dtype, i: int = 0, shape: tuple[int, ...] = (70, 33)) -> Node:
    return read(i, shape, dtype)


@EVERY
def test_elementwise_work_in_one_kernel_gives_the_evaluators_bits(dtype):
    x, y = _x(dtype), _x(dtype, 1)
    _judged(body([x, y], node("where", (node("equal", (x, y)), mul(add(x, y), x), add(y, const(1, dtype))))))


@EVERY
def test_a_row_kernel_holds_values_of_every_dtype(dtype):
    x = _x(dtype)
    top = reduced("max", x)
    _judged(body([x], node("equal", (x, top)), add(x, top)))


@EVERY
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "all"])
def test_a_reduction_accumulates_as_numpy_does(dtype, op):
    for axes, shape in (((-1,), (130, 40)), ((-2,), (130, 3)), ((-2, -1), (130, 40))):
        x = _x(dtype, shape=shape)
        _judged(body([x], reduced(op, mul(x, x), *axes)))


def test_a_long_sum_of_bfloat16_stops_growing_where_numpys_does():
    x = _x(dtypes.BFLOAT16, shape=(100_000,))
    graph = body([x], reduced("sum", mul(x, x), -1))
    ones = np.ones(100_000, dtypes.BFLOAT16)
    assert np.sum(ones) == 256
    judge("reduce", graph, [ones], LARGE)


@EVERY
def test_a_product_of_every_dtype_but_those_numpy_has_no_product_of(dtype):
    x, w = _x(dtype), _x(dtype, 1, (33, 17))
    if dtype in dtypes.ADDED:
        with pytest.raises(ShapeError, match="float32"):
            node("matmul", (x, w))
        return
    product = node("matmul", (x, w))
    _judged(body([x, w], add(product, product)))


@EVERY
def test_pooling_and_convolution_of_every_dtype(dtype):
    image, weight = _x(dtype, 0, (2, 3, 12, 13)), _x(dtype, 1, (4, 3, 3, 3))
    window = ((2, 2), (1, 2), ((1, 0), (0, 1)))
    _judged(body([image], node("window_max", (image,), window)))
    _judged(body([image], node("window_sum", (image,), window)))
    _judged(body([image, weight], node("conv", (image, weight), ((1, 2), ((1, 1), (0, 1)), (1, 1), 1))))


@COMPLEX
def test_the_parts_of_complex_numbers_are_taken_and_joined_inside_a_kernel(dtype):
    x, y = _x(dtype), _x(dtype, 1)
    z = mul(add(x, y), node("conj", (y,)))
    real, imag = node("real", (z,)), node("imag", (z,))
    joined = node("complex", (node("multiply", (real, real)), imag))
    _judged(body([x, y], joined, node("abs", (z,)), node("sqrt", (add(joined, z),))))
    _judged(body([x, y], reduced("sum", mul(real, imag)), node("real", (reduced("sum", z),))))


def test_joining_parts_keeps_what_arithmetic_would_lose():
    x, y = _x(np.dtype("f8"), 0, (4,)), _x(np.dtype("f8"), 1, (4,))
    graph = body([x, y], node("complex", (x, y)))
    arrays = [np.array([np.inf, -0.0, np.nan, 1.0]), np.array([-0.0, np.inf, 1.0, -0.0])]
    (got,) = run("map", graph, arrays)
    assert got.real.tobytes() == arrays[0].tobytes() and got.imag.tobytes() == arrays[1].tobytes()
