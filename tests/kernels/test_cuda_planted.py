"""Bugs planted into CUDA kernels of every kind whose threads or blocks pass on data: each shows on the emulator."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source, source_of
from eqfuse.emit.cuda.scheduling.contract import product_schedule
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.testing import cudasim
from eqfuse.testing.cudasim import CpuRawKernel, CudaSimError
from tests.kernels import test_cuda_contract, test_cuda_scans, test_cuda_tiles
from tests.support.kernels import body, data, kernel, layer_norm, mul, number, read, reduced, softmax
from tests.support.some import some

pytestmark = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
H100 = profile("h100")
SEEDS = range(3)
BARRIER, FENCE = "__syncthreads();", "__threadfence();"


def variance(x: Node) -> Node:
    centred = node("subtract", (x, mul(reduced("sum", x), number(1 / x.shape[-1]))))
    return reduced("sum", mul(centred, centred))


def squares(x: Node, axis: int) -> Node:
    return reduced("sum", mul(x, x), axis)


def emission(kind: str, shape: tuple[int, ...], root: Callable[[Node], Node]) -> tuple[Graph, CudaKernel]:
    x = read(0, shape)
    graph = body([x], root(x))
    cuda = emit_kernel(kernel(kind, graph), H100)
    assert isinstance(cuda, CudaKernel)
    return graph, cuda


def scans(case: str) -> tuple[Graph, CudaKernel]:
    return test_cuda_scans.CASES[case], test_cuda_scans.of_shared_rows(case)


def product(case: str) -> tuple[Graph, CudaKernel]:
    graph = test_cuda_contract.emitted(case)[0].body
    cuda = source_of(graph, product_schedule(graph, H100), "product")
    assert isinstance(cuda, CudaKernel)
    return graph, cuda


def tiles() -> tuple[Graph, CudaKernel]:
    graph = test_cuda_tiles.turned(72, 67, np.float32)
    return graph, test_cuda_tiles.emitted(graph)


KERNELS = {
    "a block a row": lambda: emission("row", (3, 1300), layer_norm),
    "rows side by side": lambda: emission("row", (300, 40), lambda x: softmax(x, -2)),
    "a sum that blocks share": lambda: emission("reduce", (1, 40_000), lambda x: squares(x, -1)),
    "sums of columns that blocks share": lambda: emission("reduce", (4000, 24), lambda x: squares(x, -2)),
    "a cascade": lambda: emission("row", (2, 12_000), variance),
    "a scan that blocks share": lambda: scans("weighted 2x3100 "),
    "a scan of columns that blocks share": lambda: scans("weighted 40x2000 along columns"),
    "a scan of a block a row": lambda: emission("scan", (3, 1300), lambda x: test_cuda_scans.weighted(x, -1)),
    "scans of rows side by side": lambda: emission("scan", (130, 70), lambda x: test_cuda_scans.distribution(x, -2)),
    "tiles": tiles,
    "a product": lambda: product("bias and relu"),
    "a product on tensor cores": lambda: product("half precision"),
    "a product whose terms blocks share": lambda: product("batches, terms that blocks share"),
}


@functools.cache
def emitted(case: str) -> tuple[Graph, CudaKernel]:
    return KERNELS[case]()


def launched(case: str, code: str, name: str, seed: int = 0, counted: bool = False) -> list[np.ndarray]:
    graph, cuda = emitted(case)
    given, workspace = data(graph), [np.zeros(n, dtype) for dtype, n in cuda.workspace]
    outs = [np.full(o.shape, 7, o.dtype) for o in graph.outputs]
    function = CpuRawKernel(code, name, counted)
    arguments = cuda.arguments(outs, given, cuda.constants, workspace)
    if counted:
        function.traffic(cuda.grid, cuda.block, arguments)
    else:
        function(cuda.grid, cuda.block, arguments, seed=seed)
    return outs


def without(case: str, words: str) -> tuple[str, dict[int, str]]:
    """One text: the kernel of a case, and others without one of its `words`, whose names are by where that stood."""
    cuda = emitted(case)[1]
    spans = [m.span() for m in re.finditer(re.escape(words), cuda.source)]
    spans = [(start, end) for start, end in spans if words != BARRIER or is_needed(cuda.source, start)]
    names = {start: f"{cuda.name}_{start}" for start, _ in spans}
    texts = [(f"{cuda.source[:start]}{cuda.source[end:]}", names[start]) for start, end in spans]
    renamed = [re.sub(rf"\b{cuda.name}\b", name, text) for text, name in texts]
    return module_source([cuda.source, *renamed]), names


def is_needed(source: str, start: int) -> bool:
    """Does the barrier there keep threads from one another? Not where memory may be used again that nobody uses, nor
    where one thread alone has written what it marks."""
    after = source[start + len(BARRIER) :]
    several = "Several<" in source or "left.v[v]" in source  # threads have written
    alone = re.match(r"\s*if \(threadIdx.x == 0 && threadIdx.y == 0\)", after) and not several
    again = r"\ball\[" if after.startswith(" }") else r"\b(all|every)\["  # `every` lies behind what warps join
    used = re.search(again, source[:start].rpartition(BARRIER)[2])
    ends = re.match(r"\s*}", after) and not re.search(again, after.partition(BARRIER)[0])
    return not alone and not (used and ends)


@pytest.mark.parametrize("case", some([case for case in KERNELS if case != "a cascade"], 2))
def test_a_missing_barrier_shows(case):
    source, (code, planted) = emitted(case)[1].source, without(case, BARRIER)
    wanted = launched(case, code, emitted(case)[1].name)
    assert planted
    hidden = []
    for start, name in planted.items():
        try:
            runs = [launched(case, code, name, seed) for seed in SEEDS]
            if any(not np.array_equal(a, b) for got in runs for a, b in zip(got, wanted, strict=True)):
                continue
            launched(case, code, name, counted=True)
        except CudaSimError:
            continue
        hidden.append(source[start - 200 : start + 150])
    assert not hidden, "\n---\n".join(hidden)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in KERNELS if "share" in case or case == "a cascade"])
def test_a_missing_fence_shows(case):
    code, planted = without(case, FENCE)
    launched(case, code, emitted(case)[1].name, counted=True)
    assert len(planted) == 2
    for name in planted.values():
        with pytest.raises(CudaSimError, match="without a fence"):
            launched(case, code, name, counted=True)


@pytest.mark.parametrize("case, was, planted", [
    ("a product whose terms blocks share", "j <= others0", "j < others0"),
    ("a product on tensor cores", "eqf_wait<0>();", ""),
])  # fmt: skip
def test_a_part_that_is_not_joined_and_a_copy_that_is_not_awaited_show(case, was, planted):
    graph, cuda = emitted(case)
    assert cuda.source.count(was) == 1
    changed = re.sub(rf"\b{cuda.name}\b", "changed", cuda.source.replace(was, planted))
    code = module_source([cuda.source, changed])
    (wanted,) = evaluate(graph, data(graph))
    for seed in SEEDS:
        np.testing.assert_allclose(launched(case, code, cuda.name, seed)[0], wanted, rtol=2e-3, atol=2e-2)
        assert not np.allclose(launched(case, code, "changed", seed)[0], wanted, rtol=2e-3, atol=0.1)
