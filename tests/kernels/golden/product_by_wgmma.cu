extern "C" __global__ void __launch_bounds__(256, 2) contract_90e27c16e037(
    const __half* __restrict__ r0,
    const __half* __restrict__ r1,
    const __half* __restrict__ r2,
    float k0,
    __half* __restrict__ w0) {
    const int tile = blockIdx.x % 6, band = tile / 24 * 8;
    const int high = min(2 - band, 8), within = tile % 24;
    const int row = (band + within % high) * 128;
    const int column = within / high * 128;
    EQF_DYN_SHARED(unsigned char, buffers);
    __half* const a = (__half*)(buffers + (-eqf_shared_address(buffers) & 1023));
    __half* const b = a + 24576;
    const int lane = threadIdx.x % 32, right = threadIdx.x / 128 % 1 * 128, down = threadIdx.x / 128 * 64;
    float sums[64] = {};
    for (int step = -2, ahead = 0; step * 64 < 136; step++, ahead += 64) {
        const int now = (step + 3) % 3, next = (step + 2) % 3;
        if (step >= 0) {
            const unsigned long long x = eqf_matrix<1>(a + now * 8192 + down * 64), y = eqf_matrix<512>(b + now * 8192 + right * 64);
            eqf_wgmma_fence();
            #pragma unroll
            for (int k = 0; k < 4; k++) eqf_wgmma<__half, 0, 1>(sums, x + k * 2, y + k * 128);
            eqf_wgmma_commit();
        }
        if (ahead < 136) {
            #pragma unroll
            for (int u = 0; u < 4; u++) {
                const int slow = threadIdx.x / 8 + u * 32, fast = threadIdx.x % 8 * 8;
                const int m = row + slow, k_ = ahead + fast;
                eqf_copy_async(&a[next * 8192 + eqf_swizzled<128>(slow, fast)], r0 + m * 136 + k_, (m < 200) & (k_ < 136));
            }
            #pragma unroll
            for (int u = 0; u < 4; u++) {
                const int slow = threadIdx.x / 16 + u * 16, fast = threadIdx.x % 16 * 8;
                const int k = ahead + slow, n_ = column + fast;
                eqf_copy_async(&b[next * 8192 + eqf_swizzled<64>(slow, fast)], r1 + k * 264 + n_, (k < 136) & (n_ < 264));
            }
        }
        eqf_commit();
        eqf_wait<1>();
        eqf_publish();
        eqf_wgmma_wait<0>(sums);
        __syncthreads();
    }
    #pragma unroll
    for (int a = 0; a < 2; a++) {
        const int m = row + down + threadIdx.x / 32 % 4 * 16 + a * 8 + lane / 4;
        #pragma unroll
        for (int b = 0; b < 16; b++) {
            const int n_ = column + right + b * 8 + lane % 4 * 2;
            if (m < 200 && n_ < 264) {
                Vec<__half, 2> w0v;
                const int i_ = m * 264 + n_;
                const Vec<__half, 2> r2v = *(const Vec<__half, 2>*)(r2 + n_);
                #pragma unroll
                for (int v = 0; v < 2; v++) {
                    const int n = n_ + v, i = i_ + v;
                    const float sum = __half2float(__float2half_rn(sums[b * 4 + a * 2 + v]));
                    float t0 = __half2float(r2v.v[v]);
                    float t1 = __half2float(__float2half_rn(sum + t0));
                    w0v.v[v] = __float2half_rn(eqf_max<float>(t1, k0));
                }
                *(Vec<__half, 2>*)(w0 + i_) = w0v;
            }
        }
    }
}
