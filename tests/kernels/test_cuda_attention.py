"""Two products in one CUDA kernel, judged by the evaluator: on the emulator under three schedules that must agree in
every bit, with bugs planted, and through NVRTC for two architectures."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import CudaKernel, module_source, source_of
from eqfuse.emit.cuda.scheduling.back_to_back import back_to_back_schedule
from eqfuse.errors import UnsupportedOp
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.machine import nvrtc
from eqfuse.testing import cudasim

BF16 = np.dtype(ml_dtypes.bfloat16)
emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
compiled = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")


def softmax(s):
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def attention(q, k, v):
    scores = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(0.125)
    return (softmax(scores).astype(q.dtype) @ v).astype(q.dtype)


def masked(q, k, v, mask):
    scores = np.where(mask, (q * q.dtype.type(0.25)) @ np.swapaxes(k, -1, -2), q.dtype.type(-np.inf))
    return softmax(scores) @ v


def biased(q, k, v, bias, keep, gate):
    """A bias of each head, weights that are dropped after the softmax, and work on the result."""
    q, k, v = (np.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))
    weights = softmax(q @ np.swapaxes(k, -1, -2) + bias) * keep
    return np.tanh(weights @ v) * gate


def perceptron(x, w, b, u):
    return np.maximum(x @ w + b, 0) @ u + x


def scaled_late(q, k, v):
    """The distance from the maximum is scaled, by a power of two."""
    s = q @ np.swapaxes(k, -1, -2)
    e = np.exp2((s - np.max(s, axis=-1, keepdims=True)) * q.dtype.type(0.5))
    return (e @ v) / np.sum(e, axis=-1, keepdims=True)


def heads(dtype: object, *shape: int, count: int = 3) -> list:
    return [spec(shape, dtype)] * count


CASES: dict[str, Callable[[], Graph]] = {
    "half precision": lambda: trace(attention, *heads("f2", 2, 70, 24)),
    "bfloat16": lambda: trace(attention, *heads(BF16, 1, 2, 128, 64)),
    "wide heads": lambda: trace(attention, *heads("f2", 1, 72, 128)),
    "single precision": lambda: trace(attention, *heads("f4", 2, 70, 24)),
    "wide heads in single precision": lambda: trace(attention, *heads("f4", 1, 40, 100)),
    "masked": lambda: trace(masked, *heads("f2", 2, 40, 16), spec((40, 40), "?")),
    "masked in single precision": lambda: trace(masked, *heads("f4", 2, 40, 16), spec((2, 1, 40), "?")),
    "biased": lambda: trace(biased, *heads("f2", 2, 33, 2, 16), spec((2, 33, 33), "f2"), spec((2, 1, 33, 33), "f2"),
                            spec((2, 2, 33, 16), "f2")),
    "odd extents": lambda: trace(attention, spec((65, 13), "f2"), spec((37, 13), "f2"), spec((37, 7), "f2")),
    "perceptron": lambda: trace(perceptron, *[spec(s, "f2") for s in ((2, 40, 48), (48, 72), (72,), (72, 48))]),
    "scaled late": lambda: trace(scaled_late, *heads("f4", 2, 48, 16)),
}  # fmt: skip
ALL = pytest.mark.parametrize("case", CASES)


def kernel(graph: Graph, name: str) -> CudaKernel:
    cuda = source_of(graph, back_to_back_schedule(graph, profile("a100")), name)
    assert isinstance(cuda, CudaKernel)
    return cuda


@functools.cache
def compiled_cases() -> tuple[dict[str, tuple[Graph, CudaKernel]], str]:
    """Each case's kernel, and one text with all of them."""
    graphs = {case: build() for case, build in CASES.items()}
    kernels = {case: (g, kernel(g, f"f{i}")) for i, (case, g) in enumerate(graphs.items())}
    return kernels, module_source([cuda.source for _, cuda in kernels.values()])


def arrays_of(graph: Graph) -> list[np.ndarray]:
    """Random numbers; of a mask, each row has something left but for the first two."""
    rng, arrays = np.random.default_rng(len(graph.nodes)), []
    for n in graph.inputs:
        if n.dtype == np.bool_:
            mask = rng.random(n.shape) < 0.3
            mask[..., 5:, 3], mask[..., :2, :] = True, False
            arrays.append(mask)
        else:
            arrays.append(rng.standard_normal(n.shape).astype(n.dtype))
    return arrays


def run(graph: Graph, cuda: CudaKernel, code: str, arrays: list[np.ndarray], seed: int) -> np.ndarray:
    (output,) = graph.outputs
    result = np.empty(output.shape, output.dtype)
    result.reshape(-1).view(np.uint8).fill(0xFF)
    arguments = cuda.arguments([result], arrays, cuda.constants, [])
    cudasim.CpuRawKernel(code, cuda.name)(cuda.grid, cuda.block, arguments, seed=seed)
    return result


def judge(graph: Graph, got: np.ndarray, arrays: list[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        (want,) = evaluate(graph, arrays)
    close = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 2e-6}[want.dtype.name]
    scale = max(1.0, float(np.abs(np.nan_to_num(want.astype(np.float64))).max()))
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=close, atol=close * scale)


@emulated
@ALL
def test_the_emulated_kernel_equals_the_evaluator_bit_for_bit_under_every_schedule(case: str) -> None:
    kernels, code = compiled_cases()
    graph, cuda = kernels[case]
    arrays = arrays_of(graph)
    runs = [run(graph, cuda, code, arrays, seed) for seed in range(3)]
    judge(graph, runs[0], arrays)
    assert all(other.tobytes() == runs[0].tobytes() for other in runs[1:])


@pytest.mark.slow
@emulated
def test_a_missing_wait_or_barrier_around_asynchronous_copies_shows() -> None:
    """In the loop over tiles, of which there are more than two."""
    graph = trace(attention, *heads("f2", 1, 200, 64))
    cuda = kernel(graph, "f")
    assert "eqf_copy_async(&ks" in cuda.source
    head, loop = cuda.source.split("for (int ahead = 0", 1)
    broken = []
    for i, missing in enumerate(("eqf_wait<0>();\n        __syncthreads();", "eqf_wait<0>();", "__syncthreads();")):
        assert missing in loop
        source = f"{head}for (int ahead = 0{loop.replace(missing, '', 1)}"
        broken.append(replace(cuda, name=f"f{i}", source=re.sub(r"\bf\b", f"f{i}", source)))
    arrays, code = arrays_of(graph), module_source([cuda.source, *[c.source for c in broken]])
    judge(graph, run(graph, cuda, code, arrays, 2), arrays)
    for other in broken:
        with pytest.raises(AssertionError):
            judge(graph, run(graph, other, code, arrays, 2), arrays)


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_attention_of_usual_sizes_spills_no_register_and_copies_16_bytes_at_once(arch: str) -> None:
    widths = {"sm_80": (128, 64, 128), "sm_90": (64, 128, 64)}[arch]
    graphs = {f"{dtype}_{width}": trace(attention, *heads(dtype, 4, 8, 1024, width))
              for dtype, width in zip(("float16", "bfloat16", "float32"), widths, strict=True)}  # fmt: skip
    kernels = [kernel(graph, name) for name, graph in graphs.items()]
    for name, uses in nvrtc.compile_cuda(module_source([k.source for k in kernels]), arch).resources.items():
        assert uses.spill_bytes == 0 and uses.stack_bytes == 0 and uses.shared_bytes <= 48 << 10, (name, uses)
        assert uses.registers <= (192 if name.endswith("128") else 152), (name, uses)
    assert all(k.source.count("eqf_copy_async") == 3 for k in kernels if not k.name.startswith("float32"))


@pytest.mark.parametrize("dtype", [np.float16, BF16], ids=str)
def test_a_plan_for_attention_stores_no_matrix_of_all_pairs(dtype: np.dtype) -> None:
    graph = trace(attention, *heads(dtype, 4, 8, 1024, 64))
    plan = ef.extract(ef.saturate(graph), target="cuda:a100")
    assert [k.kind for k in plan.kernels if not k.is_view] == ["back_to_back"]
    strict = ef.extract(ef.saturate(graph, numerics="strict"), target="cuda:a100")
    assert "back_to_back" not in [k.kind for k in strict.kernels]


@pytest.mark.parametrize("between, why", [
    (lambda s: s - np.mean(s, axis=-1, keepdims=True), "maximum and a sum of exponentials"),
    (lambda s: np.square(softmax(s)), "in proportion to the exponentials"),
])  # fmt: skip
def test_rows_that_cannot_be_summed_up_tile_by_tile_are_refused(between: Callable, why: str) -> None:
    graph = trace(lambda q, k, v: between(q @ k) @ v, *heads("f4", 32, 32))
    with pytest.raises(UnsupportedOp, match=why):
        back_to_back_schedule(graph, profile("a100"))
