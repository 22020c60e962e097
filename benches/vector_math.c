/* How far results are from the true values, in units of the last place. Before it stand definitions of
   T and WIDE: the type of the results, and that of the reference;
   BITS, LEAST, MOST: of T's mantissa, the exponents of its least number and of the power of two that is infinite. */
#include <tgmath.h>

/* 2**e for -1022 <= e <= 1023, as a double; that of T's least number is a product of two. */
static double power_of_two(int e) {
    union { unsigned long long bits; double number; } u = { (unsigned long long)(e + 1023) << 52 };
    return u.number;
}

/* How many units of T's last place make up r - g, both finite. */
static double units(WIDE g, WIDE r) {
    union { double number; unsigned long long bits; } u = { (double)r };
    int e = (int)(u.bits >> 52 & 2047) - 1022 - BITS;
    e = e < LEAST ? LEAST : e;
    return (double)fabs((g - r) * power_of_two(-e / 2) * power_of_two(-e + e / 2));
}

/* Infinite where one is NaN or infinite and the other is not, or where the sign of a zero is wrong. By selects, which
   vectorise. */
static double ulps(T got, WIDE r) {
    WIDE top = (WIDE)2 * power_of_two(MOST - 1), g = got == INFINITY ? top : got == -INFINITY ? -top : got;
    int one_sign = !signbit(got) == !signbit(r), both_nan = got != got && r != r;
    double error = got == (T)r && got - got != 0 ? 0 : r - r != 0 || got != got ? INFINITY : units(g, r);
    return both_nan ? 0 : one_sign || (got != 0 && r == 0) ? error : INFINITY;
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

/* The same, given the true values. */
double worst_beside(const WIDE *wanted, const T *got, long n, long *where) {
    double most = 0;
    *where = 0;
    for (long start = 0; start < n; start += 4096) {
        long end = start + 4096 < n ? start + 4096 : n;
        double here = 0;
#pragma omp simd reduction(max : here)
        for (long i = start; i < end; i++) {
            double error = ulps(got[i], wanted[i]);
            here = error > here ? error : here;
        }
        if (here <= most) continue;
        most = here;
        for (*where = start; ulps(got[*where], wanted[*where]) != here; ++*where);
    }
    return most;
}
