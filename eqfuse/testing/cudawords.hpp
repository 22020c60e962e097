// CUDA's device functions on a CPU: 16-bit floats, bit casts, fast math, warp operations, atomics. In: cudasim.hpp's
// threads. Out: names that emitted text may use. Next stop: the emitted text, compiled right after this header.
#pragma once

// ---- 16-bit floats: bits as stored, arithmetic in float, one rounding to nearest even on the way back -----------------
namespace eqf {
template <class To, class From> To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
// Keeps what a second rounding needs (round to odd), so that double -> float -> 16 bits rounds once.
static inline float to_odd(double d) {
    float f = float(d);
    if (double(f) == d || d != d) return f;
    unsigned u = bits_as<unsigned>(f);
    if (fabs(double(f)) > fabs(d)) u--;
    return bits_as<float>(u | 1u);
}
struct HalfBits {
    static unsigned short pack(float f) {
        unsigned u = bits_as<unsigned>(f), sign = u >> 16 & 0x8000u;
        u &= 0x7fffffffu;
        if (u > 0x7f800000u) return 0x7fff;
        if (u >= 0x477ff000u) return sign | 0x7c00u;
        if (u < 0x38800000u) return sign | unsigned(nearbyintf(fabsf(f) * 16777216.0f));
        return sign | (u + 0xfffu + (u >> 13 & 1u) - 0x38000000u) >> 13;
    }
    static float unpack(unsigned short h) {
        unsigned sign = (h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 0x3ffu;
        if (e == 0) return copysignf(m / 16777216.0f, bits_as<float>(sign | 0x3f800000u));
        return bits_as<float>(sign | (e == 31 ? 0x7f800000u : (e + 112u) << 23) | m << 13);
    }
};
struct BrainBits {
    static unsigned short pack(float f) {
        unsigned u = bits_as<unsigned>(f);
        return (u & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    }
    static float unpack(unsigned short h) { return bits_as<float>(unsigned(h) << 16); }
};
template <class Bits> struct Small {
    unsigned short bits;
    Small() = default;
#ifdef EQF_COUNTED  // a copy of the whole, as an argument, calls no hook
    Small(const Small& other) : bits(other.bits) {}
    Small& operator=(const Small& other) { return bits = other.bits, *this; }
#endif
    Small(float f) : bits(Bits::pack(f)) {}
    Small(double d) : bits(Bits::pack(to_odd(d))) {}
    Small(int i) : Small(double(i)) {}
    operator float() const { return Bits::unpack(bits); }
#define EQF_SMALL_OP(op) \
    friend Small operator op(Small a, Small b) { return Small(float(a) op float(b)); } \
    friend Small& operator op##=(Small& a, Small b) { return a = a op b; }
    EQF_SMALL_OP(+) EQF_SMALL_OP(-) EQF_SMALL_OP(*) EQF_SMALL_OP(/)
#define EQF_SMALL_COMPARE(op) friend bool operator op(Small a, Small b) { return float(a) op float(b); }
    EQF_SMALL_COMPARE(<) EQF_SMALL_COMPARE(>) EQF_SMALL_COMPARE(<=) EQF_SMALL_COMPARE(>=)
    EQF_SMALL_COMPARE(==) EQF_SMALL_COMPARE(!=)
    friend Small operator-(Small a) { a.bits ^= 0x8000; return a; }
};
}  // namespace eqf
using __half = eqf::Small<eqf::HalfBits>;
using __nv_bfloat16 = eqf::Small<eqf::BrainBits>;
struct __align__(4) __half2 { __half x, y; };
struct __align__(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
#define EQF_CONVERT(T, word)                                                     \
    static inline float __##word##2float(T h) { return h; }                      \
    static inline T __float2##word(float f) { return T(f); }                     \
    static inline T __float2##word##_rn(float f) { return T(f); }                \
    static inline T __double2##word(double d) { return T(d); }                   \
    static inline unsigned short __##word##_as_ushort(T h) { return h.bits; }    \
    static inline T __ushort_as_##word(unsigned short u) { return eqf::bits_as<T>(u); } \
    static inline T __ldg(const T* p) { return *p; }
EQF_CONVERT(__half, half) EQF_CONVERT(__nv_bfloat16, bfloat16)
#define EQF_CONVERT2(T2, T, pair)                                                          \
    static inline T2 __floats2##pair##_rn(float a, float b) { return {T(a), T(b)}; }        \
    static inline T2 __float22##pair##_rn(float2 f) { return {T(f.x), T(f.y)}; }            \
    static inline float __low2float(T2 h) { return h.x; }                                  \
    static inline float __high2float(T2 h) { return h.y; }
EQF_CONVERT2(__half2, __half, half2) EQF_CONVERT2(__nv_bfloat162, __nv_bfloat16, bfloat162)
static inline float2 __half22float2(__half2 h) { return {h.x, h.y}; }
static inline float2 __bfloat1622float2(__nv_bfloat162 h) { return {h.x, h.y}; }
static inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }

// ---- bits and integers --------------------------------------------------------------------------------------------
#define __float_as_int(v) eqf::bits_as<int>(float(v))
#define __float_as_uint(v) eqf::bits_as<unsigned>(float(v))
#define __int_as_float(v) eqf::bits_as<float>(int(v))
#define __uint_as_float(v) eqf::bits_as<float>(unsigned(v))
#define __double_as_longlong(v) eqf::bits_as<long long>(double(v))
#define __longlong_as_double(v) eqf::bits_as<double>((long long)(v))
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static inline int __mulhi(int a, int b) { return (long long)a * b >> 32; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(unsigned v) { return v ? __builtin_clz(v) : 32; }
static inline int __clzll(unsigned long long v) { return v ? __builtin_clzll(v) : 64; }
static inline int __ffs(unsigned v) { return __builtin_ffs(v); }

// ---- math: the fast forms are as exact as the others here -----------------------------------------------------------
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __powf powf
#define __sincosf sincosf
#define rsqrtf(v) (1.0f / sqrtf(v))
#define rsqrt(v) (1.0 / sqrt(v))
#define __frsqrt_rn(v) (1.0f / sqrtf(v))
#define __frcp_rn(v) (1.0f / float(v))
#define __fsqrt_rn sqrtf
#define __fmaf_rn fmaf
#define __fdividef(a, b) (float(a) / float(b))
#define __fdiv_rn(a, b) (float(a) / float(b))
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __saturatef(float v) { return v > 0.0f ? v < 1.0f ? v : 1.0f : 0.0f; }
static inline int __float2int_rn(float v) { return int(nearbyintf(v)); }
static inline int __float2int_rz(float v) { return int(v); }
static inline int __float2int_rd(float v) { return int(floorf(v)); }
static inline float __int2float_rn(int v) { return float(v); }
namespace eqf {  // what glibc does not have
double inverse_of_erf(long double y);
double inverse_of_erfc(long double y);
double scaled_erfc(long double x);
double bessel_i(int order, double x);
}  // namespace eqf
static inline double erfcx(double x) { return eqf::scaled_erfc(x); }
static inline double erfinv(double y) { return eqf::inverse_of_erf(y); }
static inline double erfcinv(double y) { return eqf::inverse_of_erfc(y); }
static inline double normcdfinv(double y) { return -1.41421356237309504880L * eqf::inverse_of_erfc(2.0L * y); }
static inline double cyl_bessel_i0(double x) { return eqf::bessel_i(0, x); }
static inline double cyl_bessel_i1(double x) { return eqf::bessel_i(1, x); }
#define erfcxf(x) float(erfcx(x))
#define erfinvf(y) float(erfinv(y))
#define erfcinvf(y) float(erfcinv(y))
#define normcdfinvf(y) float(normcdfinv(y))
#define cyl_bessel_i0f(x) float(cyl_bessel_i0(x))
#define cyl_bessel_i1f(x) float(cyl_bessel_i1(x))
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

// ---- memory ---------------------------------------------------------------------------------------------------------
template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> T __ldca(const T* p) { return *p; }
template <class T> void __stcs(T* p, T v) { *p = v; }
template <class T> void __stcg(T* p, T v) { *p = v; }
static inline void __threadfence() { eqf::fences(); }
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __trap() { eqf::fail("__trap()"); }
// Blocks run one after another: what a block waits for has been done before it, or never is.
static inline void __nanosleep(unsigned) { eqf::fail("waits for what no block before it has done"); }

// Nothing interrupts a fibre, so a plain read, change and write is atomic.
namespace eqf {
template <class T> struct Same { using type = T; };
template <class T, class F> T change(T* p, F next) {
    meets_blocks(true);
    T old = *p;
    *p = next(old);
    meets_blocks(false);
    return old;
}
}  // namespace eqf
#define EQF_ATOMIC(name, allowed, result)                                       \
    template <class T> T name(T* p, typename eqf::Same<T>::type v) {            \
        static_assert(allowed, #name " has no form for this type");             \
        return eqf::change(p, [&](T old) -> T { return result; });              \
    }
EQF_ATOMIC(atomicAdd, sizeof(T) >= 2, old + v)
EQF_ATOMIC(atomicSub, std::is_integral<T>::value, old - v)
EQF_ATOMIC(atomicMin, std::is_integral<T>::value, v < old ? v : old)
EQF_ATOMIC(atomicMax, std::is_integral<T>::value, old < v ? v : old)
EQF_ATOMIC(atomicAnd, std::is_integral<T>::value, old & v)
EQF_ATOMIC(atomicOr, std::is_integral<T>::value, old | v)
EQF_ATOMIC(atomicXor, std::is_integral<T>::value, old ^ v)
EQF_ATOMIC(atomicExch, sizeof(T) >= 4, v)
EQF_ATOMIC(atomicInc, (std::is_same<T, unsigned>::value), old >= v ? 0u : old + 1u)
EQF_ATOMIC(atomicDec, (std::is_same<T, unsigned>::value), old == 0u || old > v ? v : old - 1u)
template <class T> T atomicCAS(T* p, typename eqf::Same<T>::type expected, typename eqf::Same<T>::type v) {
    static_assert(std::is_integral<T>::value, "atomicCAS has no form for this type");
    return eqf::change(p, [&](T old) -> T { return old == expected ? v : old; });
}

// ---- threads: macros, so that a report can name the line ---------------------------------------------------------------
namespace eqf {
template <class T> T shfl(int line, unsigned mask, T v, int source, int width = 32) {
    unsigned base = here() % 32 & ~unsigned(width - 1);
    return exchange(mask, v, base | (unsigned(source) & unsigned(width - 1)), true, line);
}
template <class T> T shfl_up(int line, unsigned mask, T v, unsigned delta, int width = 32) {
    unsigned lane = here() % 32, base = lane & ~unsigned(width - 1);
    return exchange(mask, v, lane - delta, lane >= base + delta, line);
}
template <class T> T shfl_down(int line, unsigned mask, T v, unsigned delta, int width = 32) {
    unsigned lane = here() % 32, base = lane & ~unsigned(width - 1);
    return exchange(mask, v, lane + delta, lane + delta < base + width, line);
}
template <class T> T shfl_xor(int line, unsigned mask, T v, int with, int width = 32) {
    unsigned lane = here() % 32, base = lane & ~unsigned(width - 1), source = lane ^ unsigned(with);
    return exchange(mask, v, source, source < base + width, line);
}

// Tensor cores, in the layouts of PTX: a lane's registers hold pairs of 16-bit numbers.
template <bool turned> void ldmatrix(unsigned* d, const void* row, int line = __builtin_LINE()) {
    if ((size_t)row % 16) fail("ldmatrix on line %d: a row does not start at a multiple of 16 bytes", line);
    unsigned first = meet(0xffffffffu, (unsigned long long)row, line), lane = here() % 32;
    auto element = [&](unsigned matrix, unsigned row, unsigned column) -> unsigned {
        return ((const unsigned short*)snap[first + matrix * 8 + row])[column];
    };
    for (unsigned j = 0; j < 4; j++) {
        unsigned r = lane / 4, c = lane % 4 * 2;
        d[j] = turned ? element(j, c, r) | element(j, c + 1, r) << 16 : element(j, r, c) | element(j, r, c + 1) << 16;
    }
}
template <class T> void mma(float* d, const unsigned* a, const unsigned* b, int line = __builtin_LINE()) {
    unsigned all[3][64];
    const unsigned long long own[] = {a[0] | (unsigned long long)a[1] << 32, a[2] | (unsigned long long)a[3] << 32,
                                      b[0] | (unsigned long long)b[1] << 32};
    for (int j = 0; j < 3; j++) memcpy(all[j], &snap[meet(0xffffffffu, own[j], line)], sizeof all[j]);
    auto number = [](unsigned pair, unsigned k) { return float(bits_as<T>((unsigned short)(pair >> k % 2 * 16))); };
    unsigned lane = here() % 32;
    for (unsigned j = 0; j < 4; j++) {
        unsigned r = lane / 4, c = lane % 4 * 2 + j % 2;  // the upper rows are in the odd registers
        for (unsigned k = 0; k < 16; k++)
            d[j] += number(all[k / 8][(r * 4 + k % 8 / 2) * 2 + j / 2], k) * number(all[2][(c * 4 + k % 8 / 2) * 2 + k / 8], k);
    }
}
void copy_async(void* to, const void* from, bool some, int line = __builtin_LINE());
void commit();
void wait(size_t later);
// Products of warpgroups (`cudawgmma.hpp`)
unsigned shared_address(const void* at);
void publish();
void wgmma_fence(int line);
void wgmma(float* d, unsigned long long a, unsigned long long b, bool brain, bool a_turned, bool b_turned, int line);
void wgmma_commit(int line);
void wgmma_wait(size_t later, int line);
static inline unsigned mask_or_all(unsigned mask = 0xffffffffu) { return mask; }
}  // namespace eqf
#define __shfl_sync(...) eqf::shfl(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) eqf::shfl_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) eqf::shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) eqf::shfl_xor(__LINE__, __VA_ARGS__)
#define eqf_ldmatrix eqf::ldmatrix
#define eqf_mma eqf::mma
#define eqf_copy_async eqf::copy_async
#define eqf_commit eqf::commit
template <int later> static inline void eqf_wait() { eqf::wait(later); }
#define eqf_shared_address eqf::shared_address
#define eqf_publish eqf::publish
#define eqf_wgmma_fence() eqf::wgmma_fence(__LINE__)
#define eqf_wgmma_commit() eqf::wgmma_commit(__LINE__)
template <int later> static inline void eqf_wgmma_wait(float*, int line = __builtin_LINE()) {
    eqf::wgmma_wait(later, line);
}
template <class T, bool a_turned, bool b_turned>
void eqf_wgmma(float* d, unsigned long long a, unsigned long long b, int line = __builtin_LINE()) {
    eqf::wgmma(d, a, b, std::is_same<T, __nv_bfloat16>::value, a_turned, b_turned, line);
}
#define __ballot_sync(mask, p) eqf::ballot(mask, (p) != 0, __LINE__)
#define __any_sync(mask, p) int(eqf::ballot(mask, (p) != 0, __LINE__) != 0)
#define __all_sync(mask, p) int(eqf::ballot(mask, (p) == 0, __LINE__) == 0)
#define __reduce_add_sync(mask, v) eqf::fold(mask, v, __LINE__, [](auto a, auto b) { return a + b; })
#define __reduce_min_sync(mask, v) eqf::fold(mask, v, __LINE__, [](auto a, auto b) { return b < a ? b : a; })
#define __reduce_max_sync(mask, v) eqf::fold(mask, v, __LINE__, [](auto a, auto b) { return a < b ? b : a; })
#define __syncwarp(...) ((void)eqf::meet(eqf::mask_or_all(__VA_ARGS__), 0, __LINE__))
#define __syncthreads() ((void)eqf::barrier(0, __LINE__))
#define __syncthreads_count(p) eqf::barrier((p) != 0, __LINE__)
#define __syncthreads_or(p) int(eqf::barrier((p) != 0, __LINE__) != 0)
#define __syncthreads_and(p) int(eqf::barrier((p) == 0, __LINE__) == 0)

#define threadIdx (eqf::current->idx)
#define blockIdx (eqf::block_idx)
#define blockDim (eqf::block_dim)
#define gridDim (eqf::grid_dim)
#define warpSize 32
