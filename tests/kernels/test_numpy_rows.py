"""NumPy tiles that leave to one call what is small, and copy once what several operators read with gaps."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.cost.device import Device
from eqfuse.emit.numpy.schedule import ResultsOfRows, Tiles
from eqfuse.extract.kernel_price import estimated
from eqfuse.ir.graph import Node, node
from eqfuse.kinds import kind_named
from tests.kernels.bodies import DEVICES
from tests.kernels.test_numpy_schedules import check
from tests.support.kernels import CPU, add, body, data, judge, mul, read, reduced, softmax


def log_sum_and_picked(x: Node, places: Node) -> Node:
    most = reduced("max", x)
    total = reduced("sum", node("exp", (node("subtract", (x, most)),)))
    return node("subtract", (add(node("log", (total,)), most), node("take_along_axis", (x, places), (-1,))))


@pytest.mark.parametrize("shape", [(1024, 1024), (1001, 777), (3, 501, 800)], ids=str)
def test_what_is_made_of_the_results_of_rows_is_computed_once_for_all(shape: tuple[int, ...]) -> None:
    x, places = read(0, shape), read(1, (*shape[:-1], 1), np.int64)
    graph = body([x, places], log_sum_and_picked(x, places))
    text = judge("row", graph)
    assert type(check("row", graph, data(graph), CPU)) is ResultsOfRows
    assert text.index("exp(") < text.index("share(tiles") < text.index("log(") < text.index("take_along_axis(")


def test_results_of_rows_may_be_results_of_the_kernel_too() -> None:
    x = read(0, (1024, 1000))
    most = reduced("max", x)
    total = reduced("sum", node("exp", (node("subtract", (x, most)),)))
    graph = body([x], most, add(node("log", (total,)), most), total)
    judge("row", graph)
    assert type(check("row", graph, data(graph), CPU)) is ResultsOfRows


@pytest.mark.parametrize("on", DEVICES[1:], ids=lambda d: d.name)
def test_where_the_results_of_rows_are_dear_all_threads_compute_with_them(on: Device) -> None:
    x, places = read(0, (1024, 1024)), read(1, (1024, 1), np.int64)
    graph = body([x, places], log_sum_and_picked(x, places))
    judge("row", graph, device=on)
    assert type(check("row", graph, data(graph), on)) is not ResultsOfRows


def test_results_of_many_short_rows_stay_in_their_tiles() -> None:
    x = read(0, (1 << 17, 16))
    graph = body([x], add(node("log", (reduced("sum", node("exp", (x,))),)), reduced("max", x)))
    assert type(kind_named("row").schedule(graph, CPU)) is Tiles
    judge("row", graph)


def test_results_of_rows_that_are_read_at_full_size_stay_in_their_tiles() -> None:
    x = read(0, (1024, 1024))
    graph = body([x], softmax(x))
    assert type(kind_named("row").schedule(graph, CPU)) is Tiles


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
def test_an_array_with_gaps_is_copied_by_its_tile_once_for_several_readers(on: Device) -> None:
    x, c, s = read(0, (700, 128)), read(1, (700, 64)), read(2, (700, 64))
    even, odd = (node("slice", (x,), (((0, 700, 1), (i, 127 + i, 2)),)) for i in (0, 1))
    turned = node("subtract", (mul(even, c), mul(odd, s))), add(mul(even, s), mul(odd, c))
    graph = body([x, c, s], *turned)
    text = judge("map", graph, device=on)
    schedule = check("map", graph, data(graph), on)
    if schedule.tiles > 1:
        assert len(schedule.gathered) == 2 and text.count("copyto(") == 2
    read_once = body([x, c], mul(even, c))
    assert "copyto(" not in judge("map", read_once, device=on)


def test_the_search_takes_gaps_as_they_are_copied() -> None:
    x, c, s = read(0, (4096, 1024)), read(1, (4096, 512)), read(2, (4096, 512))
    even = node("slice", (x,), (((0, 4096, 1), (0, 1023, 2)),))
    for value in (mul(node("sin", (even,)), c), add(mul(even, c), mul(even, s)), mul(mul(even, c), mul(even, even))):
        graph = body([x, c, s], value)
        price, estimate = kind_named("map").schedule(graph, CPU).price(CPU), estimated(graph, CPU)
        assert price is not None and not isinstance(estimate, str)
        assert 0.8 < estimate.seconds / price.seconds < 1.25


def test_an_array_that_lies_along_another_axis_has_no_gaps_for_a_product() -> None:
    x, y = read(0, (20_000, 6)), read(1, (20_000, 5))
    graph = body([x, y], node("matmul", (node("transpose", (x,), ((1, 0),)), y)))
    price, estimate = kind_named("contract").schedule(graph, CPU).price(CPU), estimated(graph, CPU)
    assert price is not None and not isinstance(estimate, str)
    assert 0.8 < estimate.seconds / price.seconds < 1.25


def joined_maps(*shape: int) -> tuple[list[Node], Node, Node]:
    x, y = read(0, shape), read(1, shape)
    return [x, y], mul(x, add(x, y)), node("subtract", (x, mul(y, y)))


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("axis", [-1, -2, -3])
def test_the_pieces_of_a_result_are_computed_where_they_lie(axis: int, on: Device) -> None:
    arrays, one, other = joined_maps(6, 70, 300)
    joined = node("concat", (one, node("concat", (other, arrays[0]), (-1,))) if axis == -1 else (one, other), (axis,))
    graph = body(arrays, joined)
    text = judge("map", graph, device=on)
    if check("map", graph, data(graph), on).tiles > 1:
        assert text.count("copyto(") == (axis == -1)  # of the piece that is an array in memory
        assert "y0_0" in text and "y0_1" in text


@pytest.mark.parametrize("on", DEVICES, ids=lambda d: d.name)
def test_pieces_that_others_read_or_that_lie_in_pairs_are_what_the_evaluator_says(on: Device) -> None:
    arrays, one, other = joined_maps(500, 64)
    pairs = node("concat", [node("reshape", (v,), ((500, 64, 1),)) for v in (one, other)], (-1,))
    read_twice = node("concat", (one, add(one, other)), (-1,))
    on_the_way = node("exp", (node("concat", (one, other), (-1,)),))
    for value in (pairs, read_twice, on_the_way):
        graph = body(arrays, value)
        judge("map", graph, device=on)
        check("map", graph, data(graph), on)
