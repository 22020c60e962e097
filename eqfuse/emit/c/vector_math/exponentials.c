/* exp and its kin: x = n * log(2) + r with |r| <= log(2) / 2, so exp(x) = 2**n * exp(r). The polynomials are our own
   minimax fits. Inputs beyond the range are cut to one whose result overflows or vanishes; NaN stays NaN. */

/* (exp(r) - 1 - r) / r**2 for |r| <= 0.347: degree 4, exp(r) within 2**-28. */
static inline float eqf_exp_tail_f32(float r) {
    float p = 0.0013935827f;
    p = eqf_fma_f32(p, r, 0.008368971f);
    p = eqf_fma_f32(p, r, 0.041666456f);
    p = eqf_fma_f32(p, r, 0.16666518f);
    return eqf_fma_f32(p, r, 0.5f);
}

/* The same in degree 9: exp(r) within 2**-57.9. */
static inline double eqf_exp_tail_f64(double r) {
    double p = 2.511342405416289e-08;
    p = eqf_fma_f64(p, r, 2.7631615219555624e-07);
    p = eqf_fma_f64(p, r, 2.7557230753774257e-06);
    p = eqf_fma_f64(p, r, 2.480148896302819e-05);
    p = eqf_fma_f64(p, r, 0.00019841269900550265);
    p = eqf_fma_f64(p, r, 0.0013888888948020903);
    p = eqf_fma_f64(p, r, 0.008333333333315412);
    p = eqf_fma_f64(p, r, 0.04166666666651122);
    p = eqf_fma_f64(p, r, 0.16666666666666685);
    return eqf_fma_f64(p, r, 0.5000000000000013);
}

/* x - n * log(2): the first part of log(2) has 9 bits, its product with n < 2**15 is exact. */
static inline float eqf_minus_log2s_f32(float x, float n) {
    return eqf_fma_f32(n, 2.12194440e-4f, eqf_fma_f32(n, -0.693359375f, x));
}

/* The same: the first part has 32 bits, for n < 2**21. */
static inline double eqf_minus_log2s_f64(double x, double n) {
    return eqf_fma_f64(n, -0x1.a39ef35793c76p-33, eqf_fma_f64(n, -0x1.62e42feep-1, x));
}

/* exp(x) for |x| <= 87. */
static inline float eqf_exp_near_f32(float x) {
    float n = eqf_round_f32(x * 1.442695041f), r = eqf_minus_log2s_f32(x, n);
    return eqf_two_to_f32(n) * (1.0f + eqf_fma_f32(r * r, eqf_exp_tail_f32(r), r));
}

/* exp(x) for |x| <= 708. */
static inline double eqf_exp_near_f64(double x) {
    double n = eqf_round_f64(x * 1.4426950408889634), r = eqf_minus_log2s_f64(x, n);
    return eqf_two_to_f64(n) * (1.0 + eqf_fma_f64(r * r, eqf_exp_tail_f64(r), r));
}

/* Where the result vanishes 0 is scaled, not a number: underflow is slow. */
static inline float eqf_exp_f32(float x) {
    float y = x > 89.0f ? 89.0f : x;
    y = x < -104.0f ? -104.0f : y;
    float n = eqf_round_f32(y * 1.442695041f), r = eqf_minus_log2s_f32(y, n);
    float grown = 1.0f + eqf_fma_f32(r * r, eqf_exp_tail_f32(r), r);
    return eqf_scale_f32(x < -104.0f ? 0.0f : grown, n);
}

static inline double eqf_exp_f64(double x) {
    double y = x > 710.0 ? 710.0 : x;
    y = x < -746.0 ? -746.0 : y;
    double n = eqf_round_f64(y * 1.4426950408889634), r = eqf_minus_log2s_f64(y, n);
    double grown = 1.0 + eqf_fma_f64(r * r, eqf_exp_tail_f64(r), r);
    return eqf_scale_f64(x < -746.0 ? 0.0 : grown, n);
}

/* x = n + r with |r| <= 1/2, and 2**r = 1 + r * P(r): degree 5, within 2**-28. */
static inline float eqf_exp2_f32(float x) {
    x = x > 129.0f ? 129.0f : x;
    x = x < -151.0f ? -151.0f : x;
    float n = eqf_round_f32(x), r = x - n;
    float p = 0.00015328922f;
    p = eqf_fma_f32(p, r, 0.0013390975f);
    p = eqf_fma_f32(p, r, 0.0096185f);
    p = eqf_fma_f32(p, r, 0.055503596f);
    p = eqf_fma_f32(p, r, 0.24022648f);
    p = eqf_fma_f32(p, r, 0.6931472f);
    return eqf_scale_f32(eqf_fma_f32(r, p, 1.0f), n);
}

/* 2**r for |r| <= 1/2: degree 10, within 2**-57.8. */
static inline double eqf_exp2_near_f64(double r) {
    double p = 4.4397680860655435e-10;
    p = eqf_fma_f64(p, r, 7.073307604962848e-09);
    p = eqf_fma_f64(p, r, 1.0178154251232183e-07);
    p = eqf_fma_f64(p, r, 1.3215438360557656e-06);
    p = eqf_fma_f64(p, r, 1.5252733646960481e-05);
    p = eqf_fma_f64(p, r, 0.00015403530450096712);
    p = eqf_fma_f64(p, r, 0.0013333558146534556);
    p = eqf_fma_f64(p, r, 0.00961812910760065);
    p = eqf_fma_f64(p, r, 0.05550410866482176);
    p = eqf_fma_f64(p, r, 0.2402265069591011);
    p = eqf_fma_f64(p, r, 0.6931471805599453);
    return eqf_fma_f64(r, p, 1.0);
}

static inline double eqf_exp2_f64(double x) {
    x = x > 1025.0 ? 1025.0 : x;
    x = x < -1076.0 ? -1076.0 : x;
    double n = eqf_round_f64(x);
    return eqf_scale_f64(eqf_exp2_near_f64(x - n), n);
}

/* 2**n * (exp(r) - 1) + (2**n - 1), halved until the end, since 2**n may be too large. */
static inline float eqf_expm1_f32(float x) {
    float y = x > 89.0f ? 89.0f : x;
    y = y < -18.0f ? -18.0f : y;
    float n = eqf_round_f32(y * 1.442695041f), r = eqf_minus_log2s_f32(y, n);
    float p = eqf_fma_f32(r * r, eqf_exp_tail_f32(r), r), half = eqf_two_to_f32(n - 1.0f);
    return n == 0.0f ? __builtin_copysignf(p, x) : 2.0f * eqf_fma_f32(p, half, half - 0.5f);
}

static inline double eqf_expm1_f64(double x) {
    double y = x > 710.0 ? 710.0 : x;
    y = y < -38.0 ? -38.0 : y;
    double n = eqf_round_f64(y * 1.4426950408889634), r = eqf_minus_log2s_f64(y, n);
    double p = eqf_fma_f64(r * r, eqf_exp_tail_f64(r), r), half = eqf_two_to_f64(n - 1.0);
    return n == 0.0 ? __builtin_copysign(p, x) : 2.0 * eqf_fma_f64(p, half, half - 0.5);
}

/* 1 / (1 + exp(-x)), from exp(-|x|), which does not overflow. What 1 + exp(-|x|) lost in rounding, divided by that sum
   (1 / sum is y or 1 - y), is put right at the end. */
static inline float eqf_sigmoid_f32(float x) {
    float e = eqf_exp_f32(-__builtin_fabsf(x)), below = 1.0f + e;
    float y = (x < 0.0f ? e : 1.0f) / below;
    return y - y * (((1.0f - below) + e) * (x < 0.0f ? 1.0f - y : y));
}

static inline double eqf_sigmoid_f64(double x) {
    double e = eqf_exp_f64(-__builtin_fabs(x)), below = 1.0 + e;
    double y = (x < 0.0 ? e : 1.0) / below;
    return y - y * (((1.0 - below) + e) * (x < 0.0 ? 1.0 - y : y));
}
