/* How far results are from the true values, in units of the last place. Before it stand definitions of
   T and WIDE: the type of the results, and that of the reference;
   BITS, LEAST, MOST: of T's mantissa, the exponents of its least number and of the power of two that is infinite. */
#include <tgmath.h>

static WIDE power_of_two(int e) { return ldexp((WIDE)1, e); }

/* The unit of the last place of T at r. */
static WIDE unit(WIDE r) {
    int e = ilogb(r) + 1 - BITS;
    return power_of_two(e < LEAST ? LEAST : e);
}

/* Infinite where one is NaN or infinite and the other is not, or where the sign of a zero is wrong. */
static double ulps(T got, WIDE r) {
    if (isnan(r) || isnan(got)) return isnan(r) && isnan(got) ? 0 : INFINITY;
    if (!signbit(got) != !signbit(r) && (got == 0 || r != 0)) return INFINITY;
    if (got == r || (isinf(got) && isinf((T)r))) return 0;
    if (isinf(r)) return INFINITY;
    WIDE g = isinf(got) ? copysign(power_of_two(MOST), (WIDE)got) : (WIDE)got;
    return (double)(fabs(g - r) / (r == 0 ? power_of_two(LEAST) : unit(r)));
}

/* The largest error among n results, and where it is. */
double worst(WIDE (*reference)(WIDE, WIDE), const T *x, const T *y, const T *got, long n, long *where) {
    double most = 0;
    *where = 0;
    for (long i = 0; i < n; i++) {
        double error = ulps(got[i], reference(x[i], y[i]));
        if (error > most) most = error, *where = i;
    }
    return most;
}
