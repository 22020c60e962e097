extern "C" __global__ void __launch_bounds__(64, 2) contract_40a64f26be5f(
    const float* __restrict__ r0,
    const float* __restrict__ r1,
    const float* __restrict__ r2,
    float k0,
    float* __restrict__ w0) {
    const int tile = blockIdx.x % 6, band = tile / 24 * 8;
    const int high = min(2 - band, 8), within = tile % 24;
    const int row = (band + within % high) * 32;
    const int column = within / high * 32;
    __shared__ __align__(16) float a[2][16][36];
    __shared__ __align__(16) float b[2][16][36];
    const int right = threadIdx.x % 8, down = threadIdx.x / 8;
    float sums[4][4] = {};
    Vec<float, 4> next_a[2];
    Vec<float, 4> next_b[2];
    for (int step = -1, ahead = 0; step * 16 < 36; step++, ahead += 16) {
        const int now = step & 1;
        if (ahead < 36) {
            #pragma unroll
            for (int u = 0; u < 2; u++) {
                const int slow = threadIdx.x / 4 + u * 16, fast = threadIdx.x % 4 * 4;
                next_a[u] = {};
                const int m = row + slow, k_ = ahead + fast;
                if ((m < 40) & (k_ < 36)) {
                    const int i_ = m * 36 + k_;
                    const Vec<float, 4> r0v = *(const Vec<float, 4>*)(r0 + i_);
                    #pragma unroll
                    for (int v = 0; v < 4; v++) {
                        const int k = k_ + v, i = i_ + v;
                        float t0 = r0v.v[v];
                        next_a[u].v[v] = t0;
                    }
                }
            }
            #pragma unroll
            for (int u = 0; u < 2; u++) {
                const int slow = threadIdx.x / 8 + u * 8, fast = threadIdx.x % 8 * 4;
                next_b[u] = {};
                const int k = ahead + slow, n_ = column + fast;
                if ((k < 36) & (n_ < 72)) {
                    const int i_ = k * 72 + n_;
                    const Vec<float, 4> r1v = *(const Vec<float, 4>*)(r1 + i_);
                    #pragma unroll
                    for (int v = 0; v < 4; v++) {
                        const int n = n_ + v, i = i_ + v;
                        float t1 = r1v.v[v];
                        next_b[u].v[v] = t1;
                    }
                }
            }
        }
        if (step >= 0) {
            #pragma unroll
            for (int k = 0; k < 16; k++) {
                Vec<float, 4> x[1], y[1];
                #pragma unroll
                for (int j = 0; j < 1; j++) x[j] = *(const Vec<float, 4>*)&a[now][k][(j * 8 + down) * 4];
                #pragma unroll
                for (int j = 0; j < 1; j++) y[j] = *(const Vec<float, 4>*)&b[now][k][(j * 8 + right) * 4];
                #pragma unroll
                for (int j = 0; j < 4; j++)
                    #pragma unroll
                    for (int l = 0; l < 4; l++) sums[j][l] = fma(x[j / 4].v[j % 4], y[l / 4].v[l % 4], sums[j][l]);
            }
        }
        if (ahead < 36) {
            #pragma unroll
            for (int u = 0; u < 2; u++) {
                const int slow = threadIdx.x / 4 + u * 16, fast = threadIdx.x % 4 * 4;
                #pragma unroll
                for (int v = 0; v < 4; v++) a[now ^ 1][fast + v][slow] = next_a[u].v[v];
            }
            #pragma unroll
            for (int u = 0; u < 2; u++) {
                const int slow = threadIdx.x / 8 + u * 8, fast = threadIdx.x % 8 * 4;
                *(Vec<float, 4>*)&b[now ^ 1][slow][fast] = next_b[u];
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int a = 0; a < 4; a++) {
        const int m = row + (a / 4 * 8 + down) * 4 + a % 4;
        #pragma unroll
        for (int b = 0; b < 1; b++) {
            const int n_ = column + (b * 8 + right) * 4;
            if (m < 40 && n_ < 72) {
                Vec<float, 4> w0v;
                const int i_ = m * 72 + n_;
                const Vec<float, 4> r2v = *(const Vec<float, 4>*)(r2 + n_);
                #pragma unroll
                for (int v = 0; v < 4; v++) {
                    const int n = n_ + v, i = i_ + v;
                    const float sum = sums[a][b * 4 + v];
                    float t2 = r2v.v[v];
                    float t3 = sum + t2;
                    float t4 = eqf_max<float>(t3, k0);
                    w0v.v[v] = t4;
                }
                *(Vec<float, 4>*)(w0 + i_) = w0v;
            }
        }
    }
}
