"""CUDA kernels of every kind over shapes whose axes have 0, 1 or more elements, judged by the evaluator."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.errors import EqfuseError
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.kinds import State, classify
from eqfuse.machine import nvrtc
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.support.kernels import PRICE, add, body, data, mul, read, reduced, softmax
from tests.support.some import some

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")

H100 = profile("h100")
PARTS = 4  # in each of which every extent occurs on every axis
CUDA_FUNCTIONS = ("map", "row", "reduce", "contract")
Shape = tuple[int, ...]


def broadcast(shape: Shape) -> tuple[Node, ...]:
    x, y, z = read(0, shape), read(1, shape[1:]), read(2, (shape[0], 1, shape[2]))
    return add(x, y), mul(z, node("exp", (add(x, z),)))


def viewed(shape: Shape) -> tuple[Node, ...]:
    x = read(0, shape)
    turned = node("transpose", (node("flip", (x,), ((-1,),)),), (tuple(reversed(range(len(shape)))),))
    flat = node("reshape", (turned,), ((x.type.size,),))
    wide = node("broadcast_to", (node("reshape", (flat,), ((1, x.type.size),)),), ((2, x.type.size),))
    return (node("negative", (wide,)),)


def taken(shape: Shape) -> tuple[Node, ...]:
    x, places = read(0, (9, *shape)), read(1, (2, 2), np.int64)
    return (node("negative", (node("take", (x, places), (-len(shape) - 1,)),)),)


def softmaxes(*axes: int) -> Callable[[Shape], tuple[Node, ...]]:
    return lambda shape: (softmax(read(0, shape), *axes),)


def reductions(*axes: int) -> Callable[[Shape], tuple[Node, ...]]:
    def build(shape: Shape) -> tuple[Node, ...]:
        x = read(0, shape)
        return tuple(reduced(op, x, *axes) for op in ("sum", "prod", "any"))

    return build


def centred(shape: Shape) -> tuple[Node, ...]:
    x = read(0, shape)
    total = reduced("sum", x, -1)
    return add(x, total), total, mul(total, const(np.float32(2)))


def product(shape: Shape) -> tuple[Node, ...]:
    m, k, n = shape
    y = node("matmul", (node("negative", (read(0, (2, m, k)),)), read(1, (k, n))))
    return (add(y, read(2, (n,))),)


def products(shape: Shape) -> tuple[Node, ...]:
    b, k, n = shape
    return (node("negative", (node("matmul", (read(0, (b, 2, k)), read(1, (b, k, n)))),)),)


def convolved(shape: Shape) -> tuple[Node, ...]:
    batch, channels, filters = shape
    x, w = read(0, (batch, channels, 4, 5)), read(1, (filters, channels, 3, 1))
    return (node("negative", (node("conv", (x, w), ((1, 1), ((1, 1), (0, 0)), (1, 1), 1)),)),)


BUILD: dict[str, Callable[[Shape], tuple[Node, ...]]] = {
    "broadcasting": broadcast, "views": viewed, "take": taken, "softmax of rows": softmaxes(-1),
    "softmax of columns": softmaxes(-2), "softmax over two axes": softmaxes(-3, -1), "sums of rows": reductions(-1),
    "sums of columns": reductions(-2), "sums over two axes": reductions(-3, -2), "full sums": reductions(-3, -2, -1),
    "centred": centred, "product": product, "products": products, "convolution": convolved,
}  # fmt: skip


def bodies() -> Iterator[tuple[str, Graph]]:
    """Of every two axes, each has every extent with every one of the other's."""
    for (name, build), shape in itertools.product(BUILD.items(), itertools.product((0, 1, 3), repeat=3)):
        if shape == (3, 3, 3) or sum(map((0, 1, 3).index, shape)) % 3 == 2:
            continue
        try:
            outputs = build(shape)
        except EqfuseError:  # NumPy has no largest of nothing
            continue
        inputs = sorted((n for n in Graph((), outputs).nodes if n.op == "input"), key=lambda n: n.attr("name"))
        yield f"{name} of {shape}", body(inputs, *outputs)


@cache
def emitted() -> tuple[list[tuple[str, Graph, CudaKernel]], str]:
    kernels = []
    for name, kernel in bodies():
        state = classify(kernel, H100)
        kind = state.kind if isinstance(state, State) and state.kind in CUDA_FUNCTIONS else "map"
        kernels.append((name, kernel, emit_kernel(Kernel(kind, kernel, (), (), PRICE), H100)))
    return kernels, module_source(list(dict.fromkeys(cuda.source for *_, cuda in kernels)))


@pytest.mark.slow
@emulated
def test_kernels_over_axes_of_no_or_one_element_equal_the_evaluator():
    kernels, code = emitted()
    for name, kernel, cuda in kernels:
        assert bool(cuda.grid) == any(o.type.size for o in kernel.outputs), name
        if not cuda.grid:
            continue
        arrays, workspace = data(kernel), [np.zeros(n, dtype) for dtype, n in cuda.workspace]
        writes = [np.full(o.shape, 99, o.dtype) for o in kernel.outputs]
        arguments = cuda.arguments(writes, arrays, cuda.constants, workspace)
        cudasim.CpuRawKernel(code, cuda.name)(cuda.grid, cuda.block, arguments)
        for got, want in zip(writes, evaluate(kernel, arrays), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=name)


@compiled
@pytest.mark.parametrize("part", some(range(PARTS), PARTS))
def test_kernels_over_axes_of_no_or_one_element_compile(part):
    kernels = [cuda for *_, cuda in emitted()[0][part::PARTS] if cuda.grid]
    code = module_source(list(dict.fromkeys(cuda.source for cuda in kernels)))
    assert nvrtc.compile_cuda(code, ("sm_80", "sm_90")[part % 2]).resources.keys() == {cuda.name for cuda in kernels}
