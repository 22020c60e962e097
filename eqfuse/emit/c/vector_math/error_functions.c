/* erf and its kin. The polynomials are our own minimax fits, weighted so that errors count relative to the result. */

/* Near zero x + x * P(x**2), for |x| < 0.92 in degree 6 within 2**-30; beyond 1 - exp(-t - t * Q(t)) with t = |x| < 4,
   in degree 6 within 2**-30. */
static inline float eqf_erf_f32(float x) {
    float a = __builtin_fabsf(x), z = x * x, t = a > 4.0f ? 4.0f : a;
    float p = 7.992998e-05f;
    p = eqf_fma_f32(p, z, -0.00080492074f);
    p = eqf_fma_f32(p, z, 0.0051923785f);
    p = eqf_fma_f32(p, z, -0.026855728f);
    p = eqf_fma_f32(p, z, 0.11283626f);
    p = eqf_fma_f32(p, z, -0.3761263f);
    p = eqf_fma_f32(p, z, 0.12837917f);
    float q = 1.1307656e-05f;
    q = eqf_fma_f32(q, t, -0.0003235586f);
    q = eqf_fma_f32(q, t, 0.0036454895f);
    q = eqf_fma_f32(q, t, -0.023768393f);
    q = eqf_fma_f32(q, t, 0.10624414f);
    q = eqf_fma_f32(q, t, 0.635147f);
    q = eqf_fma_f32(q, t, 0.12864955f);
    float e = eqf_exp_near_f32(eqf_fma_f32(-t, q, -t));
    return a < 0.921875f ? eqf_fma_f32(x, p, x) : __builtin_copysignf(1.0f - e, x);
}

/* The same: for |x| < 1 in degree 11 within 2**-56; beyond, to 6, in degree 18 within 2**-61.7. */
static inline double eqf_erf_f64(double x) {
    double a = __builtin_fabs(x), z = x * x, t = a > 6.0 ? 6.0 : a;
    double p = -7.742238581299239e-10;
    p = eqf_fma_f64(p, z, 1.3689662343614976e-08);
    p = eqf_fma_f64(p, z, -1.6201012976096177e-07);
    p = eqf_fma_f64(p, z, 1.6446381572570613e-06);
    p = eqf_fma_f64(p, z, -1.492464583765222e-05);
    p = eqf_fma_f64(p, z, 0.0001205528975094551);
    p = eqf_fma_f64(p, z, -0.0008548325785785206);
    p = eqf_fma_f64(p, z, 0.0052239776026936895);
    p = eqf_fma_f64(p, z, -0.02686617064262086);
    p = eqf_fma_f64(p, z, 0.1128379167094042);
    p = eqf_fma_f64(p, z, -0.376126389031834);
    p = eqf_fma_f64(p, z, 0.12837916709551256);
    double q = 2.015087552258317e-13;
    q = eqf_fma_f64(q, t, -9.969199347865304e-12);
    q = eqf_fma_f64(q, t, 2.3239666151930063e-10);
    q = eqf_fma_f64(q, t, -3.393648674484644e-09);
    q = eqf_fma_f64(q, t, 3.478840717911811e-08);
    q = eqf_fma_f64(q, t, -2.655667843405556e-07);
    q = eqf_fma_f64(q, t, 1.559511155735787e-06);
    q = eqf_fma_f64(q, t, -7.14731761821047e-06);
    q = eqf_fma_f64(q, t, 2.5449849158162626e-05);
    q = eqf_fma_f64(q, t, -6.778731233251957e-05);
    q = eqf_fma_f64(q, t, 0.00011710054948946937);
    q = eqf_fma_f64(q, t, -3.264659687190764e-05);
    q = eqf_fma_f64(q, t, -0.0005379632157398308);
    q = eqf_fma_f64(q, t, 0.001659442831303803);
    q = eqf_fma_f64(q, t, -0.00018916556532553314);
    q = eqf_fma_f64(q, t, -0.019136578635396806);
    q = eqf_fma_f64(q, t, 0.10277491742592162);
    q = eqf_fma_f64(q, t, 0.6366193608993715);
    q = eqf_fma_f64(q, t, 0.12837920145952958);
    double e = eqf_exp_near_f64(eqf_fma_f64(-t, q, -t));
    return a < 1.0 ? eqf_fma_f64(x, p, x) : __builtin_copysign(1.0 - e, x);
}
