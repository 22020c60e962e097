"""The evaluation order of a kernel: arguments first, few values live at a time."""

from __future__ import annotations

from eqfuse.emit.evaluation_order import evaluation_order
from eqfuse.ir.graph import Graph, node
from tests.support.kernels import add, judge, mul, read


def chains(steps: int) -> Graph:
    """Two results; the second reads what every step of the first has made."""
    x = read(0, (64, 1024))
    y, z = x, x
    for _ in range(steps):
        z = add(mul(z, y), x)
        y = node("tanh", (y,))
    return Graph((x,), (y, z))


def waiting(nodes: tuple) -> int:
    last = {a: n for n in nodes for a in n.args}
    now = most = 0
    for n in nodes:
        now += 1
        most = max(most, now)
        now -= sum(last[a] is n for a in set(n.args))
    return most


def test_arguments_come_first_and_nothing_is_lost():
    graph = chains(10)
    order = evaluation_order(graph)
    place = {n: i for i, n in enumerate(order)}
    assert set(order) == set(graph.nodes) and len(order) == len(graph.nodes)
    assert all(place[a] < place[n] for n in order for a in n.args)


def test_a_second_result_is_computed_along_with_the_first():
    graph = chains(20)
    assert waiting(graph.nodes) > 20 and waiting(evaluation_order(graph)) < 8


def test_the_kernel_in_that_order_gives_what_the_evaluator_gives():
    assert judge("map", chains(6)).count("memory[") < 10
