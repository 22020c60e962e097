"""The proof of a plan: right kernels are found equal to the program, sabotaged ones are refused."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.egraph.proof import prove
from eqfuse.egraph.saturate import saturate
from eqfuse.egraph.space import Segment
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType

F = np.dtype(np.float32)


def program() -> Segment:
    """exp(a @ w * 2 + b) with the sum of its rows."""
    a, w, b = (input_node(n, TensorType(F, s)) for n, s in (("a", (4, 3)), ("w", (3, 5)), ("b", (5,))))
    scaled = node("multiply", (node("matmul", (a, w)), const(2.0, F)))
    y = node("exp", (node("add", (scaled, b)),))
    (segment,) = saturate(Graph((a, w, b), (y, node("sum", (y,), ((-1,),))))).segments
    return segment


def product() -> Graph:
    left, right = (input_node(n, TensorType(F, s)) for n, s in (("r0", (4, 3)), ("r1", (3, 5))))
    return Graph((left, right), (node("multiply", (node("matmul", (left, right)), const(2.0, F))),))


def doubled_first() -> Graph:
    left, right = (input_node(n, TensorType(F, s)) for n, s in (("r0", (4, 3)), ("r1", (3, 5))))
    return Graph((left, right), (node("matmul", (node("multiply", (left, const(2.0, F))), right)),))


def rows(total: str = "sum") -> Graph:
    p, b = input_node("r0", TensorType(F, (4, 5))), input_node("r1", TensorType(F, (5,)))
    y = node("exp", (node("add", (b, p)),))
    return Graph((p, b), (y, node(total, (y,), ((-1,),))))


@pytest.mark.parametrize("first", [product(), doubled_first()], ids=["as written", "another member of the class"])
def test_a_right_plan_is_proved_with_several_outputs_per_kernel(first: Graph) -> None:
    prove(program(), [(first, "aw", "p"), (rows(), "pb", "yz")], "awb", "yz")


def test_a_plan_may_read_constants_that_are_stored() -> None:
    p, two = input_node("r0", TensorType(F, (4, 5))), input_node("r1", TensorType(F, ()))
    left, right = product().inputs
    bare = Graph((left, right), (node("matmul", (left, right)),))
    scale = Graph((p, two), (node("multiply", (p, two)),))
    kernels = [(bare, "aw", "m"), (scale, "mc", "p"), (rows(), "pb", "yz")]
    prove(program(), kernels, "awb", "yz", {"c": Literal(np.asarray(2.0, F))})
    with pytest.raises(EqfuseError, match="not proved"):
        prove(program(), kernels, "awb", "yz", {"c": Literal(np.asarray(3.0, F))})


@pytest.mark.parametrize(
    "kernels, roots",
    [
        ([(product(), "aw", "p"), (rows("max"), "pb", "yz")], "yz"),
        ([(product(), "aw", "p"), (rows(), "pb", "yz")], "yy"),
        ([(Graph(product().inputs, (node("matmul", product().inputs),)), "aw", "p"), (rows(), "pb", "yz")], "yz"),
    ],
    ids=["wrong operator", "wrong output", "a factor left out"],
)
def test_a_sabotaged_plan_is_refused(kernels: list, roots: str) -> None:
    with pytest.raises(EqfuseError, match="not proved"):
        prove(program(), kernels, "awb", roots)


def test_a_proof_does_not_depend_on_earlier_ones() -> None:
    segment = program()
    for _ in range(10):
        prove(segment, [(product(), "aw", "p"), (rows(), "pb", "yz")], "awb", "yz")
        with pytest.raises(EqfuseError):
            prove(segment, [(product(), "aw", "p"), (rows("max"), "pb", "yz")], "awb", "yz")


def chain_with_sums(operators: int) -> Graph:
    """A chain of alternating products and sums with constants, and its sums along both axes."""
    a = input_node("a", TensorType(F, (4, 4)))
    y = a
    for i in range(operators // 2):
        y = node("add", (node("multiply", (y, const(0.5, F))), const((i % 7) * 0.25, F)))
    return Graph((a,), (node("sum", (y,), ((-1,),)), node("sum", (y,), ((-2,),))))


@pytest.mark.parametrize("operators, laws, times", [(20, "none", 10), (20, "all", 10), (300, "none", 2)])
def test_one_kernel_of_many_operators_is_proved_again_and_again(operators: int, laws: str, times: int) -> None:
    graph = chain_with_sums(operators)
    (segment,) = saturate(graph, laws=laws).segments
    for _ in range(times):
        prove(segment, [(graph, "a", "rc")], "a", "rc")
        with pytest.raises(EqfuseError, match="output 0"):
            prove(segment, [(graph, "a", "rc")], "a", "cc")


def test_a_plan_of_many_kernels_is_proved() -> None:
    graph = chain_with_sums(40)
    (segment,) = saturate(graph, laws="none").segments
    key: dict[Node, int] = {n: i for i, n in enumerate(graph.nodes)}
    kernels = []
    for n in graph.operators:
        args = list(dict.fromkeys(a for a in n.args if a.op != "const"))
        leaves = {a: input_node(f"r{i}", a.type) for i, a in enumerate(args)}
        body = Graph(tuple(leaves.values()), (node(n.op, (leaves.get(a, a) for a in n.args), n.attrs),))
        kernels.append((body, [key[a] for a in args], [key[n]]))
    prove(segment, kernels, [key[n] for n in graph.inputs], [key[n] for n in graph.outputs])


def test_no_global_of_the_e_graph_ends_in_a_digit() -> None:
    """egglog may read a global as another whose name is its own with digits behind it."""
    segment = program()
    engine = segment._engine
    assert engine is not None
    graph = segment.graph
    prove(segment, [(Graph(graph.inputs, graph.outputs), ["a", "w", "b"], ["y", "s"])], ["a", "w", "b"], ["y", "s"])
    names = [name for name in engine._egraph.freeze().functions if name.startswith("$")]
    assert not [name for name in names if name[-1].isdigit()]


@pytest.mark.parametrize("count", [20, 300])
def test_kernels_of_many_arguments_are_proved(count: int) -> None:
    pieces = [input_node(f"x{i}", TensorType(F, (2,))) for i in range(count)]
    parts = [node("exp", (p,)) for p in pieces]
    (segment,) = saturate(Graph(tuple(pieces), (node("concat", parts, (-1,)),)), laws="none").segments
    x, *given = [input_node(f"r{i}", TensorType(F, (2,))) for i in range(count + 1)]
    kernels = [(Graph((x,), (node("exp", (x,)),)), [i], [-1 - i]) for i in range(count)]
    joined = Graph(tuple(given), (node("concat", given, (-1,)),))
    values = [-1 - i for i in range(count)]
    prove(segment, [*kernels, (joined, values, ["y"])], range(count), ["y"])
    with pytest.raises(EqfuseError, match="not proved"):
        prove(segment, [*kernels, (joined, values[::-1], ["y"])], range(count), ["y"])
