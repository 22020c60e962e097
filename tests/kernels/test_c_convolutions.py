"""Convolutions of our own in C: what they compute of every geometry and type, with work before and after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from eqfuse.emit.c.calls import CallsSchedule
from eqfuse.emit.c.convolution.schedule import ConvolutionSchedule
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import kind_named
from eqfuse.ops import Role
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, judge, run_all, with_address_sanitizer
from tests.support.kernels import add, body, cast, data, gelu, mul, number, read

GEOMETRIES = [  # image, filters, strides, padding, dilations, groups
    ((3, 4, 20, 21), (5, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 4, 19, 20), (6, 4, 3, 2), (2, 3), ((1, 0), (0, 2)), (1, 1), 1),
    ((2, 4, 19, 20), (6, 2, 3, 3), (1, 1), ((2, 2), (0, 0)), (2, 3), 2),
    ((2, 4, 19, 20), (6, 2, 3, 3), (2, 3), ((2, 7), (5, 0)), (3, 2), 2),
    ((1, 6, 40, 9), (6, 1, 3, 3), (2, 1), ((1, 1), (1, 1)), (1, 1), 6),
    ((2, 24, 33, 35), (24, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 24),
    ((2, 8, 30, 30), (4, 8, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((2, 300, 7, 7), (130, 300, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1),
    ((1, 130, 14, 14), (26, 130, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 3, 90, 90), (13, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    ((2, 3, 200), (4, 3, 5), (1,), ((4, 0),), (1,), 1),
    ((2, 3, 3000), (4, 3, 5), (3,), ((2, 2),), (2,), 1),
    ((1, 2, 7, 8, 9), (3, 2, 3, 2, 3), (1, 2, 1), ((1, 1), (0, 1), (1, 0)), (1, 1, 1), 1),
    ((2, 3, 6, 6), (2, 3, 6, 6), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((1, 1, 4, 4), (1, 1, 2, 2), (3, 3), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 1, 1, 1), (2, 1, 1, 1), (1, 1), ((5, 4), (0, 3)), (1, 1), 1),
    ((2, 3, 1, 9), (4, 3, 3, 2), (1, 2), ((9, 4), (0, 0)), (2, 1), 1),
]
POOLS = [
    ("window_max", (2, 2), (2, 2), ((0, 0), (0, 0))), ("window_max", (3, 3), (2, 2), ((1, 1), (1, 1))),
    ("window_sum", (2, 3), (3, 1), ((1, 0), (0, 2))),
]  # fmt: skip
DTYPES = ("bool", "int8", "uint16", "int32", "int64", "uint64", "float16", "bfloat16", "float64")


def conv(x: Node, w: Node, *geometry: object) -> Node:
    return node("conv", (x, w), geometry)


def pooled() -> Iterator[Graph]:
    """Convolutions with work and pooling behind them."""
    for shape, filters, *geometry in (g for g in GEOMETRIES if len(g[0]) == 4):
        for op, size, stride, pads in POOLS:
            x, w, bias = read(0, shape), read(1, filters), read(2, (filters[0], 1, 1))
            y = conv(x, w, *geometry)
            if min(y.shape[2:]) < 3:
                continue
            windows = node(op, (node("maximum", (add(y, bias), number(0))),), (size, stride, pads))
            yield body([x, w, bias], gelu(windows), mul(windows, bias))
    for dtype in ("float16", "float64"):
        x, w = read(0, (3, 5, 20, 21), dtype), read(1, (4, 5, 3, 3), dtype)
        y = conv(node("exp", (x,)), w, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
        yield body([x, w], node("window_sum", (y,), ((2, 2), (2, 2), ((0, 0), (0, 0)))))


def of_geometries() -> Iterator[Graph]:
    for shape, filters, *geometry in GEOMETRIES:
        x, w = read(0, shape), read(1, filters)
        y, one = conv(x, w, *geometry), (1,) * (len(shape) - 2)
        bias, before = read(2, (filters[0], *one)), read(3, (shape[1], *one))
        yield body([x, w], y)
        yield body([x, w, bias], node("maximum", (add(y, bias), number(0))))
        tidy = conv(node("tanh", (add(mul(x, x), before),)), w, *geometry)
        yield body([x, w, bias, before, read(4, y.shape)], add(gelu(add(tidy, bias)), read(4, y.shape)), tidy)
    yield from pooled()


def of_dtypes() -> Iterator[Graph]:
    around = (1, 1), ((1, 1), (1, 1)), (1, 1), 1
    for dtype in DTYPES:
        x, w = read(0, (2, 5, 20, 21), dtype), read(1, (7, 5, 3, 3), dtype)
        yield body([x, w], conv(x, w, *around))
        yield body([x, w], mul(conv(mul(x, x), w, *around), conv(mul(x, x), w, *around)))
    x, w = read(0, (2, 20, 21, 5)), read(1, (3, 3, 5, 7))
    last, first = node("transpose", (x,), ((0, 3, 1, 2),)), node("transpose", (w,), ((3, 2, 0, 1),))
    yield body([x, w], cast(conv(last, first, *around), "float16"))
    part = node("slice", (node("flip", (x,), ((-3,),)),), (((0, 2, 1), (3, 20, 2), (1, 21, 1), (0, 5, 1)),))
    yield body([x, w], conv(node("transpose", (part,), ((0, 3, 1, 2),)), node("flip", (first,), ((-1,),)), *around))


CASES = [*of_geometries(), *of_dtypes()]


def kind_of(graph: Graph) -> str:
    return "window" if any(n.row.role is Role.WINDOW for n in graph.nodes) else "contract"


def compute(cases: Sequence[Graph]) -> None:
    judge([emitted(kind_of(graph), graph) for graph in cases], cases, [data(graph) for graph in cases])


@pytest.mark.slow
@needs_compiler
def test_convolutions_compute_their_bodies() -> None:
    compute(CASES[::7])  # of every body and most geometries; more of them below


@needs_compiler
def test_the_number_of_threads_changes_no_bit_of_a_convolution() -> None:
    x, w = read(0, (3, 130, 28, 28)), read(1, (50, 130, 3, 3))
    graph = body([x, w], conv(x, w, (1, 1), ((1, 1), (1, 1)), (1, 1), 1))
    kernels = [emitted("contract", graph, replace(C, threads=threads)) for threads in (1, 16)]
    assert [k.schedule.threads for k in kernels] == [1, 16]
    (one,), (many,) = (run_all([k], [data(graph)]) for k in kernels)
    assert one[0].tobytes() == many[0].tobytes()


def test_bytes_priced_are_those_of_images_filters_and_results() -> None:
    for graph in (CASES[0], CASES[1], CASES[-1]):
        schedule = kind_named("contract").schedule(graph, C)
        assert isinstance(schedule, ConvolutionSchedule)
        price, between = schedule.price(C), sum(t.nbytes for t in schedule.workspaces)
        assert between == (graph.inputs[1].type.nbytes if graph is CASES[-1] else 0)
        assert price.bytes_read - between <= sum(n.type.nbytes for n in graph.inputs)
        assert price.bytes_written - between == sum(n.type.nbytes for n in graph.outputs)


def test_a_slow_cache_makes_blocks_of_convolutions_smaller() -> None:
    graph = CASES[27]
    sizes = [kind_named("contract").schedule(graph, replace(C, l2_bytes=n)).nbytes for n in (1 << 20, 128 << 10)]
    assert sizes[1] < sizes[0] and sizes[1] <= 0.4 * (128 << 10)


@needs_compiler
def test_a_row_of_many_channels_that_no_buffer_holds_is_cut() -> None:
    x, w = read(0, (1, 200, 21, 40)), read(1, (24, 200, 1, 1))
    graph = body([x, w], conv(x, w, (1, 1), ((0, 0), (0, 0)), (1, 1), 1))
    small = replace(C, l2_bytes=256 << 10)
    for device in (C, small):
        schedule = kind_named("contract").schedule(graph, device)
        assert isinstance(schedule, ConvolutionSchedule) and schedule.nbytes <= 0.4 * device.l2_bytes
    assert schedule.blocks.columns < 840
    judge([emitted("contract", graph, small)], [graph], [data(graph)])


def test_a_schedule_of_a_convolution_says_how_it_runs() -> None:
    text = str(kind_named("contract").schedule(CASES[4], C))
    assert "filters at" in text and "phases" in text and "bytes of buffers" in text


@pytest.mark.parametrize("dtype, shape", [("complex64", (1, 2, 9, 9)), ("float32", (0, 2, 9, 9))])
def test_convolutions_without_a_form_in_c_are_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    x, w = read(0, shape, dtype), read(1, (3, 2, 3, 3), dtype)
    graph = body([x, w], conv(x, w, (1, 1), ((1, 1), (1, 1)), (1, 1), 1))
    assert isinstance(kind_named("contract").schedule(graph, C), CallsSchedule)


@pytest.mark.slow
@needs_compiler
def test_convolutions_touch_no_memory_but_their_arrays() -> None:
    cases = "[*[*of_geometries()][::2], *of_dtypes()]"
    with_address_sanitizer("tests.kernels.test_c_convolutions", f"compute({cases})")
