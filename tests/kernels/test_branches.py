"""Branches of choices, drawn at random: what is asked for is right, whatever is not computed, in C and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.cost.device import Device
from eqfuse.emit.c import branches as c_branches
from eqfuse.emit.c import schedule as c_schedules
from eqfuse.emit.choices import asked_for
from eqfuse.emit.numpy import branches as numpy_branches
from eqfuse.emit.numpy import kernels as numpy_kernels
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, node
from tests.kernels.test_numpy_panels import TINY
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import emitted, run_all
from tests.support.kernels import CPU, body, judge, number, read
from tests.support.some import some

SHAPES = [(3000,), (70, 130), (513,), (4, 1000)]
UNARY, BINARY = ["exp", "tanh", "sqrt", "negative", "square", "sign"], ["add", "multiply", "maximum", "divide"]


def drawn(seed: int) -> tuple[Graph, list[np.ndarray]]:
    """A graph of elementwise work with many choices, and arrays of which few, many, all or none are chosen."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    dtype = ["float32", "float64"][seed // 4 % 2]
    inputs = [read(i, shape, dtype) for i in range(2)] + [read(2, shape[-1:], dtype)]
    inputs += [read(i, shape, bool) for i in (3, 4)]
    values, masks = [*inputs[:3], number(0.5, dtype)], [*inputs[3:]]
    for _ in range(int(rng.integers(5, 25))):
        x, y = (values[int(i)] for i in np.maximum(0, len(values) - 1 - rng.integers(0, 6, 2)))
        kind = rng.random()
        if kind < 0.4:
            values.append(node(str(rng.choice(UNARY)), (x,)))
        elif kind < 0.6:
            values.append(node(str(rng.choice(BINARY)), (x, y)))
        elif kind < 0.7:
            less = node("less", (x, y))
            masks.append(less if less.shape == shape else node("logical_and", (less, masks[0])))
        else:
            values.append(node("where", (masks[int(rng.integers(len(masks)))], x, y)))
    full = [v for v in values[4:] if v.shape == shape] or [node("where", (masks[0], values[0], values[1]))]
    outputs = dict.fromkeys([full[-1], full[int(rng.integers(len(full)))]])
    graph = body([i for i in inputs if i in body(inputs, *outputs).nodes], *outputs)
    share = [0, 0.002, 0.1, 0.5, 1][seed % 5]
    arrays = {
        n: rng.random(n.shape) < share if n.dtype == bool else (rng.normal(size=n.shape) * 2).astype(dtype)
        for n in graph.inputs
    }
    return graph, [*arrays.values()]


@pytest.mark.parametrize("device", [CPU, TINY], ids=["whole", "tiles"])
@pytest.mark.parametrize("seeds", some([range(40), range(40, 400)], 2))
def test_what_numpy_computes_where_it_is_asked_for_is_right(
    seeds: range, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_kernels, "_emitted", {})
    for name in ("COMPUTED_ALONE", "READ_ALONE", "LEAST_SECONDS", "LEAST_FEW_SHARE"):  # so that nothing is too cheap
        monkeypatch.setattr(numpy_branches, name, 1e-12)
    sources = [judge("map", *drawn(seed), device) for seed in seeds]
    assert sum("few_places(" in source for source in sources) > len(seeds) // 2


@needs_compiler
@pytest.mark.parametrize("seeds", some([range(4), range(4, 44)], 2))
def test_what_c_computes_where_it_is_asked_for_is_right(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    prices = {"SELDOM": 0, "LANE": 0.01, "LANE_READ": 0.01, "LOOK_SHARE": 1e9, "LEAST_GAIN": 0, "OFTEN": 0, "APART": 0}
    for name, price in prices.items():
        monkeypatch.setattr(c_branches, name, price)
    graphs, given = zip(*[drawn(seed) for seed in seeds], strict=True)
    kernels = [emitted("map", graph) for graph in graphs]
    assert sum("eqf_found_u8" in kernel.text.source for kernel in kernels) > len(seeds) // 2
    monkeypatch.setattr(c_schedules, "with_branches", lambda form, nest, device: form)
    plain = [emitted("map", graph) for graph in graphs]
    for one, other, graph, arrays in zip(run_all(kernels, given), run_all(plain, given), graphs, given, strict=True):
        with np.errstate(all="ignore"):
            wanted = evaluate(graph, arrays)
        for a, b, want in zip(one, other, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(np.isnan(a), np.isnan(want))


def test_conditions_are_those_that_all_readers_have_in_common() -> None:
    x, m, other = read(0, (9,)), read(1, (9,), bool), read(2, (9,), bool)
    one, two, both = (node(op, (x,)) for op in ("exp", "tanh", "sqrt"))
    inner = node("where", (other, one, both))
    graph = body([x, m, other], node("where", (m, inner, node("add", (two, both)))))
    asked = asked_for(graph, {*graph.nodes})
    assert asked[one] == {(m, True), (other, True)}
    assert asked[two] == {(m, False)}
    assert asked[both] == asked[x] == asked[m] == frozenset()
    assert asked[inner] == {(m, True)}

