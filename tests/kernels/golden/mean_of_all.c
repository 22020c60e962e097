static void reduce_8620b46a403a_chunk(void *const *arrays, long long chunk) {
    const float *restrict r0 = arrays[0];
    float *restrict p0 = arrays[3];
    const long first = chunk * 16, last = first + 16;
    for (long part = first; part < last; part++) {
        const long i_begin = part * 16384;
        const long i_end = i_begin + 16384;
        float a0_sums[64];
        long runs0 = 0;
        for (long run = i_begin; run < i_end; run += 512) {
            const long end = run + 512 < i_end ? run + 512 : i_end;
            float a0_run = 0;
            #pragma omp simd reduction(+ : a0_run)
            for (long i = run; i < end; i++) {
                const float t0 = r0[i];
                const float t1 = t0 * t0;
                a0_run = a0_run + t1;
            }
            eqf_push_f32(a0_sums, runs0, a0_run);
            runs0++;
        }
        float a0 = eqf_total_f32(a0_sums, runs0);
        p0[part] = a0;
    }
}
static void reduce_8620b46a403a_joined(void *const *arrays) {
    const float k0 = *(const float *)arrays[1];
    float *restrict w0 = arrays[2];
    float *restrict p0 = arrays[3];
    for (long apart = 1; apart < 64; apart *= 2) {
        for (long part = 0; part + apart < 64; part += 2 * apart) {
            p0[part] = p0[part] + p0[part + apart];
        }
    }
    const float a0 = p0[0];
    const float t0 = a0 / k0;
    w0[0] = t0;
}
void *reduce_8620b46a403a(void *self, const Array *const *given, __PTRDIFF_TYPE__ count) {
    void *const arrays[] = {given[0]->data, given[1]->data, given[2]->data, given[3]->data};
    void *const python = eqf_python.release();
    eqf_run(reduce_8620b46a403a_chunk, arrays, 4, 4);
    reduce_8620b46a403a_joined(arrays);
    eqf_python.resume(python);
    return eqf_none();
}
