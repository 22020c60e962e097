"""Cutting where nothing is lost: repeated layers are one segment, and the pieces mean and cost what the whole does."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.random_graphs import irregular_graph
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.saturate import saturate_segment
from eqfuse.egraph.segments import one_segment, segments
from eqfuse.egraph.space import Space
from eqfuse.extract import chosen_plan
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ops import Role
from eqfuse.ops.types import TensorType
from eqfuse.rewrites import admitted, laws_named
from eqfuse.show.attribution import rests_on
from tests.support.random_graphs import run_plan

F64 = np.dtype(np.float64)
BUDGET = ef.Budget(60, 4000, 6)
LOST = 1.001  # segments may cost a thousandth more than the whole


def layer(x: Node, weight: np.ndarray, depth: int = 12) -> Node:
    """A residual layer: a product with a constant weight, then a chain of pointwise work."""
    h = node("matmul", (x, const(weight)))
    for _ in range(depth):
        h = node("add", (node("tanh", (h,)), const(np.float64(0.5))))
    return node("add", (x, h))


def network(layers: int) -> Graph:
    rng = np.random.default_rng(0)
    x = y = input_node("x", TensorType(F64, (4, 4)))
    for _ in range(layers):
        y = layer(y, rng.uniform(-1, 1, (4, 4)))
    return Graph((x,), (y,))


def recurrent(steps: int, rows: int, width: int) -> Graph:
    """A long short-term memory that reads and writes whole sequences, as NumPy loops do."""

    def program(xs: Any, w: Any, u: Any, bias: Any) -> Any:
        h, c, hs = np.zeros((rows, width)), np.zeros((rows, width)), np.empty((steps, rows, width))
        for t in range(steps):
            gates = xs[t] @ w + h @ u + bias
            i, f, o = (1 / (1 + np.exp(-gates[:, k * width : (k + 1) * width])) for k in range(3))
            c = f * c + i * np.tanh(gates[:, 3 * width :])
            h = o * np.tanh(c)
            hs[t] = h
        return hs, c

    shapes = ((steps, rows, width), (width, 4 * width), (width, 4 * width), (4 * width,))
    return ef.trace(program, *(ef.spec(shape, np.float64) for shape in shapes))


def normalised(x: Any, axes: Any = -1) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def transformer(blocks: int, rows: int, width: int, before: bool) -> Graph:
    """Blocks of attention and two dense layers, normalised before or after."""

    def attention(x: Any, q: Any, k: Any, v: Any, out: Any) -> Any:
        scores = (x @ q) @ (x @ k).T / width**0.5
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ (x @ v) @ out

    def program(x: Any, weights: Any) -> Any:
        for *heads, up, down in weights:
            for part in (lambda h: attention(h, *heads), lambda h: np.maximum(h @ up, 0) @ down):  # noqa: B023
                x = x + part(normalised(x)) if before else normalised(x + part(x))
        return x

    square, wide = (width, width), (width, 4 * width)
    one = [ef.spec(shape, np.float32) for shape in (*[square] * 4, wide, wide[::-1])]
    return ef.trace(program, ef.spec((rows, width), np.float32), [one] * blocks)


def residual(blocks: int, channels: int, size: int) -> Graph:
    def program(x: Any, weights: Any) -> Any:
        for first, second in weights:
            y = np.maximum(normalised(ef.conv(x, first), (0, 2, 3)), 0)
            x = np.maximum(x + normalised(ef.conv(y, second), (0, 2, 3)), 0)
        return x

    weight = ef.spec((channels, channels, 1, 1), np.float32)
    return ef.trace(program, ef.spec((2, channels, size, size), np.float32), [(weight, weight)] * blocks)


def trained(layers: int, rows: int, width: int) -> Graph:
    """A step of training, whose backward pass reads what each layer made."""

    def loss(weights: Any, x: Any) -> Any:
        for up, down in weights:
            h = normalised(x) @ up
            x = x + (h / (1 + np.exp(-h))) @ down
        return (x * x).mean()

    weights = [(np.ones((width, width)), np.ones((width, width)))] * layers
    adam = ef.adam()
    return ef.trace(ef.train_step(loss, adam), weights, adam.init(weights), np.ones((rows, width)))


def pointwise(steps: int) -> Graph:
    def program(z: Any, c: Any) -> Any:
        for _ in range(steps):
            z = np.where(np.abs(z) < 4, z * z * 0.5 + c, z)
        return z

    return ef.trace(program, ef.spec((1 << 16,), np.float32), ef.spec((1 << 16,), np.float32))


def run(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the pieces, one after another."""
    pieces, uses = segments(graph)
    values: dict[Node, np.ndarray] = dict(zip(graph.inputs, arrays, strict=True))
    for use in uses:
        given = [taken(n, values) for n in use.inputs]
        values.update(zip(use.outputs, evaluate(pieces[use.segment], given), strict=True))
    return [values[o] for o in graph.outputs]


def taken(n: Node, values: Mapping[Node, np.ndarray]) -> np.ndarray:
    """A value that is there, a constant, or a view of one that is there."""
    if n in values:
        return values[n]
    if n.op == "const":
        return n.literal.array
    assert n.row.role is Role.VIEW
    return n.row.meaning(taken(n.args[0], values), *n.attrs)


def random_arrays(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.uniform(-1, 1, n.shape).astype(n.dtype) for n in graph.inputs]


def seconds(graph: Graph, device: str, cut: Callable[[Graph], tuple], budget: ef.Budget = BUDGET) -> float:
    pieces, uses = cut(graph)
    laws = admitted(laws_named("all"), "reassociate")
    space = Space(graph, tuple(saturate_segment(p, laws, budget) for p in pieces), tuple(uses))
    return chosen_plan(space, DEVICES[device]).seconds


def test_equal_layers_with_different_weights_are_one_segment():
    pieces, uses = segments(network(8))
    assert len(uses) == 8
    assert len(pieces) == 1


def test_what_only_the_first_layer_has_before_it_is_a_segment_of_its_own():
    pieces, uses = segments(transformer(4, 64, 64, True))
    assert [use.segment for use in uses] == [0, 1, 1, 1, 2]  # a norm; attention, perceptron and a norm; without a norm
    assert [sum(n.op == "matmul" for n in piece.operators) for piece in pieces] == [0, 8, 8]


def test_the_steps_of_a_loop_over_an_array_are_one_segment_though_several_values_pass_between_them():
    pieces, uses = segments(recurrent(12, 4, 8))
    assert len(uses) >= 6
    assert len(pieces) <= 4  # the first steps start from zeros, the last one has nothing behind it
    assert max(len(use.outputs) for use in uses) > 1


def test_layers_of_a_long_step_of_training_and_their_backward_passes_are_few_segments():
    graph, longer = trained(28, 64, 64), trained(32, 64, 64)
    pieces, uses = segments(graph)
    assert sum(len(piece.operators) for piece in pieces) < len(graph.operators) / 10
    assert len(uses) > 100  # a layer forward, a layer back, the update of an array
    assert len(segments(longer)[0]) == len(pieces)
    layers = [len(use.outputs) for use in uses[2:25]]
    assert max(layers) < 8 and len(set(layers)) == 1, "more crosses the cuts than the backward pass reads"
    arrays = [np.abs(a) for a in random_arrays(graph)]
    for got, wanted in zip(run(graph, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("graph", [network(5), recurrent(6, 2, 3), transformer(3, 4, 6, True)], ids=str)
def test_the_pieces_together_mean_what_the_graph_means(graph):
    arrays = random_arrays(graph)
    for got, wanted in zip(run(graph, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.slow
def test_a_plan_of_segments_that_read_slices_of_what_is_there_runs():
    graph = recurrent(8, 2, 3)
    program = ef.compile(graph, target="numpy", verify=True, budget=BUDGET)
    assert len(program.plan.waists) > 4
    views = [k for k in program.plan.kernels if k.is_view]
    assert views
    arrays = random_arrays(graph)
    for got, wanted in zip(run_plan(program.plan, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_a_small_graph_stays_whole():
    pieces, uses = segments(network(1))
    assert len(pieces) == len(uses) == 1


def test_a_value_that_leaves_the_program_early_is_stored_so_the_graph_is_cut_there():
    x = input_node("x", TensorType(F64, (4, 4)))
    first = layer(x, np.eye(4))
    second = layer(first, np.eye(4))
    graph = Graph((x,), (first, second))
    pieces, uses = segments(graph)
    assert [use.outputs for use in uses] == [(first,), (second,)]
    assert len(pieces) == 1
    array = random_arrays(graph)
    np.testing.assert_array_equal(run(graph, array), evaluate(graph, array))


def test_pointwise_work_stays_whole_however_long_since_one_kernel_holds_it():
    pieces, _ = segments(pointwise(40))
    assert len(pieces) == 1


def test_products_that_share_an_operand_are_not_parted():
    graph = transformer(3, 16, 16, True)
    _, uses = segments(graph)
    assert len(uses) > 2
    place = {n: i for i, use in enumerate(uses) for n in below(use.outputs, set(use.inputs))}
    for a in graph.operators:
        for b in graph.operators:
            if a.op == b.op == "matmul" and a.args[0] is b.args[0]:
                assert place[a] == place[b]


def below(outputs: tuple[Node, ...], stop: set[Node]) -> set[Node]:
    nodes: set[Node] = set()
    stack = list(outputs)
    while stack:
        n = stack.pop()
        if n not in nodes and n not in stop:
            nodes.add(n)
            stack += n.args
    return nodes


def test_no_step_of_a_stencil_is_parted_from_the_array_it_is_written_into_nor_from_its_borders():
    graph = bordered(9, 64)
    pieces, uses = segments(graph)
    assert len(pieces) < len(uses)
    assert all(ends_step(n) for use in uses for n in use.outputs)


def ends_step(n: Node) -> bool:
    """Is `n` written into the last row of a step?"""
    return n.op == "slice_scatter" and n.attr("slices")[-1] == ((63, 64, 1), (0, 64, 1))


@pytest.mark.slow
def test_segments_cost_no_more_than_the_whole():
    """(On a GPU too: below.)"""
    graph = transformer(2, 64, 64, False)
    assert len(segments(graph)[1]) > 1
    assert seconds(graph, "cpu", segments) <= LOST * seconds(graph, "cpu", one_segment)


def bordered(steps: int, extent: int) -> Graph:
    """Steps of a stencil, each followed by its borders."""

    def program(u: Any) -> Any:
        for _ in range(steps):
            v = u.copy()
            v[1:-1, 1:-1] = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
            v[:, 0], v[:, -1], v[0], v[-1] = v[:, 1], 0, v[1], v[-2]
            u = v
        return u

    return ef.trace(program, ef.spec((extent, extent), np.float32))


STACKS = {
    "recurrent": lambda: recurrent(8, 64, 256),
    "small recurrent": lambda: recurrent(4, 4, 8),
    "before": lambda: transformer(3, 512, 512, True),
    "residual": lambda: residual(4, 64, 56),
    "borders": lambda: bordered(9, 512),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "device"), list(zip(STACKS, cycle(["cpu", "a100"]), strict=False)))
def test_segments_of_large_stacks_cost_no_more_than_the_whole(name, device):
    graph = STACKS[name]()
    """But for a launch at each seam of a program that consists of a few short ones."""
    seams = len(segments(graph)[1]) - 1
    assert seams > 0
    budget, launches = ef.Budget(60), seams * DEVICES[device].launch_seconds * name.startswith("small")
    assert seconds(graph, device, segments, budget) <= LOST * seconds(graph, device, one_segment, budget) + launches


def test_products_of_a_loops_inputs_run_together_before_its_steps():
    steps, rows, width = 12, 8, 16
    pieces, uses = segments(recurrent(steps, rows, width))
    assert [n.op for n in pieces[uses[0].segment].operators].count("matmul") >= steps
    assert len(uses) > 4


@pytest.mark.slow
def test_a_program_cut_at_several_values_says_what_each_kernel_rests_on():
    program = ef.compile(recurrent(8, 2, 3), target="numpy", budget=BUDGET)
    assert program.laws is not None
    assert "not proved" not in rests_on(program.plan, program.laws, seconds=60).doubt


@pytest.mark.slow
def test_ninety_six_blocks_are_no_more_segments_than_three():
    few, many = (segments(transformer(blocks, 64, 64, True)) for blocks in (3, 96))
    assert set(few[0]) == set(many[0])
    assert len(many[1]) > 90


@pytest.mark.slow
def test_an_irregular_program_of_a_thousand_operators_is_planned_and_means_the_same():
    graph = irregular_graph(np.random.default_rng(0), 1000, extent=6)
    space = ef.saturate(graph)
    plan = chosen_plan(space, DEVICES["cpu"])
    arrays = random_arrays(graph)
    with np.errstate(all="ignore"):
        for got, wanted in zip(run_plan(plan, arrays), evaluate(graph, arrays), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=1e-3)


def test_large_constants_become_inputs_known_when_the_program_is_built():
    pieces, _ = segments(network(1))
    assert [n.attr("constant") for n in pieces[0].inputs] == [False, True]
