/* sin, cos and tan on the whole range: x = (n + t) * pi/2 with |t| <= 1/2. Of x * 2/pi multiples of 4 do not count, so
   x = y * 2**s with an integer y is multiplied by 2**s * 2/pi modulo 4, a number in few parts (as Payne and Hanek do
   with integers). Below some bound s is 0 and y any number. The polynomials are our own minimax fits. */

/* t * pi/2, within 2**-28 of itself, and n modulo 2**32; s is 0, 27, 53 or 79. The constants, divided by 2**s since x
   is not, have a part that is a multiple of 2**-27, one of 29 bits, and the rest; y has 24 bits and is below 2**50.
   Only the last product is rounded; adding 1.5 * 2**54 rounds to multiples of 4, adding 1.5 * 2**52 to integers. */
static inline double eqf_quarters_f32(float x, unsigned *quarter) {
    float a = __builtin_fabsf(x);
    double p = x * (a < 0x1p50f ? 0x1.45f306cp-1 : a < 0x1p76f ? -0x1.1b1bbecp-28
                  : a < 0x1p102f ? -0x1.5ac07b2p-53 : -0x1.505c16p-81);
    double q = x * (a < 0x1p50f ? 0x1.c9c882ap-29 : a < 0x1p76f ? 0x1.29fc274p-56
                  : a < 0x1p102f ? 0x1.5f47d4cp-82 : 0x1.a6ee06dp-107);
    double rest = x * (a < 0x1p50f ? 0x1.4fe13abe8fa9ap-59 : a < 0x1p76f ? 0x1.7d1f534ddc0dbp-84
                     : a < 0x1p102f ? 0x1.377036d8a5665p-110 : 0x1.6295993c43904p-136);
    p -= (p + 0x1.8p54) - 0x1.8p54;
    double turned = (p + q) + 0x1.8p52, n = turned - 0x1.8p52;
    *quarter = (unsigned)eqf_bits_f64(turned);
    return (((p - n) + q) + rest) * 1.5707963267948966;
}

/* sin(r) for |r| <= pi/4: degree 2 of r**2, within 2**-28. */
static inline float eqf_sin_near_f32(float r) {
    float z = r * r;
    float p = -0.00019518404f;
    p = eqf_fma_f32(p, z, 0.00833219f);
    p = eqf_fma_f32(p, z, -0.16666655f);
    return __builtin_copysignf(eqf_fma_f32(r * z, p, r), r);
}

/* cos(r) for |r| <= pi/4: degree 2 of r**2 behind 1 - r**2 / 2, within 2**-33. */
static inline float eqf_cos_near_f32(float r) {
    float z = r * r;
    float p = 2.443214e-05f;
    p = eqf_fma_f32(p, z, -0.0013887308f);
    p = eqf_fma_f32(p, z, 0.041666646f);
    return eqf_fma_f32(z * z, p, 1.0f - 0.5f * z);
}

/* Is x so far that `eqf_…_quick_f32` do not hold? */
static inline int eqf_far_f32(float x) { return __builtin_fabsf(x) >= 0x1p17f; }

/* The same for |x| < 2**17, where pi/2 in three parts of 24 bits is subtracted n times (Cody and Waite): a fused product
   gives the first difference without an error, and the second where it is small. None is negative: -0 stays -0. */
static inline float eqf_quick_quarters_f32(float x, unsigned *quarter) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    float turned = __builtin_fmaf(x, 0x1.45f306p-1f, 0x1.8p23f), n = turned - 0x1.8p23f;
    *quarter = eqf_bits_f32(turned);
    float r = __builtin_fmaf(n, -0x1.921fb4p0f, x);
    r = __builtin_fmaf(n, -0x1.4442d0p-24f, r);
    return __builtin_fmaf(n, -0x1.846988p-48f, r);
#else
    return (float)eqf_quarters_f32(x, quarter);
#endif
}

/* sin(r) of n quarters of a turn and r. */
static inline float eqf_turned_sin_f32(float r, unsigned quarter) {
    float y = quarter & 1 ? eqf_cos_near_f32(r) : eqf_sin_near_f32(r);
    return eqf_number_f32(eqf_bits_f32(y) ^ (quarter & 2) << 30);
}

static inline float eqf_sin_quick_f32(float x) {
    unsigned quarter;
    float r = eqf_quick_quarters_f32(x, &quarter);
    return eqf_turned_sin_f32(r, quarter);
}

static inline float eqf_cos_quick_f32(float x) {
    unsigned quarter;
    float r = eqf_quick_quarters_f32(x, &quarter);
    return eqf_turned_sin_f32(r, quarter + 1);
}

static inline float eqf_sin_f32(float x) {
    unsigned quarter, few;
    float r = (float)eqf_quarters_f32(x, &quarter), near = eqf_quick_quarters_f32(x, &few);
    int far = eqf_far_f32(x);
    return eqf_turned_sin_f32(far ? r : near, far ? quarter : few);
}

static inline float eqf_cos_f32(float x) {
    unsigned quarter, few;
    float r = (float)eqf_quarters_f32(x, &quarter), near = eqf_quick_quarters_f32(x, &few);
    int far = eqf_far_f32(x);
    return eqf_turned_sin_f32(far ? r : near, (far ? quarter : few) + 1);
}

/* 2**(32 * g) * 2/pi modulo 4 for g = 0 .. 30: the first of four parts, a table for each, since compilers vectorise
   loads that are indexed by g alone. */
static const double eqf_two_over_pi_first_f64[31] = {
    0x1.45f306dc9c883p-1, -0x1.b1bbead603d8bp0, 0x1.fc2757d1f534ep0, 0x1.f534ddc0db629p0,
    0x1.b6c52b3278872p-1, 0x1.3c439041fe516p0, 0x1.fe5163abdebbcp0, -0x1.0a21d4f246dc9p-3,
    0x1.b7246e3a424ddp0, -0x1.bdb22d1ff9b6dp0, 0x1.924bba8274648p-6, -0x1.f62e6de301e21p0,
    0x1.fc3bd63962535p-1, 0x1.62534e7dd1047p-1, -0x1.177dca0ad144cp0, 0x1.2ebb4484e99c7p0,
    0x1.d338e04d68bfp-1, -0x1.4ba081bec66e3p0, 0x1.3991d63983534p0, 0x1.835339f49c846p0,
    0x1.3908bf177bf25p-1, -0x1.081b5f13801dap-2, -0x1.c00ed00043f4dp-1, -0x1.0fd33f8086877p-3,
    -0x1.0d0ee74a5f593p-4, -0x1.4beb25c12593p-1, -0x1.25930261b069fp-1, -0x1.b069ec9161738p-1,
    -0x1.61738132c3403p-1, -0x1.61a015d28ad84p0, 0x1.7527bac7ebe5fp0,
};

/* The second part. */
static const double eqf_two_over_pi_second_f64[31] = {
    -0x1.6b01ec5417056p-55, 0x1.f47d4d377036ep-54, -0x1.1f924eb53361ep-55, 0x1.664f10e4107f9p-54,
    0x1.07f9458eaf7afp-58, 0x1.d5ef5de2b0db9p-55, 0x1.586dc91b8e909p-54, 0x1.d2126e9700325p-59,
    0x1.700324977504fp-55, -0x1.15f62e6de301ep-56, 0x1.cfe1deb1cb12ap-60, -0x1.38d3b5963045ep-54,
    -0x1.822efb9415a29p-57, -0x1.0568a25dbd8b3p-55, 0x1.213a671c09ad1p-54, 0x1.35a2fbf209cc9p-59,
    -0x1.bec66e29c67cbp-56, 0x1.8e60d4ce7d272p-54, -0x1.82d8dee81d108p-54, -0x1.d1081b5f13802p-58,
    0x1.d8ffc4bffef03p-59, -0x1.0fd33f8086877p-67, 0x1.fde5e2316b415p-61, -0x1.d297d64b824b2p-58,
    0x1.f6d367ecf27cbp-60, -0x1.30d834f648b0cp-56, 0x1.b74f463f669e6p-56, -0x1.32c3402ba515bp-57,
    0x1.16ba93dd63f5fp-55, -0x1.4e050683a130cp-54, 0x1.7b3d0739f78a5p-56,
};

/* The third part. */
static const double eqf_two_over_pi_third_f64[31] = {
    -0x1.6447e493ad4cep-109, -0x1.d6a66c3bc6fbep-108, 0x1.c820ff28b1d5fp-111, 0x1.163abdebbc562p-108,
    -0x1.d4f246dc8e2dfp-115, 0x1.1b8e909374b8p-110, 0x1.ba5c00c925dd4p-109, -0x1.a22bec5cdbc6p-113,
    -0x1.cdbc603c429c7p-109, -0x1.0a71a76b2c609p-111, -0x1.63045df7282b4p-114, 0x1.1afa975da2427p-111,
    0x1.a24274ce38136p-111, -0x1.c7eca5d040df6p-111, 0x1.f7e413991d63ap-108, -0x1.4e33e566305b2p-115,
    0x1.9cfa4e422fc5ep-111, 0x1.17e2ef7e4a0ecp-110, -0x1.b5f13801da001p-110, 0x1.2fffbc0b301fep-113,
    -0x1.9fc04343b9d29p-114, -0x1.d297d64b824b2p-122, -0x1.2e092c98130d8p-116, -0x1.8130d834f648bp-112,
    0x1.36e9e8c7ecd3dp-117, 0x1.8fd9a797fa8b6p-110, -0x1.5d28ad8453814p-116, -0x1.14e050683a131p-114,
    0x1.7c5ecf41ce7dep-110, 0x1.ce7de294a4baap-110, 0x1.497535fdafd89p-111,
};

/* The fourth part. */
static const double eqf_two_over_pi_fourth_f64[31] = {
    0x1.e21c820ff28b2p-163, -0x1.ae9c5421443aap-168, -0x1.443a9e48db91cp-168, -0x1.236e4716f6c8bp-162,
    0x1.374b801924bbbp-170, 0x1.924bba8274648p-166, 0x1.3a32439fc3bd6p-165, -0x1.e214e34ed658cp-168,
    0x1.894d39f74411bp-163, 0x1.1046bea5d7689p-165, -0x1.44bb7b16638fep-168, 0x1.338e04d68befdp-165,
    -0x1.741037d8cdc54p-165, -0x1.9b8a719f2b318p-166, -0x1.f2b3182d8dee8p-162, 0x1.08bf177bf2507p-169,
    -0x1.036be27003b4p-167, 0x1.ff897ffde0598p-164, 0x1.e05980fef2f12p-164, -0x1.a1dce94beb25cp-169,
    -0x1.f592e092c9813p-168, -0x1.8130d834f648bp-176, -0x1.a7b24585ce04dp-171, -0x1.738132c3402bap-169,
    -0x1.00ae9456c229cp-171, -0x1.5b08a7028341dp-165, -0x1.a0e84c2f8c608p-172, 0x1.0739f78a5292fp-168,
    0x1.4a525d4d7f6bfp-165, -0x1.404a04ee072a3p-164, -0x1.ca8bdea7f33eep-170,
};

/* x * y as its rounded value and the rest, which is exact for numbers that are neither huge nor tiny: by a fused
   product, or from halves of 26 bits (Dekker). */
static inline double eqf_product_f64(double x, double y, double *rest) {
    double product = x * y;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    *rest = __builtin_fma(x, y, -product);
#else
    double cut_x = x * 134217729.0, cut_y = y * 134217729.0;
    double a = cut_x - (cut_x - x), b = cut_y - (cut_y - y);
    *rest = ((a * b - product) + a * (y - b) + (x - a) * b) + (x - a) * (y - b);
#endif
    return product;
}

/* x + y as its rounded value and the rest, which is exact (Knuth). */
static inline double eqf_sum_f64(double x, double y, double *rest) {
    double sum = x + y, second = sum - x;
    *rest = (x - (sum - second)) + (y - second);
    return sum;
}

/* t * pi/2 as a number and the rest, and n modulo 4. s = 32 * g, where g is 0 below 2**84 (by a mask,
   since gcc makes a select of tables of a select of indices); so y is below 2**85, and
   adding 1.5 * 2**87 rounds to multiples of 2**35. */
static inline double eqf_quarters_f64(double x, double *rest, unsigned long long *quarter) {
    unsigned long long g = (((eqf_bits_f64(x) >> 52 & 2047) + 13) >> 5) - 34;
    g &= (g >> 63) - 1;
    double y = x * eqf_number_f64((1023 - 32 * g) << 52), r1, r2, r3, r4, r5, r6, r7;
    double p1 = eqf_product_f64(y, eqf_two_over_pi_first_f64[g], &r1);
    double p2 = eqf_product_f64(y, eqf_two_over_pi_second_f64[g], &r2);
    double p3 = eqf_product_f64(y, eqf_two_over_pi_third_f64[g], &r3);
    p1 -= (p1 + 0x1.8p87) - 0x1.8p87;
    double turned = (p1 + (r1 + p2)) + 0x1.8p52, n = turned - 0x1.8p52;
    *quarter = eqf_bits_f64(turned);
    double sum = eqf_sum_f64(eqf_sum_f64(p1 - n, r1, &r4), p2, &r5);
    sum = eqf_sum_f64(sum, eqf_sum_f64(p3, r2, &r6), &r7);
    double last = ((r4 + r5) + (r6 + r7)) + (r3 + y * eqf_two_over_pi_fourth_f64[g]);
    double t = sum + last, lost = (sum - t) + last;
    double angle = eqf_product_f64(t, 0x1.921fb54442d18p0, rest);
    *rest += eqf_fma_f64(t, 0x1.1a62633145c07p-54, lost * 0x1.921fb54442d18p0);
    return angle;
}

/* sin(r) = r + r * z * P(z) for |r| <= pi/4 and z = r**2: degree 5, within 2**-58. */
static inline double eqf_sin_tail_f64(double z) {
    double p = 1.589669210103247e-10;
    p = eqf_fma_f64(p, z, -2.5050756902120253e-08);
    p = eqf_fma_f64(p, z, 2.755731368881622e-06);
    p = eqf_fma_f64(p, z, -0.0001984126982981691);
    p = eqf_fma_f64(p, z, 0.008333333333322458);
    return eqf_fma_f64(p, z, -0.16666666666666632);
}

/* cos(r) = 1 - z / 2 + z**2 * P(z): degree 5, within 2**-64. */
static inline double eqf_cos_tail_f64(double z) {
    double p = -1.1359806526336776e-11;
    p = eqf_fma_f64(p, z, 2.087572714041958e-09);
    p = eqf_fma_f64(p, z, -2.7557314388067264e-07);
    p = eqf_fma_f64(p, z, 2.4801587289638204e-05);
    p = eqf_fma_f64(p, z, -0.0013888888888874444);
    return eqf_fma_f64(p, z, 0.0416666666666666);
}

/* sin(r + rest). */
static inline double eqf_sin_near_f64(double r, double rest) {
    double z = r * r;
    return r + eqf_fma_f64(r * z, eqf_sin_tail_f64(z), eqf_fma_f64(-0.5 * z, rest, rest));
}

/* cos(r + rest). */
static inline double eqf_cos_near_f64(double r, double rest) {
    double z = r * r, half = 0.5 * z, most = 1.0 - half;
    return most + (((1.0 - most) - half) + eqf_fma_f64(z * z, eqf_cos_tail_f64(z), -r * rest));
}

/* Is x so far that `eqf_…_quick_f64` do not hold? */
static inline int eqf_far_f64(double x) { return __builtin_fabs(x) >= 0x1p24; }

/* The same as a number and the rest for |x| < 2**24: the first difference is exact, the second a number and the rest. */
static inline double eqf_quick_quarters_f64(double x, double *rest, unsigned long long *quarter) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    double turned = __builtin_fma(x, 0x1.45f306dc9c883p-1, 0x1.8p52), n = turned - 0x1.8p52, lost, left;
    *quarter = eqf_bits_f64(turned);
    double r = __builtin_fma(n, -0x1.921fb54442d18p0, x), second = eqf_product_f64(n, -0x1.1a62633145c07p-54, &lost);
    double sum = eqf_sum_f64(r, second, &left);
    left = __builtin_fma(n, 0x1.f1976b7ed8fbcp-110, left + lost);
    r = sum + left;
    *rest = (sum - r) + left;
    return r;
#else
    return eqf_quarters_f64(x, rest, quarter);
#endif
}

/* sin(r + rest) of n quarters of a turn and r + rest. */
static inline double eqf_turned_sin_f64(double r, double rest, unsigned long long quarter) {
    double y = quarter & 1 ? eqf_cos_near_f64(r, rest) : eqf_sin_near_f64(r, rest);
    return eqf_number_f64(eqf_bits_f64(y) ^ (quarter & 2) << 62);
}

/* Of |x| < 2**-27 it is x, zeros with their sign. */
static inline double eqf_sin_quick_f64(double x) {
    unsigned long long quarter;
    double rest, r = eqf_quick_quarters_f64(x, &rest, &quarter), y = eqf_turned_sin_f64(r, rest, quarter);
    return __builtin_fabs(x) < 0x1p-27 ? x : y;
}

static inline double eqf_cos_quick_f64(double x) {
    unsigned long long quarter;
    double rest, r = eqf_quick_quarters_f64(x, &rest, &quarter);
    return eqf_turned_sin_f64(r, rest, quarter + 1);
}

/* Of all numbers. */
static inline double eqf_any_quarters_f64(double x, double *rest, unsigned long long *quarter) {
    unsigned long long many, few;
    double far_rest, far = eqf_quarters_f64(x, &far_rest, &many);
    double near_rest, near = eqf_quick_quarters_f64(x, &near_rest, &few);
    int is_far = eqf_far_f64(x);
    *rest = is_far ? far_rest : near_rest;
    *quarter = is_far ? many : few;
    return is_far ? far : near;
}

static inline double eqf_sin_f64(double x) {
    unsigned long long quarter;
    double rest, r = eqf_any_quarters_f64(x, &rest, &quarter), y = eqf_turned_sin_f64(r, rest, quarter);
    return __builtin_fabs(x) < 0x1p-27 ? x : y;
}

static inline double eqf_cos_f64(double x) {
    unsigned long long quarter;
    double rest, r = eqf_any_quarters_f64(x, &rest, &quarter);
    return eqf_turned_sin_f64(r, rest, quarter + 1);
}

/* tan(r) of n quarters of a turn and r, |r| <= pi/4: sin(r) / cos(r) or -cos(r) / sin(r), of double. */
static inline float eqf_turned_tan_f32(double r, unsigned quarter) {
    double z = r * r;
    double s = -0.00019518403860274702;
    s = eqf_fma_f64(s, z, 0.008332190103828907);
    s = eqf_fma_f64(s, z, -0.16666655242443085);
    s = __builtin_copysign(eqf_fma_f64(r * z, s, r), r);
    double c = 2.443213998049032e-05;
    c = eqf_fma_f64(c, z, -0.0013887308305129409);
    c = eqf_fma_f64(c, z, 0.04166664555668831);
    c = eqf_fma_f64(z * z, c, 1.0 - 0.5 * z);
    return (float)((quarter & 1 ? -c : s) / (quarter & 1 ? s : c));
}

/* Of double, with pi/2 in two parts, of which the first has 33 bits. */
static inline double eqf_exact_quarters_f32(float x, unsigned *quarter) {
    double turned = x * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = turned - 0x1.8p52;
    *quarter = (unsigned)eqf_bits_f64(turned);
    return (x - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
}

static inline float eqf_tan_quick_f32(float x) {
    unsigned quarter;
    double r = eqf_exact_quarters_f32(x, &quarter);
    return eqf_turned_tan_f32(r, quarter);
}

static inline float eqf_tan_f32(float x) {
    unsigned quarter, few;
    double r = eqf_quarters_f32(x, &quarter), near = eqf_exact_quarters_f32(x, &few);
    int far = eqf_far_f32(x);
    return eqf_turned_tan_f32(far ? r : near, far ? quarter : few);
}

/* The same; what the sums that give sin(r) and cos(r) lost is put right. */
static inline double eqf_turned_tan_f64(double r, double rest, unsigned long long quarter) {
    double z = r * r, half = 0.5 * z, most = 1.0 - half;
    double s = eqf_fma_f64(r * z, eqf_sin_tail_f64(z), eqf_fma_f64(-half, rest, rest));
    double c = ((1.0 - most) - half) + eqf_fma_f64(z * z, eqf_cos_tail_f64(z), -r * rest);
    double sine = r + s, cosine = most + c, sine_lost = (r - sine) + s, cosine_lost = (most - cosine) + c;
    unsigned long long odd = quarter & 1;
    double above = odd ? -cosine : sine, above_lost = odd ? -cosine_lost : sine_lost;
    double below = odd ? sine : cosine, below_lost = odd ? sine_lost : cosine_lost;
    double inverse = 1.0 / below, y = above * inverse, left, product = eqf_product_f64(y, below, &left);
    return y + (((above - product) - left) + (above_lost - y * below_lost)) * inverse;
}

/* Of |x| < 2**-27 it is x, zeros with their sign. */
static inline double eqf_tan_quick_f64(double x) {
    unsigned long long quarter;
    double rest, r = eqf_quick_quarters_f64(x, &rest, &quarter), y = eqf_turned_tan_f64(r, rest, quarter);
    return __builtin_fabs(x) < 0x1p-27 ? x : y;
}

static inline double eqf_tan_f64(double x) {
    unsigned long long quarter;
    double rest, r = eqf_any_quarters_f64(x, &rest, &quarter), y = eqf_turned_tan_f64(r, rest, quarter);
    return __builtin_fabs(x) < 0x1p-27 ? x : y;
}
