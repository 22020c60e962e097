"""Kernels of thousands of operators: text, prices and explanations take no more of Python's stack than small ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import emit_kernel, module_source
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.kinds import State, classify
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.support.kernels import PRICE, add, body, mul, read, reduced

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
H100 = profile("h100")
DEEP = 600


@contextmanager
def few_frames(count: int = 150) -> Iterator[None]:
    """No more of Python's stack than `count` frames beyond this one."""
    depth, frame, limit = 0, sys._getframe(), sys.getrecursionlimit()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    sys.setrecursionlimit(depth + count)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def deep(x: Node) -> Node:
    for i in range(DEEP):
        x = add(mul(x, const(np.float32(0.75))), const(np.float32(1))) if i % 50 == 0 else node("negative", (x,))
    return x


def deep_row() -> Graph:
    x = read(0, (4, 40))
    before = deep(x)
    return body([x], deep(node("subtract", (before, reduced("max", before)))))


def deep_product() -> Graph:
    x, w, b = read(0, (70, 16)), read(1, (16, 20)), read(2, (20,))
    return body([x, w, b], deep(add(node("matmul", (deep(x), w)), b)))


def deep_takes() -> Graph:
    x, indices = read(0, (9,)), read(1, (9,), np.int64)
    place = indices
    for _ in range(DEEP // 10):
        place = node("take", (place, indices), (-1,))
    return body([x, indices], node("negative", (node("take", (x, place), (-1,)),)))


@emulated
@pytest.mark.parametrize("graph", [deep_row(), deep_product(), deep_takes()], ids=["row", "product", "takes"])
def test_a_kernel_of_a_thousand_operators_is_emitted_and_right(graph):
    with few_frames():
        state = classify(graph, H100)
        kind = state.kind if isinstance(state, State) and state.kind != "library" else "map"
        cuda = emit_kernel(Kernel(kind, graph, (), (), PRICE), H100)
        priced(graph, H100)  # or a reason why no plan has it
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, n.shape).astype(n.dtype) for n in graph.inputs]
    writes = [np.empty(o.shape, o.dtype) for o in graph.outputs]
    function = cudasim.CpuRawKernel(module_source([cuda.source]), cuda.name)
    function(cuda.grid, cuda.block, cuda.arguments(writes, arrays, cuda.constants, []))
    np.testing.assert_allclose(writes[0], evaluate(graph, arrays)[0], rtol=1e-4)


def test_views_of_views_are_written_once_each():
    x = read(0, (4, 8, 2))
    y = x
    for _ in range(40):
        y = node("reshape", (node("transpose", (y,), ((2, 0, 1),)),), ((4, 8, 2),))
    source = emit_kernel(Kernel("map", body([x], node("negative", (y,))), (), (), PRICE), H100).source
    assert len(source) < 40 * 400


@pytest.mark.parametrize("target", ["cuda:h100", "cpu"])
def test_a_program_of_a_thousand_operators_compiles_prices_and_explains_itself(target):
    def chain(x: np.ndarray) -> np.ndarray:
        for i in range(1000):
            x = np.sin(x) if i % 3 else x * 1.5
        return x

    x = np.ones(8, np.float32)
    graph = ef.trace(chain, x)
    with few_frames(400):  # egglog and rich take some
        program = ef.compile(graph, target=target, laws="none")
        assert str(program.explain()) and program.source() and str(program.plan)
