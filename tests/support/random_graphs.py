"""Random small programs and random prices, for tests that must hold for every program and every machine.

In: a seeded generator. Out: a `Graph` with arrays to run it on, or a `Device` with random prices.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqfuse.benches.corpus.random_graphs import BINARY, UNARY, drawn_value
from eqfuse.cost.device import Device
from eqfuse.cost.profiles import DEVICES
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ops.types import TensorType
from eqfuse.plan.plan import Plan

F64 = np.dtype(np.float64)
EXTENTS = (1, 2, 3, 4)


def random_graph(
    rng: np.random.Generator, operators: int = 12, extents: tuple[int, ...] = EXTENTS, all_results: bool = False
) -> tuple[Graph, list[np.ndarray]]:
    """A float64 program of about `operators` operators over three matrices, a row, a column and a constant matrix.

    Its results are the last value and a few others; or `all_results`, every value that no operator reads.
    """
    m, n = (int(rng.choice(extents)) for _ in range(2))
    shapes = [(m, n), (m, n), (n, m), (1, n), (m, 1)]
    inputs = [input_node(f"x{i}", TensorType(F64, shape)) for i, shape in enumerate(shapes)]
    values: list[Node] = [*inputs, const(np.float64(rng.integers(1, 4))), const(rng.integers(-2, 3, (m, n)) / 2)]
    while len(values) < operators + len(inputs) + 2:
        value = drawn_value(rng, values)
        if value is not None and value.type.size <= 16 * max(extents) ** 2:
            values.append(value)
    computed = values[len(inputs) + 2 :]
    outputs = [computed[-1], *(computed[int(rng.integers(len(computed)))] for _ in range(int(rng.integers(3))))]
    if all_results:
        read = {a for v in values for a in v.args}
        outputs = [v for v in computed if v not in read]
    graph = Graph(tuple(inputs), tuple(dict.fromkeys(outputs)))
    return graph, [rng.uniform(-1, 1, n.shape) for n in graph.inputs]


def long_graph(rng: np.random.Generator, operators: int) -> tuple[Graph, list[np.ndarray]]:
    """A float64 program of about `operators` operators as long ones are: block after block, each of which reads the one
    before and little else, some of them several times the same; constants on either side of products; results on the
    way, inputs and constants among them.
    """
    n, m = (int(rng.choice((2, 3, 5))) for _ in range(2))
    inputs = tuple(input_node(f"x{i}", TensorType(F64, shape)) for i, shape in enumerate([(n, m), (n, m), (1, m)]))
    sides = {extent: const(rng.integers(-2, 3, (extent, extent)) / 4) for extent in (n, m)}
    leaves = [*inputs, const(rng.integers(-2, 3, (n, m)) / 2), const(np.float64(2))]
    value, results = inputs[0], [*inputs[1:2], leaves[3]][: int(rng.integers(3))]
    left = operators
    while left > 0:
        steps = [int(c) for c in rng.integers(1 << 30, size=int(rng.integers(8, 40)))]
        for _ in range(int(rng.integers(1, 4))):
            block = [value]
            for choice in steps:
                block.append(_block_step(choice, block, leaves, sides))
            value, left = block[-1], left - len(steps)
            if rng.random() < 0.3:
                results.append(block[int(rng.integers(1, len(block)))])
    graph = Graph(inputs, tuple(dict.fromkeys([*results, value])))
    return graph, [rng.uniform(-1, 1, i.shape) for i in graph.inputs]


def _block_step(choice: int, values: list[Node], leaves: list[Node], sides: dict[int, Node]) -> Node:
    """One more value of a block, of the shape of its first; `choice` says which, the same one in each repetition."""
    kind, choice = choice % 8, choice // 8
    x = values[max(0, len(values) - 1 - choice % 3)]
    choice //= 3
    if kind < 2:
        return node("tanh", (node(UNARY[choice % len(UNARY)], (x,)),))
    if kind == 2:
        return node("matmul", (sides[x.shape[0]], x))
    if kind == 3:
        return node("matmul", (x, sides[x.shape[1]]))
    if kind == 4:
        reduced = node(("sum", "max")[choice % 2], (x,), (((-1,), (-2,), (-2, -1))[choice // 2 % 3],))
        return node("subtract", (x, reduced))
    if kind == 5:  # the product of three, as attention has it
        scores = node("tanh", (node("matmul", (x, node("transpose", (x,), ((1, 0),)))),))
        return node("matmul", (scores, x))
    others = [values[0], *leaves] if kind == 6 else values
    return node("tanh", (node(BINARY[choice % len(BINARY)], (x, others[choice // 8 % len(others)])),))


def scrambled(rng: np.random.Generator, name: str = "cpu") -> Device:
    """A device of the given kind whose rates are random over six orders of magnitude."""

    def rate() -> float:
        return float(10.0 ** rng.uniform(-12, -6))

    real = DEVICES[name]
    return replace(
        real,
        name="scrambled",
        launch_seconds=rate(),
        call_seconds=rate(),
        dispatch_seconds=rate(),
        levels=tuple((capacity, 1 / rate()) for capacity, _ in real.levels),
        thread_levels=tuple((capacity, 1 / rate()) for capacity, _ in real.thread_levels),
        flops=tuple((dtype, 1 / rate()) for dtype, _ in real.flops),
        tiled_flops=tuple((dtype, 1 / rate()) for dtype, _ in real.tiled_flops),
        elements=tuple((op, tuple((dtype, rate()) for dtype, _ in row)) for op, row in real.elements),
    )


def run_plan(plan: Plan, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a plan, each kernel run by the evaluator: what the plan means, whatever its emitter does."""
    values = dict(zip(plan.inputs, arrays, strict=True)) | {v: literal.array for v, literal in plan.constants}
    for kernel in (*plan.setup, *plan.kernels):
        results = evaluate(kernel.body, [values[r] for r in kernel.reads])
        values.update(zip(kernel.writes, results, strict=True))
    return [values[o] for o in plan.outputs]
