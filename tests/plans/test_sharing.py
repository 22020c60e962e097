"""Products that share an operand: one product of all of them side by side, where that is cheaper than one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.network import built, traced
from eqfuse.benches.corpus.networks import NETWORKS
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.cost.profiles import DEVICES, datasheet
from eqfuse.extract import chosen_plan
from eqfuse.extract.programs.simplify import simplified
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.plan.plan import Plan
from eqfuse.rewrites import book
from eqfuse.rewrites.procedures.shared_operands import PART_LAWS

F = np.float32
GPU = DEVICES["a100"]


def weights(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s, F) for s in shapes]


def plan_of(function: Any, *shapes: tuple[int, ...], **options: Any) -> Plan:
    graph = ef.trace(function, *[ef.spec(s, F) for s in shapes])
    return chosen_plan(ef.saturate(graph, **options), GPU)


def products(plan: Plan) -> list[tuple[int, ...]]:
    """The shape of every product that runs at a call."""
    ops = ("matmul", "conv")
    return [n.shape for k in plan.kernels for n in k.body.operators if n.op in ops]


def agrees(function: Any, *shapes: tuple[int, ...], size: float = 1) -> None:
    """Does the NumPy program give the answers of the function?"""
    arrays = [a * size for a in weights(*shapes)]
    for got, wanted in zip(ef.compile(function, *arrays, target="numpy")(*arrays), function(*arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extractor", ["flow", "exact"])
def test_three_projections_are_one_product(extractor: str) -> None:
    """G12, with its predicted factor."""
    function, types = GRAPHS["G12"].program(small=False)
    space = ef.saturate(ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types]))
    plan = ef.extract(space, target=datasheet("a100"), extractor=extractor)
    greedy = ef.extract(space, target=datasheet("a100"), extractor="greedy-priority")
    assert [k.kind for k in plan.kernels] == ["contract", "view", "view", "view"]
    assert greedy.seconds / plan.seconds > 1.045


def test_the_one_product_gives_the_three_answers() -> None:
    function, types = GRAPHS["G12"].program(small=True)
    x = np.random.default_rng(0).standard_normal(types[0].shape, F)
    program = ef.compile(function, x, target="numpy")
    assert len(products(program.plan)) == 1
    for got, wanted in zip(program(x), function(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_more_products_than_a_law_has_parts_are_one_too() -> None:
    parts = weights(*[(64, 8 + i) for i in range(11)])

    def many(x: Any) -> Any:
        return tuple(x @ w for w in parts)

    assert products(plan_of(many, (4, 64))) == [(4, sum(w.shape[1] for w in parts))]
    agrees(many, (4, 64))


def test_what_follows_each_product_reads_its_part_of_the_one() -> None:
    w, v, b = weights((64, 32), (64, 32), (32,))

    def gated(x: Any) -> Any:
        return (np.tanh(x @ w + b) * (x @ v),)

    plan = plan_of(gated, (4, 64))
    assert products(plan) == [(4, 64)] and len(plan.kernels) == 2
    agrees(gated, (4, 64))


def test_products_of_one_right_operand_are_one() -> None:
    a, b = weights((8, 64), (5, 64))

    def rows(x: Any) -> Any:
        return a @ x, b @ x

    assert products(plan_of(rows, (64, 16))) == [(13, 16)]
    agrees(rows, (64, 16))


def test_products_of_a_batch_are_one() -> None:
    w, v = weights((64, 8), (64, 8))

    def projections(x: Any) -> Any:
        return x @ w, x @ v

    assert products(plan_of(projections, (3, 5, 64))) == [(3, 5, 16)]
    agrees(projections, (3, 5, 64))


def test_convolutions_of_one_image_are_one_in_the_space() -> None:
    w, v = weights((4, 3, 3, 3), (5, 3, 3, 3))

    def convolve(x: Any, w: Any) -> Any:
        return ef.conv(x, w, padding=((1, 1), (1, 1)))

    graph = ef.trace(lambda x: (convolve(x, w), convolve(x, v)), ef.spec((1, 3, 8, 8), F))
    (segment,) = ef.saturate(graph).segments
    assert all({n.op for n in segment.classes[root].nodes} == {"conv", "slice"} for root in segment.roots)


def test_a_product_that_needs_the_other_is_not_put_beside_it() -> None:
    """The group would be a circle."""

    def chain(x: Any, w: Any) -> Any:
        first = x @ w
        return first, x @ np.tanh(first)

    plan = plan_of(chain, (512, 512), (512, 2))
    assert products(plan) == [(512, 2), (512, 2)]
    assert "concat" not in {n.op for k in (*plan.kernels, *plan.setup) for n in k.body.operators}
    agrees(chain, (512, 512), (512, 2))


def test_operands_that_are_not_known_are_put_side_by_side_where_that_moves_less() -> None:
    def both(x: Any, a: Any, b: Any) -> Any:
        return x @ a, x @ b

    assert products(plan_of(both, (1 << 16, 512), (512, 8), (512, 8))) == [(1 << 16, 16)]
    assert products(plan_of(both, (8, 512), (512, 4096), (512, 4096))) == [(8, 4096)] * 2


@pytest.mark.parametrize("steps", [3, 5])
def test_rows_of_one_array_that_meet_one_matrix_are_not_copied_together(steps: int) -> None:
    def recurrent(xs: Any, w: Any, u: Any) -> Any:
        h = np.zeros((16, 128), F)
        for t in range(steps):
            h = np.tanh(xs[t] @ w + h @ u)
        return (h,)

    shapes = (steps, 16, 128), (128, 128), (128, 128)
    plan = plan_of(recurrent, *shapes)
    assert sorted(math.prod(shape) for shape in products(plan)) == [16 * 128] * steps + [steps * 16 * 128]
    assert "concat" not in {n.op for k in plan.kernels for n in k.body.operators}
    agrees(recurrent, *shapes, size=0.05)  # larger weights make chaos of it: NumPy in float32 and float64 differ by 2


def test_strict_numerics_and_no_laws_leave_every_product_alone() -> None:
    w, v = weights((64, 8), (64, 8))
    for options in ({"numerics": "strict"}, {"laws": "none"}):
        assert products(plan_of(lambda x: (x @ w, x @ v), (4, 64), **options)) == [(4, 8)] * 2


def test_the_laws_that_find_parts_equal_are_of_the_book() -> None:
    assert set(PART_LAWS) <= {law.name for law in book()}


def test_views_of_one_array_are_read_one_beside_the_other() -> None:
    """Not as if they were one, and not twice where they overlap."""

    def halves(x: Any) -> Any:
        y = np.cumsum(x, axis=0)  # a library call, so that the views are of an array in memory
        return y[:, :512] + np.tanh(y[:, 512:])

    def overlapping(x: Any) -> Any:
        y = np.cumsum(x, axis=0)
        return y[:, 1:] + np.tanh(y[:, :-1])

    for function in (halves, overlapping):
        *_, last = plan_of(function, (1000, 1024)).kernels
        assert last.price.bytes_read == 1000 * 1024 * 4


@pytest.mark.slow
def test_a_step_of_nasrnn_is_two_products_and_the_cell() -> None:
    """16 products a step are launched one by one by greedy fusion."""
    network = NETWORKS["NasRNN"]
    space = ef.saturate(traced(network, network.full | {"length": 2}))
    plan, greedy = (chosen_plan(space, DEVICES["h200"], e) for e in ("flow", "greedy-priority"))
    assert len(plan.kernels) == 3 * 2 - 1  # what the first state is multiplied by is known
    assert products(plan) == [(1, 8 * 512)] * 3
    assert greedy.seconds > 3.2 * plan.seconds


@pytest.mark.slow
def test_the_whole_of_nasrnn_is_right_on_an_emulated_gpu() -> None:
    from eqfuse.testing import cudasim
    from eqfuse.testing.emulated_gpu import EmulatedGpu
    from tests.support.gpu import program_on

    if cudasim.cudasim_missing():
        pytest.skip(cudasim.cudasim_missing())
    network = NETWORKS["NasRNN"]
    graph = built(network, network.small | {"length": 1})
    plan = chosen_plan(ef.saturate(graph), GPU)
    assert max(shape[-1] for shape in products(plan)) == 8 * network.small["hidden"]
    xs = weights(*[n.shape for n in graph.inputs])
    for got, wanted in zip(program_on(plan, EmulatedGpu()).run(xs), evaluate(graph, xs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_the_pass_of_the_baselines_merges_products_as_xla_does() -> None:
    """XLA's DotMerger: of one operand, independent, and small."""

    def merged(*shape: int) -> Graph:
        parts = weights(shape, shape)
        (segment,) = ef.saturate(ef.trace(lambda x: tuple(x @ w for w in parts), ef.spec((4, shape[0]), F))).segments
        return simplified(segment).graph

    assert [n.op for n in merged(64, 8).operators].count("matmul") == 1
    assert [n.op for n in merged(64, 1 << 17).operators].count("matmul") == 2
