"""Of plans that cost about the same, the one that is nearer to the program as written is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.space import Segment
from eqfuse.extract import exact, flow
from eqfuse.extract.covers.cover import Cover
from eqfuse.extract.covers.nearest import ABOVE_CHEAPEST, added_operators, nearest
from eqfuse.plan.plan import Plan
from tests.support.random_graphs import random_graph, scrambled

CPU = DEVICES["cpu"]
Extractor = Callable[[Segment, Device], Cover]


def operators(plan: Plan) -> list[str]:
    return [n.op for k in plan.kernels for n in k.body.operators]


def chosen(function: Any, *shapes: tuple[int, ...]) -> list[str]:
    graph = ef.trace(function, *[ef.spec(s, np.float32) for s in shapes])
    return sorted(operators(ef.extract(ef.saturate(graph), target=DEVICES["a100"])))


@pytest.mark.parametrize("extract", [flow.extract, exact.extract], ids=["flow", "exact"])
@pytest.mark.parametrize("seed", range(6))
def test_no_cover_as_cheap_is_nearer(seed: int, extract: Extractor) -> None:
    rng = np.random.default_rng(seed)
    graph, _ = random_graph(rng, operators=12, extents=(64, 1, 500))
    device = CPU if seed % 2 else scrambled(rng, "cpu")
    for segment in ef.saturate(graph).segments:
        best, _, covers = flow.search(segment, device)
        got = extract(segment, device)
        assert got.cost <= best.cost * (1 + ABOVE_CHEAPEST)
        close = [c for c in covers if c.cost <= got.cost and c.cost <= best.cost * (1 + ABOVE_CHEAPEST)]
        assert all(added_operators(got, segment) <= added_operators(c, segment) for c in close)


def test_what_is_written_adds_nothing_and_each_new_operator_counts_once() -> None:
    graph = ef.trace(lambda x, y: (x * y + x * 3) / 2, *[ef.spec((64, 64), np.float32)] * 2)
    (segment,) = ef.saturate(graph).segments
    _, _, covers = flow.search(segment, CPU)
    counts = sorted({added_operators(c, segment) for c in covers})
    assert counts[0] == 0 and counts[-1] > 0
    assert added_operators(nearest([c for c in covers if not added_operators(c, segment)], segment), segment) == 0


def test_a_gain_too_small_to_know_changes_nothing() -> None:
    """Memory decides what an elementwise program of this size takes on a GPU."""
    shape = (2048, 2048)
    assert chosen(lambda x: np.exp(x) / 3 - 1, shape) == ["divide", "exp", "subtract"]
    assert chosen(lambda x, y: (x - y) * 2 + y / 3, shape, shape) == ["add", "divide", "multiply", "subtract"]


def test_a_gain_that_counts_is_taken() -> None:
    def scores(x: Any, w: Any, v: Any) -> Any:
        return (x @ w) @ v

    assert ef.extract(
        ef.saturate(ef.trace(scores, *[ef.spec(s, np.float32) for s in ((2048, 512), (512, 2048), (2048, 1))])),
        target=CPU,
    ).kernels[0].price.flops < 2 * 512 * 2048 * 2
