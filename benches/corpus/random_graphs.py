"""Programs drawn at random in which nothing repeats, as large as is asked for.

In: a seeded generator. Out: a `Graph`.
"""

from __future__ import annotations

import numpy as np

from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ops.types import TensorType

UNARY = ("exp", "tanh", "negative", "square", "abs", "sin")
BINARY = ("add", "multiply", "subtract", "maximum", "minimum")


def irregular_graph(rng: np.random.Generator, operators: int, extent: int = 512) -> Graph:
    """A float32 program of so many operators in which nothing repeats and everything reaches a result."""
    f32 = np.dtype(np.float32)
    shapes = [(extent, extent)] * 4 + [(1, extent), (extent, 1), (1, 1)]
    inputs = tuple(input_node(f"x{i}", TensorType(f32, shape)) for i, shape in enumerate(shapes))
    values: list[Node] = [*inputs, const(np.float32(0.5)), const(np.float32(3))]
    unread: dict[Node, None] = {}
    while len(values) < operators + len(inputs) + 2:
        first = list(unread)[int(rng.integers(len(unread)))] if len(unread) > 6 else None
        value = drawn_value(rng, values[-200:], first)
        if value is not None and value not in unread and value not in values[-200:]:
            for a in value.args:
                unread.pop(a, None)
            values.append(value)
            unread[value] = None
    return Graph(inputs, tuple(unread))


def drawn_value(rng: np.random.Generator, values: list[Node], first: Node | None = None) -> Node | None:
    """An operator over `first` or one of `values`, and another of them; None where they do not fit."""
    # late values are likelier, so that chains grow and early values keep several readers
    weights = np.arange(1, len(values) + 1) / (len(values) * (len(values) + 1) / 2)
    x, y = (values[int(rng.choice(len(values), p=weights))] for _ in range(2))
    x = first or x
    choice = int(rng.integers(10))
    if choice < 3:
        return node(str(rng.choice(UNARY)), (x,))
    if choice < 6:
        fits = all(a == b or 1 in (a, b) for a, b in zip(x.shape[::-1], y.shape[::-1], strict=False))
        return node(str(rng.choice(BINARY)), (x, y)) if fits else None
    if x.type.rank != 2:
        return None
    if choice == 6:
        return node(str(rng.choice(("sum", "max", "min"))), (x,), (((-1,), (-2,), (-2, -1))[int(rng.integers(3))],))
    if choice == 7:
        return node("matmul", (x, y)) if y.type.rank == 2 and x.shape[1] == y.shape[0] else None
    if choice == 8:
        return node("transpose", (x,), ((1, 0),))
    return node("reshape", (x,), (x.shape[::-1],))
