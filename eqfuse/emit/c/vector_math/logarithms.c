/* log and its kin: x = 2**n * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2). The polynomials are our own minimax fits. */

/* (log(1 + f) - f + f**2 / 2) / f**3 for -0.293 <= f <= 0.4143: degree 8, log(1 + f) within 2**-30.3 of itself. */
static inline float eqf_log_tail_f32(float f) {
    float p = 0.06731815f;
    p = eqf_fma_f32(p, f, -0.116608545f);
    p = eqf_fma_f32(p, f, 0.118867464f);
    p = eqf_fma_f32(p, f, -0.12408205f);
    p = eqf_fma_f32(p, f, 0.1422018f);
    p = eqf_fma_f32(p, f, -0.16667853f);
    p = eqf_fma_f32(p, f, 0.20002075f);
    p = eqf_fma_f32(p, f, -0.25000012f);
    return eqf_fma_f32(p, f, 0.33333313f);
}

/* (log((1 + s) / (1 - s)) / s - 2) for z = s**2, |s| <= 0.1717: degree 7 in z, within 2**-59.5 of 2. */
static inline double eqf_log_tail_f64(double z) {
    double p = 0.14800470361392234;
    p = eqf_fma_f64(p, z, 0.15313615639819808);
    p = eqf_fma_f64(p, z, 0.18183580673592467);
    p = eqf_fma_f64(p, z, 0.22222198270706284);
    p = eqf_fma_f64(p, z, 0.28571428745227345);
    p = eqf_fma_f64(p, z, 0.3999999999940231);
    return z * eqf_fma_f64(p, z, 0.6666666666666736);
}

/* n * log(2) + log(1 + f). */
static inline float eqf_log_sum_f32(float n, float f) {
    float square = f * f;
    float tail = eqf_fma_f32(f * square, eqf_log_tail_f32(f), n * -2.12194440e-4f);
    return eqf_fma_f32(n, 0.693359375f, f - eqf_fma_f32(0.5f, square, -tail));
}

/* The same. With s = f / (2 + f): log(1 + f) = f - f**2 / 2 + s * (f**2 / 2 + tail). */
static inline double eqf_log_sum_f64(double n, double f) {
    double s = f / (2.0 + f), half = 0.5 * f * f;
    double tail = eqf_fma_f64(s, half + eqf_log_tail_f64(s * s), n * 0x1.a39ef35793c76p-33);
    return eqf_fma_f64(n, 0x1.62e42feep-1, f - (half - tail));
}

/* f of a positive normal x, and n. */
static inline float eqf_log_split_f32(float x, float *n) {
    unsigned bits = eqf_bits_f32(x);
    unsigned biased = (bits + (0x3f800000u - 0x3f3504f3u)) >> 23;
    *n = (float)(int)biased - 127.0f;
    return eqf_number_f32(bits - (biased << 23) + 0x3f800000u) - 1.0f;
}

/* The same; an integer below 2**52 becomes a double by the bits of 2**52. */
static inline double eqf_log_split_f64(double x, double *n) {
    unsigned long long bits = eqf_bits_f64(x);
    unsigned long long biased = (bits + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull)) >> 52;
    *n = eqf_number_f64(biased | 0x4330000000000000ull) - (0x1p52 + 1023.0);
    return eqf_number_f64(bits - (biased << 52) + 0x3ff0000000000000ull) - 1.0;
}

/* y, the logarithm of a finite positive x; of others what they have: NaN below zero, -infinity at zero. */
static inline float eqf_log_ends_f32(float x, float y) {
    y = x < __builtin_inff() ? y : x;
    y = x == 0.0f ? -__builtin_inff() : y;
    return x < 0.0f ? __builtin_nanf("") : y;
}

/* The same for double. */
static inline double eqf_log_ends_f64(double x, double y) {
    y = x < __builtin_inf() ? y : x;
    y = x == 0.0 ? -__builtin_inf() : y;
    return x < 0.0 ? __builtin_nan("") : y;
}

static inline float eqf_log_f32(float x) {
    float n, subnormal = x < 0x1p-126f ? 23.0f : 0.0f;
    float f = eqf_log_split_f32(x < 0x1p-126f ? x * 0x1p23f : x, &n);
    return eqf_log_ends_f32(x, eqf_log_sum_f32(n - subnormal, f));
}

static inline double eqf_log_f64(double x) {
    double n, subnormal = x < 0x1p-1022 ? 52.0 : 0.0;
    double f = eqf_log_split_f64(x < 0x1p-1022 ? x * 0x1p52 : x, &n);
    return eqf_log_ends_f64(x, eqf_log_sum_f64(n - subnormal, f));
}

/* log(1 + f) as a number of 21 bits, whose products with numbers of 32 bits are exact, and the rest. */
static inline double eqf_log_parts_f64(double f, double *rest) {
    double half = 0.5 * f * f, first = eqf_number_f64(eqf_bits_f64(f - half) & 0xffffffff00000000ull);
    double s = f / (2.0 + f);
    *rest = eqf_fma_f64(s, half + eqf_log_tail_f64(s * s), (f - first) - half);
    return first;
}

/* n + f * P(f), where P is log2(1 + f) / f: degree 9, within 2**-26 of itself. */
static inline float eqf_log2_f32(float x) {
    float n, subnormal = x < 0x1p-126f ? 23.0f : 0.0f;
    float f = eqf_log_split_f32(x < 0x1p-126f ? x * 0x1p23f : x, &n);
    float p = -0.0874404f;
    p = eqf_fma_f32(p, f, 0.1714413f);
    p = eqf_fma_f32(p, f, -0.19351847f);
    p = eqf_fma_f32(p, f, 0.20741925f);
    p = eqf_fma_f32(p, f, -0.23964727f);
    p = eqf_fma_f32(p, f, 0.2883895f);
    p = eqf_fma_f32(p, f, -0.36068827f);
    p = eqf_fma_f32(p, f, 0.48090222f);
    p = eqf_fma_f32(p, f, -0.7213475f);
    p = eqf_fma_f32(p, f, 1.442695f);
    return eqf_log_ends_f32(x, eqf_fma_f32(f, p, n - subnormal));
}

/* n + log(1 + f) / log(2); 1 / log(2) in two parts. */
static inline double eqf_log2_f64(double x) {
    double n, rest, subnormal = x < 0x1p-1022 ? 52.0 : 0.0;
    double first = eqf_log_parts_f64(eqf_log_split_f64(x < 0x1p-1022 ? x * 0x1p52 : x, &n), &rest);
    n -= subnormal;
    double whole = n, part = first * 0x1.71547652p+0, sum = whole + part;
    double lost = eqf_fma_f64(first + rest, 0x1.705fc2eefa2p-33, rest * 0x1.71547652p+0);
    return eqf_log_ends_f64(x, sum + ((whole - sum) + part + lost));
}

/* n * log10(2), in two parts, + f * P(f), where P is log10(1 + f) / f: degree 9, within 2**-25 of itself. */
static inline float eqf_log10_f32(float x) {
    float n, subnormal = x < 0x1p-126f ? 23.0f : 0.0f;
    float f = eqf_log_split_f32(x < 0x1p-126f ? x * 0x1p23f : x, &n);
    float p = -0.0495202f;
    p = eqf_fma_f32(p, f, 0.06326863f);
    p = eqf_fma_f32(p, f, -0.05383303f);
    p = eqf_fma_f32(p, f, 0.05998122f);
    p = eqf_fma_f32(p, f, -0.07241208f);
    p = eqf_fma_f32(p, f, 0.08698226f);
    p = eqf_fma_f32(p, f, -0.108572535f);
    p = eqf_fma_f32(p, f, 0.14476208f);
    p = eqf_fma_f32(p, f, -0.21714725f);
    p = eqf_fma_f32(p, f, 0.4342945f);
    n -= subnormal;
    return eqf_log_ends_f32(x, n * 0x1.344p-2f + eqf_fma_f32(f, p, n * 0x1.3509f8p-18f));
}

/* n * log10(2) + log(1 + f) / log(10); both constants in two parts. */
static inline double eqf_log10_f64(double x) {
    double n, rest, subnormal = x < 0x1p-1022 ? 52.0 : 0.0;
    double first = eqf_log_parts_f64(eqf_log_split_f64(x < 0x1p-1022 ? x * 0x1p52 : x, &n), &rest);
    n -= subnormal;
    double whole = n * 0x1.34413508p-2, part = first * 0x1.bcb7b152p-2, sum = whole + part;
    double lost = eqf_fma_f64(n, 0x1.f79fef311f12bp-34, rest * 0x1.bcb7b152p-2);
    lost = eqf_fma_f64(first + rest, 0x1.b9438ca9aadd5p-36, lost);
    return eqf_log_ends_f64(x, sum + ((whole - sum) + part + lost));
}

/* f = x * 2**-n + (2**-n - 1), where n is that of 1 + x rounded. */
static inline float eqf_log1p_f32(float x) {
    float n, sum = 1.0f + x;
    eqf_log_split_f32(sum, &n);
    float small = eqf_two_to_f32(n > 126.0f ? -126.0f : -n) - 1.0f;
    float scaled = eqf_number_f32(eqf_bits_f32(x) - ((unsigned)eqf_int_f32(n) << 23));
    float y = eqf_log_ends_f32(sum, eqf_log_sum_f32(n, scaled + small));
    return __builtin_fabsf(x) < 0x1p-25f ? x : y;
}

static inline double eqf_log1p_f64(double x) {
    double n, sum = 1.0 + x;
    eqf_log_split_f64(sum, &n);
    double small = eqf_two_to_f64(n > 1022.0 ? -1022.0 : -n) - 1.0;
    double scaled = eqf_number_f64(eqf_bits_f64(x) - ((unsigned long long)eqf_int_f64(n) << 52));
    double y = eqf_log_ends_f64(sum, eqf_log_sum_f64(n, scaled + small));
    return __builtin_fabs(x) < 0x1p-54 ? x : y;
}
