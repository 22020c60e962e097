static void row_61907fdaaf97_chunk(void *const *arrays, long long chunk) {
    const float *restrict r0 = arrays[0];
    float *restrict w0 = arrays[1];
    const long first = chunk * 2, last = first + 2;
    for (long unit = first; unit < last; unit++) {
        const long j_begin = unit * 64;
        const long j_end = j_begin + 64 < 1000 ? j_begin + 64 : 1000;
        float h0[19200];
        float a0[64];
        for (long j = j_begin; j < j_end; j++) a0[j - j_begin] = -__builtin_inff();
        for (long i = 0; i < 300; i++) {
            #pragma omp simd
            for (long j = j_begin; j < j_end; j++) {
                const float t0 = r0[1000 * i + j];
                a0[j - j_begin] = eqf_max_f32(a0[j - j_begin], t0);
            }
        }
        float a1[64];
        for (long j = j_begin; j < j_end; j++) a1[j - j_begin] = 0;
        for (long i = 0; i < 300; i++) {
            #pragma omp simd
            for (long j = j_begin; j < j_end; j++) {
                const float t1 = r0[1000 * i + j];
                const float t2 = t1 - a0[j - j_begin];
                const float t3 = eqf_exp_f32(t2);
                h0[64 * i + (j - j_begin)] = t3;
                a1[j - j_begin] = a1[j - j_begin] + t3;
            }
        }
        for (long i = 0; i < 300; i++) {
            #pragma omp simd
            for (long j = j_begin; j < j_end; j++) {
                const float t4 = h0[64 * i + (j - j_begin)];
                const float t5 = t4 / a1[j - j_begin];
                w0[1000 * i + j] = t5;
            }
        }
    }
}
void *row_61907fdaaf97(void *self, const Array *const *given, __PTRDIFF_TYPE__ count) {
    void *const arrays[] = {given[0]->data, given[1]->data};
    void *const python = eqf_python.release();
    eqf_run(row_61907fdaaf97_chunk, arrays, 8, 4);
    eqf_python.resume(python);
    return eqf_none();
}
