"""Constants that all steps of a loop read stand in its step, and transposes for products; the program means what it
meant."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.rolling.loop_operands import shared_within
from eqfuse.ir.graph import Body, Graph, Node, const, constants, substitute
from eqfuse.ir.loops import first_shared
from eqfuse.ir.pytree import tree_leaves
from eqfuse.ops.loops import LOOPS
from tests.support.loops import LOOPED, assert_same
from tests.support.random_loops import random_loops

RNG = np.random.default_rng(5)
WEIGHTS = RNG.standard_normal((2, 16, 16)) / 4


def bound(fn, args) -> tuple[Graph, np.ndarray]:
    """`fn` of its first argument, the others as constants."""
    graph = ef.trace(fn, *args)
    x, *others = graph.inputs
    (first, *given), _ = tree_leaves(args)
    values = {n: const(array, n.dtype) for n, array in zip(others, given, strict=True)}
    return Graph((x,), substitute(graph.outputs, values)), np.asarray(first, x.dtype)


def handed(graph: Graph) -> list[Node]:
    """The constants that loops of `graph`, or loops in these, are handed for all steps."""
    fixed = constants(graph.nodes)
    constant_args = []
    for n in graph.nodes:
        if n.op in LOOPS and n not in fixed:
            constant_args += [a for a in n.args[first_shared(n) :] if a in fixed]
            constant_args += [a for b in n.attrs if isinstance(b, Body) for a in handed(b.graph)]
    return constant_args


def layers(x):
    """Two loops whose steps differ in their weights alone."""
    for w in WEIGHTS:
        _, x = ef.scan(lambda h, row, w=w: (np.tanh(h @ w + row),) * 2, np.zeros((4, 16)), x)
    return x


@pytest.mark.parametrize("name", LOOPED)
def test_constants_within_steps_change_no_value(name: str) -> None:
    graph, x = bound(LOOPED[name].fn, LOOPED[name].args)
    within = shared_within(graph)
    assert not handed(within)
    assert_same(ef.meaning(within, x), ef.meaning(graph, x), exact=True)
    assert ef.parse(str(within)) == within


@pytest.mark.parametrize("part", range(2))
def test_nor_in_random_loops_within_loops(part: int) -> None:
    moved = 0
    for seed in range(40 * part, 40 * part + 40):
        text, fn, (*arrays, count) = random_loops(seed)
        graph, x = bound(partial(fn, n=count), arrays)
        within = shared_within(graph)
        moved += len(handed(graph))
        assert not handed(within), text
        assert np.array_equal(ef.meaning(within, x), ef.meaning(graph, x), equal_nan=True), text
    assert moved > 10


def test_a_graph_without_such_constants_is_the_same():
    graph = ef.trace(lambda w, x: ef.fori_loop(0, 9, lambda i, v: np.tanh(v @ w), x), WEIGHTS[0], np.ones((4, 16)))
    assert shared_within(graph) is graph


def of_graph(graph: Graph) -> set[str]:
    """Operators outside of its loops."""
    return {n.op for n in graph.operators}


def descent(a, v, b):
    return ef.fori_loop(0, 20, lambda i, v: v - a.T @ (np.tanh(a @ v) - b) / 99, v)


def within_a_loop(a, v, b):
    return ef.scan(lambda v, row: (descent(a, v, b + row), v[0]), v, np.arange(3.0))


@pytest.mark.parametrize("fn", [descent, within_a_loop])
def test_a_transpose_that_products_alone_read_is_no_copy_before_the_loop(fn):
    arrays = RNG.standard_normal((9, 4)), RNG.standard_normal(4), RNG.standard_normal(9)
    graph = ef.trace(fn, *arrays)
    within = shared_within(graph)
    assert "transpose" in of_graph(graph) and "transpose" not in of_graph(within)
    for one, other in zip(ef.meaning(within, *arrays), ef.meaning(graph, *arrays), strict=True):
        assert np.array_equal(one, other)
    assert ef.parse(str(within)) == within


def test_but_one_that_is_read_element_by_element_is_made_once():
    graph = ef.trace(lambda a, v: ef.fori_loop(0, 20, lambda i, v: np.tanh(a.T @ v + a.T), v), *np.ones((2, 9, 9)))
    assert shared_within(graph) is graph and "transpose" in of_graph(graph)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_steps_that_differ_in_weights_alone_have_one_plan_and_each_its_own_weights(target: str) -> None:
    x = RNG.standard_normal((20, 4, 16))
    program = ef.compile(layers, x, target=target)
    plans = [inner for k in program.plan.kernels for inner in k.inner]
    assert len(plans) == 2 and plans[0].kernels == plans[1].kernels and plans[0].constants != plans[1].constants
    np.testing.assert_allclose(program(x), layers(x), rtol=1e-12)


def test_such_a_program_is_saved_exported_and_carried_to_other_sizes(tmp_path):
    x = RNG.standard_normal((20, 4, 16))
    program = ef.compile(layers, x)
    program.save(tmp_path / "layers.eqf")
    np.testing.assert_allclose(ef.load(tmp_path / "layers.eqf")(x), layers(x), rtol=1e-12)
    jitted = ef.jit(layers, dynamic=True)
    for steps in (20, 33, 47):
        x = RNG.standard_normal((steps, 4, 16))
        np.testing.assert_allclose(jitted(x), layers(x), rtol=1e-12)


def test_the_line_that_wrote_a_loop_is_still_known():
    graph = ef.trace(layers, np.ones((20, 4, 16)))
    within = shared_within(graph)
    lines = [[g.places[n] for n in g.nodes if n.op in LOOPS] for g in (graph, within)]
    assert len(lines[0]) == 2 and lines[0] == lines[1]
