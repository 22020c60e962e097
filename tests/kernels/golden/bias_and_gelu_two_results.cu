extern "C" __global__ void __launch_bounds__(256, 6) map_ebafea1a4217(
    const float* __restrict__ r0,
    const float* __restrict__ r1,
    float k0,
    float k1,
    float k2,
    float* __restrict__ w0,
    float* __restrict__ w1) {
    for (int g = (int)blockIdx.x * 256 + threadIdx.x; g < 1536; g += (int)gridDim.x * 256) {
        const int i_ = g * 4, row = i_ / 96, col_ = i_ % 96;
        const Vec<float, 4> r0v = *(const Vec<float, 4>*)(r0 + i_);
        const Vec<float, 4> r1v = *(const Vec<float, 4>*)(r1 + col_);
        Vec<float, 4> w0v;
        Vec<float, 4> w1v;
        #pragma unroll
        for (int v = 0; v < 4; v++) {
            const int i = i_ + v, col = col_ + v;
            float t0 = r0v.v[v];
            float t1 = r1v.v[v];
            float t2 = t0 + t1;
            float t3 = t2 * k0;
            float t4 = t2 * k2;
            float t5 = erff(t4);
            float t6 = k1 + t5;
            float t7 = t3 * t6;
            w0v.v[v] = t2;
            w1v.v[v] = t7;
        }
        *(Vec<float, 4>*)(w0 + i_) = w0v;
        *(Vec<float, 4>*)(w1 + i_) = w1v;
    }
}
