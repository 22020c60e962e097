"""Long programs, cut into segments: every extractor's plan, and what is emitted of it, means what the program means."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.budget import Meter
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.segments import segments
from eqfuse.extract import EXTRACTORS, chosen_plan
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, const, input_node, node
from eqfuse.ops.types import TensorType
from tests.support.drawing import many
from tests.support.random_graphs import long_graph, run_plan

NUMERICS = ("strict", "reassociate", "approximate")


def check(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    graph, arrays = long_graph(rng, int(rng.integers(60, most)))
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, arrays)
    space = ef.saturate(graph, numerics=NUMERICS[seed % 3], budget=ef.Budget(nodes=1000, rounds=4))
    for extractor in EXTRACTORS:
        plan = chosen_plan(space, DEVICES["cpu"], extractor, meter=Meter(ef.Budget(optimum=0.1)))
        with np.errstate(all="ignore"):
            results = [run_plan(plan, arrays)] + [ef.emit(plan).run(arrays)] * (extractor == "flow")
        for outputs in results:
            for got, meant in zip(outputs, wanted, strict=True):
                np.testing.assert_allclose(got, meant, rtol=1e-7, atol=1e-7, err_msg=f"seed {seed}, {extractor}")


@pytest.mark.slow
def test_a_random_long_program_keeps_its_meaning():
    check(0, 70)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 10 + many(1)))
def test_more_random_long_programs_keep_their_meaning(seed):
    check(seed, 200)


@pytest.mark.slow
def test_every_random_long_program_is_cut_into_pieces_that_make_it_up():
    for seed in range(15):
        rng = np.random.default_rng(1000 + seed)
        graph, _ = long_graph(rng, int(rng.integers(60, 300)))
        _, uses = segments(graph)
        there = {*graph.inputs}
        for use in uses:
            assert all(n.op == "const" or n in there for n in use.inputs)
            there.update(use.outputs)
        assert there.issuperset(o for o in graph.outputs if o.op != "const")


def test_a_constant_may_be_the_left_operand_of_a_product_of_what_was_computed():
    side, half = const(np.eye(3)), const(np.float64(0.5))
    x = y = input_node("x", TensorType(np.dtype(np.float64), (3, 3)))
    for _ in range(2):
        y = node("tanh", (node("matmul", (side, y)),))
    for _ in range(60):
        y = node("add", (node("tanh", (y,)), half))
    graph = Graph((x,), (y,))
    (array,) = arrays = [np.arange(9.0).reshape(3, 3) / 9]
    program = ef.compile(graph)
    np.testing.assert_allclose(program.run(arrays)[0], evaluate(graph, [array])[0], rtol=1e-9)
