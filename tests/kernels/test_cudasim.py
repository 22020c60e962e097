"""The CUDA emulator against NumPy: right kernels give NumPy's numbers under every schedule, wrong ones are caught."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.testing import cudasim
from eqfuse.testing.cudasim import CpuRawKernel, CpuRawModule, CudaSimError

pytestmark = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
SEEDS = range(3)

ROW_SOFTMAX = r"""
extern "C" __global__ void __launch_bounds__(128) row_softmax(const float* __restrict__ x, float* y, int columns) {
    __shared__ float part[4];
    const float* row = x + (size_t)blockIdx.x * columns;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float top = -__int_as_float(0x7f800000);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, row[i]);
    for (int step = 16; step; step >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
    if (lane == 0) part[warp] = top;
    __syncthreads();
    top = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    __syncthreads(); // before part is written again
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - top);
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    sum = (part[0] + part[1]) + (part[2] + part[3]);
    y += (size_t)blockIdx.x * columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = expf(row[i] - top) / sum;
}
"""


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def run_softmax(code, seed, name="row_softmax"):
    x = np.random.default_rng(0).standard_normal((6, 333)).astype(np.float32) * 4
    y = np.full_like(x, np.nan)
    CpuRawKernel(code, name)((6,), (128,), (x, y, np.int32(333)), seed=seed)
    return x, y


def test_row_softmax_equals_numpy_with_the_same_bits_under_every_schedule():
    x, first = run_softmax(ROW_SOFTMAX, 0)
    np.testing.assert_allclose(first, softmax(x), rtol=2e-6)
    for seed in SEEDS:
        assert np.array_equal(run_softmax(ROW_SOFTMAX, seed)[1], first)


def test_a_missing_syncthreads_shows_as_wrong_numbers():
    pieces = ROW_SOFTMAX.split("__syncthreads();")
    assert len(pieces) == 4
    texts = []
    for missing in range(1, 4):
        text = "__syncthreads();".join([*pieces[: missing - 1], "".join(pieces[missing - 1 : missing + 1]),
                                        *pieces[missing + 1 :]])  # fmt: skip
        texts.append(text.replace("row_softmax", f"without_{missing}"))
    for missing in range(1, 4):
        results = [run_softmax("".join(texts), seed, f"without_{missing}") for seed in SEEDS]
        assert not all(np.allclose(y, softmax(x), rtol=1e-4) for x, y in results), missing


def test_a_missing_syncwarp_shows_as_poison():
    code = r"""
    extern "C" __global__ void turn(const float* x, float* y) {
        __shared__ float tile[32];
        tile[threadIdx.x] = x[threadIdx.x];
        SYNC
        y[threadIdx.x] = tile[31 - threadIdx.x];
    }"""
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    CpuRawKernel(code.replace("SYNC", ""), "turn")((1,), (32,), (x, y))
    assert np.isnan(y).any()
    CpuRawKernel(code.replace("SYNC", "__syncwarp();"), "turn")((1,), (32,), (x, y))
    assert np.array_equal(y, x[::-1])


def test_a_barrier_not_reached_by_all_threads_is_reported_with_line_and_threads():
    code = 'extern "C" __global__ void f() {\n if (threadIdx.x >= 40) return;\n __syncthreads();\n}'
    with pytest.raises(CudaSimError, match=r"block \(0,0,0\) is stuck: 40 thread\(s\) at __syncthreads on line 3 "
                                           r"\(first: 0\), 24 thread\(s\) exited \(first: 40\)"):  # fmt: skip
        CpuRawKernel(code, "f")((2,), (64,), ())


def test_threads_waiting_at_two_different_barriers_are_reported():
    code = 'extern "C" __global__ void f() {\n if (threadIdx.x < 32)\n __syncthreads();\n else\n __syncthreads();\n}'
    with pytest.raises(CudaSimError, match="waits at different barriers"):
        CpuRawKernel(code, "f")((1,), (64,), ())


UNDEFINED = {
    "__shfl_sync(0xffffu, 1, 0);": "leaves out its caller, lane 16",
    "if (threadIdx.x < 16) __shfl_sync(0xffffu, 1, 20);": "reads lane 20, which mask 0x0000ffff leaves out",
    "if (threadIdx.x < 16) __syncwarp();": "16 thread.s. at a warp operation on line 3 with mask 0xffffffff",
    "assert(threadIdx.x < 7);": r"thread \(7,0,0\): assertion failed",
    "*(float4*)(y + 1) = make_float4(0, 0, 0, 0);": "misaligned",
    "y[1ull << 40] = 0;": "illegal memory address",
    "float own[4]; own[threadIdx.x] = 1; y[0] = own[threadIdx.x / 8];": "index outside a local",
    "y[0] = 2147483600 + (int)threadIdx.x * 2;": "an integer that overflows",
    "y[0] = 1 << (threadIdx.x + 20);": "an integer that overflows",
    "y[0] = (int)(threadIdx.x * 1e9f);": "an integer that overflows",
}  # each on a line of its own
WRONG = "".join(f'extern "C" __global__ void f{i}(float* y) {{ {s} }}\n' for i, s in enumerate(UNDEFINED))


@pytest.mark.parametrize("statement", UNDEFINED)
def test_undefined_behaviour_is_an_error_and_not_a_crash(statement):
    with pytest.raises(CudaSimError, match=UNDEFINED[statement]):
        CpuRawKernel(WRONG, f"f{[*UNDEFINED].index(statement)}")((1,), (32,), (np.zeros(16, np.float32),))


def test_what_is_no_cuda_text_is_refused():
    with pytest.raises(CudaSimError, match="refuses the emitted CUDA text"):
        CpuRawKernel('extern "C" __global__ void f(float* y) { y[0] = *(const float4*)(y + 1) .x; }', "f")


def test_a_kernel_runs_normally_after_one_that_failed():
    test_undefined_behaviour_is_an_error_and_not_a_crash("y[1ull << 40] = 0;")
    x, y = run_softmax(ROW_SOFTMAX, 2)
    np.testing.assert_allclose(y, softmax(x), rtol=2e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_column_sum_by_atomics_and_dynamic_shared_memory(seed):
    code = r"""
    extern "C" __global__ void column_sum(const float* x, float* y, int rows, int columns) {
        EQF_DYN_SHARED(float, part);
        int column = blockIdx.x * 32 + threadIdx.x;
        float sum = 0.0f;
        for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += gridDim.y * blockDim.y)
            if (column < columns) sum += x[(size_t)row * columns + column];
        part[threadIdx.y * 32 + threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && column < columns) {
            for (int i = 1; i < blockDim.y; i++) sum += part[i * 32 + threadIdx.x];
            atomicAdd(&y[column], sum);
        }
    }"""
    x = np.random.default_rng(1).integers(-9, 9, (1000, 70)).astype(np.float32)
    y = np.zeros(70, np.float32)
    arguments = (x, y, np.int32(1000), np.int32(70))
    CpuRawKernel(code, "column_sum")((3, 4), (32, 8), arguments, shared_mem=32 * 8 * 4, seed=seed)
    assert np.array_equal(y, x.sum(0))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_block_finishes_a_sum_in_one_launch(seed):
    code = r"""
    extern "C" __global__ void full_sum(const float* x, float* parts, unsigned* arrived, float* y, int n) {
        __shared__ float part[8];
        __shared__ bool last;
        float sum = 0.0f;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
        for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int i = 1; i < 8; i++) sum += part[i];
            parts[blockIdx.x] = sum;
            __threadfence();
            last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
        }
        __syncthreads();
        if (last && threadIdx.x == 0) {
            float total = 0.0f;
            for (int i = 0; i < gridDim.x; i++) total += parts[i];
            y[0] = total;
        }
    }"""
    x = np.random.default_rng(2).integers(-99, 99, 100_000).astype(np.float32)
    parts, arrived, y = np.full(64, np.nan, np.float32), np.zeros(1, np.uint32), np.full(1, np.nan, np.float32)
    CpuRawKernel(code, "full_sum")((64,), (256,), (x, parts, arrived, y, np.int32(x.size)), seed=seed)
    assert y[0] == x.sum(dtype=np.float64) and arrived[0] == 0


EDGES = [0, -0.0, 1, 65519.9, 65520, 1e-8, 2**-25, 2**-24 * 1.5, 6.1e-5, np.inf, -np.inf, np.nan, 3.4e38]
ANY_BITS = np.random.default_rng(3).integers(0, 2**32, 20_000, np.uint64).astype(np.uint32).view(np.float32)
FLOATS = np.concatenate([np.array(EDGES, np.float32), ANY_BITS])


def test_a_launch_may_read_what_one_before_it_has_written_though_that_was_counted():
    code = 'extern "C" __global__ void copy(const int* x, int* y) { y[blockIdx.x] = x[blockIdx.x]; }'
    copy, x = CpuRawKernel(code, "copy", counted=True), np.arange(5, dtype=np.int32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    copy.traffic((5,), (1,), (x, y))
    copy((5,), (1,), (y, z))
    copy((4,), (1,), (y[1:], z))
    assert z.tolist() == [1, 2, 3, 4, 4]


def convert(word, ctype, source, dtype, call):
    code = f"""#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void convert(const {source}* x, {ctype}* h, float* back, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) {{ h[i] = {call}(x[i]); back[i] = __{word}2float(h[i]); }}
    }}"""
    with np.errstate(invalid="ignore"):
        x = FLOATS.astype(np.float64) * (1 + 2.0**-40) if source == "double" else FLOATS
    h, back = np.zeros(x.size, dtype), np.zeros(x.size, np.float32)
    CpuRawKernel(code, "convert")((-(-x.size // 256),), (256,), (x, h, back, np.int32(x.size)))
    return x, h, back


@pytest.mark.parametrize("source, call", [("float", "__float2half"), ("double", "__double2half")])
def test_half_rounds_once_to_nearest_even_as_numpy_does(source, call):
    x, h, back = convert("half", "__half", source, np.float16, call)
    with np.errstate(over="ignore", invalid="ignore"):
        want = x.astype(np.float16)
    assert np.array_equal(h, want, equal_nan=True) and np.array_equal(np.signbit(h[:2]), [False, True])
    assert np.array_equal(back, want.astype(np.float32), equal_nan=True)


def test_bfloat16_rounds_to_nearest_even_as_ml_dtypes_does():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, _, back = convert("bfloat16", "__nv_bfloat16", "float", np.uint16, "__float2bfloat16")
    with np.errstate(invalid="ignore"):
        want = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(back, want, equal_nan=True)


def test_16_byte_vectors_structs_and_every_kind_of_argument_arrive():
    code = r"""
    struct Division { unsigned divisor, factor, shift; };
    extern "C" __global__ void f(const float4* x, float4* y, Division d, long long offset, double scale, bool negate,
                                 const int* absent) {
        float4 v = x[threadIdx.x + offset];
        float k = scale * (__umulhi(d.divisor, d.factor) >> d.shift) * (negate ? -1 : 1) + (absent ? 1 : 0);
        y[threadIdx.x] = make_float4(v.w * k, v.z * k, v.y * k, v.x * k);
    }"""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.zeros((2, 4), np.float32)
    division = np.array([(21, 1 << 31, 0)], dtype=[("divisor", "u4"), ("factor", "u4"), ("shift", "u4")])[0]
    CpuRawModule(code).get_function("f")((1,), (2,), (x, y, division, 1, 0.5, True, None))
    assert np.array_equal(y, x[1:, ::-1] * -5)


def test_a_view_is_passed_as_its_first_element_and_an_empty_grid_runs_one_block_as_in_cupy():
    code = 'extern "C" __global__ void f(float* y) { y[0] += 1; }'
    y = np.zeros((2, 3), np.float32)
    CpuRawKernel(code, "f")((0,), (1,), (y[1, 2:],))
    assert y[1, 2] == 1 and y.sum() == 1


@pytest.mark.parametrize(
    "args, message",
    [
        ((), "takes 2 arguments, 0 given"),
        ((np.zeros(1, np.float32), 1.0), r"argument 1 is a float \(f8\), the kernel's parameter is f4"),
        ((np.float32(1), np.float32(1)), "argument 0 is a float32"),
        ((np.zeros(1, np.float32), np.int32(1)), r"argument 1 is a int32 \(i4\)"),
    ],
)
def test_an_argument_the_kernel_would_misread_is_refused(args, message):
    kernel = CpuRawKernel('extern "C" __global__ void f(float* y, float v) { y[0] = v; }', "f")
    with pytest.raises(CudaSimError, match=message):
        kernel((1,), (1,), args)


def test_launch_limits_of_a_gpu_are_kept():
    kernel = CpuRawKernel('extern "C" __global__ void f() {}', "f")
    with pytest.raises(CudaSimError, match="too large"):
        kernel((1,), (1025,), ())
    with pytest.raises(CudaSimError, match="too large"):
        kernel((1, 70_000), (1,), ())
    with pytest.raises(CudaSimError, match="max_dynamic_shared_size_bytes is 49152"):
        kernel((1,), (1,), (), shared_mem=50_000)
    kernel.max_dynamic_shared_size_bytes = 100_000
    kernel((1,), (1,), (), shared_mem=50_000)


def test_names_that_nvrtc_lacks_are_refused_and_unknown_kernels_are_named():
    with pytest.raises(CudaSimError, match="INFINITY"):
        CpuRawKernel('extern "C" __global__ void f(float* y) { y[0] = INFINITY; }', "f")
    with pytest.raises(CudaSimError, match=r"no kernel 'g' in this source; it has \['f'\]"):
        CpuRawKernel('extern "C" __global__ void f() {} // extern "C" __global__ void h()', "g")


def test_ballots_votes_and_reductions_of_a_warp():
    code = r"""
    extern "C" __global__ void f(int* y) {
        int lane = threadIdx.x % 32, t = threadIdx.x;
        y[t * 8 + 0] = __ballot_sync(0xffffffffu, lane % 3 == 0);
        y[t * 8 + 1] = __any_sync(0xffffffffu, lane == 5) + 2 * __all_sync(0xffffffffu, lane < 31);
        y[t * 8 + 2] = __reduce_add_sync(0xffffffffu, lane) + 1000 * __reduce_max_sync(0xffffffffu, lane);
        y[t * 8 + 3] = __shfl_up_sync(0xffffffffu, lane, 3, 8);
        y[t * 8 + 4] = __shfl_down_sync(0xffffffffu, lane, 3, 8);
        y[t * 8 + 5] = __shfl_sync(0xffffffffu, lane, 9, 8);
        y[t * 8 + 6] = __syncthreads_count(t % 2) + 100 * __syncthreads_or(t == 40) + 1000 * __syncthreads_and(t < 63);
        y[t * 8 + 7] = __popc(t) + __clz(t);
    }"""
    y = np.zeros((64, 8), np.int32)
    CpuRawKernel(code, "f")((1,), (64,), (y,), seed=3)
    t, lane = np.arange(64), np.arange(64) % 32
    assert (y[:, 0].view(np.uint32) == sum(1 << i for i in range(0, 32, 3))).all()
    assert (y[:, 1] == 1).all() and (y[:, 2] == 31 * 16 + 31_000).all()
    assert np.array_equal(y[:, 3], np.where(lane % 8 < 3, lane, lane - 3))
    assert np.array_equal(y[:, 4], np.where(lane % 8 > 4, lane, lane + 3))
    assert np.array_equal(y[:, 5], lane // 8 * 8 + 1) and (y[:, 6] == 132).all()
    assert np.array_equal(y[:, 7], [bin(i).count("1") + 32 - int(i).bit_length() for i in t])


@pytest.mark.slow
def test_compiled_kernels_are_kept_in_the_directory_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    CpuRawKernel('extern "C" __global__ void only_here() {}', "only_here")
    kept = sorted(path.suffix for path in (tmp_path / "cudasim").iterdir())
    assert kept == [".gch", ".hpp", ".o", ".so"]
