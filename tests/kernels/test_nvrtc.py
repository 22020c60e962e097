"""NVRTC compiles hand-written kernels for two architectures without a GPU, and says what they use."""

from __future__ import annotations

import pytest

from eqfuse.machine import nvrtc

ROW_SOFTMAX = r"""
extern "C" __global__ void __launch_bounds__(256) row_softmax(const float4* __restrict__ x, float4* __restrict__ y) {
    __shared__ float part[8];
    float4 v[4];
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        float4 r = x[(size_t)blockIdx.x * 1024 + i * 256 + threadIdx.x];
        v[i] = make_float4(__expf(r.x), __expf(r.y), __expf(r.z), __expf(r.w));
        sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    }
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < 8; i++) sum += part[i];
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        float4 e = v[i];
        y[(size_t)blockIdx.x * 1024 + i * 256 + threadIdx.x] = make_float4(e.x / sum, e.y / sum, e.z / sum, e.w / sum);
    }
}
"""

pytestmark = pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_row_softmax_compiles_without_spilling_a_register(arch):
    compiled = nvrtc.compile_cuda(ROW_SOFTMAX, arch)
    uses = compiled.resources["row_softmax"]
    assert compiled.cubin.startswith(b"\x7fELF")
    assert uses.spill_bytes == 0 and uses.stack_bytes == 0 and uses.shared_bytes >= 16
    assert 0 < uses.registers <= 64


def test_every_kernel_of_a_module_is_reported_and_16_bit_headers_are_found():
    code = """#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void first(const __half* x, float* y) { y[0] = __half2float(x[0]); }
    extern "C" __global__ void second(const __nv_bfloat16* x, float* y) { y[0] = __bfloat162float(x[0]); }
    """
    assert set(nvrtc.compile_cuda(code, "sm_80").resources) == {"first", "second"}


def test_spilled_registers_are_counted():
    code = """extern "C" __global__ void __launch_bounds__(1024) heavy(float* y) {
        float v[96];
        for (int i = 0; i < 96; i++) v[i] = y[i * 1024 + threadIdx.x];
        for (int k = 0; k < 16; k++) for (int i = 0; i < 96; i++) v[i] = v[i] * v[(i * 7 + k) % 96] + 1.0f;
        for (int i = 0; i < 96; i++) y[i * 1024 + threadIdx.x] = v[i];
    }"""
    uses = nvrtc.compile_cuda(code.replace("for (", '_Pragma("unroll") for ('), "sm_90").resources["heavy"]
    assert uses.spill_bytes > 0


def test_a_refused_source_is_an_error_that_carries_the_log():
    with pytest.raises(nvrtc.NvrtcError, match="INFINITY"):
        nvrtc.compile_cuda('extern "C" __global__ void f(float* y) { y[0] = INFINITY; }', "sm_90")


def test_what_nvrtc_has_kept_is_compiled_anew_as_it_keeps_no_report(monkeypatch):
    compiled = nvrtc._compiled

    def kept(program, options):
        log = compiled(program, options)
        return log if "--no-cache" in options else ""

    monkeypatch.setattr(nvrtc, "_compiled", kept)
    assert nvrtc.compile_cuda(ROW_SOFTMAX, "sm_90").resources["row_softmax"].registers > 0
    assert not nvrtc.compile_cuda("__device__ int f() { return 1; }", "sm_90").resources
