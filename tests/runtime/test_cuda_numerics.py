"""Programs for a GPU compute what NumPy does: complex numbers, axes of no element, strict numerics to the last bit."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import node
from eqfuse.machine import nvrtc
from eqfuse.machine.gpu import CupyGpu
from tests.runtime.test_cuda_program import GPU, ROWS, compiled, emulated, judge, leaves, one_kernel, planned
from tests.support.gpu import program_on
from tests.support.kernels import read
from tests.support.some import some


@emulated
def test_complex_numbers_are_computed_inside_cuda_functions_where_their_tables_reach():
    plan, _ = planned("complex numbers")
    source = program_on(plan, GPU).source()
    assert source.count("eqf_complex<float>* __restrict__") > 1 and "eqf_exp(" in source
    beyond = ef.compile(lambda z: np.sqrt(z) + np.maximum(z, 1j), ROWS.astype(np.complex64), target="cuda:h100")
    assert "cupy.sqrt(" in beyond.source() and "cupy.maximum(" in beyond.source()


@emulated
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_arithmetic_of_extremes_is_numpys(dtype):
    values = [0, -0.0, 1, -2.5, np.inf, -np.inf, np.nan, 1e-30, 1e30]
    parts = np.array([(a, b) for a in values for b in values])
    z = (parts[:, 0] + 0j).astype(dtype)
    z.imag = parts[:, 1]
    x, y = read(0, (81, 1), dtype), read(1, (81,), dtype)
    plan = one_kernel("map", *(node(op, (x, y)) for op in ("add", "subtract", "divide", "equal", "not_equal")),
                      node("where", (node("isfinite", (x,)), y, x)))  # fmt: skip
    with np.errstate(all="ignore"):
        wanted = ef.meaning(plan.graph, z[:, None], z)
    for got, want in zip(program_on(plan, GPU).run([z[:, None], z]), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def of_every_kind(x: Any) -> Any:
    """Work whose kernels are maps, rows, reductions, products, views and library calls."""
    e = np.exp(x - 1)
    shares = e / (e.sum(axis=-1, keepdims=True) + 1)
    columns = shares.sum(axis=0) * 2
    joined = np.concatenate([shares @ np.swapaxes(x, -1, -2) + 1, np.pad(x[..., :1], ((0, 0), (1, 1)))], axis=-1)
    return joined, columns, np.cumsum(x, axis=-1), np.sort(x, axis=0), shares[:, ::-1].T, x.mean(), x.reshape(-1) * 2


@emulated
@pytest.mark.parametrize("shape", some([(0, 3), (3, 0), (0, 0), (1, 4), (1, 1), (4, 1)], 3), ids=str)
def test_a_program_over_axes_of_no_or_one_element_agrees_with_numpy(shape):
    x = np.ones(shape, np.float32)
    plan = ef.extract(ef.saturate(ef.trace(of_every_kind, x)), target="cuda:h100")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing
        judge(program_on(plan, GPU)(x), plan, (x,))


def rounded_often(x: Any) -> Any:
    shifted = x / 3 - (x / 3).max(axis=-1, keepdims=True)
    return shifted * 0.1 / (x.sum(axis=-1, keepdims=True) * 0.3 + 7), (x * 0.1 + 0.7).max(axis=0) / 3


def with_a_product(x: Any) -> Any:
    return (x[:, :20] @ x[:20, 1:]) * 0.1 + x[:, :1] / 3


@emulated
@pytest.mark.parametrize("case", some([
    (rounded_often, np.float16), (rounded_often, ml_dtypes.bfloat16), (with_a_product, np.float16),
    (with_a_product, np.float32), (rounded_often, np.float32),
], 2), ids=lambda case: f"{case[0].__name__}-{np.dtype(case[1])}")  # fmt: skip
@pytest.mark.parametrize("options", [{"numerics": "strict"}, {"laws": "none"}])
def test_a_program_as_it_was_written_has_numpys_bits_in_kernels_of_every_kind(case, options):
    function, dtype = case
    x = np.round(ROWS[:, :21]).astype(dtype)  # sums are exact in any order
    program = ef.compile(function, x, target="cuda:h100", **options)
    assert {k.kind for k in program.plan.kernels} & {"row", "reduce", "contract"}
    on_emulator = program_on(program.plan, GPU)
    for got, want in zip(leaves(on_emulator(x)), leaves(function(x)), strict=True):
        assert got.tobytes() == want.tobytes()


@compiled
def test_cupy_is_given_functions_compiled_that_are_strict_or_for_one_architecture_and_others_as_text():
    given: list[Any] = []
    capability = SimpleNamespace(compute_capability="90")
    cuda = SimpleNamespace(Device=lambda: capability, Module=lambda: SimpleNamespace(load=given.append))
    gpu = CupyGpu(SimpleNamespace(cuda=cuda, RawModule=lambda **options: given.append(options)), None)  # type: ignore[arg-type]
    source = 'extern "C" __global__ void f(float* y) { y[0] = y[1] * y[2] + y[3]; }'
    gpu.module(source, strict=True)
    gpu.module(source, strict=False)
    gpu.module(source, strict=False, specific=True)
    gpu.module(source, strict=True, specific=True)
    cubin, options, *specific = given
    assert cubin == nvrtc.compile_cuda(source, "sm_90", nvrtc.STRICT).cubin
    assert specific == [nvrtc.compile_cuda(source, "sm_90a", flags).cubin for flags in (nvrtc.FAST, nvrtc.STRICT)]
    assert options == {"code": source, "options": ("-std=c++17", "-fmad=false")}


@pytest.mark.parametrize("raw", [False, True])
def test_cupy_is_told_how_much_shared_memory_blocks_are_given(raw: bool) -> None:
    told, launched = list[tuple[int, ...]](), list[Any]()

    class Function:
        ptr = 7

        def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
            launched.append((grid, block, args, shared_mem))

    names = {"CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": 8, "funcSetAttribute": lambda *a: told.append(a)}
    driver = SimpleNamespace(**names)
    gpu = CupyGpu(SimpleNamespace(cuda=SimpleNamespace(driver=driver)), None)  # type: ignore[arg-type]
    function = SimpleNamespace(kernel=Function()) if raw else Function()
    module = SimpleNamespace(get_function=lambda name: function)
    for size in (0, 100_000):
        gpu.function(module, "f", size)((3,), (32,), ())
    assert told == [(7, 8, 100_000)]
    assert launched == [((3,), (32,), (), 0), ((3,), (32,), (), 100_000)]


def test_a_plan_keeps_its_numerics_where_it_is_kept(tmp_path):
    x = ef.spec((8, 4), np.float16)
    for numerics in ("strict", "reassociate", "approximate"):
        for _ in range(2):  # the second comes from the cache
            program = ef.compile(lambda a: np.sqrt(a * a + 1), x, target="cuda:h100", numerics=numerics)
            assert program.plan.numerics == numerics
        program.save(tmp_path / "program")
        assert ef.load(tmp_path / "program").source() == program.source()
        space = ef.saturate(program.plan.graph, numerics=numerics)
        space.save(tmp_path / "space", target="cuda:h100")
        assert ef.extract(ef.load_space(tmp_path / "space"), target="cuda:h100").numerics == numerics


def test_float8_is_refused_on_a_gpu_by_name():
    x = read(0, (3,), ml_dtypes.float8_e5m2)
    for kind, output in (("map", node("exp", (x,))), ("library", node("cumsum", (x,), (-1,)))):
        with pytest.raises(UnsupportedOp, match="no float8_e5m2"):
            program_on(one_kernel(kind, output))
