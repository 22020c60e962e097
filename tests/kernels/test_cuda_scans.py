"""CUDA kernels that scan: NumPy's values, the same bits in any order of blocks, launch after launch, and no spills."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.scans import SCANS
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.calls import CudaCalls
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source, source_of
from eqfuse.emit.cuda.scheduling import scan
from eqfuse.emit.cuda.scheduling.scan import ScansSchedule
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.machine import nvrtc
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.gpu import program_on
from tests.support.kernels import add, body, data, distribution, kernel, mul, number, read, reduced, scanned

H100 = profile("h100")
emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")


def weighted(x: Node, axis: int) -> Node:
    return add(mul(scanned("cumsum", mul(x, x), axis), number(0.5)), x)


def drawdown(x: Node, axis: int) -> Node:
    value = scanned("cumprod", add(mul(x, number(0.001)), number(1.0)), axis)
    return reduced("max", node("subtract", (scanned("maximum", value, axis), value)), axis)


def both(x: Node, axis: int) -> Node:
    return node("subtract", (scanned("maximum", x, axis), scanned("minimum", mul(x, x), axis)))


# of short and long rows, of rows side by side, and of some that are shared; odd extents, which are not read by 16 bytes
SHAPES = ((70, 130), (3, 1300), (2, 3100), (3, 33), (40, 2000))
LARGE = read(0, (1, 70_001))
CASES: dict[str, Graph] = {
    f"{root.__name__} {'x'.join(map(str, shape))} {'along columns' if axis == -2 else ''}":
    body([x], root(x, axis)) for root in (weighted, drawdown, distribution, both)
    for shape in SHAPES for axis in (-1, -2)
    for x in (read(0, shape if axis == -1 else shape[::-1]),)
    if root is weighted or shape not in SHAPES[2:4]
} | {"a row that is shared": body([LARGE], weighted(LARGE, -1))} | {
    f"{op} of {dtype} {'x'.join(map(str, shape))}": body([x], scanned(op, x, axis))
    for i, (op, dtype) in enumerate((("cumsum", "int32"), ("cumsum", "float64"), ("maximum", "int8"),
                                     ("minimum", "float16"), ("logical_or", "bool"), ("logaddexp", "float32"),
                                     ("multiply", "uint64"), ("add", "float16")))
    for j, (shape, axis) in enumerate((((5, 77), -1), ((2, 2100), -1), ((300, 6), -2))) if (i + j) % 3
    for x in (read(0, shape, dtype),)
} | {
    f"few short columns {op}": body([x], scanned(op, x, -2)) for op in ("cumsum", "maximum") for x in (read(0, (3, 3)),)
}  # fmt: skip
SHARED = ("weighted 2x3100 ", "weighted 40x2000 along columns", "both 40x2000 along columns")


def emitted(case: str) -> CudaKernel:
    cuda = emit_kernel(kernel("scan", CASES[case]), H100)
    assert isinstance(cuda, CudaKernel) and isinstance(cuda.schedule, ScansSchedule)
    return cuda


def of_shared_rows(case: str) -> CudaKernel:
    """One whose blocks share rows, though they are short."""
    way = next(way for way in scan.ways(CASES[case]) if way.splits > 1)
    cuda = source_of(CASES[case], way, "shared")
    assert isinstance(cuda, CudaKernel)
    return cuda


def launched(cuda: CudaKernel, source: str, graph: Graph, launches: int = 1, seed: int = 0) -> list[np.ndarray]:
    """What the last of several launches of a kernel writes, which find the workspace as the one before left it."""
    given, workspace = data(graph), [np.zeros(n, dtype) for dtype, n in cuda.workspace]
    function = cudasim.CpuRawKernel(source, cuda.name)
    for i in range(launches):
        outs = [np.full(o.shape, 7, o.dtype) for o in graph.outputs]
        function(cuda.grid, cuda.block, cuda.arguments(outs, given, cuda.constants, workspace), seed=seed + i)
    return outs


@pytest.mark.slow
@emulated
@pytest.mark.parametrize("part", range(4))
def test_scans_give_numpys_values_and_the_same_bits_in_any_order_of_threads_and_blocks(part):
    cases = [*CASES][part::4]
    source = module_source([emitted(case).source for case in cases])
    for case in cases:
        graph, cuda = CASES[case], emitted(case)
        got, *others = [launched(cuda, source, graph, seed=seed) for seed in range(3)]
        with np.errstate(all="ignore"):
            wanted = evaluate(graph, data(graph))
        for a, w in zip(got, wanted, strict=True):
            assert a.dtype == w.dtype
            if w.dtype.kind in "iub" or "imum" in case:
                np.testing.assert_array_equal(a, w, err_msg=case)
                continue
            close = {2: 2e-2, 4: 3e-5, 8: 1e-12}[w.dtype.itemsize]
            wide, top = w.astype(np.float64), float(np.abs(w.astype(np.float64)).max())
            np.testing.assert_allclose(a.astype(np.float64), wide, atol=close * max(1.0, top), err_msg=case)
        assert all(a.tobytes() == b.tobytes() for other in others for a, b in zip(got, other, strict=True)), case


@emulated
@pytest.mark.parametrize("case", SHARED)
def test_blocks_that_share_rows_find_their_marks_turned_over_by_each_launch(case):
    graph, cuda = CASES[case], of_shared_rows(case)
    source = module_source([cuda.source])
    first = launched(cuda, source, graph)
    for launches in (2, 3):
        for a, b in zip(first, launched(cuda, source, graph, launches), strict=True):
            np.testing.assert_array_equal(a, b)


def kernels_that_scan():
    yield from map(emitted, [*CASES][::3])
    for shape in ((4096, 4096), (1 << 24,), (64, 32_768)):  # as large as threads hold
        for root in (weighted, distribution, drawdown):
            x = read(0, shape)
            with suppress(UnsupportedOp):
                yield emit_kernel(kernel("scan", body([x], root(x, -1))), H100)
    for dtype in ("float32", "float16", "float64"):
        x = read(0, (16_384, 1024), dtype)
        yield emit_kernel(kernel("scan", body([x], both(x, -2))), H100)


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_kernels_that_scan_spill_no_registers(arch):
    """Every second kernel on each architecture."""
    kernels = {cuda.name: cuda for cuda in [*kernels_that_scan()][arch == "sm_90" :: 2]}
    code = module_source([cuda.source for cuda in kernels.values()])
    for name, used in nvrtc.compile_cuda(code, arch).resources.items():
        threads = int(np.prod(kernels[name].block))
        assert not used.spill_bytes and not used.stack_bytes, (name, used)
        assert used.registers * threads * kernels[name].schedule.resident <= 65_536


def test_programs_that_scan_are_one_kernel_for_each_axis():
    for name in ("S1", "S2", "S3", "S4", "S5"):
        function, types = SCANS[name].build(**SCANS[name].full)
        program = ef.compile(function, *[ef.spec(t.shape, t.dtype) for t in types], target="cuda:h200")
        assert program.report.n_kernels == (2 if name == "S4" else 1), name
        assert "cupy" not in program.source()


@emulated
def test_a_program_that_scans_agrees_with_numpy():
    def program(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return np.cumsum(e, -1) / e.sum(-1, keepdims=True), np.maximum.accumulate(x, axis=0) * 2

    x = np.random.default_rng(0).normal(size=(40, 300)).astype(np.float32)
    on_gpu = program_on(ef.compile(program, x, target="cuda:h100").plan, EmulatedGpu())
    for got, want in zip(on_gpu(x), program(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_scans_without_a_row_and_of_too_long_rows_are_calls_of_cupy():
    z, short = read(0, (7, 30), np.complex64), read(0, (7, 1))
    for graph in (body([z], scanned("cumsum", z)), body([short], scanned("cumsum", short))):
        assert isinstance(emit_kernel(kernel("scan", graph), H100), CudaCalls)
    long = read(0, (1, 70_000))
    with pytest.raises(UnsupportedOp, match="too long"):
        emit_kernel(kernel("scan", body([long], drawdown(long, -1))), H100)
