"""Kernels over more than 2^31 elements, and over a little fewer. Their memory is reserved, not filled: the emulator
runs the blocks that compute a few elements, and stops where a signed integer overflows or an address is wrong."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, emit_kernel, module_source
from eqfuse.emit.cuda.scheduling.map import THREADS
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.machine import nvrtc
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.support.kernels import PRICE, add, body, read, reduced
from tests.support.some import some

emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")
BIG, NEAR = 2**31 + 2**20, 2**31 - 9  # beyond 32 bits; within them, but a thread may run past the end
I1, F2 = np.dtype(np.int8), np.dtype(np.float16)
MAP_NORESERVE = 0x4000  # of Linux; Python 3.11 has no name for it
ENDS = np.array([0, 1, 2**31 - 1, 2**31, BIG - 17, BIG - 1])
LAST = slice(-4, None)


@dataclass(frozen=True)
class Case:
    """A kernel; what is looked at of its result, computed by NumPy from the ends of the arguments."""

    kind: str
    output: Node
    numpy: Callable[..., np.ndarray]
    part: object = ...
    flat: Sequence[int] = ()  # where in the result of a map that is, if not everywhere


def negative(x: Node) -> Node:
    return node("negative", (x,))


def sliced(x: Node, *ranges: tuple[int, int, int]) -> Node:
    return node("slice", (x,), (ranges,))


def maps() -> dict[str, Case]:
    flat, near, table = read(0, (BIG,), I1), read(0, (NEAR,), I1), read(0, (2**21 + 512, 2**10), I1)
    wide, row, one = read(0, (2**12, 2**19 + 8), I1), read(1, (2**19 + 8,), I1), read(2, (1, 1), I1)
    blown = node("broadcast_to", (read(0, (1, 2**16), I1),), ((2**16 + 8, 2**16),))
    many = blown.type.size
    never_stored = negative(sliced(node("reshape", (blown,), ((many,),)), (many - 9, many, 1)))
    windows = node("sliding_window", (flat,), (((-1, 3),),))
    turned, backwards = node("transpose", (table,), ((1, 0),)), node("flip", (flat,), ((-1,),))
    rows, elements = read(1, (3,), np.int32), read(1, (3, 2**10), np.int32)
    end = wide.type.size
    return {
        "as many results": Case("map", add(flat, flat), lambda x: 2 * x[ENDS], ENDS, ENDS),
        "almost as many": Case("map", add(near, near), lambda x: 2 * x[LAST], LAST, range(NEAR - 4, NEAR)),
        "a broadcast axis": Case("map", add(wide, row), lambda x, y: x[-1, LAST] + y[LAST], (-1, LAST),
                                 range(end - 4, end)),
        "the last of many": Case("map", negative(sliced(flat, (BIG - 9, BIG, 2))), lambda x: -x[-9::2]),
        "far apart": Case("map", negative(sliced(flat, (5, BIG, 2**21))), lambda x: -x[5 :: 2**21]),
        "backwards": Case("map", negative(sliced(backwards, (0, 9, 1))), lambda x: -x[:-10:-1]),
        "a transposed corner": Case("map", negative(sliced(turned, (1020, 1024, 1), (2**21, 2**21 + 512, 7))),
                                    lambda x: -x.T[1020:, 2**21 :: 7]),
        "rows by 32-bit numbers": Case("map", add(node("take", (table, rows), (-2,)), one), lambda x, i, y: x[i] + y),
        "rows alone": Case("map", node("take", (table, rows), (-2,)), lambda x, i: x[i]),
        "elements by 32-bit numbers": Case("map", add(node("take_along_axis", (table, elements), (-2,)), one),
                                           lambda x, i, y: np.take_along_axis(x, i.astype(np.int64), 0) + y),
        "values that are never stored": Case("map", never_stored, lambda x: -x[0, -9:]),
        "windows": Case("map", negative(sliced(windows, (BIG - 6, BIG - 2, 1), (0, 3, 1))),
                        lambda x: -np.lib.stride_tricks.sliding_window_view(x[-6:], 3)),
    }  # fmt: skip


def rows() -> dict[str, Case]:
    table, near = read(0, (2**21 + 512, 2**10), I1), read(0, (2**21 - 1, 2**10), I1)
    long, columns = read(0, (2**20 + 8, 2**11), I1), read(0, (2**11 + 8, 2**20), I1)
    single = read(0, (2**33 + 4, 1), I1)

    def centred(x: Node, axis: int) -> Node:
        return node("subtract", (x, reduced("max", x, axis)))

    def last_centred(x: np.ndarray) -> np.ndarray:
        return x[LAST] - x[LAST].max(-1, keepdims=True)

    return {
        "a warp for each row": Case("row", centred(table, -1), last_centred, LAST),
        "a warp for each of almost as many": Case("row", centred(near, -1), last_centred, LAST),
        "a block for each row": Case("row", centred(long, -1), last_centred, LAST),
        "columns": Case("row", centred(columns, -2), lambda x: x[:, LAST] - x[:, LAST].max(0), np.s_[:, LAST]),
        "sums of rows": Case("reduce", reduced("sum", table, -1), lambda x: x[LAST].sum(-1, keepdims=True), LAST),
        "rows of one element": Case("reduce", negative(reduced("max", single, -1)), lambda x: -x[LAST], LAST),
    }


def products() -> dict[str, Case]:
    left, right = read(0, (2**21 + 8, 2**10), F2), read(1, (2**10, 16), F2)
    many, each = read(0, (2**20 + 8, 32, 64), F2), read(1, (2**20 + 8, 64, 16), F2)
    images, image, filters = (read(i, (n, 64, k, k), F2) for i, n, k in ((0, 2**13 + 1, 64), (0, 1, 64), (1, 8, 3)))

    def bias(x: Node) -> Node:
        return add(x, read(2, x.shape[-1:], F2))

    def convolved(x: Node) -> Node:
        return negative(node("conv", (x, filters), ((1, 1), ((1, 1), (1, 1)), (1, 1), 1)))

    def of_the_last_image(x: np.ndarray, f: np.ndarray) -> np.ndarray:
        return evaluate(body([image, filters], convolved(image)), [x[-1:], f])[0][:, :, LAST]

    return {
        "a tall product": Case("contract", bias(node("matmul", (left, right))), lambda x, y, b: x[LAST] @ y + b, LAST),
        "many products": Case("contract", bias(node("matmul", (many, each))),
                              lambda x, y, b: x[LAST] @ y[LAST] + b, LAST),
        "a convolution": Case("contract", convolved(images), of_the_last_image, np.s_[-1:, :, LAST]),
    }  # fmt: skip


CASES = {**maps(), **rows(), **products()}


@cache
def emitted() -> tuple[dict[str, tuple[Kernel, CudaKernel]], str]:
    kernels = {}
    for name, case in CASES.items():
        inputs = tuple(n for n in Graph((), (case.output,)).nodes if n.op == "input")
        inputs = tuple(sorted(inputs, key=lambda n: n.attr("name")))
        kernel = Kernel(case.kind, Graph(inputs, (case.output,)), (), (), PRICE)
        kernels[name] = kernel, emit_kernel(kernel, profile("h100"))
    return kernels, module_source(list(dict.fromkeys(cuda.source for _, cuda in kernels.values())))


def reserved(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros, of which only what is touched takes memory."""
    size = math.prod(shape) * dtype.itemsize
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    return np.frombuffer(memory, dtype).reshape(shape)


def argument(n: Node) -> np.ndarray:
    """Small random numbers at both ends and at the 2^31st element; for places, the last rows."""
    rng = np.random.default_rng(n.type.size % 1000)
    if n.dtype == np.int32:
        return rng.integers(2**21, 2**21 + 512, n.shape).astype(np.int32)
    array = reserved(n.shape, n.dtype)
    flat = array.reshape(-1)
    for start in (0, 2**31 - 2**16, flat.size - 2**19):
        place = flat[max(0, start) : start + 2**19]
        place[...] = rng.integers(-3, 4, place.size)
    return array


def chosen(case: Case, cuda: CudaKernel) -> list[int]:
    """The blocks that compute what is looked at: of all but long maps, the first and the last; of these, the first one
    takes the elements that are left at the end."""
    blocks, places = math.prod(cuda.grid), np.asarray(case.flat)
    if not places.size:
        return sorted({*range(min(blocks, 4)), *range(max(0, blocks - 16), blocks)})
    return sorted({0} | {int(b) for width in (1, 2, 4, 8, 16) for b in places // width // THREADS % blocks})


@emulated
@pytest.mark.parametrize("name", some(CASES, 2))
def test_no_index_leaves_its_type(name):
    case = CASES[name]
    kernels, code = emitted()
    kernel, cuda = kernels[name]
    arrays = [argument(n) for n in kernel.body.inputs]
    result = reserved(case.output.shape, case.output.dtype)
    blocks = chosen(case, cuda)
    function = cudasim.CpuRawKernel(code, cuda.name)
    function(cuda.grid, cuda.block, cuda.arguments([result], arrays, cuda.constants, []), blocks=blocks)
    np.testing.assert_array_equal(result[case.part], case.numpy(*arrays))


def text(kind: str, *outputs: Node) -> str:
    inputs = tuple(n for n in Graph((), outputs).nodes if n.op == "input")
    return emit_kernel(Kernel(kind, Graph(inputs, outputs), (), (), PRICE), profile("h100")).source


def test_loops_that_are_too_long_to_run_here_count_in_64_bits():
    row = read(0, (1, 2**32), F2)
    source = text("row", node("subtract", (row, reduced("max", row))))
    assert "col_ = first + ((long long)k * 1024 + lane) * 8;" in source
    deep = node("matmul", (read(0, (4, 2**32), F2), read(1, (2**32, 4), F2)))
    source = text("contract", negative(deep))
    assert "begin = part * (long long)" in source and "const long long k = ahead + slow" in source
    assert "for (long long step = -1, ahead = begin; begin + step * 32 < end;" in source


def test_indices_of_smaller_arrays_stay_in_32_bits():
    x = read(0, (2**20, 2**10), F2)
    sources = [text("map", negative(x)), text("row", node("subtract", (x, reduced("max", x)))),
               text("contract", negative(node("matmul", (x, read(1, (2**10, 64), F2)))))]  # fmt: skip
    assert not any("long long" in source for source in sources)


@compiled
def test_kernels_of_many_elements_compile_without_spilling_a_register():
    """Every second one: the emulator compiles all."""
    sources = list(dict.fromkeys(cuda.source for _, cuda in emitted()[0].values()))[::2]
    for name, uses in nvrtc.compile_cuda(module_source(sources), "sm_80").resources.items():
        assert uses.spill_bytes == 0, (name, uses)
