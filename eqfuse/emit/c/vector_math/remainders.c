/* What is left of |x| by |y|, with the sign of x: C's fmod, exactly. */

/* m - b * 2**s * q, where q is next to m / (b * 2**s): exact, since q has 28 bits at most and b has 24. */
static inline double eqf_modulo_step_f64(double m, double b, double inverse, double power, double root) {
    return m - __builtin_trunc(m * (inverse * root)) * (b * power);
}

/* The quotient of two floats has up to 278 bits, of which each step finds 28, from the top. The last of them may be off
   by one, which the next step, or the sums at last, put right. An infinite y is a number above all floats; NaN stays. */
static inline float eqf_modulo_f32(float x, float y) {
    unsigned size = eqf_bits_f32(y) & 0x7fffffffu, nan = -(unsigned)(size > 0x7f800000u);
    unsigned long long bits = eqf_bits_f64((double)eqf_number_f32(size)), most = 0x4800000000000000ull;
    double b = eqf_number_f64(bits < most ? bits : most), m = __builtin_fabsf(x), inverse = 1.0 / b;
    m = eqf_modulo_step_f64(m, b, inverse, 0x1p252, 0x1p-252);
    m = eqf_modulo_step_f64(m, b, inverse, 0x1p224, 0x1p-224);
    m = eqf_modulo_step_f64(m, b, inverse, 0x1p196, 0x1p-196);
    m = eqf_modulo_step_f64(m, b, inverse, 0x1p168, 0x1p-168);
    m = eqf_modulo_step_f64(m, b, inverse, 0x1p140, 0x1p-140);
    m = eqf_modulo_step_f64(m, b, inverse, 0x1p112, 0x1p-112);
    m = eqf_modulo_step_f64(m, b, inverse, 0x1p84, 0x1p-84);
    m = eqf_modulo_step_f64(m, b, inverse, 0x1p56, 0x1p-56);
    m = eqf_modulo_step_f64(m, b, inverse, 0x1p28, 0x1p-28);
    m = eqf_modulo_step_f64(m, b, inverse, 1.0, 1.0);
    m = m < 0.0 ? m + b : m;
    m = m >= b ? m - b : m;
    return eqf_number_f32(eqf_bits_f32(__builtin_copysignf((float)m, x)) | (nan & 0x7fc00000u));
}

static inline double eqf_modulo_f64(double x, double y) { return __builtin_fmod(x, y); }
