"""Prices of loops in C: of what the text does, by the sizes of elements, the lengths of rows, and where rows lie."""

from __future__ import annotations

import pytest

from eqfuse.emit.c import lines
from eqfuse.emit.c.schedule import LoopsSchedule
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import kind_named
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, judge
from tests.support.kernels import add, body, cast, data, mul, number, read, reduced, softmax

ALONE = C.one_thread()


def loops(kind: str, graph: Graph) -> LoopsSchedule:
    schedule = kind_named(kind).schedule(graph, ALONE)
    assert isinstance(schedule, LoopsSchedule)
    return schedule


def inside(x: Node) -> Node:
    """`x` without its last column, so that rows are loops of their own."""
    return node("slice", (x,), (((0, x.shape[0], 1), (0, x.shape[1] - 1, 1)),))


def columns(width: int, rows: int = 2048) -> Graph:
    return body([read(0, (rows, width))], softmax(read(0, (rows, width)), -2))


@pytest.mark.parametrize("shape", [(900, 1001), (900, 900), (30, 100_000)])
def test_rows_are_split_so_that_loops_of_vectors_stay_long(shape: tuple[int, int]) -> None:
    x = read(0, shape)
    schedule = loops("reduce", body([x], node("sum", (inside(x),), ((-2, -1),))))
    assert schedule.split is not None and schedule.split != schedule.nest.vector
    few = read(0, (3, 400_000))
    schedule = loops("reduce", body([few], node("sum", (inside(few),), ((-2, -1),))))
    assert schedule.split == schedule.nest.vector


def test_a_sum_of_small_integers_costs_what_the_integers_do_that_it_adds_up() -> None:
    costs = {}
    for dtype in ("uint8", "int16", "bool", "uint64"):
        x = read(0, (1 << 20,), dtype)
        costs[dtype] = loops("reduce", body([x], reduced("sum", x))).compute
    assert all(cost >= costs["uint64"] for cost in costs.values())


def test_an_element_of_a_row_costs_more_where_no_full_vector_ends_the_row() -> None:
    def cost(dtype: str, op: str, width: int) -> float:
        x = read(0, (1000, width + 1), dtype)
        return loops("map", body([x], node(op, (inside(x),)))).compute / width

    assert cost("int8", "negative", 128) < 0.75 * cost("int8", "negative", 95)
    assert cost("float64", "exp", 16) < 0.85 * cost("float64", "exp", 23)


def test_every_second_element_costs_less_than_elements_far_apart() -> None:
    def cost(step: int) -> float:
        x = read(0, (100, 1000 * step))
        part = node("slice", (x,), (((0, 100, 1), (0, 1000 * step, step)),))
        return loops("map", body([x], add(part, part))).compute

    assert cost(1) < cost(2) < 0.5 * cost(7)


def test_elements_of_one_cache_line_cost_less_than_those_of_lines_of_their_own() -> None:
    def seconds(apart: int) -> float:
        x = read(0, (4096, apart))
        return loops("map", body([x], mul(node("slice", (x,), (((0, 4096, 1), (1, 2, 1)),)), number(3)))).compute

    times = [seconds(apart) for apart in (2, 5, 8, 12, 16, 32)]
    assert times == sorted(times) and seconds(6) < seconds(16) / 2 and seconds(16) == seconds(32)


def test_columns_of_rows_a_power_of_two_apart_are_read_anew_in_each_pass() -> None:
    near, far = (loops("row", columns(width)) for width in (528, 512))
    assert near.reads == (2048 * 528 * 4,) and far.reads == (3 * 2048 * 512 * 4,)


def test_what_is_read_costs_less_than_what_is_written_to_a_cache() -> None:
    x, y = read(0, (1 << 21,)), read(0, (1 << 20,))
    summed, mapped = loops("reduce", body([x], reduced("sum", x))), loops("map", body([y], add(y, y)))
    assert sum(summed.reads) == sum(mapped.reads) + sum(mapped.writes)
    assert summed.seconds < 0.8 * mapped.seconds


def test_far_rows_of_narrow_blocks_of_columns_are_fetched_ahead() -> None:
    texts = [emitted("row", columns(width)).text.source for width in (640, 512)]
    assert ["__builtin_prefetch" in text for text in texts] == [True, True]
    assert "__builtin_prefetch" not in emitted("row", columns(512, 256)).text.source


@pytest.mark.slow
@needs_compiler
def test_kernels_that_fetch_rows_ahead_compute_their_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "FAR_BYTES", 0)
    graphs = []
    for dtype in ("float16", "float32", "float64"):
        x, y = read(0, (3000, 200), dtype), read(1, (1, 200), dtype)
        graphs.append(body([x, y], softmax(mul(x, y), -2)))
        joined = node("concat", (x, mul(x, x)), (-1,))
        graphs.append(body([x], softmax(joined, -2)))
    b = read(0, (3000, 200), "bool")
    counted = cast(b, "float32")
    graphs.append(body([b], node("divide", (counted, add(reduced("sum", counted, -2), number(1.0))))))
    kernels = [emitted("row", graph) for graph in graphs]
    assert sum("__builtin_prefetch" in kernel.text.source for kernel in kernels) >= 4
    judge(kernels, graphs, [data(graph) for graph in graphs])


def test_a_sum_costs_its_steps_and_a_place_more_than_a_maximum() -> None:
    x = read(0, (256, 1000))

    def cost(op: str, axis: int) -> float:
        return loops("reduce", body([x], reduced(op, x, axis))).compute

    doubled = loops("map", body([x], add(x, x))).compute
    assert min(cost("sum", -1), cost("sum", -2)) > 2 * doubled
    assert cost("argmax", -1) > 3 * cost("max", -1) and cost("argmax", -1) > 2 * cost("argmax", -2)
