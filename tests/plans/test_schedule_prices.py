"""A plan's kernels have the prices of their schedules, and what the search takes for them is not far from that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.replay import corpus
from eqfuse.cost.device import Device
from eqfuse.cost.overlap import overlapped
from eqfuse.cost.profiles import profile
from eqfuse.egraph.space import as_written
from eqfuse.emit.c.calls import CallsSchedule, tiles_schedule
from eqfuse.emit.c.device import compiled_device
from eqfuse.emit.c.product.schedule import product_schedule, products_schedule
from eqfuse.emit.c.rates import traffic_of
from eqfuse.emit.c.schedule import LoopsSchedule
from eqfuse.extract.candidates.grammar import Grammar
from eqfuse.extract.candidates.prices import _structure, schedules_shared
from eqfuse.extract.flow import extract
from eqfuse.extract.greedy import pointwise_inlined
from eqfuse.extract.kernel_price import estimated
from eqfuse.extract.unfused import unfused_cover
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.kinds import Kind, kind_named
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops.types import TensorType
from eqfuse.plan.plan import Kernel

CPU = profile("cpu")
FACTOR = 2.0  # between an estimate and the schedule, at most: windows, and rows too few to be cut, are guessed worst
TYPICAL = 1.05  # ... of half the kernels of a plan


def kernels(name: str) -> Iterator[Kernel]:
    """Those of the plan that is chosen, and of the program as written."""
    space = ef.saturate(corpus()[name]())
    for extractor in ("flow", "unfused"):
        yield from (k for k in ef.extract(space, target=CPU, extractor=extractor).kernels if k.kind != "view")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(corpus())[1::14])
def test_a_kernel_of_a_plan_has_the_price_of_its_schedule(name: str):
    ratios = []
    for k in kernels(name):
        price = kind_named(k.kind).schedule(k.body, CPU).price(CPU)
        assert price == k.price, k
        estimate = estimated(k.body, CPU)
        assert not isinstance(estimate, str), k
        ratios.append(max(estimate.seconds / price.seconds, price.seconds / estimate.seconds))
    assert max(ratios, default=1.0) <= FACTOR
    assert np.quantile(ratios or [1.0], 0.5, method="lower") <= TYPICAL


def test_a_strided_slice_moves_the_cache_lines_between_its_elements():
    graph = ef.trace(lambda x, y: x[:, ::2] + y, ef.spec((512, 1024), np.float32), ef.spec((512, 512), np.float32))
    schedule = kind_named("map").schedule(graph, CPU)
    assert schedule.reads == (512 * 512 * 4, 512 * 512 * 4)
    price = schedule.price(CPU)
    assert price is not None and price.bytes_read == 512 * 1024 * 4 + 512 * 512 * 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["suite G2", "suite G24", "program heat"])
def test_no_fuser_of_its_own_promise_beats_flow_by_the_prices_that_are_printed(name: str):
    space = ef.saturate(corpus()[name]())
    flow = ef.extract(space, target=CPU)
    for fuser in ("greedy-materialise", "greedy-duplicate", "greedy-priority", "greedy-depth", "unfused"):
        assert flow.seconds <= ef.extract(space, target=CPU, extractor=fuser).seconds * 1.03


def schedules_made(monkeypatch: pytest.MonkeyPatch, columns: int) -> int:
    """How many the search for C makes where `columns` vectors go through the same operators."""
    bodies: list[Graph] = []
    make = Kind.schedule

    def noted(kind: Kind, body: Graph, target: Device) -> Schedule:
        bodies.append(body)
        return make(kind, body, target)

    vectors = [ef.spec((1000 * 1000,), np.float32) for _ in range(columns)]
    space = ef.saturate(ef.trace(lambda *xs: [np.cumsum(np.exp(np.cumsum(x))) for x in xs], *vectors))
    with monkeypatch.context() as patch:
        patch.setattr(Kind, "schedule", noted)
        ef.extract(space, target=compiled_device(CPU))
    return len(bodies)


def test_kernels_that_compute_alike_share_a_schedule_whatever_they_read(monkeypatch: pytest.MonkeyPatch):
    assert 0 < schedules_made(monkeypatch, 3) <= schedules_made(monkeypatch, 1)


def test_searches_of_a_program_share_the_schedules_of_alike_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    (segment,) = ef.saturate(ef.trace(lambda x: np.exp(x) / np.exp(x).sum(), ef.spec((1000, 1000)))).segments
    bodies: list[Graph] = []
    make = Kind.schedule
    monkeypatch.setattr(Kind, "schedule", lambda kind, body, on: bodies.append(body) or make(kind, body, on))
    device = compiled_device(CPU)
    with schedules_shared():
        first, count = extract(segment, device), len(bodies)
        assert count and extract(segment, device).cost == first.cost
        assert len(bodies) == count
    extract(segment, device)
    assert len(bodies) == 2 * count


def test_bodies_are_alike_if_they_differ_in_the_names_of_their_inputs_alone() -> None:
    a, b, c = (input_node(name, TensorType(np.dtype(np.float32), (8, 8))) for name in "abc")
    wide = input_node("a", TensorType(np.dtype(np.float64), (8, 8)))
    turned = node("transpose", (a,), ((1, 0),))

    def structure(*outputs: Node) -> tuple:
        return _structure(Graph((), outputs))

    quotient = node("divide", (a, b))
    assert structure(quotient) == structure(node("divide", (c, a)))
    assert structure(quotient, a) == structure(node("divide", (b, c)), b)
    others = [(node("divide", (a, a)),), (node("multiply", (a, b)),), (node("divide", (wide, wide)),)]
    others += [(node("divide", (turned, b)),), (quotient, a), (quotient, b), (node("divide", (quotient, b)),)]
    assert len({structure(quotient), *[structure(*each) for each in others]}) == 1 + len(others)


def test_a_body_has_the_inputs_that_it_reads_in_the_order_in_which_they_are_met() -> None:
    a, b, c = (input_node(name, TensorType(np.dtype(np.float32), (8,))) for name in "abc")
    outputs = node("divide", (node("add", (c, a)), c)), b
    body = Graph((a, b, c), outputs).with_inputs()
    assert body == Graph((c, a, b), outputs) and body.nodes == Graph((c, a, b), outputs).nodes


@pytest.mark.parametrize(
    "extents", [(256, 256, 1024), (1024, 1024, 256), (64, 64, 64), (4096, 512, 1), (2048, 2048, 2048)]
)
def test_a_product_is_left_to_blas_only_where_that_is_far_cheaper(extents: tuple[int, int, int]) -> None:
    """Its threads spin on for a while, and would take cores from the kernels that follow."""
    n, k, m = extents
    device = compiled_device(CPU)
    body = ef.trace(lambda a, b: a @ b, np.ones((n, k), np.float32), np.ones((k, m), np.float32))
    chosen = products_schedule(body, device)
    ours, blas = product_schedule(body, device).price(device), tiles_schedule(body, device).price(device)
    lost = min(0.3 * blas.seconds, 10e-3)
    assert isinstance(chosen, CallsSchedule) == (ours.seconds > blas.seconds + lost)


def test_vectors_that_lie_across_two_cache_lines_cost_more_to_load() -> None:
    def seconds(step: int) -> float:
        reads = [slice(step * i, step * i + 512) for i in range(4)]
        graph = ef.trace(lambda x: sum(x[:, r] for r in reads), ef.spec((512, 1024), np.float32))
        schedule = kind_named("map").schedule(graph, compiled_device(CPU))
        assert isinstance(schedule, LoopsSchedule)
        return schedule.compute

    assert seconds(16) < seconds(1) == pytest.approx(seconds(5))


def test_of_several_passes_over_a_block_the_first_alone_waits_for_memory() -> None:
    device = compiled_device(CPU)

    def spread(x: Any) -> Any:
        return ((x - x.mean(0, keepdims=True)) ** 2).sum(0, keepdims=True) / x.max(0, keepdims=True)

    body = ef.trace(spread, ef.spec((8192, 1024), np.float32))
    schedule = kind_named("row").schedule(body, device)
    assert isinstance(schedule, LoopsSchedule) and len(schedule.forms[0].passes) > 1
    memory = device.memory_seconds(traffic_of(sum(schedule.reads), 0), sum(schedule.reads) + sum(schedule.writes))
    assert schedule.seconds > 1.2 * overlapped(memory, schedule.compute)


@pytest.mark.parametrize("device", [CPU, compiled_device(CPU)], ids=lambda d: d.target)
def test_a_slice_of_a_number_is_read_where_the_number_lies(device: Device) -> None:
    number = input_node("a", TensorType(np.dtype(np.float64), ()))
    body = Graph((number,), (node("add", (node("slice", (number,), ((),)), node("slice", (number,), ((),)))),))
    assert kind_named("map").schedule(body, device).reads == (8,)
    (value,) = ef.compile(body, target=device)(np.array(1.5))
    assert value == 3.0


def chained(steps: int) -> Graph:
    def program(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        for i in range(steps):
            x = np.where(y > i, x * (i + 1.5), x + y)
        return x

    return ef.trace(program, *[ef.spec((1000,), np.float64)] * 2)


@pytest.mark.parametrize(("target", "most"), [(compiled_device(CPU), 4), (profile("a100"), 10)], ids=["c", "a100"])
def test_few_schedules_are_made_of_a_long_chain(monkeypatch: pytest.MonkeyPatch, target: Device, most: int):
    """For each of its operators."""
    bodies: list[Graph] = []
    make = Kind.schedule
    graph = chained(30)
    space = ef.saturate(graph)
    monkeypatch.setattr(Kind, "schedule", lambda kind, body, on: bodies.append(body) or make(kind, body, on))
    plan = ef.extract(space, target=target)
    assert len(plan.kernels) == 1
    assert len(bodies) <= most * len(graph.operators)


@pytest.mark.parametrize("shape", [(1,), (1000,), (1023,), (64, 65), (3, 5, 7), (4096, 512)])
@pytest.mark.parametrize("steps", [1, 3, 30])
def test_elementwise_work_on_a_gpu_has_a_schedule_and_a_roofline_is_its_least_price(shape: tuple[int, ...], steps: int):
    def program(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        for i in range(steps):
            x = np.exp(x) * y - i if i % 2 else np.where(x > y, z, x + y)
        return x

    graph = ef.trace(program, *[ef.spec(shape, np.float32)] * 3)
    grammar = Grammar(as_written(graph), profile("a100"))
    cover = pointwise_inlined(unfused_cover(grammar))
    (cut,) = cover.choice.values()
    assert cut.rough is not None and cut.prices.has_schedule(cut.state)
    assert cut.rough <= cut.price.seconds * 1.001 < math.inf
