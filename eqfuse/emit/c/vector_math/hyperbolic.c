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
