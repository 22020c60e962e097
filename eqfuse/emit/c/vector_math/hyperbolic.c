/* tanh and its kin. */

/* x + x**3 * P(x**2) for |x| < 0.55, our own minimax fit of degree 4 within 2**-29.7 of tanh(x); beyond it
   1 - 2 / (exp(2|x|) + 1), which from 9.1 on is 1. */
static inline float eqf_tanh_f32(float x) {
    float a = __builtin_fabsf(x), z = x * x;
    float p = -0.006255708f;
    p = eqf_fma_f32(p, z, 0.021058215f);
    p = eqf_fma_f32(p, z, -0.053848907f);
    p = eqf_fma_f32(p, z, 0.13332552f);
    p = eqf_fma_f32(p, z, -0.33333316f);
    float far = 1.0f - 2.0f / (eqf_exp_near_f32(2.0f * (a > 9.1f ? 9.1f : a)) + 1.0f);
    return __builtin_copysignf(a < 0.55f ? eqf_fma_f32(x * z, p, x) : far, x);
}

/* The same: degree 10 within 2**-60.5; from 19.1 on it is 1. */
static inline double eqf_tanh_f64(double x) {
    double a = __builtin_fabs(x), z = x * x;
    double p = -1.9451519562009695e-05;
    p = eqf_fma_f64(p, z, 8.324891016006687e-05);
    p = eqf_fma_f64(p, z, -0.00023333622626444992);
    p = eqf_fma_f64(p, z, 0.0005884274262173454);
    p = eqf_fma_f64(p, z, -0.0014555389033035857);
    p = eqf_fma_f64(p, z, 0.003592091454177848);
    p = eqf_fma_f64(p, z, -0.008863232548600945);
    p = eqf_fma_f64(p, z, 0.02186948838295072);
    p = eqf_fma_f64(p, z, -0.05396825396367414);
    p = eqf_fma_f64(p, z, 0.1333333333332651);
    p = eqf_fma_f64(p, z, -0.333333333333333);
    double far = 1.0 - 2.0 / (eqf_exp_near_f64(2.0 * (a > 19.1 ? 19.1 : a)) + 1.0);
    return __builtin_copysign(a < 0.55 ? eqf_fma_f64(x * z, p, x) : far, x);
}

/* exp(a) / 2 for a >= 0: what sinh and cosh have is less by a factor of two than exp, whose range is too small. */
static inline float eqf_half_exp_f32(float a) {
    a = a > 89.5f ? 89.5f : a;
    float n = eqf_round_f32(a * 1.442695041f), r = eqf_minus_log2s_f32(a, n);
    return 2.0f * (1.0f + eqf_fma_f32(r * r, eqf_exp_tail_f32(r), r)) * eqf_two_to_f32(n - 2.0f);
}

static inline double eqf_half_exp_f64(double a) {
    a = a > 710.5 ? 710.5 : a;
    double n = eqf_round_f64(a * 1.4426950408889634), r = eqf_minus_log2s_f64(a, n);
    return 2.0 * (1.0 + eqf_fma_f64(r * r, eqf_exp_tail_f64(r), r)) * eqf_two_to_f64(n - 2.0);
}

static inline float eqf_cosh_f32(float x) {
    float half = eqf_half_exp_f32(__builtin_fabsf(x));
    return half + 0.25f / half;
}

static inline double eqf_cosh_f64(double x) {
    double half = eqf_half_exp_f64(__builtin_fabs(x));
    return half + 0.25 / half;
}

/* x + x**3 * P(x**2) for |x| < 1, degree 3 within 2**-31. */
static inline float eqf_sinh_f32(float x) {
    float a = __builtin_fabsf(x), z = x * x, half = eqf_half_exp_f32(a);
    float p = 2.7822298e-06f;
    p = eqf_fma_f32(p, z, 0.00019842894f);
    p = eqf_fma_f32(p, z, 0.0083333105f);
    p = eqf_fma_f32(p, z, 0.16666667f);
    return __builtin_copysignf(a < 1.0f ? eqf_fma_f32(a * z, p, a) : half - 0.25f / half, x);
}

/* The same: degree 6 within 2**-61. */
static inline double eqf_sinh_f64(double x) {
    double a = __builtin_fabs(x), z = x * x, half = eqf_half_exp_f64(a);
    double p = 7.773895628029608e-13;
    p = eqf_fma_f64(p, z, 1.605674390725119e-10);
    p = eqf_fma_f64(p, z, 2.505212999323282e-08);
    p = eqf_fma_f64(p, z, 2.7557319112321433e-06);
    p = eqf_fma_f64(p, z, 0.00019841269841579403);
    p = eqf_fma_f64(p, z, 0.008333333333332924);
    p = eqf_fma_f64(p, z, 0.16666666666666669);
    return __builtin_copysign(a < 1.0 ? eqf_fma_f64(a * z, p, a) : half - 0.25 / half, x);
}

/* log(u) for a normal u >= 1/2 in double, to float32's needs. */
static inline double eqf_log_low_f64(double u) { return eqf_log2_low_f64(u) * 0.6931471805599453; }

/* log(a + sqrt(a**2 + 1)) in double; below 2**-10 two terms of the series. */
static inline float eqf_asinh_f32(float x) {
    double a = __builtin_fabsf(x), near = a - a * a * a * (1.0 / 6.0);
    double y = a < 0x1p-10 ? near : eqf_log_low_f64(a + __builtin_sqrt(a * a + 1.0));
    return a < __builtin_inf() ? __builtin_copysignf((float)y, x) : x;
}

/* log(x + sqrt(x**2 - 1)) in double; NaN below 1. */
static inline float eqf_acosh_f32(float x) {
    double a = x, root = __builtin_sqrt(a * a - 1.0);
    return x < 1.0f ? __builtin_nanf("") : x < __builtin_inff() ? (float)eqf_log_low_f64(a + root) : x;
}

/* log((1 + a) / (1 - a)) / 2 in double; below 2**-10 two terms of the series. */
static inline float eqf_atanh_f32(float x) {
    double a = __builtin_fabsf(x), near = a + a * a * a * (1.0 / 3.0);
    double y = a < 0x1p-10 ? near : 0.5 * eqf_log_low_f64((1.0 + a) / (1.0 - a));
    y = a < 1.0 ? y : a == 1.0 ? __builtin_inf() : __builtin_nan("");
    return __builtin_copysignf((float)y, x);
}

/* log(u + rest) for a normal u >= 1/2 and a rest below its last place, 0 where u is above 2**99. */
static inline double eqf_log_of_sum_f64(double u, double rest) {
    double n, f = eqf_log_split_f64(u, &n), scaled = rest * eqf_two_to_f64(n > 99.0 ? -99.0 : -n), lost;
    f = eqf_sum_f64(f, scaled, &lost);
    return eqf_log_sum_f64(n, f) + lost / (1.0 + f);
}

/* The same as of float32, with what the root and the sum lost. Beyond 2**40 it is log(2 * a). */
static inline double eqf_asinh_f64(double x) {
    double a = __builtin_fabs(x), t = a > 0x1p40 ? 0x1p40 : a, r1, r2, r3;
    double square = eqf_product_f64(t, t, &r1), w = eqf_sum_f64(square, 1.0, &r2), root = __builtin_sqrt(w);
    double back = eqf_product_f64(root, root, &r3), root_rest = (((w - back) - r3) + (r1 + r2)) * (0.5 / root);
    double u = eqf_sum_f64(t, root, &r3), big = a > 0x1p40 ? 0.6931471805599453 : 0.0;
    double y = eqf_log_of_sum_f64(a > 0x1p40 ? a : u, a > 0x1p40 ? 0.0 : r3 + root_rest) + big;
    return a > 0x1p-27 && a < __builtin_inf() ? __builtin_copysign(y, x) : x;
}

/* Likewise; at 1 the root is 0. */
static inline double eqf_acosh_f64(double x) {
    double t = x > 0x1p40 ? 0x1p40 : x, r1, r2, r3;
    double square = eqf_product_f64(t, t, &r1), w = eqf_sum_f64(eqf_sum_f64(square, -1.0, &r2), r1, &r3);
    double root = __builtin_sqrt(w), back = eqf_product_f64(root, root, &r1);
    double root_rest = (((w - back) - r1) + (r2 + r3)) * (0.5 / (root > 0.0 ? root : 1.0));
    double u = eqf_sum_f64(t, root, &r1), big = x > 0x1p40 ? 0.6931471805599453 : 0.0;
    double y = eqf_log_of_sum_f64(x > 0x1p40 ? x : u, x > 0x1p40 ? 0.0 : r1 + root_rest) + big;
    return x < 1.0 ? __builtin_nan("") : x < __builtin_inf() ? y : x;
}

/* Likewise: what the sums and the quotient lost. */
static inline double eqf_atanh_f64(double x) {
    double a = __builtin_fabs(x), r1, r2, r3, above = eqf_sum_f64(1.0, a, &r1), below = eqf_sum_f64(1.0, -a, &r2);
    double u = above / below, back = eqf_product_f64(u, below, &r3);
    double y = 0.5 * eqf_log_of_sum_f64(u, (((above - back) - r3) + (r1 - u * r2)) / below);
    y = a < 1.0 ? y : a == 1.0 ? __builtin_inf() : __builtin_nan("");
    return a < 0x1p-27 ? x : __builtin_copysign(y, x);
}
