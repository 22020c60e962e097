/* Powers of two arguments: 2**(y * log2(x)). With f and n of |x| as logarithms.c has them and s = f / (2 + f):
   log2(x) = n + s * P(s**2). The polynomials are our own minimax fits. Zeros, infinities and NaN are C99's and NumPy's:
   x**0 and 1**y are 1 whatever the other is. */

/* log2(a) of a positive normal number to float32's needs: P has degree 4, log2(1 + f) is within 2**-37 of itself. */
static inline double eqf_log2_low_f64(double a) {
    double n, f = eqf_log_split_f64(a, &n), s = f / (2.0 + f), z = s * s;
    double p = 0.3402632327987038;
    p = eqf_fma_f64(p, z, 0.41170409061228563);
    p = eqf_fma_f64(p, z, 0.5770828856389802);
    p = eqf_fma_f64(p, z, 0.9617966790545696);
    return eqf_fma_f64(s, eqf_fma_f64(z, p, 2.8853900817779268), n);
}

/* 2**r for |r| <= 1/2: degree 5, within 2**-29. */
static inline double eqf_exp2_low_f64(double r) {
    double p = 0.0001535528480027577;
    p = eqf_fma_f64(p, r, 0.0013398937871642676);
    p = eqf_fma_f64(p, r, 0.009618430293950079);
    p = eqf_fma_f64(p, r, 0.05550332267894206);
    p = eqf_fma_f64(p, r, 0.24022647974033162);
    p = eqf_fma_f64(p, r, 0.6931472029983932);
    return eqf_fma_f64(r, p, 1.0);
}

/* y, of numbers beyond 2**60 (float) or 2**70 that power: its product with log2(1) is 0. What depends on y alone is computed with bits, since
   compilers do not vectorise selects whose condition is one for all elements. */
static inline float eqf_power_clamped_f32(float y) {
    unsigned bits = eqf_bits_f32(y), size = bits & 0x7fffffffu, nan = -(unsigned)(size > 0x7f800000u);
    unsigned clamped = size < 0x5d800000u ? size : 0x5d800000u;
    return eqf_number_f32((bits & (nan | 0x80000000u)) | (clamped & ~nan));
}

/* The same for double. */
static inline double eqf_power_clamped_f64(double y) {
    unsigned long long bits = eqf_bits_f64(y), size = bits & 0x7fffffffffffffffull;
    unsigned long long nan = -(unsigned long long)(size > 0x7ff0000000000000ull);
    unsigned long long clamped = size < 0x4450000000000000ull ? size : 0x4450000000000000ull;
    return eqf_number_f64((bits & (nan | 0x8000000000000000ull)) | (clamped & ~nan));
}

/* Is |y| / 2**halved an integer? All bits, or none. From 2**23 on floats are integers. */
static inline unsigned eqf_power_whole_f32(float y, int halved) {
    unsigned bits = eqf_bits_f32(y) & 0x7fffffffu, most = 0x4b000000u + (halved << 23);
    float w = eqf_number_f32(bits < most ? bits : most) * (halved ? 0.5f : 1.0f);
    return -(unsigned)((w + 0x1p23f) - 0x1p23f == w);
}

/* The same for double, from 2**52. */
static inline unsigned long long eqf_power_whole_f64(double y, long long halved) {
    unsigned long long bits = eqf_bits_f64(y) & 0x7fffffffffffffffull, most = 0x4330000000000000ull + (halved << 52);
    double w = eqf_number_f64(bits < most ? bits : most) * (halved ? 0.5 : 1.0);
    return -(unsigned long long)((w + 0x1p52) - 0x1p52 == w);
}

/* result is |x|**y; of the special cases what is left. */
static inline float eqf_power_ends_f32(float x, float y, float result) {
    unsigned whole = eqf_power_whole_f32(y, 0), odd = whole & ~eqf_power_whole_f32(y, 1);
    unsigned none = x < 0.0f && x > -__builtin_inff() ? ~whole & 0x7fc00000u : 0u;
    result = eqf_number_f32(eqf_bits_f32(result) | (eqf_bits_f32(x) & 0x80000000u & odd) | none);
    return x == 1.0f ? 1.0f : result;
}

/* The same for double. */
static inline double eqf_power_ends_f64(double x, double y, double result) {
    unsigned long long whole = eqf_power_whole_f64(y, 0), odd = whole & ~eqf_power_whole_f64(y, 1);
    unsigned long long none = x < 0.0 && x > -__builtin_inf() ? ~whole & 0x7ff8000000000000ull : 0ull;
    result = eqf_number_f64(eqf_bits_f64(result) | (eqf_bits_f64(x) & 0x8000000000000000ull & odd) | none);
    return x == 1.0 ? 1.0 : result;
}

static inline float eqf_power_f32(float x, float y) {
    double a = __builtin_fabsf(x), l = eqf_log2_low_f64(a);
    l = a == 0.0 ? -__builtin_inf() : a < __builtin_inf() ? l : a;
    double t = eqf_power_clamped_f32(y) * eqf_number_f64(eqf_bits_f64(l) & -(unsigned long long)(y != 0.0f));
    t = t > 200.0 ? 200.0 : t;
    t = t < -200.0 ? -200.0 : t;
    double n = eqf_round_f64(t);
    return eqf_power_ends_f32(x, y, (float)(eqf_two_to_f64(n) * eqf_exp2_low_f64(t - n)));
}

/* log2(1 + f) as a number and the rest, within 2**-64 of itself: log2(1 + f) / s = c + z * (d + z * Q(z)), z = s**2,
   where only Q (degree 6, within 2**-66 of the whole) is a plain number. */
static inline double eqf_log2_long_f64(double f, double *rest) {
    double below = 2.0 + f, below_rest = f - (below - 2.0), inverse = 1.0 / below, r1, r2, r3;
    double s = f * inverse, p = eqf_product_f64(s, below, &r1), s_rest = ((f - p) - r1 - s * below_rest) * inverse;
    double z = eqf_product_f64(s, s, &r2), z_rest = r2 + 2.0 * s * s_rest;
    double q = 0.19042679403832888;
    q = eqf_fma_f64(q, z, 0.1912508338369055);
    q = eqf_fma_f64(q, z, 0.22198417766712467);
    q = eqf_fma_f64(q, z, 0.2623076973561675);
    q = eqf_fma_f64(q, z, 0.3205989023149967);
    q = eqf_fma_f64(q, z, 0.4121985830917175);
    q = eqf_fma_f64(q, z, 0.5770780163556184);
    double u = z * q, v = 0x1.ec709dc3a03fdp-1 + u;
    double v_rest = (0x1.ec709dc3a03fdp-1 - v) + u + eqf_fma_f64(z_rest, q, 0x1.d27f05548af0cp-55);
    double w = eqf_product_f64(z, v, &r3), w_rest = r3 + eqf_fma_f64(z, v_rest, z_rest * v);
    double g = 0x1.71547652b82fep1 + w, g_rest = (0x1.71547652b82fep1 - g) + w + (0x1.777d0ffda0d24p-55 + w_rest);
    double found = eqf_product_f64(s, g, rest);
    *rest += eqf_fma_f64(s, g_rest, s_rest * g);
    return found;
}

static inline double eqf_power_f64(double x, double y) {
    double a = __builtin_fabs(x), w = eqf_power_clamped_f64(y), n, log_rest, sum_rest, rest;
    double f = eqf_log_split_f64(a < 0x1p-1022 ? a * 0x1p52 : a, &n);
    n -= a < 0x1p-1022 ? 52.0 : 0.0;
    double l = eqf_sum_f64(n, eqf_log2_long_f64(f, &log_rest), &sum_rest);
    l = a == 0.0 ? -__builtin_inf() : a < __builtin_inf() ? l : a;
    l = eqf_number_f64(eqf_bits_f64(l) & -(unsigned long long)(y != 0.0));
    double t = eqf_product_f64(w, l, &rest);
    rest += w * (sum_rest + log_rest);
    rest = __builtin_fabs(t) < 1100.0 ? rest : 0.0;
    t = t > 1100.0 ? 1100.0 : t;
    t = t < -1100.0 ? -1100.0 : t;
    n = eqf_round_f64(t);
    return eqf_power_ends_f64(x, y, eqf_scale_f64(eqf_exp2_near_f64((t - n) + rest), n));
}
