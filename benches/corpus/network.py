"""A network that others publish results for: a plain NumPy function of a supply of weights and its inputs.

In: sizes. Out: its graph, as `traced` without any weights in memory, or as `built` with random ones.
A network asks for its weights in the order it uses them: ``w(512, 512)``. The networks themselves: `networks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.frontends.numpy.tracer import wrap
from eqfuse.ir.graph import Graph, Node, const, input_node, substitute
from eqfuse.ops.types import Shape, TensorType

Weights = Callable[..., Any]
Layers = tuple[Callable[..., Any], list[TensorType]]  # a function of (weights, *inputs), and the types of the inputs


@dataclass(frozen=True)
class Network:
    """`build(**sizes)` gives the layers. `fits`: the sizes that differ from `full` where a small machine runs it.

    `source`: where the shapes are from. `searched`: seconds of search that (TASO, TENSAT) published for it.
    """

    id: str
    build: Callable[..., Layers]
    source: str
    full: dict[str, Any]
    small: dict[str, Any]
    fits: dict[str, Any] = field(default_factory=dict)
    searched: tuple[float, float] | None = None


def traced(network: Network, sizes: dict[str, Any]) -> Graph:
    """The graph at `sizes`. Weights are inputs behind the others, known when a program is built."""
    graph, weights = _traced(network, sizes)
    return Graph((*graph.inputs, *weights), graph.outputs)


def built(network: Network, sizes: dict[str, Any], seed: int = 0) -> Graph:
    """The graph at `sizes`, with random weights that keep values near 1 as constants."""
    graph, weights = _traced(network, sizes)
    rng = np.random.default_rng(seed)
    drawn = {w: const(_normal(rng, w.shape).astype(w.dtype)) for w in weights}
    return Graph(graph.inputs, substitute(graph.outputs, drawn))


def _traced(network: Network, sizes: dict[str, Any]) -> tuple[Graph, list[Node]]:
    layers, types = network.build(**sizes)
    dtype = next((t.dtype for t in types if t.dtype.kind == "f"), np.dtype(np.float32))
    weights: list[Node] = []

    def weight(*shape: int) -> Any:
        weights.append(input_node(f"w{len(weights)}", TensorType(dtype, shape), True))
        return wrap(weights[-1])

    return trace(lambda *inputs: layers(weight, *inputs), *[spec(t.shape, t.dtype) for t in types]), weights


def _normal(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    summed = math.prod(shape[1:]) if len(shape) == 4 else shape[0]  # filters: channels × height × width
    return rng.standard_normal(shape, np.float32) * np.float32(summed**-0.5)
