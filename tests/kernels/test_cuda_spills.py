"""Kernels at the sizes people run, through NVRTC for both architectures: no thread keeps a register in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.cost.profiles import profile
from eqfuse.demo.programs import full_size_programs
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.machine import nvrtc
from eqfuse.plan.plan import Kernel
from tests.support.gpu import program_on
from tests.support.kernels import PRICE, add, gelu, layer_norm, mul, read, reduced, softmax

pytestmark = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")


def log_softmax(x: Node) -> Node:
    top = reduced("max", x)
    total = reduced("sum", node("exp", (node("subtract", (x, top)),)))
    return node("subtract", (x, add(top, node("log", (total,)))))


def softmax_backward(x: Node) -> Node:
    gradient, s = read(1, x.shape, x.dtype), softmax(x)
    return mul(s, node("subtract", (gradient, reduced("sum", mul(gradient, s)))))


def norm_of_a_residual(x: Node) -> Node:
    return layer_norm(gelu(add(x, read(1, x.shape, x.dtype))))


ROWS: dict[str, Callable[[Node], Node]] = {
    "softmax": softmax, "log softmax": log_softmax, "softmax, backward": softmax_backward,
    "norm of a residual": norm_of_a_residual, "norm of columns": lambda x: layer_norm(x, -2),
}  # fmt: skip


def kernels(dtype: type, lengths: Sequence[int]) -> Iterator[CudaKernel]:
    """Of each body, with one of the `lengths` after the other."""
    for number, (name, build) in enumerate(ROWS.items()):
        for columns in lengths[number % 2 :: 2]:
            if name == "norm of columns" and columns > 4096:
                continue
            output = build(read(0, (256, columns), dtype))
            inputs = tuple(n for n in Graph((), (output,)).nodes if n.op == "input")
            yield emit_kernel(Kernel("row", Graph(inputs, (output,)), (), (), PRICE), profile("a100"))


def spilled(emitted: Iterable[CudaKernel], arch: str) -> dict[str, nvrtc.Resources]:
    sources = list(dict.fromkeys(cuda.source for cuda in emitted if cuda.grid))
    used = nvrtc.compile_cuda(module_source(sources), arch).resources
    return {name: uses for name, uses in used.items() if uses.spill_bytes}


@pytest.mark.slow
@pytest.mark.parametrize("arch, lengths", [("sm_80", (4096, 49_152, 32_000)), ("sm_90", (49_152, 32_000, 768))])
def test_rows_of_usual_lengths_spill_no_register(arch, lengths):
    """Each architecture compiles the rows of one dtype: the registers they take differ by little."""
    dtype = {"sm_80": np.float32, "sm_90": ml_dtypes.bfloat16}[arch]
    assert not spilled(kernels(dtype, lengths), arch)


def fullest(shapes: Iterable[tuple[int, int]], dtype: type, axis: int) -> list[CudaKernel]:
    """Of kernels with blocks of one layout and size, on rows of these shapes, the one whose threads hold the most."""
    kernels: dict[tuple, tuple[int, CudaKernel]] = {}
    for shape in shapes:
        x = read(0, shape, dtype)
        for build in (layer_norm, softmax):
            cuda = emit_kernel(Kernel("row", Graph((x,), (build(x, axis),)), (), (), PRICE), profile("h100"))
            rows, held = cuda.schedule.rows, len(cuda.schedule.held) * cuda.schedule.items
            key = build, rows.layout, math.prod(cuda.block)
            if held > kernels.get(key, (0,))[0]:
                kernels[key] = held, cuda
    return [cuda for _, cuda in kernels.values()]


@pytest.mark.parametrize("axis, dtype", [(-1, np.float32), (-1, ml_dtypes.bfloat16), (-2, np.float32)])
def test_threads_that_hold_as_much_of_a_row_as_they_may_spill_none_of_it(axis: int, dtype: type) -> None:
    lengths = [n << k for k in range(5, 13) for n in (12, 14, 15, 16)]
    shapes = [(256, n) if axis == -1 else (n, 4096) for n in lengths if axis == -1 or n <= 16_384]
    kernels = fullest(shapes, dtype, axis)
    assert len(kernels) >= 4
    assert not spilled(kernels, "sm_90")


def test_a_row_as_long_as_registers_hold_is_read_once_and_a_longer_one_again():
    def reads(columns: int) -> int:
        output = log_softmax(read(0, (256, columns)))
        inputs = tuple(n for n in Graph((), (output,)).nodes if n.op == "input")
        kernel = Kernel("row", Graph(inputs, (output,)), (), (), PRICE)
        return emit_kernel(kernel, profile("a100")).source.count("*)(r0 + ")

    assert reads(49_152) == 1 and reads(50_256) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name, arch, numerics", [("a100", "sm_80", "reassociate"), ("h100", "sm_90", "strict")])
def test_the_suite_and_the_demonstration_spill_no_register(name, arch, numerics):
    """Every second program on each architecture."""
    programs = {id: case.program(small=False) for id, case in GRAPHS.items()}
    graphs = {id: ef.trace(f, *[ef.spec(t.shape, t.dtype) for t in types]) for id, (f, types) in programs.items()}
    for example in full_size_programs():
        function, arguments = example.build(np.float32)
        graphs[example.name] = ef.trace(function, *arguments)
    emitted: dict[str, CudaKernel] = {}
    for graph in [*graphs.values()][name == "h100" :: 2]:
        plan = ef.extract(ef.saturate(graph, numerics=numerics), target=f"cuda:{name}")
        functions = program_on(plan).executable.functions
        emitted |= {f.source: f for f in functions if isinstance(f, CudaKernel)}
    assert not spilled(emitted.values(), arch)
