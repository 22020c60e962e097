"""Products by wgmma: right under every schedule of the emulator, which refuses what PTX leaves undefined, compiled for
sm_90a, on a GPU where there is one, and planned for none that has not been measured."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product as combinations
from pathlib import Path

import numpy as np
import pytest

from eqfuse.cost.device import Device
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, module_source
from eqfuse.emit.cuda.scheduling.contract import ProductSchedule, product_schedule
from eqfuse.ir.graph import Node, node
from eqfuse.kinds.product import TILES, Tile, fastest
from eqfuse.machine import nvrtc
from eqfuse.plan.plan import Kernel
from eqfuse.testing.cudasim import CpuRawKernel, CudaSimError
from tests.kernels import test_cuda_budgets
from tests.kernels.test_cuda_contract import (
    BF16,
    NONE,
    SAME,
    both_sides,
    compiled,
    convolution,
    emulated,
    gelu,
    inputs_of,
    judge,
    kernel_of,
    leaf,
    linear,
    of_transposed,
    relu,
    run_emulated,
    run_on_gpu,
    scores,
    tiled,
    turned,
    wide,
    widened,
)
from tests.support.drawing import many

H100 = profile("h100")
MEASURED = replace(H100, wgmma_flops=(("float16", 6e14), ("bfloat16", 6e14)), tiled_flops=tuple(
    (dtype, 1.0) for dtype, _ in H100.tiled_flops))  # fmt: skip
SEEDS = range(3)
HALF = np.dtype(np.float16)


def either_way(dtype: np.dtype, left: bool, right: bool) -> tuple[Node, ...]:
    """Operands whose axes memory has in either order; two results, of which one is rounded."""
    a = turned(leaf("a", dtype, 296, 136)) if left else leaf("a", dtype, 136, 296)
    b = turned(leaf("b", dtype, 264, 296)) if right else leaf("b", dtype, 296, 264)
    y = node("matmul", (wide(a), wide(b)))
    return y, node("cast", (relu(y),), (dtype,))


def after(m: int, k: int, n: int) -> tuple[Node, ...]:
    """A bias, a function that takes many registers, a scale of each row and a residual."""
    x, w, b = leaf("x", "f2", m, k), leaf("w", "f2", k, n), leaf("b", "f2", n)
    y = gelu(node("add", (node("matmul", (x, w)), b)))
    return (node("add", (node("multiply", (y, leaf("s", "f2", m, 1))), leaf("r", "f2", m, n))),)


def of_batches(dtype: object) -> tuple[Node, ...]:
    y = node("matmul", (leaf("x", dtype, 3, 40, 72), leaf("w", dtype, 3, 72, 136)))
    return (node("negative", (y,)),)


def of_parts() -> tuple[Node, ...]:
    """Slices that start at multiples of 16 bytes, of one matrix the left and of another the right operand."""
    x = node("slice", (leaf("x", "f2", 150, 208),), (((10, 140, 1), (8, 144, 1)),))
    w = node("slice", (leaf("w", "f2", 300, 144),), (((0, 272, 2), (16, 144, 1)),))
    return (relu(node("matmul", (x, w))),)


def of_images(groups: int) -> tuple[Node, ...]:
    """A convolution of single elements, which is a product of matrices."""
    x, w = leaf("x", BF16, 3, 72 * groups, 4, 8), leaf("w", BF16, 40 * groups, 72, 1, 1)
    return (relu(node("conv", (x, w), ((1, 1), NONE, (1, 1), groups))),)


Build = Callable[[], tuple[Node, ...]]
CASES: dict[str, Build] = {
    **{f"{dtype}, {'km'[left]} and {'nk'[right]} side by side": functools.partial(either_way, dtype, left, right)
       for dtype, left, right in combinations((HALF, BF16), (False, True), (False, True))},
    "bias and relu": lambda: linear("f2", 200, 136, 264),
    "work after it": lambda: after(136, 72, 136),
    "one row": lambda: linear("f2", 1, 64, 8),
    "terms that blocks share": lambda: linear("f2", 136, 1208, 136),
    "float32 beside it": lambda: widened(130, 200, 136),
    "batches": lambda: of_batches("f2"),
    "scores": lambda: scores("f2", 2, 40, 3, 24),
    "parts of arrays": of_parts,
    "images": lambda: of_images(1),
    "images in groups": lambda: of_images(2),
}  # fmt: skip
LARGE: dict[str, Build] = {
    "linear": lambda: linear("f2", 8192, 4096, 4096),
    "work after it": lambda: after(8192, 1024, 1024),
    "few tiles": lambda: linear("f2", 256, 8192, 512),
    "of transposed": lambda: of_transposed("f2", 4096, 4096, 4096),
    "scores": lambda: scores(BF16, 8, 1024, 16, 64),
    "ragged": lambda: linear("f2", 1000, 1000, 1000),
}
ALL = pytest.mark.parametrize("case", CASES)


@functools.cache
def emitted(case: str) -> tuple[Kernel, CudaKernel]:
    kernel = kernel_of(CASES[case]())
    return kernel, by_wgmma(kernel)


def by_wgmma(kernel: Kernel, on: Device = MEASURED) -> CudaKernel:
    cuda = tiled(kernel, on)
    assert isinstance(cuda.schedule, ProductSchedule) and cuda.schedule.tile.by_wgmma
    assert cuda.source.count("eqf_copy_async") == 2 and not re.search(r"\bnext_[ab]\b", cuda.source)  # no registers
    return cuda


@functools.cache
def module() -> str:
    return module_source([emitted(case)[1].source for case in CASES])


@emulated
@ALL
def test_the_product_equals_the_evaluator_bit_for_bit_under_every_schedule(case: str) -> None:
    kernel, cuda = emitted(case)
    arrays = inputs_of(kernel)
    runs = [run_emulated(kernel, cuda, module(), arrays, seed) for seed in SEEDS]
    judge(kernel, runs[0], arrays)
    for other in runs[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(runs[0], other, strict=True))


@pytest.mark.gpu
@ALL
def test_the_product_on_a_gpu_equals_the_evaluator(case: str) -> None:
    run_on_gpu(*emitted(case))


@pytest.mark.gpu
@pytest.mark.parametrize("case", LARGE)
def test_a_large_product_on_a_gpu_equals_the_evaluator(case: str) -> None:
    kernel = kernel_of(LARGE[case]())
    run_on_gpu(kernel, by_wgmma(kernel))


@emulated
@pytest.mark.parametrize("turned", [False, True])
def test_warpgroups_may_lie_beside_one_another(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TILES, "wgmma", (Tile(128, 256, 64, (64, 128), 1.0, 128),))
    fastest.cache_clear()
    kernel = kernel_of(either_way(HALF, turned, turned))
    cuda = by_wgmma(kernel)
    fastest.cache_clear()
    assert cuda.block == (512, 1)
    arrays = inputs_of(kernel)
    judge(kernel, run_emulated(kernel, cuda, module_source([cuda.source]), arrays, 2), arrays)


def test_the_text_reads_as_kept(golden: Callable[[str, str], None]) -> None:
    golden("product_by_wgmma.cu", emitted("bias and relu")[1].source)


WITHIN = "for (int k = 0; k < 4; k++) eqf_wgmma"
BUGS = {  # of a product with six steps, where terms lie side by side on the left, columns on the right
    "no fence of proxies": ("eqf_publish();\n", "\n", "without fence.proxy.async"),
    "a fence of proxies too early": ("eqf_wait<1>();\n        eqf_publish();", "eqf_publish();\n        eqf_wait<1>();",
                                     "without fence.proxy.async"),
    "a fence of proxies by one warp": ("eqf_publish();\n", "if (threadIdx.x < 32) eqf_publish();\n",
                                       "without fence.proxy.async"),
    "no barrier": ("__syncthreads();", "", ""),
    "no fence of sums": ("eqf_wgmma_fence();\n", "\n", "without wgmma.fence"),
    "no commit": ("eqf_wgmma_commit();", "", ""),
    "a group that is not awaited": ("eqf_wgmma_wait<0>", "eqf_wgmma_wait<1>", ""),
    "copies that are not awaited": ("eqf_wait<1>", "eqf_wait<2>", ""),
    "a warp left out": (WITHIN, f"if (threadIdx.x >= 32) {WITHIN}", "others of its warpgroup in"),
    "a lane left out": (WITHIN, f"if (threadIdx.x % 32) {WITHIN}", "lanes of a warp"),
    "another operand in one warp": ("a + now * 8192 + down * 64", "a + now * 8192 + threadIdx.x / 32 * 1024",
                                    "warps of a warpgroup give different descriptors"),
    "another operand in one lane": ("b + now * 8192", "b + now * 8192 + lane", "lanes of a warp"),
    "buffers that are read yet": ("eqf_wgmma_wait<0>(sums);", "if (step == 5) eqf_wgmma_wait<0>(sums);", "while wgmma"),
    "a buffer too few": ("(step + 2) % 3", "(step + 3) % 3", ""),
    "no swizzle on the left": ("eqf_swizzled<128>(slow, fast)", "(slow * 64 + fast)", ""),
    "no swizzle on the right": ("eqf_swizzled<64>(slow, fast)", "(fast / 64 * 4096 + slow * 64 + fast % 64)", ""),
    "an unaligned buffer": (" + (-eqf_shared_address(buffers) & 1023)", "", ""),
    "rows and terms exchanged": ("eqf_wgmma<__half, 0, 1>", "eqf_wgmma<__half, 1, 1>", ""),
    "columns and terms exchanged": ("eqf_wgmma<__half, 0, 1>", "eqf_wgmma<__half, 0, 0>", ""),
    "wrong terms on the left": ("x + k * 2", "x + k * 4", ""),
    "wrong terms on the right": ("y + k * 128", "y + k * 64", ""),
    "wrong columns": ("eqf_matrix<512>(b", "eqf_matrix<256>(b", ""),
    "another operand's part": ("down * 64)", "down * 32)", ""),
    "another type": ("eqf_wgmma<__half", "eqf_wgmma<__nv_bfloat16", ""),
}  # fmt: skip


@functools.cache
def six_steps() -> Kernel:
    return kernel_of(linear("f2", 200, 328, 264))


@functools.cache
def planted() -> tuple[str, dict[str, CudaKernel]]:
    """One text with all bugs, each in a kernel of its own."""
    cuda, kernels = by_wgmma(six_steps(), replace(MEASURED, multiprocessors=2)), {}
    for i, (bug, (was, becomes, _)) in enumerate(BUGS.items()):
        assert cuda.source.count(was) == 1, bug
        source = cuda.source.replace(was, becomes).replace(cuda.name, f"bug{i}")
        kernels[bug] = replace(cuda, name=f"bug{i}", source=source)
    return module_source([k.source for k in kernels.values()]), kernels


@emulated
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_shows(bug: str) -> None:
    code, kernels = planted()
    kernel, messages = six_steps(), []
    arrays = inputs_of(kernel)
    for seed in SEEDS:
        try:
            judge(kernel, run_emulated(kernel, kernels[bug], code, arrays, seed), arrays)
        except CudaSimError as error:
            messages.append(str(error))
        except AssertionError:
            messages.append("wrong numbers")
    assert messages and any(BUGS[bug][2] in message for message in messages), messages


@compiled
@pytest.mark.parametrize("case", [*LARGE, "terms that blocks share", "parts of arrays"])
def test_two_blocks_fit_a_multiprocessor_and_no_register_is_spilled_or_read_too_early(case: str) -> None:
    cuda = by_wgmma(kernel_of((LARGE | CASES)[case]()))
    binary = nvrtc.compile_cuda(module_source([cuda.source]), "sm_90a")
    uses = binary.resources[cuda.name]
    assert uses.spill_bytes == 0 and uses.stack_bytes == 0 and uses.registers <= 128, uses
    assert 2 * (cuda.shared_bytes + uses.shared_bytes + 1024) <= H100.l1_bytes  # CUDA takes 1 KB of each block
    assert cuda.shared_bytes <= H100.shared_bytes
    assert "C75" not in binary.log, binary.log  # where ptxas waits for wgmma, or lets it work alone, as a remark says


@compiled
def test_ptxas_remarks_on_sums_that_are_read_too_early() -> None:
    cuda = emitted("bias and relu")[1]
    early = cuda.source.replace("eqf_wgmma_commit();", "eqf_wgmma_commit(); sums[3] += now;")
    assert "C75" in nvrtc.compile_cuda(module_source([early]), "sm_90a").log


@compiled
def test_a_step_is_eight_asynchronous_copies_and_four_products(tmp_path: Path) -> None:
    cuda = by_wgmma(kernel_of(LARGE["linear"]()))
    names = test_cuda_budgets.instructions([cuda], "sm_90a", tmp_path)[cuda.name]
    assert sum(n.startswith("HGMMA.64x128x16.F32") for n in names) == 4
    assert sum(n.startswith("LDGSTS") and "128" in n for n in names) == 8
    assert not any(n.startswith(("LDSM", "STS", "LDL", "STL")) for n in names)


# What CUTLASS calls the canonical layouts of both ways to lie ("mma_traits_sm90_gmma.hpp"), in numbers of 16 bits,
# before bits 3 to 5 of a place are exchanged by bits 6 to 8: Swizzle<3, 4, 3> of bytes
LAYOUTS = {0: "(i / 8 * 512 + i % 8 * 64 + k)", 1: "(i / 64 * 4096 + i % 64 + k / 8 * 512 + k % 8 * 64)"}


@emulated
@pytest.mark.parametrize("turned_a, turned_b", [*combinations((0, 1), (0, 1))])
def test_the_emulator_reads_the_canonical_layouts(turned_a: int, turned_b: int) -> None:
    """One instruction, of operands that are stored number by number."""

    def stored(name: str, rows: int, turned: int) -> str:
        store = f"int at = {LAYOUTS[turned]}; {name}[at ^ (at / 64 % 8) * 8] = r_{name}[i * 16 + k];"
        return f"for (int i = threadIdx.x; i < {rows}; i += 128) for (int k = 0; k < 16; k++) {{ {store} }}"

    def descriptor(name: str, turned: int) -> str:
        return f"eqf_shared_address({name}) / 16 | {512 if turned else 1}ull << 16 | 64ull << 32 | 1ull << 62"

    kernel = f"""extern "C" __global__ void one(const __half* r_a, const __half* r_b, float* y) {{
        EQF_DYN_SHARED(unsigned char, memory);
        __half *a = (__half*)(memory + (-eqf_shared_address(memory) & 1023)), *b = a + 8192;
        {stored("a", 64, turned_a)}
        {stored("b", 128, turned_b)}
        eqf_publish();
        __syncthreads();
        float sums[64] = {{}};
        eqf_wgmma_fence();
        eqf_wgmma<__half, {turned_a}, {turned_b}>(sums, {descriptor("a", turned_a)}, {descriptor("b", turned_b)});
        eqf_wgmma_commit();
        eqf_wgmma_wait<0>(sums);
        for (int i = 0; i < 64; i++) {{
            int row = threadIdx.x / 4 % 8 + threadIdx.x / 32 * 16 + i / 2 % 2 * 8;
            y[row * 128 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = sums[i];
        }}
    }}"""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 10, (rows, 16)).astype(np.float16) for rows in (64, 128))
    y = np.empty((64, 128), np.float32)
    CpuRawKernel(module_source([kernel]), "one")((1,), (128,), (a, b, y), shared_mem=40 * 1024)
    assert np.array_equal(y, a.astype(np.float32) @ b.astype(np.float32).T)


def schedule_of(outputs: tuple[Node, ...], on: Device) -> ProductSchedule:
    return product_schedule(kernel_of(outputs).body, on)


@pytest.mark.parametrize("name", ["h100", "h200", "a100", "b200"])
def test_no_device_multiplies_by_wgmma_before_it_has_been_measured(name: str) -> None:
    schedule = schedule_of(LARGE["linear"](), profile(name))
    assert not schedule.tile.by_wgmma and not schedule.architecture_specific


OTHERS: dict[str, Build] = {
    "work before it": lambda: both_sides("f2", 8192, 1024, 1024),
    "rows of 2,040 bytes": lambda: linear("f2", 8192, 1020, 1024),
    "float32": lambda: linear("f4", 8192, 1024, 1024),
    "windows": lambda: convolution(BF16, (64, 32, 56, 56), (64, 32, 3, 3), (1, 1), SAME, (1, 1)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_products_keep_their_kernels_on_a_device_that_has_been_measured(case: str) -> None:
    on, kernel = replace(H100, wgmma_flops=MEASURED.wgmma_flops), kernel_of(OTHERS[case]())
    assert tiled(kernel, on).source == tiled(kernel, H100).source


def test_a_product_costs_what_its_rate_says_and_small_ones_keep_the_smaller_tiles() -> None:
    on = replace(H100, wgmma_flops=MEASURED.wgmma_flops)
    schedule = schedule_of(linear("f2", 128 * on.multiprocessors, 4096, 1024), on)
    flops = 2 * 128 * on.multiprocessors * 4096 * 1024
    assert schedule.tile.by_wgmma and schedule.tiling.multiply == pytest.approx(flops / 6e14)
    slower = replace(on, wgmma_flops=(("float16", 1e13),))
    assert not fastest(schedule.product, slower).tile.by_wgmma
    assert "wgmma" not in tiled(kernel_of(linear("f2", 8192, 4096, 4096)), slower).source


def random_product(rng: np.random.Generator) -> tuple[Node, ...]:
    """Of operands that lie in rows of whole pieces of 16 bytes, which tiles seldom divide, and random work after it."""
    dtype, batch = (HALF, BF16)[int(rng.integers(2))], ((), (2,), (2, 3))[int(rng.integers(3))]
    m, k, n = (8 * int(rng.integers(1, most)) for most in (30, 60, 40))
    names = (f"x{i}" for i in range(9))

    def operand(rows: int, columns: int) -> Node:
        shape = batch[int(rng.integers(len(batch) + 1)) :]
        if rng.random() < 0.5:
            return turned(leaf(next(names), dtype, *shape, columns, rows))
        x = leaf(next(names), dtype, *shape, rows + 3, columns + 16)
        return node("slice", (x,), ((*((0, e, 1) for e in shape), (2, rows + 2, 1), (8, columns + 8, 1)),))

    y = node("matmul", (wide(operand(m, k)), wide(operand(k, n))))
    z = node("cast", (y,), (dtype,))
    for shape in ((n,), (m, 1), y.shape)[: int(rng.integers(4))]:
        z = node(str(rng.choice(["add", "multiply", "maximum"])), (z, leaf(next(names), dtype, *shape)))
    return tuple(dict.fromkeys((z, y)[: int(rng.integers(1, 3))]))


@emulated
@pytest.mark.slow
def test_random_products_equal_the_evaluator() -> None:
    rng = np.random.default_rng(0)
    drawn = [kernel_of(random_product(rng)) for _ in range(many(30))]
    kernels = [kernel for kernel in drawn if product_schedule(kernel.body, MEASURED).tile.by_wgmma]
    assert len(kernels) > 0.7 * len(drawn)  # a batch that is one tall matrix may have its rows apart
    products = [by_wgmma(kernel) for kernel in kernels]
    products = [replace(c, name=f"f{i}", source=c.source.replace(c.name, f"f{i}")) for i, c in enumerate(products)]
    code = module_source([cuda.source for cuda in products])
    for i, (kernel, cuda) in enumerate(zip(kernels, products, strict=True)):
        arrays = inputs_of(kernel)
        judge(kernel, run_emulated(kernel, cuda, code, arrays, i % 3), arrays)
