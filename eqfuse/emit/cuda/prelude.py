"""The CUDA functions that emitted kernels share, which stand at the head of every module. Next stop: `ops.py`.

NumPy's rules: floor division rounds down and the remainder has the divisor's sign; integer division by zero is 0; a
shift by the width or more leaves 0 or the sign. T is the type of the values, U an unsigned one in which integers wrap
around, C a signed one to which floats are converted.
"""

from __future__ import annotations

PRELUDE = r"""#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <class T, int N> struct __align__(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec { T v[N]; };
template <class T, class U> static __device__ __forceinline__ T eqf_same(const U& from) {  // the same bytes
    T to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static __device__ __forceinline__ void eqf_hide(unsigned& a) { asm volatile("" : "+r"(a)); }
static __device__ __forceinline__ void eqf_hide(unsigned short& a) { asm volatile("" : "+h"(a)); }
static __device__ __forceinline__ void eqf_hide(unsigned char&) {}
template <int N> static __device__ __forceinline__ void eqf_hide(Vec<unsigned, N>& a) {
    #pragma unroll
    for (int i = 0; i < N; i++) eqf_hide(a.v[i]);
}
// What was kept. The compiler does not know that, and keeps nothing beside it that was made of it before.
template <class T, class U> static __device__ __forceinline__ T eqf_kept(U from) {
    eqf_hide(from);
    return eqf_same<T>(from);
}
#ifndef EQF_ON_CPU
#define EQF_DYN_SHARED(T, name) extern __shared__ __align__(16) T name[]
#endif
template <class T, int N> struct Several { T v[N]; };  // side by side, no matter where they start
// What blocks leave for another block. It reads past its own cache, in words as long as all start at multiples of.
template <class W, class T> static __device__ __forceinline__ void eqf_words_from(const T* from, T* to) {
    #pragma unroll
    for (int i = 0; i < int(sizeof(T) / sizeof(W)); i++) ((W*)to)[i] = __ldcg((const W*)from + i);
}
template <class T> static __device__ __forceinline__ T eqf_fetch(const T* from) {
    __align__(16) T to;
    if (sizeof(T) % 16 == 0) eqf_words_from<uint4>(from, &to);
    else if (sizeof(T) % 8 == 0) eqf_words_from<uint2>(from, &to);
    else if (sizeof(T) % 4 == 0) eqf_words_from<unsigned>(from, &to);
    else eqf_words_from<unsigned char>(from, &to);
    return to;
}
template <class T> static __device__ __forceinline__ T eqf_max(T a, T b) { return a >= b || a != a ? a : b; }
template <class T> static __device__ __forceinline__ T eqf_min(T a, T b) { return a <= b || a != a ? a : b; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // one instruction
template <> __device__ __forceinline__ float eqf_max<float>(float a, float b) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
}
template <> __device__ __forceinline__ float eqf_min<float>(float a, float b) {
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
}
#endif
static __device__ __forceinline__ float eqf_bfloat16(float a) {  // rounded
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // one instruction: the upper half of a pair is a float of its own
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(a), "f"(0.0f));
    return __uint_as_float(pair);
#else
    return __bfloat162float(__float2bfloat16_rn(a));
#endif
}
static __device__ __forceinline__ float eqf_short_exp(float a) {  // exact to the digits of 16-bit floats
#if defined(EQF_STRICT) || defined(EQF_ON_CPU)
    return expf(a);
#else
    return __expf(a);
#endif
}
// One instruction each, off by up to 2 units in the last place; in the emulator, exact.
static __device__ __forceinline__ float eqf_near_reciprocal(float a) {
#ifdef EQF_ON_CPU
    return 1.0f / a;
#else
    float b;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(a));
    return b;
#endif
}
static __device__ __forceinline__ float eqf_near_exp2(float a) {
#ifdef EQF_ON_CPU
    return exp2f(a);
#else
    float b;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(a));
    return b;
#endif
}
static __device__ __forceinline__ float eqf_near_rsqrt(float a) {
#ifdef EQF_ON_CPU
    return 1.0f / sqrtf(a);
#else
    float b;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(a));
    return b;
#endif
}
// a / b, where r is 1 / b. What is left over of the first quotient corrects it, so that exact quotients stay exact; a
// quotient of two bfloat16 needs no more than the first. Infinities leave over nothing that is a number.
static __device__ __forceinline__ float eqf_quotient(float a, float b, float r) {
#ifdef EQF_STRICT
    return a / b;
#else
    const float q = a * r, nearer = fmaf(-fmaf(q, b, -a), r, q);
    return nearer == nearer ? nearer : q;
#endif
}
static __device__ __forceinline__ float eqf_short_quotient(float a, float b, float r) {
#ifdef EQF_STRICT
    return a / b;
#else
    return a * r;
#endif
}
#if defined(EQF_STRICT) || (defined(EQF_ON_CPU) && !defined(EQF_QUICK))
static __device__ __forceinline__ float eqf_divided(float a, float b) { return a / b; }
static __device__ __forceinline__ float eqf_short_divided(float a, float b) { return a / b; }
static __device__ __forceinline__ float eqf_sqrt(float a) { return sqrtf(a); }
static __device__ __forceinline__ float eqf_tanh(float a) { return tanhf(a); }
static __device__ __forceinline__ float eqf_short_tanh(float a) { return tanhf(a); }
#else
// No branches, which CUDA's own have for the sake of subnormal numbers. The reciprocal of a huge divisor would be one.
static __device__ __forceinline__ float eqf_divided(float a, float b) {
    if (fabsf(b) > 4.2535296e37f) a *= 0.25f, b *= 0.25f;
    return eqf_quotient(a, b, eqf_near_reciprocal(b));
}
static __device__ __forceinline__ float eqf_short_divided(float a, float b) {
    if (fabsf(b) > 4.2535296e37f) a *= 0.25f, b *= 0.25f;
    return a * eqf_near_reciprocal(b);
}
static __device__ __forceinline__ float eqf_sqrt(float a) {  // corrected as a quotient is: whole roots stay whole
    const float r = eqf_near_rsqrt(a), q = a * r, nearer = fmaf(-0.5f * r, fmaf(q, q, -a), q);
    return a == 0.0f || a == __int_as_float(0x7f800000) ? a : nearer;
}
static __device__ __forceinline__ float eqf_tanh(float a) {  // CUDA's, but that from 9 on it is 1 by itself
    const float inverse = eqf_near_reciprocal(eqf_near_exp2(fabsf(a) * 2.88539004f) + 1.0f), x = a * a;
    const float p = fmaf(x, fmaf(x, fmaf(x, 0.015739683f, -0.0523039624f), 0.133152977f), -0.333327681f);
    const float far = copysignf(fmaf(inverse, -2.0f, 1.0f), a), near = fmaf(a, fmaf(x, p, 0.0f), a);
    return fabsf(a) < 0.6f ? near : far;
}
static __device__ __forceinline__ float eqf_short_tanh(float a) {  // of bfloat16: 11 binary digits
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
    float b;
    asm("tanh.approx.f32 %0, %1;" : "=f"(b) : "f"(a));
    return b;
#else
    return eqf_tanh(a);
#endif
}
#endif
static __device__ __forceinline__ double eqf_divided(double a, double b) { return a / b; }
static __device__ __forceinline__ double eqf_sqrt(double a) { return sqrt(a); }
static __device__ __forceinline__ double eqf_tanh(double a) { return tanh(a); }
template <class T> static __device__ __forceinline__ T eqf_sign(T a) { return a != a ? a : T((a > T(0)) - (a < T(0))); }
template <class T, class U> static __device__ __forceinline__ T eqf_floor_divide(T a, T b) {
    if (b == T(0)) return T(0);
    if (T(-1) < T(0) && b == T(-1)) return T(-U(a));
    T q = a / b;
    return q * b != a && (a < T(0)) != (b < T(0)) ? q - T(1) : q;
}
template <class T> static __device__ __forceinline__ T eqf_fmod(T a, T b) {
    return b == T(0) || (T(-1) < T(0) && b == T(-1)) ? T(0) : a % b;
}
template <class T> static __device__ __forceinline__ T eqf_remainder(T a, T b) {
    T m = eqf_fmod<T>(a, b);
    return m != T(0) && (m < T(0)) != (b < T(0)) ? m + b : m;
}
template <class T> static __device__ __forceinline__ T eqf_fremainder(T a, T b) {
    T m = fmod(a, b);
    if (b == T(0) || m != m) return m;
    return m == T(0) ? copysign(T(0), b) : (b < T(0)) != (m < T(0)) ? m + b : m;
}
template <class T> static __device__ __forceinline__ T eqf_ffloor_divide(T a, T b) {
    if (b == T(0)) return a / b;
    T m = fmod(a, b), q = (a - m) / b;
    if (m != T(0) && (b < T(0)) != (m < T(0))) q -= T(1);
    if (q == T(0)) return copysign(T(0), a / b);
    T down = floor(q);
    return q - down > T(0.5) ? down + T(1) : down;
}
template <class T, class U> static __device__ __forceinline__ T eqf_power(T a, T n) {
    U p = 1;
    for (U x = U(a); n > T(0); n >>= 1, x *= x) if (n & T(1)) p *= x;
    return T(p);
}
template <class T> static __device__ __forceinline__ T eqf_logaddexp(T a, T b) {
    if (a == b) return a + T(0.693147180559945309417232);
    T d = a - b;
    return d > T(0) ? a + log1p(exp(-d)) : d <= T(0) ? b + log1p(exp(d)) : d;
}
template <class T, class U> static __device__ __forceinline__ U eqf_size(T a) { return a < T(0) ? -U(a) : U(a); }
template <class T, class U> static __device__ __forceinline__ U eqf_gcd(T x, T y) {
    U a = eqf_size<T, U>(x), b = eqf_size<T, U>(y);
    while (a != U(0)) { U r = b % a; b = a; a = r; }
    return b;
}
template <class T, class U> static __device__ __forceinline__ U eqf_lcm(T a, T b) {
    const U g = eqf_gcd<T, U>(a, b);
    return g == U(0) ? U(0) : eqf_size<T, U>(a) / g * eqf_size<T, U>(b);
}
template <class T, class U> static __device__ __forceinline__ unsigned char eqf_count(T a) {
    return (unsigned char)__popcll(eqf_size<T, U>(a));
}
template <class N> static __device__ __forceinline__ int eqf_int(N n) {
    return n > N(2147483647) ? 2147483647 : n < -N(2147483647) ? -2147483647 : (int)n;
}
template <class T, class U> static __device__ __forceinline__ T eqf_left(T a, T n) {
    return (unsigned long long)n < sizeof(T) * 8 ? T(U(a) << n) : T(0);
}
template <class T> static __device__ __forceinline__ T eqf_right(T a, T n) {
    return (unsigned long long)n < sizeof(T) * 8 ? T(a >> n) : a < T(0) ? T(-1) : T(0);
}
template <class I, class T> static __device__ __forceinline__ I eqf_place(T at, I n) {
    long long p = (long long)at + (at < T(0) ? n : 0);
    if ((unsigned long long)p >= n) p = eqf_remainder<long long>(p, n);
    return (I)p;
}
template <class T, class C, class F> static __device__ __forceinline__ T eqf_to(F a) {
    const F end = sizeof(C) == 4 ? F(2147483648.0) : F(9223372036854775808.0);
    const C least = sizeof(C) == 4 ? C(-2147483647 - 1) : C(-9223372036854775807LL - 1);
    const bool high = sizeof(T) == 8 && T(-1) > T(0) && a >= end;
    if (high) a -= end;
    const T whole = T(a > -end - F(1) && a < end ? C(a) : least);
    return high ? whole ^ T(least) : whole;
}
template <class T> struct __align__(sizeof(T) * 2) eqf_complex {
    T re, im;
    eqf_complex() = default;
    __device__ __forceinline__ eqf_complex(T re, T im = T(0)) : re(re), im(im) {}
    template <class U> __device__ __forceinline__ explicit eqf_complex(eqf_complex<U> z) : re(T(z.re)), im(T(z.im)) {}
    __device__ __forceinline__ explicit operator bool() const { return re != T(0) || im != T(0); }
    __device__ __forceinline__ eqf_complex operator-() const { return {-re, -im}; }
    __device__ __forceinline__ eqf_complex operator+(eqf_complex z) const { return {re + z.re, im + z.im}; }
    __device__ __forceinline__ eqf_complex operator-(eqf_complex z) const { return {re - z.re, im - z.im}; }
    __device__ __forceinline__ eqf_complex operator*(eqf_complex z) const {
        return {re * z.re - im * z.im, re * z.im + im * z.re};
    }
    __device__ __forceinline__ eqf_complex operator/(eqf_complex z) const {  // Smith's method, as NumPy's
        if (z.re == T(0) && z.im == T(0)) return {re / fabs(z.re), im / fabs(z.re)};
        if (fabs(z.re) >= fabs(z.im)) {
            const T ratio = z.im / z.re, scale = T(1) / (z.re + z.im * ratio);
            return {(re + im * ratio) * scale, (im - re * ratio) * scale};
        }
        const T ratio = z.re / z.im, scale = T(1) / (z.im + z.re * ratio);
        return {(re * ratio + im) * scale, (im * ratio - re) * scale};
    }
    __device__ __forceinline__ bool operator==(eqf_complex z) const { return re == z.re && im == z.im; }
    __device__ __forceinline__ bool operator!=(eqf_complex z) const { return !(*this == z); }
};
template <class T> static __device__ __forceinline__ eqf_complex<T> eqf_reciprocal(eqf_complex<T> z) {
    if (fabs(z.im) <= fabs(z.re)) {
        const T ratio = z.im / z.re, size = z.re + z.im * ratio;
        return {T(1) / size, -ratio / size};
    }
    const T ratio = z.re / z.im, size = z.re * ratio + z.im;
    return {ratio / size, T(-1) / size};
}
template <class T> static __device__ __forceinline__ eqf_complex<T> eqf_exp(eqf_complex<T> z) {
    const T size = exp(z.re), root = exp(z.re / T(2));
    if (z.im == T(0)) return {size, z.im};
    if (isinf(z.re) && !isfinite(z.im)) return {size, z.re > T(0) ? z.im - z.im : copysign(T(0), z.im)};
    if (isinf(size)) return {root * cos(z.im) * root, root * sin(z.im) * root};  // either part may yet be finite
    return {size * cos(z.im), size * sin(z.im)};
}
template <class T> static __device__ __forceinline__ eqf_complex<T> eqf_shuffle(eqf_complex<T> z, int step) {
    return {__shfl_xor_sync(0xffffffffu, z.re, step), __shfl_xor_sync(0xffffffffu, z.im, step)};
}
template <class T> struct eqf_best { T value; long long at; };
template <class T> static __device__ __forceinline__ eqf_best<T> eqf_shuffle(eqf_best<T> a, int step) {
    return {__shfl_xor_sync(0xffffffffu, a.value, step), __shfl_xor_sync(0xffffffffu, a.at, step)};
}
template <class T> static __device__ __forceinline__ eqf_best<T> eqf_first_max(eqf_best<T> a, eqf_best<T> b) {
    const bool as_good = b.value == a.value || (b.value != b.value && a.value != a.value);
    const bool better = b.value > a.value || (b.value != b.value && a.value == a.value);
    return better || (as_good && b.at < a.at) ? b : a;
}
template <class T> static __device__ __forceinline__ eqf_best<T> eqf_first_min(eqf_best<T> a, eqf_best<T> b) {
    const bool as_good = b.value == a.value || (b.value != b.value && a.value != a.value);
    const bool better = b.value < a.value || (b.value != b.value && a.value == a.value);
    return better || (as_good && b.at < a.at) ? b : a;
}
#ifndef EQF_ON_CPU  // the emulator has these of its own
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
static __device__ __forceinline__ void eqf_copy_async(void* to, const void* from, bool some) {  // 16 bytes, or zeros
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(some ? 16 : 0) : "memory");
}
static __device__ __forceinline__ void eqf_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int later> static __device__ __forceinline__ void eqf_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(later) : "memory");
}
#endif
template <bool turned> static __device__ __forceinline__ void eqf_ldmatrix(unsigned* d, const void* row) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at));
}
template <class T> static __device__ __forceinline__ void eqf_mma(float* d, const unsigned* a, const unsigned* b);
#define EQF_MMA(T, word)                                                                                      \
    template <> __device__ __forceinline__ void eqf_mma<T>(float* d, const unsigned* a, const unsigned* b) {  \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." word "." word ".f32 "                           \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                        \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                         \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                     \
    }
EQF_MMA(__half, "f16") EQF_MMA(__nv_bfloat16, "bf16")
#endif
"""
