"""Bytes that kernels read: what several values need together is what one walk over all of them finds."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.kinds.elements import bytes_read, elements_read
from eqfuse.ops.types import TensorType

FLOAT32 = np.dtype(np.float32)
WHOLE = ((0, 8, 1), (0, 8, 1))


def test_overlapping_slices_of_several_values_count_once() -> None:
    x = vector(100)
    first, second = node("exp", (part(x, 0, 60),)), node("sin", (part(x, 40, 90),))
    assert elements_read({first}) == {x: 60}
    assert elements_read({first, second}) == {x: 90}


def test_what_one_value_needs_whole_is_not_counted_in_parts() -> None:
    x = vector(100)
    assert elements_read({node("exp", (part(x, 0, 60),)), node("exp", (x,))}) == {x: 100}


def test_a_slice_of_a_value_that_is_wanted_whole_adds_nothing() -> None:
    x, indices = vector(100), input_node("i", TensorType(np.dtype(np.int64), (1000,)))
    inner = node("exp", (part(x, 0, 60),))
    assert elements_read({inner, node("sin", (part(inner, 0, 10),))}) == {x: 60}
    gathered = node("take", (x, indices), (-1,))
    together = elements_read({gathered, node("sin", (part(gathered, 0, 10),))})
    assert together == {x: 100, indices: 1000} == elements_read({gathered})


def test_what_later_writes_hide_is_not_read() -> None:
    x, y = matrix("x"), matrix("y")
    row, column, inside = ((0, 1, 1), (0, 8, 1)), ((0, 8, 1), (7, 8, 1)), ((1, 7, 1), (1, 7, 1))
    values = [node("exp", (node("slice", (y,), (r,)),)) for r in (inside, row, column)]
    assert elements_read({node("slice_scatter", (x, *values), ((inside, row, column),))}) == {x: 13, y: 36 + 7 + 8}
    assert elements_read({node("slice_scatter", (x, y, *values[1:]), ((WHOLE, row, column),))}) == {y: 64}
    assert elements_read({node("slice_scatter", (x, y, x), ((WHOLE, WHOLE),))}) == {x: 64}


def test_inputs_that_are_not_needed_are_not_read() -> None:
    x, y = vector(100), vector(50, "y")
    assert bytes_read(Graph((x, y), (part(x, 0, 10),)), (part(x, 0, 10),)) == (40, 0)


def test_nodes_are_freed_once_nothing_needs_them() -> None:
    gc.disable()
    try:
        inner = node("exp", (part(vector(101, "freed"), 0, 60),))
        outer = node("sin", (inner,))
        elements_read({inner, outer})
        left = weakref.ref(inner)
        del inner, outer
        assert left() is None
    finally:
        gc.enable()


def matrix(name: str) -> Node:
    return input_node(name, TensorType(FLOAT32, (8, 8)))


def vector(n: int, name: str = "x") -> Node:
    return input_node(name, TensorType(FLOAT32, (n,)))


def part(x: Node, start: int, stop: int) -> Node:
    return node("slice", (x,), (((start, stop, 1),),))
