"""Tiled products of the CUDA target, judged by the evaluator: on the emulator under three schedules that must agree in
every bit, through NVRTC for two architectures, and on a GPU where there is one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.profiles import datasheet, profile
from eqfuse.emit.cuda.kernels import CudaKernel, module_source, source_of
from eqfuse.emit.cuda.scheduling.contract import product_schedule
from eqfuse.emit.executable import function_name
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.kinds import product
from eqfuse.machine import nvrtc
from eqfuse.machine.gpu import cupy_gpu
from eqfuse.ops.types import TensorType
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.support.drawing import many
from tests.support.gpu import emulated_function

NO_PRICE = Price(0.0, 0, 0, 0, "memory")
BF16 = np.dtype(ml_dtypes.bfloat16)
emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")


def leaf(name: str, dtype: object, *shape: int) -> Node:
    return input_node(name, TensorType(np.dtype(dtype), shape))


def number(x: Node, value: float) -> Node:
    return const(np.asarray(value, x.dtype))


def turned(x: Node) -> Node:
    return node("transpose", (x,), ((*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2),))


def relu(x: Node) -> Node:
    return node("maximum", (x, number(x, 0)))


def gelu(x: Node) -> Node:
    cube = node("multiply", (number(x, 0.044715), node("multiply", (x, node("square", (x,))))))
    inner = node("multiply", (number(x, 0.79788456), node("add", (x, cube))))
    half, rest = node("multiply", (number(x, 0.5), x)), node("add", (number(x, 1), node("tanh", (inner,))))
    return node("multiply", (half, rest))


def linear(dtype: object, m: int, k: int, n: int) -> tuple[Node, ...]:
    x, w, b = leaf("x", dtype, m, k), leaf("w", dtype, k, n), leaf("b", dtype, n)
    return (relu(node("add", (node("matmul", (x, w)), b))),)


def both_sides(dtype: object, m: int, k: int, n: int) -> tuple[Node, ...]:
    """A prologue of two arrays, row scales and a residual after it, and the product itself."""
    x, w, g = leaf("x", dtype, m, k), leaf("w", dtype, k, n), leaf("g", dtype, k)
    y = node("matmul", (node("add", (gelu(x), g)), w))
    return (node("add", (node("multiply", (y, leaf("s", dtype, m, 1))), leaf("r", dtype, m, n))), y)


def of_transposed(dtype: object, m: int, k: int, n: int) -> tuple[Node, ...]:
    x, w = turned(leaf("x", dtype, k, m)), turned(leaf("w", dtype, n, k))
    return (node("negative", (node("matmul", (x, w)),)),)


def widened(m: int, k: int, n: int) -> tuple[Node, ...]:
    x, w = leaf("x", "f2", m, k), leaf("w", "f2", k, n)
    wide = node("cast", (node("matmul", (x, w)),), (np.dtype("f4"),))
    return (node("add", (wide, leaf("r", "f4", m, n))),)


def wide(x: Node) -> Node:
    return node("cast", (x,), (np.dtype("f4"),))


def of_bfloat16(m: int, k: int, n: int) -> tuple[Node, ...]:
    """As NumPy multiplies them: in float32; a prologue before the left one is widened."""
    x, w = relu(leaf("x", BF16, m, k)), leaf("w", BF16, k, n)
    y = node("add", (node("matmul", (wide(x), wide(w))), wide(leaf("b", BF16, n))))
    return y, node("cast", (y,), (BF16,))


def scores(dtype: object, *shape: int) -> tuple[Node, ...]:
    """Of attention: every head of [batch, place, head, channel] by the other one transposed."""
    q, k = (node("transpose", (leaf(name, dtype, *shape),), ((0, 2, 1, 3),)) for name in "qk")
    q, k = (wide(x) if x.dtype == BF16 else x for x in (q, turned(k)))
    y = node("matmul", (q, k))
    return (node("multiply", (y, number(y, 0.125))),)


def batched(left: tuple[int, ...], right: tuple[int, ...], *bias: int) -> tuple[Node, ...]:
    y = node("matmul", (node("abs", (leaf("x", "f4", *left),)), leaf("w", "f4", *right)))
    return (node("add", (y, leaf("b", "f4", *bias))),)


def of_views() -> tuple[Node, ...]:
    x, w = leaf("x", "f4", 11, 40), leaf("w", "f4", 3, 20)
    part = node("slice", (x,), (((1, 11, 2), (4, 24, 1)),))
    flipped = node("flip", (node("broadcast_to", (w,), ((2, 3, 20),)),), ((-2,),))
    return (relu(node("matmul", (part, turned(flipped)))),)


def of_constants() -> tuple[Node, ...]:
    x = leaf("x", "f4", 6, 20)
    w, b = (np.arange(n, dtype="f4") / n - 0.5 for n in (160, 8))
    return (node("add", (node("matmul", (x, const(w.reshape(20, 8)))), const(b))),)


def convolution(dtype: object, images: tuple[int, ...], filters: tuple[int, ...], strides: tuple, padding: tuple,
                dilations: tuple, groups: int = 1) -> tuple[Node, ...]:  # fmt: skip
    x, w = leaf("x", dtype, *images), leaf("w", dtype, *filters)
    b = leaf("b", dtype, filters[0], *(1,) * len(strides))
    y = node("conv", (node("add", (x, number(x, 1))), w), (strides, padding, dilations, groups))
    return (relu(node("add", (y, b))),)


Build = Callable[[], tuple[Node, ...]]
SAME, NONE, ONES = ((1, 1), (1, 1)), ((0, 0), (0, 0)), (1, 1, 1)
CASES: dict[str, Build] = {
    "bias and relu": lambda: linear("f4", 45, 37, 70),
    "bias and relu, 16 bytes at a time": lambda: linear("f4", 40, 36, 72),
    "work on both sides, two results": lambda: both_sides("f4", 40, 20, 36),
    "transposed operands": lambda: of_transposed("f4", 36, 20, 40),
    "one element": lambda: linear("f4", 1, 1, 1),
    "no terms": lambda: linear("f4", 5, 0, 7),
    "double precision": lambda: both_sides("f8", 37, 19, 34),
    "half precision": lambda: linear("f2", 70, 48, 72),
    "half precision, odd extents": lambda: linear("f2", 33, 37, 65),
    "half precision, both sides": lambda: both_sides("f2", 40, 40, 36),
    "half precision, transposed": lambda: of_transposed("f2", 72, 48, 80),
    "half precision into float": lambda: widened(20, 24, 18),
    "bfloat16": lambda: of_bfloat16(34, 40, 72),
    "scores of bfloat16": lambda: scores(BF16, 2, 40, 3, 24),
    "scores of half precision": lambda: scores("f2", 2, 33, 2, 16),
    "batches": lambda: batched((3, 2, 20, 8), (2, 8, 16), 2, 1, 1),
    "a batch of one": lambda: batched((1, 20, 8), (1, 8, 16), 1, 1),
    "batches broadcast from the left": lambda: batched((20, 8), (3, 2, 8, 5), 3, 1, 1, 5),
    "one right operand for a batch": lambda: batched((3, 5, 20, 8), (1, 8, 16), 3, 1, 20, 1),
    "views of operands": of_views,
    "operands that are constants": of_constants,
    "convolution": lambda: convolution("f4", (2, 3, 9, 10), (4, 3, 3, 3), (1, 1), SAME, (1, 1)),
    "convolution with strides": lambda: convolution("f4", (2, 3, 9, 9), (4, 3, 3, 2), (2, 1), ((2, 0), (0, 2)), (2, 1)),
    "convolution in groups": lambda: convolution("f4", (2, 6, 8, 8), (4, 3, 3, 3), (1, 1), SAME, (1, 1), 2),
    "convolution of one element": lambda: convolution("f4", (3, 16, 4, 4), (24, 16, 1, 1), (1, 1), NONE, (1, 1)),
    "convolution in half precision": lambda: convolution("f2", (2, 6, 8, 8), (4, 3, 3, 3), (1, 1), SAME, (1, 1), 2),
    "convolution in bfloat16": lambda: convolution(BF16, (2, 3, 6, 8), (4, 3, 3, 3), (1, 1), SAME, (1, 1)),
    "convolution of a line": lambda: convolution("f4", (2, 3, 17), (4, 3, 5), (2,), ((2, 2),), (1,)),
    "terms that blocks share": lambda: both_sides("f4", 40, 1100, 36),
    "terms that blocks share in double precision": lambda: both_sides("f8", 37, 500, 34),
    "half precision, terms that blocks share": lambda: both_sides("f2", 40, 1200, 36),
    "bfloat16, terms that blocks share": lambda: of_bfloat16(34, 1000, 72),
    "batches, terms that blocks share": lambda: batched((3, 20, 128), (3, 128, 16), 1, 1),
    "convolution, terms that blocks share": lambda: convolution("f4", (1, 96, 5, 6), (8, 96, 3, 3), (1, 1), SAME,
                                                                (1, 1)),
    "convolution of a volume": lambda: convolution("f4", (1, 2, 5, 6, 4), (3, 2, 2, 3, 1), ONES, (*SAME, (0, 0)), ONES),
}  # fmt: skip
ALL = pytest.mark.parametrize("case", CASES)
SHARED = [case for case in CASES if "blocks share" in case]


def kernel_of(outputs: tuple[Node, ...]) -> Kernel:
    inputs = tuple(dict.fromkeys(n for n in Graph((), outputs).nodes if n.op == "input"))
    return Kernel("contract", Graph(inputs, outputs), tuple(range(len(inputs))), tuple(range(len(outputs))), NO_PRICE)


@functools.cache
def emitted(case: str) -> tuple[Kernel, CudaKernel]:
    kernel = kernel_of(CASES[case]())
    return kernel, tiled(kernel, profile("a100"))


@functools.cache
def module() -> str:
    """One text with all cases: the compiler reads its headers once."""
    return module_source(list(dict.fromkeys(emitted(case)[1].source for case in CASES)))


def tiled(kernel: Kernel, on: Device) -> CudaKernel:
    """The tiled product, whatever a library call would cost."""
    cuda = source_of(kernel.body, product_schedule(kernel.body, on), function_name(kernel))
    assert isinstance(cuda, CudaKernel)
    return cuda


@pytest.mark.parametrize("case, widths", [
    ("bias and relu, 16 bytes at a time", (4, 4)), ("convolution of one element", (4, 4)),
    ("half precision, both sides", (8, 4)), ("scores of bfloat16", (8, 8)), ("bfloat16", (8, 8)),
])  # fmt: skip
def test_neighbours_of_an_operand_are_read_16_bytes_at_once(case: str, widths: tuple[int, int]) -> None:
    schedule = product_schedule(emitted(case)[0].body, profile("a100"))
    assert (schedule.left.width, schedule.right.width) == widths


def inputs_of(kernel: Kernel) -> list[np.ndarray]:
    """Random numbers; halves where two roundings would differ from one."""
    rng = np.random.default_rng(len(kernel.body.nodes))
    normal = [rng.standard_normal(n.shape) for n in kernel.body.inputs]
    return [np.asarray(np.round(2 * a) / 2 if n.dtype.itemsize == 2 else a).astype(n.dtype)
            for a, n in zip(normal, kernel.body.inputs, strict=True)]  # fmt: skip


def run_emulated(kernel: Kernel, cuda: CudaKernel, code: str, arrays: list[np.ndarray], seed: int) -> list[np.ndarray]:
    writes = [np.empty(o.shape, o.dtype) for o in kernel.body.outputs]
    for array in writes:
        array.reshape(-1).view(np.uint8).fill(0xFF)
    function, workspace = emulated_function(cuda, code), [np.zeros(n, dtype) for dtype, n in cuda.workspace]
    arguments = cuda.arguments(writes, arrays, cuda.constants, workspace)
    function(cuda.grid, cuda.block, arguments, shared_mem=cuda.shared_bytes, seed=seed)
    assert not any(counters.any() for counters in workspace[-1:])  # fit for the next launch
    return writes


def judge(kernel: Kernel, got: list[np.ndarray], arrays: list[np.ndarray]) -> None:
    for result, want in zip(got, evaluate(kernel.body, arrays), strict=True):
        close = 1e-2 if want.dtype == BF16 else {2: 2e-3, 4: 3e-6, 8: 1e-14}[want.dtype.itemsize]
        if kernel.body.inputs[0].dtype == np.float16:
            close = 2e-3
        result, want = result.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(result, want, rtol=close, atol=4 * close * max(1.0, np.abs(want).max(initial=0)))


@emulated
@ALL
def test_the_emulated_product_equals_the_evaluator_bit_for_bit_under_every_schedule(case: str) -> None:
    kernel, cuda = emitted(case)
    arrays = inputs_of(kernel)
    runs = [run_emulated(kernel, cuda, module(), arrays, seed) for seed in range(3)]
    judge(kernel, runs[0], arrays)
    for other in runs[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(runs[0], other, strict=True))


@pytest.mark.slow
@emulated
@pytest.mark.parametrize("depth, splits", [(40, 1), (330, 2)])
def test_every_tile_computes_the_same(depth: int, splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = []
    for kind, dtype in (("float32", "f4"), ("float64", "f8"), ("tensor", "f2")):
        kernel = kernel_of(both_sides(dtype, 132, depth, 136))
        for tile in product.TILES[kind]:
            with monkeypatch.context() as patch:
                patch.setitem(product.TILES, kind, (tile,))
                product.fastest.cache_clear()
                cuda = tiled(kernel, profile("a100"))
            assert cuda.schedule.tile == tile and cuda.grid[1] >= splits  # type: ignore[attr-defined]
            name = f"{cuda.name}_{tile.rows}_{tile.columns}"
            pairs.append((kernel, replace(cuda, name=name, source=cuda.source.replace(cuda.name, name))))
    product.fastest.cache_clear()
    code = module_source([cuda.source for _, cuda in pairs])
    for kernel, cuda in pairs:
        arrays = inputs_of(kernel)
        judge(kernel, run_emulated(kernel, cuda, code, arrays, 2), arrays)


def random_product(rng: np.random.Generator) -> tuple[Node, ...]:
    """A product of operands of random sizes, batches and views, with random work around it."""
    dtype = np.dtype(str(rng.choice(["f2", "f4", "f8"])))
    m, n = (int(rng.choice((1, 2, 3, 5, 8, 16, 20, 33, 70))) for _ in range(2))
    k = int(rng.choice((1, 2, 3, 5, 8, 16, 20, 33, 70, 130, 333)))  # of the last ones blocks share the terms
    batch = ((), (2,), (3, 2))[int(rng.integers(3))]
    names = (f"x{i}" for i in range(99))

    def operand(rows: int, columns: int) -> Node:
        shape = batch[int(rng.integers(len(batch) + 1)) :]
        way = rng.random()
        if way < 0.3:
            return turned(leaf(next(names), dtype, *shape, columns, rows))
        if way < 0.5:
            x = leaf(next(names), dtype, *shape, rows + 2, 2 * columns)
            whole = tuple((0, e, 1) for e in shape)
            return node("slice", (x,), ((*whole, (1, rows + 1, 1), (0, 2 * columns, 2)),))
        return leaf(next(names), dtype, *shape, rows, columns)

    x = operand(m, k)
    if rng.random() < 0.6:
        x = node(str(rng.choice(["tanh", "negative", "abs"])), (x,))
    if rng.random() < 0.3:
        x = node("add", (x, leaf(next(names), dtype, *((k,), (m, 1), (1,))[int(rng.integers(3))])))
    y = node("matmul", (x, operand(k, n)))
    results = []
    for _ in range(int(rng.integers(1, 3))):
        z = y
        for _ in range(int(rng.integers(3))):
            shape = ((n,), (m, 1), y.shape, (*y.shape[:-2], 1, 1))[int(rng.integers(4))]
            z = node(str(rng.choice(["add", "multiply", "maximum"])), (z, leaf(next(names), dtype, *shape)))
        results.append(z)
    return tuple(dict.fromkeys(results))


@emulated
@pytest.mark.slow
def test_random_products_equal_the_evaluator() -> None:
    rng = np.random.default_rng(0)
    kernels = [kernel_of(random_product(rng)) for _ in range(many(40))]
    devices = [profile(str(rng.choice(["a100", "v100"]))) for _ in kernels]
    products = [tiled(kernel, on) for kernel, on in zip(kernels, devices, strict=True)]
    products = [replace(c, name=f"f{i}", source=c.source.replace(c.name, f"f{i}")) for i, c in enumerate(products)]
    code = module_source([cuda.source for cuda in products])
    for i, (kernel, cuda) in enumerate(zip(kernels, products, strict=True)):
        arrays = inputs_of(kernel)
        judge(kernel, run_emulated(kernel, cuda, code, arrays, i % 3), arrays)


@pytest.mark.parametrize("case", SHARED)
def test_blocks_share_the_terms_of_a_product_of_few_tiles(case: str) -> None:
    splits = emitted(case)[1].schedule.tiling.splits  # type: ignore[attr-defined]
    assert emitted(case)[1].grid[1] == splits > 1


LARGE: dict[str, Build] = {
    "float": lambda: both_sides("f4", 8192, 1024, 1024),
    "few columns": lambda: both_sides("f4", 65536, 1024, 64),
    "small": lambda: both_sides("f4", 128, 256, 128),
    "double": lambda: both_sides("f8", 4096, 1024, 1024),
    "half": lambda: both_sides("f2", 8192, 1024, 1024),
    "half of few columns": lambda: both_sides("f2", 65536, 1024, 64),
    "half transposed": lambda: of_transposed("f2", 1024, 1024, 256),
    "bfloat16": lambda: of_bfloat16(8192, 1024, 1024),
    "scores": lambda: scores("f2", 8, 1024, 16, 64),
    "deep": lambda: both_sides("f4", 128, 65536, 128),
    "half, deep": lambda: both_sides("f2", 128, 65536, 128),
    "double, deep": lambda: both_sides("f8", 64, 16384, 64),
    "half of few rows": lambda: both_sides("f2", 16, 4096, 4096),
    "convolution": lambda: convolution("f4", (64, 32, 56, 56), (64, 32, 3, 3), (1, 1), SAME, (1, 1)),
    "bfloat16 convolution": lambda: convolution(BF16, (64, 32, 56, 56), (64, 32, 3, 3), (1, 1), SAME, (1, 1)),
}


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_products_of_usual_sizes_compile_without_spilling_a_register(arch: str) -> None:
    """Every second one for each architecture."""
    products = {case: tiled(kernel_of(LARGE[case]()), profile("a100")) for case in [*LARGE][arch == "sm_90" :: 2]}
    code = module_source([cuda.source for cuda in products.values()])
    for name, uses in nvrtc.compile_cuda(code, arch).resources.items():
        assert uses.spill_bytes == 0 and uses.stack_bytes == 0 and uses.shared_bytes <= 48 << 10, (name, uses)
        assert uses.registers <= 128, (name, uses)


@pytest.mark.gpu
@ALL
def test_the_product_on_a_gpu_equals_the_evaluator(case: str) -> None:
    run_on_gpu(*emitted(case))


@pytest.mark.gpu
@pytest.mark.parametrize("case", LARGE)
def test_a_large_product_on_a_gpu_equals_the_evaluator(case: str) -> None:
    kernel = kernel_of(LARGE[case]())
    run_on_gpu(kernel, tiled(kernel, profile("a100")))


def run_on_gpu(kernel: Kernel, cuda: CudaKernel) -> None:
    pytest.importorskip("cupy")
    gpu, arrays = cupy_gpu(), inputs_of(kernel)
    module = gpu.module(module_source([cuda.source]), False, cuda.schedule.architecture_specific)
    constants = [gpu.upload(c) if isinstance(c, np.ndarray) else c for c in cuda.constants]
    writes = [gpu.upload(np.full(o.shape, np.nan, np.float32).astype(o.dtype)) for o in kernel.body.outputs]
    workspace = [gpu.upload(np.zeros(n, dtype)) for dtype, n in cuda.workspace]
    arguments = cuda.arguments(writes, [*map(gpu.upload, arrays)], constants, workspace)
    gpu.function(module, cuda.name, cuda.shared_bytes)(cuda.grid, cuda.block, arguments)
    judge(kernel, [gpu.download(w) for w in writes], arrays)


@pytest.mark.parametrize("case", ["bias and relu, 16 bytes at a time", "half precision, both sides",
                                  "bfloat16, terms that blocks share"])  # fmt: skip
def test_the_text_of_a_product_reads_as_kept(case: str, golden: Callable[[str, str], None]) -> None:
    golden("product_" + case.replace(",", "").replace(" ", "_") + ".cu", emitted(case)[1].source)


def test_an_operand_is_read_along_the_axis_that_memory_has_side_by_side() -> None:
    assert "r0v = *(const Vec<float, 4>*)(r0 + i_);" in emitted("transposed operands")[1].source
    assert "k * 36 + m_" in emitted("transposed operands")[1].source
    assert "m * 36 + k_" in emitted("bias and relu, 16 bytes at a time")[1].source


def test_half_precision_is_multiplied_on_tensor_cores_where_the_device_has_them() -> None:
    kernel = kernel_of(linear("f2", 64, 64, 64))
    assert "eqf_mma<__half>" in tiled(kernel, profile("h100")).source
    assert "eqf_mma" not in tiled(kernel, profile("v100")).source


def test_two_products_in_one_kernel_are_refused_by_name() -> None:
    x = leaf("x", "f4", 4, 4)
    y = node("matmul", (x, x))
    with pytest.raises(UnsupportedOp, match="one product, not 2"):
        tiled(kernel_of((node("add", (y, node("matmul", (x, node("exp", (x,)))))),)), datasheet("a100"))
