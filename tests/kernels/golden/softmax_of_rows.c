static void row_7ae0d99ef033_chunk(void *const *arrays, long long chunk) {
    const float *restrict r0 = arrays[0];
    float *restrict w0 = arrays[1];
    const long first = chunk * 38, last = first + 38 < 300 ? first + 38 : 300;
    for (long i = first; i < last; i++) {
        float h0[1000];
        int a0_nan = 0;
        float a0 = -__builtin_inff();
        #pragma omp simd reduction(max : a0) reduction(| : a0_nan)
        for (long j = 0; j < 1000; j++) {
            const float t0 = r0[1000 * i + j];
            a0 = t0 > a0 ? t0 : a0;
            a0_nan |= t0 != t0;
        }
        a0 = a0_nan ? __builtin_nanf("") : a0;
        float a1_sums[64];
        long runs1 = 0;
        for (long run = 0; run < 1000; run += 512) {
            const long end = run + 512 < 1000 ? run + 512 : 1000;
            float a1_run = 0;
            #pragma omp simd reduction(+ : a1_run)
            for (long j = run; j < end; j++) {
                const float t1 = r0[1000 * i + j];
                const float t2 = t1 - a0;
                const float t3 = eqf_exp_f32(t2);
                h0[j] = t3;
                a1_run = a1_run + t3;
            }
            eqf_push_f32(a1_sums, runs1, a1_run);
            runs1++;
        }
        float a1 = eqf_total_f32(a1_sums, runs1);
        #pragma omp simd
        for (long j = 0; j < 1000; j++) {
            const float t4 = h0[j];
            const float t5 = t4 / a1;
            w0[1000 * i + j] = t5;
        }
    }
}
void *row_7ae0d99ef033(void *self, const Array *const *given, __PTRDIFF_TYPE__ count) {
    void *const arrays[] = {given[0]->data, given[1]->data};
    void *const python = eqf_python.release();
    eqf_run(row_7ae0d99ef033_chunk, arrays, 8, 4);
    eqf_python.resume(python);
    return eqf_none();
}
