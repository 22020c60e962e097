"""Reductions over pairs of elements store no array of all pairs, unless that is a result or cheaper."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.pairs import PAIRS
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.space import Space
from eqfuse.extract import chosen_plan
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C
from tests.support.gpu import program_on
from tests.support.random_graphs import run_plan, scrambled
from tests.support.some import some

F = np.float32
N = 4096
TARGETS = {"numpy": DEVICES["cpu"], "c": C, "cuda": DEVICES["h100"]}


def smoothed(x, y, v):
    w = np.exp(-((x[:, None] - y) ** 2).sum(-1))
    return (w[..., None] * v).sum(1) / w.sum(1)[:, None]


def energy(x, q):
    d = x[:, None] - x
    return (q[:, None] * q / np.sqrt(np.einsum("ijk,ijk->ij", d, d) + F(1))).sum()


def in_batches(x, y):
    return np.exp(-((x[:, :, None, :] - y[:, None, :, :]) ** 2).sum(-1)).sum(2)


def neighbours(x, y):
    return (np.abs(x[:, None] - y) < F(0.1)).all(-1).sum(1), np.abs(x[:, None] - y).max(-1).min(1)


def radial_basis(x, y, v):
    return np.exp(-((x[:, None] - y) ** 2).sum(-1)) @ v


def attention(x, y, v):
    s = -((x[:, None] - y) ** 2).sum(-1)
    w = np.exp(s - s.max(1, keepdims=True))
    return w @ v / w.sum(1, keepdims=True)


def nearest(x, y):
    d = ((x[:, None] - y) ** 2).sum(-1)
    return d.min(1), d.argmin(1)


def statistics(x):
    d = np.abs(x[:, None] - x)
    return d.sum(1), d.max(1), (d * d).mean(1)


def spec(*shape: int) -> Any:
    return ef.spec(shape, F)


def case(name: str, n: int, k: int = 3) -> Graph:
    if name in PAIRS:
        function, types = PAIRS[name].build(n) if name == "P3" else PAIRS[name].build(n, k)
        return ef.trace(function, *[spec(*t.shape) for t in types])
    function, *types = {
        "a weighted mean": (smoothed, spec(n, k), spec(n, k), spec(n, 2)), "an energy": (energy, spec(n, k), spec(n)),
        "radial basis": (radial_basis, spec(n, k), spec(n, k), spec(n, 2)), "statistics": (statistics, spec(n)),
        "attention": (attention, spec(n, k), spec(n, k), spec(n, 3)),
        "wide attention": (attention, spec(n, k), spec(n, k), spec(n, 40)),
        "nearest": (nearest, spec(n, k), spec(n, k)),
        "batches": (in_batches, spec(4, n // 2, k), spec(4, n // 2, k)), "boxes": (neighbours, spec(n, k), spec(n, k)),
    }[name]  # fmt: skip
    return ef.trace(function, *types)


NAMES = (
    *PAIRS, "a weighted mean", "an energy", "batches", "boxes", "radial basis", "attention", "wide attention",
    "nearest", "statistics",
)  # fmt: skip
STORED = {("wide attention", "cuda")}  # whose kernels of two products multiply both


@cache
def saturated(graph: Graph) -> Space:
    """Once for all targets."""
    return ef.saturate(graph)


def stored(graph: Graph, target: str) -> int:
    """The bytes of the largest array that a kernel writes."""
    plan = ef.extract(saturated(graph), target=TARGETS[target])
    return max(o.type.nbytes for k in plan.kernels if not k.is_view for o in k.body.outputs)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", some(NAMES, 2))
def test_no_array_of_all_pairs_is_stored(name, target):
    if (name, target) not in STORED:
        assert stored(case(name, N), target) <= 0.02 * N * N * 4


@pytest.mark.parametrize("name", some(NAMES, 4))
def test_tiles_of_numpy_hold_a_fiftieth_of_it(name):
    """Of two threads, where short calls gain from both."""
    device = replace(DEVICES["cpu"], threads=2, lasting_seconds=5e-6)
    assert ef.compile(case(name, N), target=device).peak_bytes <= 0.021 * N * N * 4


@pytest.mark.slow
@pytest.mark.parametrize("name, features", [("P1", 2), ("P4", 2), ("P1", 8), ("P2", 8), ("P2", 16), ("P4", 16)])
def test_it_is_so_of_other_numbers_of_features(name, features):
    assert stored(case(name, N, features), "c") <= 0.02 * N * N * 4


@pytest.mark.parametrize("target", TARGETS)
def test_pairs_are_stored_where_they_are_a_result_or_are_a_product_of_many_features(target):
    def both(x: Any, y: Any) -> Any:
        r = ((x[:, None] - y) ** 2).sum(-1)
        return r, np.exp(-r).sum(1)

    assert stored(ef.trace(both, spec(N, 3), spec(N, 3)), target) == N * N * 4  # and no array with a third axis
    assert stored(case("P2", N, 64), target) == N * N * 4


def arrays_of(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(len(graph.nodes))
    return [rng.uniform(0.1, 1, n.shape).astype(n.dtype) for n in graph.inputs]


def near(results: Any, wanted: Any) -> None:
    for got, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_the_evaluator_says_under_any_prices(name):
    rng = np.random.default_rng(len(name))
    graph = case(name, 40)
    space, arrays = saturated(graph), arrays_of(graph)
    wanted = evaluate(graph, arrays)
    target = ("cpu", "a100")[NAMES.index(name) % 2]
    near(run_plan(chosen_plan(space, scrambled(rng, target)), arrays), wanted)


@needs_compiler
@pytest.mark.parametrize("target", ["numpy", "c"])
def test_programs_of_pairs_compute_them(target):
    for name in ("P1", "boxes"):
        graph = case(name, 60)
        arrays = arrays_of(graph)
        near(ef.compile(graph, target=TARGETS[target]).run(arrays), evaluate(graph, arrays))


@pytest.mark.slow
@pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
def test_an_emulated_gpu_computes_them():
    gpu = EmulatedGpu()
    for name in ("P1", "P5"):
        graph = case(name, 40)
        plan = ef.extract(ef.saturate(graph), target=TARGETS["cuda"])
        arrays = arrays_of(graph)
        near(program_on(plan, gpu).run(arrays), evaluate(graph, arrays))
