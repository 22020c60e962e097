/* Roots, and lengths. */

static inline float eqf_sqrt_f32(float x) { return __builtin_sqrtf(x); }

static inline double eqf_sqrt_f64(double x) { return __builtin_sqrt(x); }

/* 1 / sqrt(x). */
static inline float eqf_rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }

static inline double eqf_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }

/* x**(-1/3) of a normal x > 0, within 2**-44. A third of the bits as an integer, taken from a constant, leaves
   |h| < 0.103 for h = 1 - x * y**3; then two steps of order four: y * (1 - h)**(-1/3) in powers of h. */
static inline double eqf_cube_root_inverse_f64(double x) {
    double high = eqf_number_f64(eqf_bits_f64(x) >> 32 | 0x4330000000000000ull) - 0x1p52;
    double y = eqf_number_f64(eqf_int_f64(eqf_round_f64(1430186500.0 - high * (1.0 / 3.0))) << 32);
    double h = eqf_fma_f64(-x * y, y * y, 1.0);
    y = eqf_fma_f64(y * h, eqf_fma_f64(h, eqf_fma_f64(h, 14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), y);
    h = eqf_fma_f64(-x * y, y * y, 1.0);
    return eqf_fma_f64(y * h, eqf_fma_f64(h, eqf_fma_f64(h, 14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), y);
}

/* x * y as its rounded value and the rest, which is exact for numbers that are neither huge nor tiny: by a fused
   product, or from halves of 12 bits (Dekker). */
static inline float eqf_product_f32(float x, float y, float *rest) {
    float product = x * y;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    *rest = __builtin_fmaf(x, y, -product);
#else
    float cut_x = x * 4097.0f, cut_y = y * 4097.0f;
    float a = cut_x - (cut_x - x), b = cut_y - (cut_y - y);
    *rest = ((a * b - product) + a * (y - b) + (x - a) * b) + (x - a) * (y - b);
#endif
    return product;
}

/* t = x * y**2, where y is x**(-1/3) within 2**-15 by one such step, corrected by t - (t**3 - x) / (3 * t**2); scales
   keep the products normal. Zeros, infinities and NaN stay. */
static inline float eqf_cbrt_f32(float x) {
    float a = __builtin_fabsf(x), r1, r2;
    float scaled = a * (a < 0x1p-60f ? 0x1p60f : a > 0x1p60f ? 0x1p-60f : 1.0f);
    float y = eqf_number_f32((unsigned)(int)(1419901643.0f - (float)(int)eqf_bits_f32(scaled) * (1.0f / 3.0f)));
    float h = eqf_fma_f32(-scaled * y, y * y, 1.0f);
    y = eqf_fma_f32(y * h, eqf_fma_f32(h, eqf_fma_f32(h, 14.0f / 81.0f, 2.0f / 9.0f), 1.0f / 3.0f), y);
    float t = scaled * y * y, square = eqf_product_f32(t, t, &r1), cube = eqf_product_f32(square, t, &r2);
    t -= ((cube - scaled) + (r2 + r1 * t)) * (y * y * (1.0f / 3.0f));
    t *= a < 0x1p-60f ? 0x1p-20f : a > 0x1p60f ? 0x1p20f : 1.0f;
    return a > 0.0f && a < __builtin_inff() ? __builtin_copysignf(t, x) : x;
}

/* The same by two steps of double. */
static inline double eqf_cbrt_f64(double x) {
    double a = __builtin_fabs(x), r1, r2;
    double scaled = a * (a < 0x1p-800 ? 0x1p270 : a > 0x1p800 ? 0x1p-270 : 1.0);
    double y = eqf_cube_root_inverse_f64(scaled), t = scaled * y * y;
    double square = eqf_product_f64(t, t, &r1), cube = eqf_product_f64(square, t, &r2);
    t -= ((cube - scaled) + (r2 + r1 * t)) * (y * y * (1.0 / 3.0));
    t *= a < 0x1p-800 ? 0x1p-90 : a > 0x1p800 ? 0x1p90 : 1.0;
    return a > 0.0 && a < __builtin_inf() ? __builtin_copysign(t, x) : x;
}

/* sqrt(x**2 + y**2) in double; infinite where one is, even beside a NaN. */
static inline float eqf_hypot_f32(float x, float y) {
    double a = x, b = y;
    float length = (float)__builtin_sqrt(a * a + b * b);
    return __builtin_fabsf(x) == __builtin_inff() || __builtin_fabsf(y) == __builtin_inff() ? __builtin_inff() : length;
}

/* The same, scaled so that squares neither overflow nor vanish. */
static inline double eqf_hypot_f64(double x, double y) {
    double a = __builtin_fabs(x), b = __builtin_fabs(y), most = a > b ? a : b;
    double scale = most > 0x1p500 ? 0x1p-600 : most < 0x1p-400 ? 0x1p600 : 1.0;
    double back = most > 0x1p500 ? 0x1p600 : most < 0x1p-400 ? 0x1p-600 : 1.0;
    a *= scale;
    b *= scale;
    double length = back * __builtin_sqrt(eqf_fma_f64(a, a, b * b));
    return __builtin_fabs(x) == __builtin_inf() || __builtin_fabs(y) == __builtin_inf() ? __builtin_inf() : length;
}
