// CUDA's words and threads on a CPU. In: emitted CUDA text, compiled after this header by g++. Out: one
// eqf_launch_<kernel> per EQF_EXPORT, which runs the grid block by block, each CUDA thread a fibre.
// `cudasim.cpp` is linked to it.
// Next stop: cudasim.py, which calls it with cupy.RawKernel's conventions.
#pragma once
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>
#include <utility>

// NVRTC does not know these; a kernel that uses them must fail here too.
#undef INFINITY
#undef NAN
#undef M_PI
#undef M_E
#undef assert

#define EQF_ON_CPU 1
#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(condition) ((void)0)
// One section holds all static shared memory, so that it can be poisoned. "used" keeps g++ from folding a variable
// that no code writes into the constant 0.
#define __shared__ static __attribute__((section("eqfshared"), used))
#define EQF_DYN_SHARED(T, name) T* name = (T*)eqf::dyn_shared
#define assert(condition) ((condition) ? (void)0 : eqf::fail("assertion failed, line %d: %s", __LINE__, #condition))

// ---- vector types -------------------------------------------------------------------------------------------------
#define EQF_VEC2(N, T) struct __align__(2 * sizeof(T)) N##2 { T x, y; }; \
    static inline N##2 make_##N##2(T x, T y) { return {x, y}; }
#define EQF_VEC3(N, T) struct N##3 { T x, y, z; }; \
    static inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }
#define EQF_VEC4(N, T) struct __align__(sizeof(T) > 4 ? 16 : 4 * sizeof(T)) N##4 { T x, y, z, w; }; \
    static inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define EQF_VECS(N, T) EQF_VEC2(N, T) EQF_VEC3(N, T) EQF_VEC4(N, T)
EQF_VECS(float, float) EQF_VECS(int, int) EQF_VECS(uint, unsigned) EQF_VECS(double, double)
EQF_VECS(char, signed char) EQF_VECS(uchar, unsigned char) EQF_VECS(short, short) EQF_VECS(ushort, unsigned short)
EQF_VECS(longlong, long long) EQF_VECS(ulonglong, unsigned long long)
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// ---- threads ------------------------------------------------------------------------------------------------------
#pragma GCC visibility push(hidden)
namespace eqf {
enum State { RUN, WARP, BLOCK, DONE };  // ready; at a warp operation; at __syncthreads; returned
enum { MAX_THREADS = 1024, STACK = 65536, PAGE = 4096, TRAPS = 5 };
struct Fibre {
    State state;
    uint3 idx;
    unsigned mask;  // the lanes this thread waits for in WARP
    int line;       // where it waits
    int vote;       // its predicate at __syncthreads_count/_or/_and
};
extern Fibre fibres[MAX_THREADS], *current;
extern dim3 grid_dim, block_dim;
extern uint3 block_idx;
extern unsigned long long snap[MAX_THREADS];
extern unsigned char dyn_shared[227 * 1024];

static inline unsigned here() { return unsigned(current - fibres); }

struct Launch {
    const unsigned* gb;  // grid x y z, block x y z
    size_t dynamic_bytes;
    const size_t* blocks;  // those to run, if not all
    size_t n_blocks;
    unsigned seed;
    void* stacks;
    char* text;  // on return empty, or what went wrong
    size_t text_size;
};
void run(void (*body)(void*), void* arguments, const Launch&);
void fail(const char* format, ...);
int barrier(int predicate, int line);
void fences();                // what a thread does that blocks may pass on data by
void meets_blocks(bool now);  // an atomic operation begins, or ends
// Waits until every lane of `mask` has come with the same mask; afterwards snap[] holds what each of them brought.
unsigned meet(unsigned mask, unsigned long long value, int line);
unsigned ballot(unsigned mask, int predicate, int line);

template <class T> T exchange(unsigned mask, T value, unsigned source, bool in_range, int line) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof value);
    unsigned first = meet(mask, bits, line);
    if (!in_range) return value;
    if (!(mask >> source & 1)) fail("shuffle on line %d reads lane %u, which mask 0x%08x leaves out", line, source, mask);
    memcpy(&value, &snap[first + source], sizeof value);
    return value;
}

template <class F> void over_lanes(unsigned mask, unsigned long long value, int line, F see) {
    unsigned first = meet(mask, value, line);
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) see(lane, snap[first + lane]);
}

template <class T, class F> T fold(unsigned mask, T value, int line, F join) {
    bool any = false;
    T total = value;
    over_lanes(mask, (unsigned long long)value, line, [&](unsigned, unsigned long long v) {
        total = any ? join(total, T(v)) : T(v);
        any = true;
    });
    return total;
}

template <class T> T loaded(const void* from) {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}

template <class... A, size_t... I>
void launch(void (*kernel)(A...), void** arguments, const Launch& how, std::index_sequence<I...>) {
    auto call = [&] { kernel(loaded<A>(arguments[I])...); };
    run([](void* it) { (*(decltype(call)*)it)(); }, &call, how);
}

template <class... A> void launch(void (*kernel)(A...), void** arguments, const Launch& how) {
    launch(kernel, arguments, how, std::index_sequence_for<A...>());
}

// One "<kind><bytes> " per parameter: p pointer, f float, i integer or bool, s anything else.
template <class... A> const char* signature(void (*)(A...)) {
    static char text[8 * sizeof...(A) + 8];
    int n = 0;
    ((n += snprintf(text + n, sizeof text - n, "%c%zu ",
                    std::is_pointer<A>::value          ? 'p'
                    : std::is_floating_point<A>::value ? 'f'
                    : std::is_integral<A>::value       ? 'i'
                                                       : 's',
                    sizeof(A))), ...);
    return text;
}
}  // namespace eqf
#pragma GCC visibility pop

#define EQF_VISIBLE extern "C" __attribute__((visibility("default")))
#define EQF_EXPORT(k)                                                                                              \
    EQF_VISIBLE void eqf_launch_##k(void** arguments, const unsigned* gb, size_t bytes, const size_t* blocks,      \
                                    size_t n_blocks, unsigned seed, void* stacks, char* text, size_t n) {          \
        eqf::launch(k, arguments, {gb, bytes, blocks, n_blocks, seed, stacks, text, n});                            \
    }                                                                                                              \
    EQF_VISIBLE const char* eqf_signature_##k() { return eqf::signature(k); }
