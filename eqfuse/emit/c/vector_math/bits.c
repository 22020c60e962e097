/* What all others are made of: bits of numbers, fused products, rounding, powers of two. Every paragraph of these files
   defines one name, for the loader to take those that are needed. */

/* The bits of x. */
static inline unsigned eqf_bits_f32(float x) { union { float number; unsigned bits; } u = { x }; return u.bits; }

/* The number with these bits. */
static inline float eqf_number_f32(unsigned bits) {
    union { unsigned bits; float number; } u = { bits };
    return u.number;
}

/* The bits of x. */
static inline unsigned long long eqf_bits_f64(double x) {
    union { double number; unsigned long long bits; } u = { x };
    return u.bits;
}

/* The number with these bits. */
static inline double eqf_number_f64(unsigned long long bits) {
    union { unsigned long long bits; double number; } u = { bits };
    return u.number;
}

/* x * y + z: rounded once where the machine has an instruction for it (the compiler says so), else twice. Used where
   either is accurate enough. */
static inline float eqf_fma_f32(float x, float y, float z) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(x, y, z);
#else
    return x * y + z;
#endif
}

/* The same for double. */
static inline double eqf_fma_f64(double x, double y, double z) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fma(x, y, z);
#else
    return x * y + z;
#endif
}

/* The integer next to x, for |x| < 2**22: adding 1.5 * 2**23 leaves no bits for a fraction. */
static inline float eqf_round_f32(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

/* The integer next to x, for |x| < 2**51. */
static inline double eqf_round_f64(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* An integer |n| < 2**22 as an int: the low bits of the sum. Of NaN, anything. */
static inline int eqf_int_f32(float n) { return (int)(eqf_bits_f32(n + 0x1.8p23f) - eqf_bits_f32(0x1.8p23f)); }

/* An integer |n| < 2**51, modulo 2**64. Of NaN, anything. */
static inline unsigned long long eqf_int_f64(double n) {
    return eqf_bits_f64(n + 0x1.8p52) - eqf_bits_f64(0x1.8p52);
}

/* 2**n for an integer -126 <= n <= 127. */
static inline float eqf_two_to_f32(float n) { return eqf_number_f32((unsigned)(eqf_int_f32(n) + 127) << 23); }

/* 2**n for an integer -1022 <= n <= 1023. */
static inline double eqf_two_to_f64(double n) { return eqf_number_f64((eqf_int_f64(n) + 1023) << 52); }

/* y * 2**n for an integer -252 <= n <= 254, rounded once, where 1/2 < |y| < 2: in two steps, since 2**n may be too
   large or too small. */
static inline float eqf_scale_f32(float y, float n) {
    int whole = eqf_int_f32(n), half = whole >> 1;
    float first = eqf_number_f32((unsigned)(half + 127) << 23);
    return y * first * eqf_number_f32((unsigned)(whole - half + 127) << 23);
}

/* The same for -2044 <= n <= 2046. */
static inline double eqf_scale_f64(double y, double n) {
    unsigned long long whole = eqf_int_f64(n) + 2046, half = whole >> 1;
    return y * eqf_number_f64(half << 52) * eqf_number_f64((whole - half) << 52);
}
