"""Random bodies of every kind, as the lattice of kinds admits them, against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqfuse.cost.device import Device
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Node, node
from eqfuse.kinds import State, classify
from tests.kernels.test_numpy_panels import TINY
from tests.support.kernels import CPU, body, data, judge, read

UNARY = ["tanh", "negative", "abs", "square", "floor", "conj", "real"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]
DTYPES = ["float32", "float32", "float16", "bfloat16", "complex64", "int16", "uint8"]
SIZES = [1, 2, 5, 16, 70]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[Node], list[Node], Device]:
    """Nodes built one on another; the outputs are some of the last."""
    rank, dtype = draw(st.integers(1, 4)), draw(st.sampled_from(DTYPES))
    space = [draw(st.sampled_from(SIZES)) for _ in range(rank)]
    inputs: list[Node] = []

    def new(shape: list[int]) -> Node:
        inputs.append(read(len(inputs), shape, dtype))
        return inputs[-1]

    values = [new(space)]
    axes = tuple(sorted({draw(st.integers(-rank, -1)) for _ in range(draw(st.integers(1, 2)))}))
    for _ in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["unary", "binary", "binary", "where", "reduce", "view", "product", "read"]))
        x = values[draw(st.integers(max(0, len(values) - 4), len(values) - 1))]
        y = values[draw(st.integers(0, len(values) - 1))]
        try:
            if kind == "unary":
                values.append(node(draw(st.sampled_from(UNARY)), (x,)))
            elif kind == "binary":
                values.append(node(draw(st.sampled_from(BINARY)), (x, y)))
            elif kind == "where":
                values.append(node("where", (node("less", (x, y)), y, x)))
            elif kind == "reduce":
                values.append(node(draw(st.sampled_from(["sum", "max", "min"])), (x,), (axes,)))
            elif kind == "view":
                values.append(node("transpose", (x,), (tuple(draw(st.permutations(range(len(x.shape))))),)))
            elif kind == "product":
                n = draw(st.sampled_from(SIZES))
                lead = x.shape[:-2] if draw(st.booleans()) else ()
                values.append(node("matmul", (x, new([*lead, x.shape[-1], n]))))
            else:
                shape = [n if draw(st.booleans()) else 1 for n in x.shape]
                values.append(node("multiply", (x, new(shape[draw(st.integers(0, len(shape))) :]))))
        except EqfuseError:
            continue
    nodes = [v for v in values if v.args]
    outputs = draw(st.lists(st.sampled_from(nodes[-3:]), min_size=1, max_size=3)) if nodes else []
    return inputs, outputs, draw(st.sampled_from([CPU, TINY]))


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(bodies())
def test_whatever_the_kinds_admit_is_emitted_right(drawn):
    inputs, outputs, device = drawn
    if not outputs:
        return
    used = [i for i in inputs if i in body(inputs, *outputs).nodes]
    graph = body(used, *outputs)
    state = classify(graph, device)
    if not isinstance(state, State) or state.is_view:
        return
    arrays = [np.asarray(a * 0.5, a.dtype) for a in data(graph)]
    judge(state.kind, graph, arrays, device)
