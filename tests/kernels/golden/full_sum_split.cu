extern "C" __global__ void __launch_bounds__(1024, 1) reduce_13448642c8ac(
    const float* __restrict__ r0,
    float* __restrict__ w0,
    float* parts0,
    unsigned* arrived) {
    const int row_or_more = (int)blockIdx.x;
    const bool live = row_or_more < 1;
    const int row = live ? row_or_more : 0;  // spare threads write nothing
    const int first = (int)blockIdx.y * 8336;
    const int end = min(first + 8336, (int)100000);
    const int lane = threadIdx.x;
    __shared__ unsigned shared[32];
    float a0_0 = (float)0;
    #pragma unroll
    for (int k = 0; k < 2; k++) {
        const int col_ = first + (k * 1024 + lane) * 4;
        const Vec<float, 4> r0v = *(const Vec<float, 4>*)(r0 + col_);
        #pragma unroll
        for (int v = 0; v < 4; v++) {
            const int col = col_ + v;
            float t0 = r0v.v[v];
            a0_0 = a0_0 + t0;
        }
    }
    #pragma unroll
    for (int k = 2; k < 3; k++) {
        const int col_ = first + (k * 1024 + lane) * 4;
        if (col_ < end) {
            const Vec<float, 4> r0v = *(const Vec<float, 4>*)(r0 + col_);
            #pragma unroll
            for (int v = 0; v < 4; v++) {
                const int col = col_ + v;
                float t0 = r0v.v[v];
                a0_0 = a0_0 + t0;
            }
        }
    }
    for (int step = 16; step; step >>= 1) { float b = __shfl_xor_sync(0xffffffffu, a0_0, step); a0_0 = a0_0 + b; }
    { float* all = (float*)shared;
      if (lane % 32 == 0) all[lane / 32] = a0_0;
      __syncthreads();
      a0_0 = all[lane % 32];
      for (int step = 16; step; step >>= 1) { float b = __shfl_xor_sync(0xffffffffu, a0_0, step); a0_0 = a0_0 + b; }
      __syncthreads(); }
    if (live && lane == 0) {
        *(float*)(parts0 + ((size_t)blockIdx.y * 1 + row)) = a0_0;
    }
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        __threadfence();
        last = atomicInc(&arrived[blockIdx.x], 11u) == 11u;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    a0_0 = (float)0;
    #pragma unroll 4
    for (int j = lane; j < 12; j += 1024) {
        const float p0 = eqf_fetch((float*)(parts0 + ((size_t)j * 1 + row)));
        a0_0 = a0_0 + p0;
    }
    for (int step = 16; step; step >>= 1) { float b = __shfl_xor_sync(0xffffffffu, a0_0, step); a0_0 = a0_0 + b; }
    { float* all = (float*)shared;
      if (lane % 32 == 0) all[lane / 32] = a0_0;
      __syncthreads();
      a0_0 = all[lane % 32];
      for (int step = 16; step; step >>= 1) { float b = __shfl_xor_sync(0xffffffffu, a0_0, step); a0_0 = a0_0 + b; }
      __syncthreads(); }
    if (live && lane == 0) w0[0] = a0_0;
}
