"""NumPy kernels that read arrays across the axis they lie along, or whose tiles are short rows far from each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.emit.numpy.transpose_copy import COPY_BUFFER, block_count, copy_transposed, run_axis
from eqfuse.ir.graph import Node, node
from eqfuse.plan.plan import Kernel
from tests.support.kernels import (
    CPU,
    PRICE,
    add,
    body,
    judge,
    layer_norm,
    mul,
    number,
    read,
    reduced,
    softmax,
)  # fmt: skip

# work is costly enough that all but the smallest bodies are cut into tiles
SLOW = replace(CPU, name="slow", elements=tuple((op, tuple((d, 1e-6) for d, _ in r)) for op, r in CPU.elements))


def transposed(x: Node, *order: int) -> Node:
    return node("transpose", (x,), (order or (1, 0),))


def sliced(x: Node, *ranges: tuple[int, int, int]) -> Node:
    return node("slice", (x,), (ranges,))


def source(kind: str, graph) -> str:
    reads, writes = tuple(range(len(graph.inputs))), tuple(range(9, 9 + len(graph.outputs)))
    return emit_kernel(Kernel(kind, graph, reads, writes, PRICE), SLOW).source


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(300, 170), (17, 900), (3, 40, 5, 33), (1, 64, 64), (7,), (2, 1000, 20)])
def test_a_copy_by_blocks_is_the_array_in_every_order_of_its_axes(shape, dtype):
    room = np.empty(COPY_BUFFER, np.uint8)
    whole = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    for order in permutations(range(len(shape))):
        for x in (whole.transpose(order), whole.transpose(order)[..., ::2], whole.transpose(order)[::-1]):
            at_once, one_by_one = np.zeros(x.shape, dtype), np.zeros(x.shape, dtype)
            copy_transposed(at_once, x, room)
            for block in range(block_count(x)):
                copy_transposed(one_by_one, x, room, block)
            assert (at_once == x).all()
            assert (one_by_one == x).all()


def test_only_arrays_whose_lines_are_read_by_an_element_are_turned():
    x = read(0, (200, 300))
    assert run_axis(transposed(x)) == -2
    assert run_axis(transposed(read(0, (5, 60, 7, 64)), 0, 2, 1, 3)) is None, "rows of 64 stay rows"
    assert run_axis(transposed(read(0, (5, 60, 7, 64)), 0, 2, 3, 1)) == -2
    assert run_axis(transposed(read(0, (4000, 3)))) is None, "a line of memory holds several rows"
    assert run_axis(sliced(x, (0, 200, 1), (0, 300, 30))) is None, "no axis shares these lines"
    assert run_axis(transposed(sliced(x, (0, 200, 1), (0, 299, 2)))) == -2
    assert run_axis(x) is None


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_transposed_operands_of_maps(dtype):
    x, y = read(0, (160, 230), dtype), read(1, (230, 160), dtype)
    for graph in (
        body([x, y], add(transposed(x), y)),
        body([x, y], add(transposed(x), y), mul(transposed(x), y)),
        body([x, y], transposed(add(transposed(x), y))),
    ):
        assert "copy_transposed(" in source("map", graph)
        judge("map", graph, device=SLOW)


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 2, 1, 0), (1, 3, 0, 2), (0, 2, 1, 3)])
def test_head_transposes_as_copies_and_inside_maps(order):
    x = read(0, (3, 50, 4, 48))
    moved = transposed(x, *order)
    judge("view", body([x], moved), device=SLOW)
    judge("map", body([x], mul(moved, moved)), device=SLOW)
    judge("map", body([x], mul(moved, moved), moved), device=SLOW)


def test_a_transposed_slice_is_turned_too():
    x, y = read(0, (200, 500)), read(1, (250, 200))
    halves = transposed(sliced(x, (0, 200, 1), (0, 499, 2)))
    graph = body([x, y], add(node("maximum", (y, number(0))), halves))
    assert "copy_transposed(" in source("map", graph)
    judge("map", graph, device=SLOW)


def test_a_transposed_copy_and_the_reshapes_of_one():
    x = read(0, (300, 200))
    for copy in (transposed(x), node("reshape", (transposed(x),), ((60_000,),))):
        assert "copy_transposed(" in source("view", body([x], copy))
        judge("view", body([x], copy), device=SLOW)
        judge("library", body([x], copy), device=SLOW)
    judge("view", body([x], x, transposed(x)), device=SLOW)


def test_rows_and_sums_of_transposed_arrays():
    x, y = read(0, (300, 200)), read(1, (200, 300))
    judge("row", body([x], softmax(transposed(x))), device=SLOW)
    judge("row", body([x], layer_norm(transposed(x))), device=SLOW)
    judge("reduce", body([x, y], reduced("sum", mul(y, transposed(x)), -2, -1)), device=SLOW)
    judge("reduce", body([x, y], reduced("sum", mul(y, transposed(x)), -1)), device=SLOW)


def test_blocks_of_a_turned_operand_are_whole_lines_of_memory():
    x, y = read(0, (3000, 100)), read(1, (100, 3000))
    assert "i = number * 16\n" in source("map", body([x, y], add(transposed(x), y)))


def test_products_read_transposed_operands_as_they_lie():
    x, y = read(0, (300, 200)), read(1, (300, 400))
    graph = body([x, y], node("tanh", (node("matmul", (transposed(x), y)),)))
    assert "copy_transposed(" not in source("contract", graph)
    judge("contract", graph, device=SLOW)


def test_values_of_column_panels_lie_together_and_are_copied_out_once():
    x = read(0, (500, 1000))
    e = softmax(x, -2)
    for graph in (body([x], e), body([x], mul(x, e), add(mul(x, e), number(1)))):
        judge("row", graph, device=SLOW)
    text = source("row", body([x], layer_norm(x, -2)))
    assert "copyto(c0, x" in text, "it is read twice"
    assert text.count("y0") == 2, "a slice, and the one write"


@pytest.mark.parametrize("axes", [(-2,), (-2, -1), (-3, -2)])
def test_what_is_summed_may_leave_the_kernel_beside_its_sums(axes):
    shape = (6, 200, 50) if -3 in axes else (1200, 50)
    x = read(0, shape)
    e = node("tanh", (mul(x, x),))
    s = reduced("sum", e, *axes)
    graph = body([x], e, s, mul(s, s), e, add(e, x))
    assert ".reduce(q0, 0)" in source("row", graph)
    judge("row", graph, device=SLOW)


STACKS = [((8, 1, 30), (30, 40)), ((8, 5, 30), (1, 30, 40)), ((2, 3, 4, 30), (30, 40)), ((1, 4, 30), (30, 1))]


@pytest.mark.parametrize("a,b", STACKS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
def test_a_stack_times_one_matrix_is_one_product(a, b, dtype):
    x, y = read(0, a, dtype), read(1, b, dtype)
    product = node("matmul", (x, y))
    judge("library", body([x, y], product))
    judge("contract", body([x, y], node("negative", (product,)), product))
    if dtype != "int64":
        assert "dot(" in source("library", body([x, y], product))


def test_a_slice_of_a_stack_times_one_matrix_is_one_product():
    x, y = read(0, (8, 6, 30)), read(1, (30, 40))
    last = sliced(x, (0, 8, 1), (5, 6, 1), (0, 30, 1))
    judge("contract", body([x, y], node("matmul", (last, y))))
    judge("contract", body([x, y], node("matmul", (transposed(x, 1, 0, 2), y))))


OTHERS = [((8, 2, 30), (8, 30, 4)), ((2, 30), (3, 30, 4)), ((2, 30), (1, 30, 4)), ((0, 2, 3), (3, 4))]


@pytest.mark.parametrize("a,b", OTHERS)
def test_other_stacks_stay_stacks(a, b):
    x, y = read(0, a), read(1, b)
    judge("library", body([x, y], node("matmul", (x, y))))
