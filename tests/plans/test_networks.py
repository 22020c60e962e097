"""Published networks: right answers, and plans never costlier than greedy fusion's, small or shallow."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.ablations import choices
from eqfuse.benches.corpus.network import Network, built, traced
from eqfuse.benches.corpus.networks import NETWORKS
from eqfuse.benches.measured import arguments
from eqfuse.cost.profiles import profile
from eqfuse.egraph.saturate import saturate
from eqfuse.extract.covers.nearest import ABOVE_CHEAPEST
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph

DEEP = ("BERT", "GPT-2 small", "Llama blocks", "NasNet-A", "ResNet-50", "ResNeXt-50")
every_network = pytest.mark.parametrize(
    "network", [pytest.param(n, id=n.id, marks=[pytest.mark.slow] * (n.id in DEEP)) for n in NETWORKS.values()]
)


@every_network
def test_the_answer_is_the_evaluators(network: Network) -> None:
    graph = built(network, network.small)
    given = arguments(graph)
    for got, wanted in zip(ef.compile(graph).run(given), evaluate(graph, given), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        assert float(np.abs(wanted).max()) > 1e-3  # weights keep values alive
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5 * max(1.0, float(np.abs(wanted).max())))


def test_a_network_means_the_same_with_weights_as_inputs_and_as_constants() -> None:
    network = NETWORKS["NasRNN"]
    open_, closed = traced(network, network.small), built(network, network.small)
    weights = [True] * 33  # of two steps, 16 each, and the state
    assert [n.is_constant_leaf for n in open_.inputs] == [False] * 2 + weights
    assert len(closed.inputs) == 2
    assert [n.op for n in open_.operators] == [n.op for n in closed.operators]


FEW: dict[str, dict[str, Any]] = {
    "NasRNN": {"length": 1}, "BERT of TENSAT": {"layers": 2}, "BERT": {"layers": 1},
    "GPT-2 small": {"layers": 1}, "Llama blocks": {"layers": 1}, "ResNet-50": {"blocks": (1, 1)},
    "ResNeXt-50": {"blocks": (1, 1)}, "NasNet-A": {"stages": 1, "cells": 1},
}  # fmt: skip


def shallow(network: Network) -> Graph:
    """Full width, few layers."""
    return traced(network, network.full | FEW.get(network.id, {}))


@pytest.mark.slow
@pytest.mark.parametrize(("id", "gpu"), list(zip([*NETWORKS][::2], cycle(["a100", "h200"]))))
def test_the_plan_is_never_costlier_than_the_best_greedy_one_with_or_without_algebra(id: str, gpu: str) -> None:
    plans = choices(saturate(shallow(NETWORKS[id])), profile(gpu))
    joint = plans.ablation("joint").seconds
    for name, choice in plans.by.items():  # the plan that is nearer to the program may be that much costlier
        above = ABOVE_CHEAPEST if "algebra" in name or name == "fusion-only" else 1e-9
        assert joint <= choice.seconds * (1 + above), name
