"""The price of every CUDA kernel of a plan is that of its schedule: its bytes, its launches, its blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.price import Price
from eqfuse.cost.profiles import profile
from eqfuse.demo.programs import small_programs
from eqfuse.emit.cuda.scheduling.schedule import CudaSchedule
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.kinds import kind_named
from tests.support.kernels import read, reduced

A100 = profile("a100")


@pytest.mark.parametrize("example", small_programs(), ids=lambda e: e.name)
def test_a_plan_moves_the_bytes_of_its_schedules_in_their_launches(example: Any) -> None:
    function, arguments = example.build(np.float32)
    plan = ef.extract(ef.saturate(ef.trace(function, *arguments)), target=A100)
    for k in plan.kernels:
        if not k.is_view:
            schedule = kind_named(k.kind).schedule(k.body, A100)
            assert isinstance(schedule, CudaSchedule)
            assert (k.price.bytes_read, k.price.bytes_written) == (schedule.bytes_read, schedule.bytes_written), k
            assert k.price.seconds >= schedule.calls * A100.launch_seconds


def _price(output: Node) -> Price:
    inputs = tuple(n for n in Graph((), (output,)).nodes if n.op == "input")
    answer = priced(Graph(inputs, (output,)), A100)
    assert not isinstance(answer, str), answer
    return answer[1]


def below_the_largest(function: str, rows: int, columns: int) -> Node:
    """The sum over each row of a function of the distance from its largest value."""
    x = read(0, (rows, columns))
    return reduced("sum", node(function, (node("subtract", (x, reduced("max", x))),)))


def test_one_block_for_one_long_row_costs_what_one_block_can_draw() -> None:
    """No law carries a sum of hyperbolic tangents from the largest value of a part to that of the row."""
    alone, shared = (_price(below_the_largest("tanh", n, (1 << 24) // n)) for n in (1, 1 << 12))
    assert alone.seconds > 50 * shared.seconds


def test_a_long_row_whose_parts_are_carried_over_is_shared_among_blocks() -> None:
    alone, shared = (_price(below_the_largest("exp", n, (1 << 24) // n)) for n in (1, 1 << 12))
    assert alone.seconds < 1.1 * shared.seconds


def test_a_reduction_that_is_split_writes_and_reads_its_partial_results() -> None:
    price = _price(reduced("sum", read(0, (1, 1 << 24))))
    blocks = 2 * A100.multiprocessors
    assert price.bytes_read == 4 * (1 << 24) + 4 * blocks + 4  # a counter beside
    assert price.bytes_written == 4 + 4 * blocks + 4


def test_what_runs_on_the_host_costs_the_way_there_and_back() -> None:
    x = read(0, (1 << 20,), np.float64)
    on_device, on_host = _price(node("digamma", (x,))), _price(node("erfi", (x,)))
    assert on_host.seconds > 16 * (1 << 20) / 10e9 + on_device.seconds
