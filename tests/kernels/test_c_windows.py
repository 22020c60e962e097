"""Kernels with windows in C: pooling of every type and geometry, with work before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from eqfuse.emit.c.calls import CallsSchedule
from eqfuse.emit.c.sliding.schedule import WindowsSchedule, windows_schedule
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import kind_named
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, judge, run_all, with_address_sanitizer
from tests.support.kernels import add, body, cast, data, gelu, mul, read

POOLS = [  # shapes, windows, strides, padding
    ((8, 5, 20, 21), (2, 2), (2, 2), ((0, 0), (0, 0))),
    ((3, 5, 20, 41), (3, 3), (2, 1), ((1, 1), (0, 2))),
    ((300, 200), (3, 3), (1, 1), ((1, 1), (1, 1))),
    ((3000,), (4,), (4,), ((0, 0),)),
    ((2, 9000), (5,), (1,), ((4, 0),)),
    ((2, 9001), (2,), (5,), ((1, 1),)),
    ((2, 3, 9, 10, 11), (2, 1, 3), (1, 2, 2), ((0, 0), (0, 0), (1, 1))),
    ((3, 9, 10, 20), (3, 3, 1), (2, 2, 1), ((1, 1), (1, 1), (0, 0))),
    ((3, 7, 8, 9), (3, 4, 5), (3, 1, 2), ((2, 0), (3, 1), (4, 4))),
    ((1, 1, 3, 3), (3, 3), (1, 1), ((0, 0), (0, 0))),
    ((64, 1, 7, 7), (7, 7), (1, 1), ((0, 0), (0, 0))),
    ((2, 20, 33), (2, 3), (4, 5), ((1, 0), (0, 1))),
    ((1, 700, 900), (3, 3), (2, 2), ((1, 1), (1, 1))),
]
DTYPES = ("bool", "int8", "uint16", "int32", "int64", "uint64", "float16", "bfloat16", "float64")


def pooled(op: str, x: Node, *geometry: tuple) -> Node:
    return node(op, (x,), geometry)


def bodies() -> Iterator[Graph]:
    for shape, *geometry in POOLS:
        for op in ("window_max", "window_sum"):
            x, scale = read(0, shape), read(1, shape[-1:])
            yield body([x], pooled(op, x, *geometry))
            y = pooled(op, mul(node("tanh", (x,)), scale), *geometry)
            yield body([x, scale], gelu(y), y)
    geometry = (3, 3), (2, 2), ((1, 1), (1, 1))
    for dtype in DTYPES:
        x = read(0, (3, 20, 21), dtype)
        for op in ("window_max", "window_sum"):
            yield body([x], pooled(op, x, *geometry))
            yield body([x], pooled(op, mul(x, x), *geometry))
    x = read(0, (40, 30, 3))
    turned = node("transpose", (x,), ((2, 1, 0),))
    yield body([x, read(1, (3, 15, 20))], add(pooled("window_sum", turned, *geometry), read(1, (3, 15, 20))))
    part = node("slice", (node("flip", (x,), ((-3,),)),), (((3, 40, 1), (1, 30, 2), (0, 3, 1)),))
    yield body([x], cast(pooled("window_max", part, (2, 2), (1, 1), ((0, 0), (0, 0))), "float16"))


CASES = list(bodies())
GEOMETRIES = 4 * len(POOLS)  # so many are about these, each with and without work around it


def arrays_of(graph: Graph) -> list[np.ndarray]:
    """Values with NaNs, infinities and zeros of both signs among them, but where NaNs would hide the rest."""
    arrays = data(graph)
    if not any(n.op == "window_sum" for n in graph.nodes):
        for array in arrays:
            if array.dtype.kind == "f":
                array.reshape(-1)[3::29] = np.resize([np.nan, -np.inf, np.inf, 0.0, -0.0], array.size)[3::29]
    return arrays


def compute(cases: Sequence[Graph]) -> None:
    judge([emitted("window", graph) for graph in cases], cases, [arrays_of(graph) for graph in cases])


@pytest.mark.slow
@needs_compiler
def test_windows_compute_their_bodies() -> None:
    compute([*CASES[:GEOMETRIES:5], *CASES[GEOMETRIES::3]])  # each operator, some geometries, every dtype


@needs_compiler
def test_zeros_of_windows_and_their_nans_are_numpys() -> None:
    x = read(0, (1, 2, 40))
    graph = body([x], pooled("window_max", x, (1, 2), (1, 2), ((0, 0), (0, 0))))
    array = np.zeros((1, 2, 40), np.float32)
    array[0, 0, ::4], array[0, 0, 2::4], array[0, 1, 5::7] = np.nan, -np.inf, -0.0
    ((got,),) = run_all([emitted("window", graph)], [[array]])
    np.testing.assert_array_equal(got, evaluate(graph, [array])[0])


@needs_compiler
def test_the_number_of_threads_changes_no_bit_of_windows() -> None:
    x = read(0, (16, 8, 100, 100))
    graph = body([x], pooled("window_sum", node("exp", (x,)), (3, 3), (2, 2), ((1, 1), (1, 1))))
    kernels = [emitted("window", graph, replace(C, threads=threads)) for threads in (1, 16)]
    assert [k.schedule.threads for k in kernels] == [1, 16]
    (one,), (many,) = (run_all([k], [data(graph)]) for k in kernels)
    assert one[0].tobytes() == many[0].tobytes()


def test_bytes_priced_are_those_of_the_image_and_the_results() -> None:
    for graph in CASES[:4]:
        schedule = windows_schedule(graph, C)
        assert isinstance(schedule, WindowsSchedule)
        price = schedule.price(C)
        assert price.bytes_read == sum(n.type.nbytes for n in graph.inputs)
        assert price.bytes_written == sum(n.type.nbytes for n in graph.outputs)


def test_a_schedule_of_windows_says_how_it_runs() -> None:
    text = str(windows_schedule(CASES[4], C))
    assert "windows of 3 x 3" in text and "results, each" in text and "bytes of buffers" in text


@pytest.mark.parametrize("dtype, shape", [("complex64", (4, 20)), ("float32", (2, 0, 9))])
def test_windows_without_a_form_in_c_are_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    x = read(0, shape, dtype)
    graph = body([x], pooled("window_sum", x, (3,), (1,), ((1, 1),)))
    assert isinstance(kind_named("window").schedule(graph, C), CallsSchedule)


@pytest.mark.slow
@needs_compiler
def test_windows_touch_no_memory_but_their_arrays() -> None:
    cases = "[*CASES[:GEOMETRIES:3], *CASES[GEOMETRIES:]]"  # every geometry and dtype
    with_address_sanitizer("tests.kernels.test_c_windows", f"compute({cases})")
