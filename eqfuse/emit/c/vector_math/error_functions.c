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

/* erf(x) / x - 1 for z = x**2 <= 1: degree 11, erf(x) within 2**-56. */
static inline double eqf_erf_tail_f64(double z) {
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
    return eqf_fma_f64(p, z, 0.12837916709551256);
}

/* The same, for |x| < 1 and beyond, to 6, in degree 18 within 2**-61.7. */
static inline double eqf_erf_f64(double x) {
    double a = __builtin_fabs(x), t = a > 6.0 ? 6.0 : a;
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
    return a < 1.0 ? eqf_fma_f64(x, eqf_erf_tail_f64(x * x), x) : __builtin_copysign(1.0 - e, x);
}

/* erfc(|x|) = exp(-x**2) * P(q) / (|x| + 3) with q = (|x| - 3) / (|x| + 3): degree 10 within 2**-29, in double; from
   10.3 on it vanishes. */
static inline float eqf_erfc_f32(float x) {
    double a = __builtin_fabsf(x), t = a > 10.3 ? 10.3 : a, inverse = 1.0 / (t + 3.0), q = (t - 3.0) * inverse;
    double p = 8.522211741189162e-06;
    p = eqf_fma_f64(p, q, -0.0003103867418101816);
    p = eqf_fma_f64(p, q, -0.0004833093507322874);
    p = eqf_fma_f64(p, q, 0.003069676364965801);
    p = eqf_fma_f64(p, q, -0.001228561140378088);
    p = eqf_fma_f64(p, q, -0.026837112619698237);
    p = eqf_fma_f64(p, q, 0.11952958883536853);
    p = eqf_fma_f64(p, q, -0.3104662875669909);
    p = eqf_fma_f64(p, q, 0.5902282677481696);
    p = eqf_fma_f64(p, q, -0.8833944781687739);
    p = eqf_fma_f64(p, q, 1.0740069079710075);
    double y = p * inverse * eqf_exp_near_f64(-t * t);
    return (float)(x < 0.0f ? 2.0 - y : y);
}

/* The same with 4 for 3, beyond 0.8: degree 19, within 2**-55.6. What the quotients, the last steps of the polynomial
   and the square lost is put right; the error of q by d/dx P = (x + 4) * (y * (2 * x + 1 / (x + 4)) - 2 / sqrt(pi)),
   where y = P / (x + 4). */
static inline double eqf_erfc_f64(double x) {
    double a = __builtin_fabs(x), t = a > 27.3 ? 27.3 : a, r1, r2, r3, r4, r5, r6, r7, r8, r9;
    double below = eqf_sum_f64(t, 4.0, &r1), inverse = 1.0 / below, back = eqf_product_f64(inverse, below, &r2);
    double lost = ((1.0 - back) - r2) - inverse * r1;
    double q = eqf_product_f64(t - 4.0, inverse, &r3), q_rest = r3 + q * lost;
    double p = -1.0126693690494732e-08;
    p = eqf_fma_f64(p, q, 9.440042921128682e-08);
    p = eqf_fma_f64(p, q, -5.1666590412146496e-08);
    p = eqf_fma_f64(p, q, -8.208717670420115e-07);
    p = eqf_fma_f64(p, q, 1.4026127256884045e-06);
    p = eqf_fma_f64(p, q, 4.682499933330234e-06);
    p = eqf_fma_f64(p, q, -1.8850246763063258e-05);
    p = eqf_fma_f64(p, q, -3.631834209144811e-06);
    p = eqf_fma_f64(p, q, 0.00017680970766713932);
    p = eqf_fma_f64(p, q, -0.0004550532485535535);
    p = eqf_fma_f64(p, q, -0.00028095831703903754);
    p = eqf_fma_f64(p, q, 0.006112055711768394);
    p = eqf_fma_f64(p, q, -0.026370053396959414);
    p = eqf_fma_f64(p, q, 0.07638151490628602);
    p = eqf_fma_f64(p, q, -0.1740109372367798);
    p = eqf_fma_f64(p, q, 0.3308515878780869);
    p = eqf_fma_f64(p, q, -0.5408538313133144);
    p = eqf_fma_f64(p, q, 0.7732087022652365);
    p = eqf_sum_f64(-0.9765487290808814, eqf_product_f64(q, p, &r8), &r9);
    double sum = eqf_sum_f64(1.095995661000491, eqf_product_f64(q, p, &r4), &r5);
    double sum_rest = r4 + r5 + eqf_fma_f64(q, r8 + r9, 5.780218009012259e-17), y = eqf_product_f64(sum, inverse, &r6);
    double slope = 0.125 * below * below * (y * (2.0 * t + inverse) - 1.1283791670955126);
    double y_rest = r6 + sum_rest * inverse + y * lost + q_rest * slope;
    double square = eqf_product_f64(t, t, &r7), n = eqf_round_f64(square * -1.4426950408889634);
    double most = eqf_fma_f64(n, -0x1.62e42feep-1, -square), least = n * -0x1.a39ef35793c76p-33, r = most + least;
    double r_rest = (most - r) + least - r7, grown = eqf_fma_f64(r * r, eqf_exp_tail_f64(r), r);
    double far = eqf_scale_f64(y + eqf_fma_f64(y, grown, (y_rest + y * r_rest) * (1.0 + grown)), n);
    double near = eqf_fma_f64(-x, eqf_erf_tail_f64(x * x), 1.0 - x);
    return a < 0.8 ? near : x < 0.0 ? 2.0 - far : far;
}
