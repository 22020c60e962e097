"""Laws that may do more never make a plan costlier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.space import Space
from eqfuse.extract import chosen_plan, flow
from eqfuse.extract.covers.nearest import ABOVE_CHEAPEST
from eqfuse.ir.graph import Graph
from tests.support.drawing import many
from tests.support.random_graphs import random_graph

NUMERICS = ("strict", "reassociate", "approximate")
LONG = {"G2", "G3 k=200"}  # as G3 k=8, and longer
PROGRAMS: dict[str, tuple[Callable[[Any], Any], type]] = {
    "the square of a magnitude": (lambda x: np.abs(x) ** 2, np.float16),
    "clips after a cast": (lambda x: np.clip(np.clip(np.clip(x.astype("f4"), -3, 3), 0, 1) * 255, 0, 255), np.uint8),
    "a root of squares": (lambda x: np.sqrt(np.abs(x) ** 2 + np.exp(x) * np.exp(x)), np.float32),
}


def cheapest(space: Space, device: str) -> float:
    return sum(flow.search(segment, DEVICES[device])[0].cost for segment in space.segments)


def never_costlier(graph: Graph, devices: Sequence[str] = ("cpu", "a100")) -> None:
    spaces = [ef.saturate(graph, numerics=numerics) for numerics in NUMERICS]
    for device in devices:
        strict, default, approximate = (cheapest(space, device) for space in spaces)
        assert approximate <= default * (1 + 1e-9) and default <= strict * (1 + 1e-9), device
        plans = [chosen_plan(space, DEVICES[device], proved=False).seconds for space in spaces]
        assert plans[2] <= plans[1] * (1 + ABOVE_CHEAPEST) and plans[1] <= plans[0] * (1 + ABOVE_CHEAPEST), device


def of_suite(id: str) -> Graph:
    function, types = GRAPHS[id].program(small=False)
    return ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types])


@pytest.mark.parametrize("name", PROGRAMS)
def test_looser_numerics_are_never_costlier(name: str) -> None:
    function, dtype = PROGRAMS[name]
    never_costlier(ef.trace(function, ef.spec((1024, 1024), dtype)))


@pytest.mark.parametrize("seed", range(4))
def test_looser_numerics_are_never_costlier_for_random_programs(seed: int) -> None:
    never_costlier(random_graph(np.random.default_rng(seed), operators=12, extents=(64, 1, 500))[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 4 + many(16)))
def test_looser_numerics_are_never_costlier_for_many_random_programs(seed: int) -> None:
    never_costlier(random_graph(np.random.default_rng(seed), operators=12, extents=(64, 1, 500))[0])


@pytest.mark.slow
@pytest.mark.parametrize(("id", "device"), list(zip(sorted({*GRAPHS} - LONG)[::2], cycle(["cpu", "a100"]))))
def test_looser_numerics_are_never_costlier_for_the_suite(id: str, device: str) -> None:
    never_costlier(of_suite(id), [device])


def test_approximate_laws_begin_where_the_others_have_ended() -> None:
    """Facts are derived for what the others make, so that nothing they find is missing."""
    function, dtype = PROGRAMS["the square of a magnitude"]
    graph = ef.trace(function, ef.spec((8, 8), dtype))
    default, approximate = (ef.saturate(graph, numerics=n).laws_fired for n in ("reassociate", "approximate"))
    assert default.items() <= approximate.items() and "abs_of_nonnegative" in default
