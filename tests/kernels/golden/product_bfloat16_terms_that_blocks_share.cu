extern "C" __global__ void __launch_bounds__(128, 4) contract_dff9948cd50d(
    const __nv_bfloat16* __restrict__ r0,
    const __nv_bfloat16* __restrict__ r1,
    const __nv_bfloat16* __restrict__ r2,
    float k0,
    float* __restrict__ w0,
    __nv_bfloat16* __restrict__ w1,
    float* parts0,
    unsigned* arrived) {
    const int tile = blockIdx.x % 2, band = tile / 16 * 8;
    const int high = min(1 - band, 8), within = tile % 16;
    const int row = (band + within % high) * 64;
    const int column = within / high * 64;
    int part = blockIdx.y;
    const int begin = part * 128, end = min(begin + 128, 1000);
    __shared__ __align__(16) __nv_bfloat16 a[2][64][40];
    __shared__ __align__(16) __nv_bfloat16 b[2][32][72];
    const int lane = threadIdx.x % 32, right = threadIdx.x / 32 % 2 * 32, down = threadIdx.x / 64 * 32;
    float sums[2][4][4] = {};
    Vec<__nv_bfloat16, 8> next_a[2];
    for (int step = -1, ahead = begin; begin + step * 32 < end; step++, ahead += 32) {
        const int now = step & 1;
        if (ahead < end) {
            #pragma unroll
            for (int u = 0; u < 2; u++) {
                const int slow = threadIdx.x / 4 + u * 32, fast = threadIdx.x % 4 * 8;
                next_a[u] = {};
                const int m = row + slow, k_ = ahead + fast;
                if ((m < 34) & (k_ < 1000)) {
                    const int i_ = m * 1000 + k_;
                    const Vec<__nv_bfloat16, 8> r0v = *(const Vec<__nv_bfloat16, 8>*)(r0 + i_);
                    #pragma unroll
                    for (int v = 0; v < 8; v++) {
                        const int k = k_ + v, i = i_ + v;
                        float t0 = __bfloat162float(r0v.v[v]);
                        next_a[u].v[v] = __float2bfloat16_rn(eqf_max<float>(t0, k0));
                    }
                }
            }
            #pragma unroll
            for (int u = 0; u < 2; u++) {
                const int slow = threadIdx.x / 8 + u * 16, fast = threadIdx.x % 8 * 8;
                const int k = ahead + slow, n_ = column + fast;
                eqf_copy_async(&b[now ^ 1][slow][fast], r1 + k * 72 + n_, (k < 1000) & (n_ < 72));
            }
            eqf_commit();
        }
        if (step >= 0) {
            #pragma unroll
            for (int k = 0; k < 32; k += 16) {
                unsigned x[2][4], y[2][4];
                #pragma unroll
                for (int j = 0; j < 2; j++) eqf_ldmatrix<false>(x[j], &a[now][down + j * 16 + lane % 16][k + lane / 16 * 8]);
                #pragma unroll
                for (int j = 0; j < 2; j++) eqf_ldmatrix<true>(y[j], &b[now][k + lane % 16][right + j * 16 + lane / 16 * 8]);
                #pragma unroll
                for (int j = 0; j < 2; j++)
                    #pragma unroll
                    for (int l = 0; l < 4; l++) eqf_mma<__nv_bfloat16>(sums[j][l], x[j], &y[l / 2][l % 2 * 2]);
            }
        }
        if (ahead < end) {
            #pragma unroll
            for (int u = 0; u < 2; u++) {
                const int slow = threadIdx.x / 4 + u * 32, fast = threadIdx.x % 4 * 8;
                *(Vec<__nv_bfloat16, 8>*)&a[now ^ 1][slow][fast] = next_a[u];
            }
        }
        eqf_wait<0>();
        __syncthreads();
    }
    #pragma unroll
    for (int a = 0; a < 4; a++)
        #pragma unroll
        for (int b = 0; b < 4; b++) {
            Vec<float, 2> left;
            #pragma unroll
            for (int v = 0; v < 2; v++) left.v[v] = sums[a / 2][b][a % 2 * 2 + v];
            *((Vec<float, 2>*)parts0 + (((size_t)part * 2 + blockIdx.x) * 16 + a * 4 + b) * 128 + threadIdx.x) = left;
        }
    part /= 8;
    const unsigned others0 = 7u;
    __shared__ bool last0;
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        __threadfence();
        last0 = atomicInc(&arrived[part * 2 + blockIdx.x], others0) == others0;
        __threadfence();
    }
    __syncthreads();
    if (!last0) return;
    #pragma unroll
    for (int a = 0; a < 4; a++)
        #pragma unroll
        for (int b = 0; b < 4; b++) {
            #pragma unroll
            for (int v = 0; v < 2; v++) sums[a / 2][b][a % 2 * 2 + v] = 0;
        }
    #pragma unroll
    for (int top = 0; top < 4; top += 4)
        #pragma unroll 2
        for (int j = 0; j <= others0; j++)
            #pragma unroll
            for (int a = top; a < top + 4; a++)
                #pragma unroll
                for (int b = 0; b < 4; b++) {
                    const Vec<float, 2> left = eqf_fetch(((Vec<float, 2>*)parts0 + (((size_t)(part * 8 + j) * 2 + blockIdx.x) * 16 + a * 4 + b) * 128 + threadIdx.x));
                    #pragma unroll
                    for (int v = 0; v < 2; v++) sums[a / 2][b][a % 2 * 2 + v] += left.v[v];
                }
    #pragma unroll
    for (int a = 0; a < 4; a++) {
        const int m = row + down + a * 8 + lane / 4;
        #pragma unroll
        for (int b = 0; b < 4; b++) {
            const int n_ = column + right + b * 8 + lane % 4 * 2;
            if (m < 34 && n_ < 72) {
                Vec<float, 2> w0v;
                Vec<__nv_bfloat16, 2> w1v;
                const int i_ = m * 72 + n_;
                const Vec<__nv_bfloat16, 2> r2v = *(const Vec<__nv_bfloat16, 2>*)(r2 + n_);
                #pragma unroll
                for (int v = 0; v < 2; v++) {
                    const int n = n_ + v, i = i_ + v;
                    const float sum = sums[a / 2][b][a % 2 * 2 + v];
                    float t1 = __bfloat162float(r2v.v[v]);
                    float t2 = (float)t1;
                    float t3 = sum + t2;
                    w0v.v[v] = t3;
                    w1v.v[v] = __float2bfloat16_rn((float)t3);
                }
                *(Vec<float, 2>*)(w0 + i_) = w0v;
                *(Vec<__nv_bfloat16, 2>*)(w1 + i_) = w1v;
            }
        }
    }
}
