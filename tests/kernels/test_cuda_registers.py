"""Maps of which many threads shall be resident at once, in few registers: no thread keeps one in memory for that."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node, const, node
from eqfuse.machine import nvrtc
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.plan.plan import Kernel
from tests.support.kernels import PRICE, add, body, mul, read
from tests.support.some import some

pytestmark = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")
SHAPE = (256, 4096)
COUNT = 40


def of_one_operator(dtype: np.dtype) -> Iterator[Graph]:
    x, y = read(0, SHAPE, dtype), read(1, SHAPE, dtype)
    for op, ufunc in UFUNCS.items():
        args = [x, y][: ufunc.nin]
        try:
            yield body(args, node(op, tuple(args)))
        except EqfuseError:
            continue


def leaf(rng: np.random.Generator, number: int, dtype: np.dtype) -> Node:
    rows, columns = SHAPE
    way = int(rng.integers(4))
    if way == 0:
        start = int(rng.integers(5))
        x = read(number, (rows, columns + 4), dtype)
        return node("slice", (x,), (((0, rows, 1), (start, start + columns, 1)),))
    return read(number, [(columns,), (rows, 1), SHAPE][way - 1], dtype)


def at_random(rng: np.random.Generator, dtype: np.dtype) -> Graph:
    values = [read(0, SHAPE, dtype), *(leaf(rng, number, dtype) for number in range(1, int(rng.integers(1, 5))))]
    ops = ["add", "multiply", "subtract", "maximum", "exp", "tanh", "abs"]
    ops += ["divide", "sqrt", "erf", "log", "log1p", "expm1"] * (dtype == np.float32)
    ops += ["divide", "sqrt", "log", "sin", "power"] * (rng.random() < 0.2)
    for _ in range(int(rng.integers(3, 30))):
        op = str(rng.choice(ops))
        args = [values[int(rng.integers(max(0, len(values) - 6), len(values)))] for _ in range(UFUNCS[op].nin)]
        values.append(node(op, tuple(args)))
    first = add(values[-1], mul(values[0], const(np.asarray(2, dtype)[()])))
    outputs = [first, node("negative", (values[-2],))] if values[-2].shape == SHAPE and rng.random() < 0.4 else [first]
    inputs = {n.attr("name"): n for n in Graph((), tuple(outputs)).nodes if n.op == "input"}
    return body([inputs[name] for name in sorted(inputs)], *outputs)


def crowded(graphs: Iterator[Graph]) -> list[CudaKernel]:
    kernels = []
    for graph in graphs:
        try:
            cuda = emit_kernel(Kernel("map", graph, (), (), PRICE), profile("h100"))
        except EqfuseError:
            continue
        assert isinstance(cuda, CudaKernel)
        if cuda.schedule.resident > 1:
            kernels.append(cuda)
    return kernels


def spilled(kernels: list[CudaKernel], arch: str) -> dict[str, nvrtc.Resources]:
    used = nvrtc.compile_cuda(module_source(list(dict.fromkeys(cuda.source for cuda in kernels))), arch).resources
    assert all(uses.registers <= 40 for uses in used.values())
    return {name: uses for name, uses in used.items() if uses.spill_bytes}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16], ids=lambda d: np.dtype(d).name)
def test_no_operator_spills_where_many_threads_are_to_be_resident(dtype: type) -> None:
    arch = "sm_80" if dtype is ml_dtypes.bfloat16 else "sm_90"
    kernels = crowded(of_one_operator(np.dtype(dtype)))
    assert len(kernels) > 10 and not spilled(kernels, arch)


@pytest.mark.parametrize("seed", some(range(6), 6))
def test_no_random_map_spills_where_many_threads_are_to_be_resident(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtypes = [np.dtype(d) for d in (np.float32, ml_dtypes.bfloat16, np.float16)]
    kernels = crowded(at_random(rng, dtypes[i % 3]) for i in range(COUNT))
    assert len(kernels) > COUNT / 4 and not spilled(kernels, ("sm_90", "sm_80")[seed % 2])
