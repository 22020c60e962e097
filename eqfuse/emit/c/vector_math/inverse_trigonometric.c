/* Inverse trigonometric functions. The polynomials are our own minimax fits. */

/* atan(t) for 0 <= t <= 1: t + t**3 * P(t**2), degree 8, within 2**-28.5. */
static inline float eqf_atan_near_f32(float t) {
    float z = t * t;
    float p = -0.0017878764f;
    p = eqf_fma_f32(p, z, 0.010888888f);
    p = eqf_fma_f32(p, z, -0.03112988f);
    p = eqf_fma_f32(p, z, 0.05790936f);
    p = eqf_fma_f32(p, z, -0.08400625f);
    p = eqf_fma_f32(p, z, 0.10951216f);
    p = eqf_fma_f32(p, z, -0.14264056f);
    p = eqf_fma_f32(p, z, 0.19998531f);
    p = eqf_fma_f32(p, z, -0.333333f);
    return eqf_fma_f32(t * z, p, t);
}

/* The same: degree 19, within 2**-57.6. */
static inline double eqf_atan_near_f64(double t) {
    double z = t * t;
    double p = 1.3203156996401462e-05;
    p = eqf_fma_f64(p, z, -0.00015194347346167552);
    p = eqf_fma_f64(p, z, 0.0008303245688653642);
    p = eqf_fma_f64(p, z, -0.0028821109598019708);
    p = eqf_fma_f64(p, z, 0.00719107711217884);
    p = eqf_fma_f64(p, z, -0.013892928582120363);
    p = eqf_fma_f64(p, z, 0.02197677531691849);
    p = eqf_fma_f64(p, z, -0.029897293612688794);
    p = eqf_fma_f64(p, z, 0.0366377692045741);
    p = eqf_fma_f64(p, z, -0.04218975184697181);
    p = eqf_fma_f64(p, z, 0.04722244100298165);
    p = eqf_fma_f64(p, z, -0.05253495357054742);
    p = eqf_fma_f64(p, z, 0.058805225390756576);
    p = eqf_fma_f64(p, z, -0.06666403154424624);
    p = eqf_fma_f64(p, z, 0.07692279725811414);
    p = eqf_fma_f64(p, z, -0.09090906992898863);
    p = eqf_fma_f64(p, z, 0.11111111006423957);
    p = eqf_fma_f64(p, z, -0.14285714282552955);
    p = eqf_fma_f64(p, z, 0.1999999999995103);
    p = eqf_fma_f64(p, z, -0.33333333333333065);
    return eqf_fma_f64(t * z, p, t);
}

/* pi/2 and pi are in two parts. */
static inline float eqf_atan_f32(float x) {
    float a = __builtin_fabsf(x), y = eqf_atan_near_f32(a > 1.0f ? 1.0f / a : a);
    return __builtin_copysignf(a > 1.0f ? 0x1.921fb6p0f - (y - -0x1.777a5cp-25f) : y, x);
}

static inline double eqf_atan_f64(double x) {
    double a = __builtin_fabs(x), y = eqf_atan_near_f64(a > 1.0 ? 1.0 / a : a);
    return __builtin_copysign(a > 1.0 ? 0x1.921fb54442d18p0 - (y - 0x1.1a62633145c07p-54) : y, x);
}

/* Of two zeros the quotient is 0, of two infinities 1. */
static inline float eqf_atan2_f32(float y, float x) {
    float a = __builtin_fabsf(x), b = __builtin_fabsf(y), above = b > a ? a : b, below = b > a ? b : a;
    float t = above == below ? (below == 0.0f ? 0.0f : 1.0f) : above / below;
    float angle = eqf_atan_near_f32(t);
    angle = b > a ? 0x1.921fb6p0f - (angle - -0x1.777a5cp-25f) : angle;
    angle = __builtin_copysignf(1.0f, x) < 0.0f ? 0x1.921fb6p1f - (angle - -0x1.777a5cp-24f) : angle;
    return x != x || y != y ? __builtin_nanf("") : __builtin_copysignf(angle, y);
}

static inline double eqf_atan2_f64(double y, double x) {
    double a = __builtin_fabs(x), b = __builtin_fabs(y), above = b > a ? a : b, below = b > a ? b : a;
    double t = above == below ? (below == 0.0 ? 0.0 : 1.0) : above / below;
    double angle = eqf_atan_near_f64(t);
    angle = b > a ? 0x1.921fb54442d18p0 - (angle - 0x1.1a62633145c07p-54) : angle;
    angle = __builtin_copysign(1.0, x) < 0.0 ? 0x1.921fb54442d18p1 - (angle - 0x1.1a62633145c07p-53) : angle;
    return x != x || y != y ? __builtin_nan("") : __builtin_copysign(angle, y);
}

/* asin(t) with z = t**2 for |t| <= 0.55: t + t * z * P(z), degree 5, within 2**-29.5. */
static inline float eqf_asin_near_f32(float t, float z) {
    float p = 0.045327086f;
    p = eqf_fma_f32(p, z, 0.008554042f);
    p = eqf_fma_f32(p, z, 0.033449367f);
    p = eqf_fma_f32(p, z, 0.04431037f);
    p = eqf_fma_f32(p, z, 0.07501629f);
    p = eqf_fma_f32(p, z, 0.1666664f);
    return eqf_fma_f32(t * z, p, t);
}

/* The same: degree 13, within 2**-58.9. */
static inline double eqf_asin_near_f64(double t, double z) {
    double p = 0.05334615392645246;
    p = eqf_fma_f64(p, z, -0.06321618462560921);
    p = eqf_fma_f64(p, z, 0.055998664976420254);
    p = eqf_fma_f64(p, z, -0.014769211099734008);
    p = eqf_fma_f64(p, z, 0.015021111851914968);
    p = eqf_fma_f64(p, z, 0.008367689030208436);
    p = eqf_fma_f64(p, z, 0.01176007051092856);
    p = eqf_fma_f64(p, z, 0.01394273948279059);
    p = eqf_fma_f64(p, z, 0.017354406950724568);
    p = eqf_fma_f64(p, z, 0.02237207616131947);
    p = eqf_fma_f64(p, z, 0.030381947146864208);
    p = eqf_fma_f64(p, z, 0.04464285709074183);
    p = eqf_fma_f64(p, z, 0.07500000000050744);
    p = eqf_fma_f64(p, z, 0.16666666666666494);
    return eqf_fma_f64(t * z, p, t);
}

/* Beyond 0.55: pi/2 - 2 * asin(sqrt((1 - a) / 2)), which beyond 1 is NaN. */
static inline float eqf_asin_f32(float x) {
    float a = __builtin_fabsf(x), z = a > 0.55f ? 0.5f * (1.0f - a) : x * x;
    float y = eqf_asin_near_f32(a > 0.55f ? __builtin_sqrtf(z) : a, z);
    return __builtin_copysignf(a > 0.55f ? 0x1.921fb6p0f - (2.0f * y - -0x1.777a5cp-25f) : y, x);
}

static inline double eqf_asin_f64(double x) {
    double a = __builtin_fabs(x), z = a > 0.55 ? 0.5 * (1.0 - a) : x * x;
    double y = eqf_asin_near_f64(a > 0.55 ? __builtin_sqrt(z) : a, z);
    return __builtin_copysign(a > 0.55 ? 0x1.921fb54442d18p0 - (2.0 * y - 0x1.1a62633145c07p-54) : y, x);
}

static inline float eqf_acos_f32(float x) {
    float a = __builtin_fabsf(x), z = a > 0.55f ? 0.5f * (1.0f - a) : x * x;
    float y = eqf_asin_near_f32(a > 0.55f ? __builtin_sqrtf(z) : x, z);
    float far = x < 0.0f ? 0x1.921fb6p1f - (2.0f * y - -0x1.777a5cp-24f) : 2.0f * y;
    return a > 0.55f ? far : 0x1.921fb6p0f - (y - -0x1.777a5cp-25f);
}

static inline double eqf_acos_f64(double x) {
    double a = __builtin_fabs(x), z = a > 0.55 ? 0.5 * (1.0 - a) : x * x;
    double y = eqf_asin_near_f64(a > 0.55 ? __builtin_sqrt(z) : x, z);
    double far = x < 0.0 ? 0x1.921fb54442d18p1 - (2.0 * y - 0x1.1a62633145c07p-53) : 2.0 * y;
    return a > 0.55 ? far : 0x1.921fb54442d18p0 - (y - 0x1.1a62633145c07p-54);
}
