"""Cutting at waists: repeated layers are one segment, and the pieces mean what the whole means."""

import numpy as np

from eqfuse.ir import Graph, Node, TensorType, const, input_node, node
from eqfuse.meaning import evaluate
from eqfuse.segments import segments

F64 = np.dtype(np.float64)


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


def run(graph: Graph, array: np.ndarray) -> np.ndarray:
    pieces, uses = segments(graph)
    values = {graph.inputs[0]: array}
    for use in uses:
        given = [values[n] if n in values else n.attrs[0].array if n.op == "const" else taken(n, values) for n in use.inputs]
        values.update(zip(use.outputs, evaluate(pieces[use.segment], given), strict=True))
    return values[graph.outputs[0]]


def test_equal_layers_with_different_weights_are_one_segment():
    pieces, uses = segments(network(8))
    assert len(uses) == 8
    assert len(pieces) == 1


def test_the_pieces_together_mean_what_the_graph_means():
    graph, array = network(5), np.random.default_rng(1).uniform(-1, 1, (4, 4))
    np.testing.assert_array_equal(run(graph, array), evaluate(graph, [array])[0])


def test_a_small_graph_stays_whole():
    pieces, uses = segments(network(1))
    assert len(pieces) == len(uses) == 1


def test_a_value_that_leaves_the_program_early_keeps_the_graph_whole_around_it():
    x = input_node("x", TensorType(F64, (4, 4)))
    first = layer(x, np.eye(4))
    second = layer(first, np.eye(4))
    pieces, _ = segments(Graph((x,), (first, second)))
    assert sum(len(p.outputs) for p in pieces) == 2


def test_large_constants_become_inputs_known_when_the_program_is_built():
    pieces, _ = segments(network(1))
    assert [n.attrs[2] for n in pieces[0].inputs] == [False, True]
