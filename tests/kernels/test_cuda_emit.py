"""Emitted CUDA kernels of every kind, judged by the evaluator: on the emulator under three schedules that must agree in
every bit, through NVRTC for two architectures, and on a GPU where there is one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from eqfuse.cost.price import Price
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.machine import nvrtc
from eqfuse.ops import row
from eqfuse.ops.types import TensorType
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.support.some import some

NO_PRICE = Price(0.0, 0, 0, 0, "memory")
PARTS = 3  # of the cases


def leaf(dtype: object, *shape: int) -> Node:
    return input_node(f"x{len(shape)}{np.dtype(dtype).name}{shape}", TensorType(np.dtype(dtype), shape))


def f32(value: float) -> Node:
    return const(np.float32(value))


def bias_gelu(rows: int = 64, columns: int = 96) -> tuple[Node, ...]:
    x = node("add", (leaf("f4", rows, columns), leaf("f4", columns)))
    phi = node("add", (f32(1), node("erf", (node("multiply", (x, f32(0.70710678))),))))
    return (x, node("multiply", (node("multiply", (x, f32(0.5))), phi)))


def of_integers() -> tuple[Node, ...]:
    a, b, x = leaf("i4", 50), leaf("i4", 3, 50), leaf("f4", 3, 50)
    small, wide = node("gcd", (leaf("u1", 50), leaf("u1", 3, 50))), node("cast", (b,), (np.dtype("i8"),))
    return (
        node("gcd", (a, b)), node("lcm", (a, b)), small, node("bitwise_count", (b,)), node("ldexp", (x, b)),
        node("ldexp", (node("cast", (x,), (np.dtype("f8"),)), wide)),
    )  # fmt: skip


def softmax(dtype: str, *shape: int, axes: tuple[int, ...] = (-1,)) -> tuple[Node, ...]:
    x = leaf(dtype, *shape)
    e = node("exp", (node("subtract", (x, node("max", (x,), (axes,)))),))
    return (node("divide", (e, node("sum", (e,), (axes,)))),)


def layer_norm(rows: int, columns: int) -> tuple[Node, ...]:
    x, scale, shift = leaf("f4", rows, columns), leaf("f4", columns), leaf("f4", 1, columns)
    n = f32(columns)
    mean = node("divide", (node("sum", (x,), ((-1,),)), n))
    centred = node("subtract", (x, mean))
    variance = node("divide", (node("sum", (node("square", (centred,)),), ((-1,),)), n))
    root = node("sqrt", (node("add", (variance, f32(1e-5))),))
    y = node("add", (node("multiply", (node("divide", (centred, root)), scale)), shift))
    return (y, mean, root)


def one_column() -> tuple[Node, ...]:
    """Rows of one element, and an array of one element: neither is at the place of the other."""
    x, least = leaf("f4", 3, 1), leaf("f4", 1, 1)
    total = node("sum", (x,), ((-1,),))
    return (node("square", (node("maximum", (total, least)),)), node("add", (total, node("square", (x,)))))


def summed(op: str, dtype: str, axes: tuple[int, ...], *shape: int) -> tuple[Node, ...]:
    return (node(op, (leaf(dtype, *shape),), (axes,)),)


def log_sum_exp(rows: int, columns: int) -> tuple[Node, ...]:
    x = leaf("f4", rows, columns)
    top = node("max", (x,), ((-1,),))
    total = node("sum", (node("exp", (node("subtract", (x, top)),)),), ((-1,),))
    return (node("add", (top, node("log", (total,)))),)


def mean_and_largest(rows: int, columns: int) -> tuple[Node, ...]:
    x = leaf("f4", rows, columns)
    mean = node("divide", (node("sum", (node("square", (x,)),), ((-2,),)), f32(rows)))
    return (node("sqrt", (mean,)), node("max", (x,), ((-2,),)))


def viewed() -> tuple[Node, ...]:
    x, y = leaf("f4", 6, 35), leaf("f4", 5, 7, 6)
    turned = node("transpose", (node("reshape", (x,), ((6, 5, 7),)),), ((1, 2, 0),))
    flipped = node("flip", (y,), ((-1, -3),))
    part = node("slice", (node("add", (turned, flipped)),), (((1, 5, 2), (0, 7, 1), (2, 6, 1)),))
    return (node("broadcast_to", (node("negative", (part,)),), ((3, 2, 7, 4),)),)


def by_tiles() -> tuple[Node, ...]:
    """Two arrays that lie with the middle axis fastest, one of them computed, beside others."""
    turned = node("transpose", (node("exp", (leaf("f4", 2, 45, 70),)),), ((0, 2, 1),))
    halves = node("cast", (node("transpose", (leaf("f2", 45, 70),), ((1, 0),)),), (np.dtype("f4"),))
    total = node("add", (node("multiply", (turned, halves)), leaf("f4", 45)))
    return (total, node("greater", (total, leaf("f4", 2, 70, 45))))


def gathered() -> tuple[Node, ...]:
    rows = node("take", (leaf("f4", 11, 9), node("remainder", (leaf("i8", 4, 3), const(np.int64(11))))), (-2,))
    scaled = node("multiply", (rows, leaf("f4", 9)))
    return (scaled,)


def mixed_types() -> tuple[Node, ...]:
    i, b = leaf("i4", 40), leaf("?", 40)
    half = node("cast", (i,), (np.dtype(np.float16),))
    ratio = node("floor_divide", (i, const(np.int32(7))))
    rest = node("remainder", (i, const(np.int32(-5))))
    chosen = node("where", (b, ratio, rest))
    both = node("logical_and", (b, node("greater", (i, const(np.int32(0))))))
    wide = node("cast", (chosen,), (np.dtype(np.float64),))
    return (chosen, node("multiply", (half, half)), both, wide, node("bitwise_left_shift", (i, const(np.int32(3)))))


CASES: dict[str, tuple[str, Callable[[], tuple[Node, ...]]]] = {
    "bias and gelu, two results": ("map", bias_gelu),
    "bias and gelu, no 16 bytes": ("map", lambda: bias_gelu(7, 13)),
    "middle axis broadcast": ("map", lambda: (node("multiply", (leaf("f4", 7, 13, 33), leaf("f4", 7, 1, 33))),)),
    "half precision": ("map", lambda: (node("tanh", (leaf("f2", 64),)),)),
    "scalar": ("map", lambda: (node("sqrt", (node("abs", (leaf("f8"),)),)),)),
    "one constant array": ("map", lambda: (node("add", (leaf("f4", 4, 3), const(np.arange(3, dtype=np.float32)))),)),
    "views everywhere": ("map", viewed),
    "transposed, by tiles": ("map", by_tiles),
    "gather": ("map", gathered),
    "integers, booleans, casts": ("map", mixed_types),
    "divisors, multiples, bits, powers of two": ("map", of_integers),
    "softmax, warp per row": ("row", lambda: softmax("f4", 30, 503)),
    "softmax, a thread per row": ("row", lambda: softmax("f4", 300, 12)),
    "softmax, four rows a warp": ("row", lambda: softmax("f4", 37, 100)),
    "softmax, block per row": ("row", lambda: softmax("f4", 3, 5003)),
    "softmax, of which the reads are held": ("row", lambda: softmax("f4", 2, 40_000)),
    "softmax, too long to hold": ("row", lambda: softmax("f4", 2, 50_000)),
    "softmax of columns": ("row", lambda: softmax("f4", 50, 70, axes=(-2,))),
    "softmax over a middle axis": ("row", lambda: softmax("f4", 4, 21, 6, axes=(-2,))),
    "softmax over two axes": ("row", lambda: softmax("f4", 5, 8, 9, axes=(-2, -1))),
    "softmax in half precision": ("row", lambda: softmax("f2", 9, 200)),
    "softmax in double precision": ("row", lambda: softmax("f8", 3, 2000)),
    "layer norm, three results": ("row", lambda: layer_norm(8, 1536)),
    "row of one element": ("row", lambda: softmax("f4", 5, 1)),
    "rows of one element and a scalar": ("reduce", one_column),
    "row sums": ("reduce", lambda: summed("sum", "f4", (-1,), 70, 300)),
    "column sums, split": ("reduce", lambda: summed("sum", "f4", (-2,), 5000, 70)),
    "full sum, split": ("reduce", lambda: summed("sum", "f4", (-1,), 100_000)),
    "the place of the largest, split": ("reduce", lambda: summed("argmax", "u1", (-1,), 3, 20_000)),
    "places in columns": ("reduce", lambda: summed("argmin", "f8", (-2,), 300, 70)),
    "sum of booleans": ("reduce", lambda: summed("sum", "?", (-2, -1), 40, 50)),
    "sum of nothing": ("reduce", lambda: summed("sum", "f4", (-1,), 3, 0)),
    "products": ("reduce", lambda: summed("prod", "f8", (-1,), 5, 30)),
    "largest int64": ("reduce", lambda: summed("max", "i8", (-1,), 6, 2000)),
    "least uint8": ("reduce", lambda: summed("min", "u1", (-2,), 100, 40)),
    "any": ("reduce", lambda: summed("any", "?", (-1,), 100_000)),
    "all": ("reduce", lambda: summed("all", "f4", (-1,), 4, 3000)),
    "half-precision sum, split": ("reduce", lambda: summed("sum", "f2", (-2,), 600, 40)),
    "log-sum-exp": ("reduce", lambda: log_sum_exp(6, 2500)),
    "two column statistics": ("reduce", lambda: mean_and_largest(3000, 40)),
}  # fmt: skip


def kernel_of(case: str) -> Kernel:
    kind, build = CASES[case]
    outputs = build()
    inputs = tuple(dict.fromkeys(n for n in Graph((), outputs).nodes if n.op == "input"))
    return Kernel(kind, Graph(inputs, outputs), tuple(range(len(inputs))), tuple(range(len(outputs))), NO_PRICE)


def emitted(case: str) -> tuple[Kernel, CudaKernel]:
    kernel = kernel_of(case)
    return kernel, emit_kernel(kernel, profile("h100"))


@cache
def module(part: int) -> str:
    """One text with every third case: the compiler reads its headers once."""
    return module_source(list(dict.fromkeys(emitted(case)[1].source for case in [*CASES][part::PARTS])))


def inputs_of(kernel: Kernel) -> list[np.ndarray]:
    rng = np.random.default_rng(len(kernel.body.nodes))
    arrays = []
    for n in kernel.body.inputs:
        normal = rng.standard_normal(n.shape) * (3 if n.dtype.kind == "f" else 40)
        if n.dtype == np.float16:
            normal = np.round(normal / 3) / 2  # halves: sums are exact in float16 too
        elif n.dtype.kind in "bu":
            normal = normal > 30 if n.dtype.kind == "b" else np.abs(normal)
        arrays.append(np.asarray(normal).astype(n.dtype))
    return arrays


def poisoned(kernel: Kernel) -> list[np.ndarray]:
    arrays = [np.empty(o.shape, o.dtype) for o in kernel.body.outputs]
    for array in arrays:
        array.reshape(-1).view(np.uint8).fill(0xFF)
    return arrays


def judge(kernel: Kernel, got: list[np.ndarray], arrays: list[np.ndarray]) -> None:
    for result, want in zip(got, evaluate(kernel.body, arrays), strict=True):
        if result.dtype.kind == "f":
            close = {2: 4e-3, 4: 3e-5, 8: 1e-12}[result.dtype.itemsize]
            largest = max(1e-2, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(result, want, rtol=close, atol=close * largest / 10)
        else:
            assert np.array_equal(result, want)


@pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
@pytest.mark.parametrize("case", some(CASES, PARTS))
def test_the_emulated_kernel_equals_the_evaluator_bit_for_bit_under_every_schedule(case):
    kernel, cuda = emitted(case)
    function = cudasim.CpuRawKernel(module([*CASES].index(case) % PARTS), cuda.name)
    arrays, workspace = inputs_of(kernel), [np.zeros(n, dtype) for dtype, n in cuda.workspace]
    runs = []
    for seed in range(3):  # one workspace: each launch must leave it fit for the next
        writes = poisoned(kernel)
        function(cuda.grid, cuda.block, cuda.arguments(writes, arrays, cuda.constants, workspace), seed=seed)
        runs.append(writes)
    judge(kernel, runs[0], arrays)
    for other in runs[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(runs[0], other, strict=True))


@pytest.mark.slow
@pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_kernel_compiles_without_spilling_a_register(arch):
    """Every second one for each architecture."""
    sources = {cuda.name: cuda.source for _, cuda in map(emitted, [*CASES][arch == "sm_90" :: 2])}
    for name, uses in nvrtc.compile_cuda(module_source(list(sources.values())), arch).resources.items():
        assert uses.spill_bytes == 0 and uses.registers <= 128, (name, uses)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_on_a_gpu_equals_the_evaluator(case):
    cupy = pytest.importorskip("cupy")
    kernel, cuda = emitted(case)
    function = cupy.RawModule(code=module_source([cuda.source]), options=("-std=c++17",)).get_function(cuda.name)
    arrays = inputs_of(kernel)
    workspace = [cupy.zeros(n, dtype) for dtype, n in cuda.workspace]
    constants = [cupy.asarray(c) if isinstance(c, np.ndarray) else c for c in cuda.constants]
    for _ in range(2):
        writes = [cupy.asarray(w) for w in poisoned(kernel)]
        function(cuda.grid, cuda.block, cuda.arguments(writes, [cupy.asarray(a) for a in arrays], constants, workspace))
        judge(kernel, [cupy.asnumpy(w) for w in writes], arrays)


NOT_FINITE = np.array([1, np.nan, np.inf, -np.inf, 0, -0.0, -7.5, 2], np.float32)


@pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
def test_not_a_number_infinity_and_signed_zero_go_through_as_in_numpy():
    x, y = leaf("f4", 8, 1), leaf("f4", 8)
    kernels = {}
    for op in (
        "maximum", "fmin", "floor_divide", "remainder", "minimum", "fmax", "sign", "divide", "logaddexp", "copysign",
        "isnan", "isinf", "power", "isfinite", "signbit", "round", "fmod",
    ):  # fmt: skip
        args = (x, y) if row(op).arity == 2 else (x,)
        kernel = Kernel("map", Graph(args, (node(op, args),)), (0, 1), (0,), NO_PRICE)
        kernels[op] = kernel, emit_kernel(kernel, profile("h100"))
    code = module_source([cuda.source for _, cuda in kernels.values()])
    for op, (kernel, cuda) in kernels.items():
        arrays, writes = [NOT_FINITE.reshape(8, 1), NOT_FINITE][: row(op).arity], poisoned(kernel)
        function = cudasim.CpuRawKernel(code, cuda.name)
        function(cuda.grid, cuda.block, cuda.arguments(writes, arrays, cuda.constants, []))
        with np.errstate(all="ignore"):
            (want,) = evaluate(kernel.body, arrays)
        np.testing.assert_allclose(writes[0], want, rtol=1e-6, err_msg=op)
        signed = ~np.isnan(want)
        if op in ("maximum", "minimum", "fmax", "fmin"):  # of 0.0 and -0.0, NumPy gives either
            signed &= want != 0
        assert np.array_equal(np.copysign(1, writes[0])[signed], np.copysign(1, want)[signed]), op


@pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
def test_the_largest_of_a_row_with_a_nan_is_nan():
    kernels = []
    for axis, shape in ((-1, (4, 600)), (-1, (2, 5000)), (-2, (600, 40))):
        x = leaf("f4", *shape)
        kernel = Kernel("reduce", Graph((x,), (node("max", (x,), ((axis,),)),)), (0,), (0,), NO_PRICE)
        kernels.append((kernel, emit_kernel(kernel, profile("h100"))))
    code = module_source([cuda.source for _, cuda in kernels])
    for kernel, cuda in kernels:
        array, writes = np.zeros(kernel.body.inputs[0].shape, np.float32), poisoned(kernel)
        array[0, 7], array[1, 9] = np.nan, np.inf
        workspace = [np.zeros(n, dtype) for dtype, n in cuda.workspace]
        function = cudasim.CpuRawKernel(code, cuda.name)
        function(cuda.grid, cuda.block, cuda.arguments(writes, [array], cuda.constants, workspace))
        assert np.array_equal(writes[0], evaluate(kernel.body, [array])[0], equal_nan=True), str(kernel.body)


def test_results_of_two_shapes_are_refused():
    x, y = leaf("f4", 5), leaf("f4", 3, 5)
    kernel = Kernel("map", Graph((x, y), (node("exp", (x,)), node("exp", (y,)))), (0, 1), (0, 1), NO_PRICE)
    with pytest.raises(UnsupportedOp, match="one shape"):
        emit_kernel(kernel, profile("h100"))


def test_an_operator_without_a_cuda_row_is_refused_by_name():
    with pytest.raises(UnsupportedOp, match="no 'argmax' of complex numbers"):
        emit_kernel(
            Kernel("reduce", Graph((leaf("c8", 9),), summed("argmax", "c8", (-1,), 9)), (0,), (0,), NO_PRICE),
            profile("h100"),
        )


def test_the_text_is_the_same_each_time_and_holds_no_constant_of_the_user():
    first, second = (emitted("layer norm, three results")[1] for _ in range(2))
    assert first == second
    assert "1e-05" not in first.source and np.float32(1e-5) in first.constants


@pytest.mark.parametrize("case", ["bias and gelu, two results", "softmax, block per row", "full sum, split"])
def test_the_text_reads_as_kept(case, golden):
    _, cuda = emitted(case)
    golden(case.replace(",", "").replace(" ", "_") + ".cu", cuda.source)


def test_a_softmax_row_is_read_once_and_written_once():
    """By a loop over the turns that all threads take, and one over the last, which only some do."""
    source = emitted("softmax, block per row")[1].source
    assert source.count("r0[") == 2 and source.count("w0[") == 2
    assert source.count("for (int k = 0; k < 19; k++)") == source.count("for (int k = 19; k < 20; k++)") == 3
