"""The CUDA row of every operator: how one element is computed. In: an operator's name and its values' dtypes.
Out: a C expression over named values, or a reduction's identity and step. Next stop: `cuda_element`.

16-bit floats are loaded as float, computed in float and rounded once when stored or cast.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from eqfuse.errors import UnsupportedOp

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_STORED: dict[np.dtype, str] = {
    np.dtype(np.bool_): "bool", np.dtype(np.int8): "signed char", np.dtype(np.uint8): "unsigned char",
    np.dtype(np.int16): "short", np.dtype(np.uint16): "unsigned short", np.dtype(np.int32): "int",
    np.dtype(np.uint32): "unsigned", np.dtype(np.int64): "long long", np.dtype(np.uint64): "unsigned long long",
    np.dtype(np.float16): "__half", BFLOAT16: "__nv_bfloat16", np.dtype(np.float32): "float",
    np.dtype(np.float64): "double", np.dtype(np.complex64): "eqf_complex<float>",
    np.dtype(np.complex128): "eqf_complex<double>",
}  # fmt: skip
_SMALL = {np.dtype(np.float16): "half", BFLOAT16: "bfloat16"}

# Helpers that more than one line of C needs. NumPy's rules: floor division rounds down and the remainder has the
# divisor's sign; integer division by zero is 0; a shift by the width or more leaves 0 or the sign.
PRELUDE = r"""#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <class T, int N> struct __align__(sizeof(T) * N) Vec { T v[N]; };
template <class T> static __device__ __forceinline__ T eqf_max(T a, T b) { return a >= b || a != a ? a : b; }
template <class T> static __device__ __forceinline__ T eqf_min(T a, T b) { return a <= b || a != a ? a : b; }
template <class T> static __device__ __forceinline__ T eqf_sign(T a) { return a != a ? a : T((a > T(0)) - (a < T(0))); }
template <class T> static __device__ __forceinline__ T eqf_floor_divide(T a, T b) {
    if (b == T(0)) return T(0);
    T q = a / b;
    return q * b != a && (a < T(0)) != (b < T(0)) ? q - T(1) : q;
}
template <class T> static __device__ __forceinline__ T eqf_remainder(T a, T b) {
    return b == T(0) ? T(0) : T(a - eqf_floor_divide(a, b) * b);
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
template <class T> static __device__ __forceinline__ T eqf_power(T a, T n) {
    T p = 1;
    for (; n > T(0); n >>= 1, a *= a) if (n & T(1)) p *= a;
    return p;
}
template <class T> static __device__ __forceinline__ T eqf_logaddexp(T a, T b) {
    if (a == b) return a + T(0.693147180559945309417232);
    T d = a - b;
    return d > T(0) ? a + log1p(exp(-d)) : d <= T(0) ? b + log1p(exp(d)) : d;
}
template <class T> static __device__ __forceinline__ T eqf_gcd(T a, T b) {
    a = a < T(0) ? T(-a) : a, b = b < T(0) ? T(-b) : b;
    while (a != T(0)) { T r = b % a; b = a; a = r; }
    return b;
}
template <class T> static __device__ __forceinline__ T eqf_lcm(T a, T b) {
    T g = eqf_gcd<T>(a, b);
    a = g == T(0) ? T(0) : T(a / g * b);
    return a < T(0) ? T(-a) : a;
}
template <class T> static __device__ __forceinline__ unsigned char eqf_count(T a) {
    unsigned char n = 0;
    for (T left = a < T(0) ? T(-a) : a; left != T(0); left &= T(left - T(1))) n++;
    return n;
}
template <class N> static __device__ __forceinline__ int eqf_int(N n) {
    return n > N(2147483647) ? 2147483647 : n < -N(2147483647) ? -2147483647 : (int)n;
}
template <class T> static __device__ __forceinline__ T eqf_left(T a, T n) {
    return (unsigned long long)n < sizeof(T) * 8 ? T(a << n) : T(0);
}
template <class T> static __device__ __forceinline__ T eqf_right(T a, T n) {
    return (unsigned long long)n < sizeof(T) * 8 ? T(a >> n) : a < T(0) ? T(-1) : T(0);
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
template <class T> static __device__ __forceinline__ eqf_complex<T> eqf_exp(eqf_complex<T> z) {
    const T size = exp(z.re);
    return z.im == T(0) ? eqf_complex<T>(size, z.im) : eqf_complex<T>(size * cos(z.im), size * sin(z.im));
}
template <class T> static __device__ __forceinline__ eqf_complex<T> eqf_shuffle(eqf_complex<T> z, int step) {
    return {__shfl_xor_sync(0xffffffffu, z.re, step), __shfl_xor_sync(0xffffffffu, z.im, step)};
}
#ifndef EQF_ON_CPU  // the emulator has these two of its own
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

# The special functions that CUDA's math library has; {s} is "f" for float and "" for double.
SPECIAL_ROWS = {name: f"{c}{{s}}({{0}})" for name, c in {
    "gamma": "tgamma", "gammaln": "lgamma", "erfcx": "erfcx", "erfinv": "erfinv", "erfcinv": "erfcinv",
    "ndtri": "normcdfinv", "j0": "j0", "j1": "j1", "y0": "y0", "y1": "y1", "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1", "exp10": "exp10",
}.items()}  # fmt: skip

# {s} is "f" for float and "" for double; {T} the computing type.
_FLOAT = {name: f"{c}{{s}}({{0}})" for name, c in {
    "sqrt": "sqrt", "cbrt": "cbrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "erfc": "erfc", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "round": "rint", "abs": "fabs",
}.items()} | SPECIAL_ROWS | {
    "atan2": "atan2{s}({0}, {1})", "hypot": "hypot{s}({0}, {1})", "power": "pow{s}({0}, {1})",
    "copysign": "copysign{s}({0}, {1})", "nextafter": "nextafter{s}({0}, {1})", "fmax": "fmax{s}({0}, {1})",
    "fmin": "fmin{s}({0}, {1})", "logaddexp": "eqf_logaddexp<{T}>({0}, {1})", "signbit": "(bool)signbit({0})",
    "isnan": "{0} != {0}", "isinf": "(bool)isinf({0})", "isfinite": "(bool)isfinite({0})",
    "floor_divide": "eqf_ffloor_divide<{T}>({0}, {1})", "remainder": "eqf_fremainder<{T}>({0}, {1})",
    "reciprocal": "({T})1 / {0}", "divide": "{0} / {1}", "ldexp": "ldexp{s}({0}, eqf_int({1}))",
    "complex": "eqf_complex<{T}>({0}, {1})",
}  # fmt: skip
_INTEGER = {
    "abs": "{0} < ({T})0 ? ({T})-{0} : {0}", "floor": "{0}", "ceil": "{0}", "trunc": "{0}", "round": "{0}",
    "fmax": "eqf_max<{T}>({0}, {1})", "fmin": "eqf_min<{T}>({0}, {1})", "power": "eqf_power<{T}>({0}, {1})",
    "floor_divide": "eqf_floor_divide<{T}>({0}, {1})", "remainder": "eqf_remainder<{T}>({0}, {1})",
    "reciprocal": "eqf_floor_divide<{T}>(1, {0})",
    "isnan": "false", "isinf": "false", "isfinite": "true",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}", "bitwise_invert": "~{0}",
    "gcd": "eqf_gcd<{T}>({0}, {1})", "lcm": "eqf_lcm<{T}>({0}, {1})", "bitwise_count": "eqf_count<{T}>({0})",
    "bitwise_left_shift": "eqf_left<{T}>({0}, {1})", "bitwise_right_shift": "eqf_right<{T}>({0}, {1})",
}  # fmt: skip
_ANY = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "negative": "-{0}",
    "square": "{0} * {0}", "sign": "eqf_sign<{T}>({0})",
    "maximum": "eqf_max<{T}>({0}, {1})", "minimum": "eqf_min<{T}>({0}, {1})",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "less": "{0} < {1}", "less_equal": "{0} <= {1}",
    "greater": "{0} > {1}", "greater_equal": "{0} >= {1}",
    "logical_and": "{0} && {1}", "logical_or": "{0} || {1}", "logical_xor": "!{0} != !{1}", "logical_not": "!{0}",
    "where": "{0} ? {1} : {2}",
}  # fmt: skip
_COMPLEX = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}", "negative": "-{0}",
    "square": "{0} * {0}", "reciprocal": "{T}(1) / {0}", "real": "{0}.re", "imag": "{0}.im",
    "conj": "{T}({0}.re, -{0}.im)", "abs": "hypot({0}.re, {0}.im)", "exp": "eqf_exp({0})",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "where": "{0} ? {1} : {2}",
    "isnan": "{0} != {0}", "isinf": "isinf({0}.re) || isinf({0}.im)",
    "isfinite": "isfinite({0}.re) && isfinite({0}.im)",
    "logical_not": "!(bool){0}", "logical_and": "(bool){0} && (bool){1}", "logical_or": "(bool){0} || (bool){1}",
}  # fmt: skip
_BOOL = {
    "add": "{0} || {1}", "multiply": "{0} && {1}", "maximum": "{0} || {1}", "minimum": "{0} && {1}",
    "fmax": "{0} || {1}", "fmin": "{0} && {1}", "bitwise_invert": "!{0}", "abs": "{0}",
}  # fmt: skip


@dataclass(frozen=True)
class Reduction:
    """How values `a` and `b` of type T combine, and the value that changes nothing."""

    identity: str
    step: str


def stored(dtype: np.dtype) -> str:
    """The C type of an array's element."""
    try:
        return _STORED[dtype]
    except KeyError:
        known = ", ".join(map(str, _STORED))
        raise UnsupportedOp(f"the cuda target has no {dtype.name}; cast to one of {known}") from None


def computed(dtype: np.dtype) -> str:
    """The C type in which values of `dtype` are computed."""
    return "float" if dtype in _SMALL else stored(dtype)


def computed_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of partial results that pass through memory unrounded."""
    return np.dtype(np.float32) if dtype in _SMALL else dtype


def load(dtype: np.dtype, text: str) -> str:
    return f"__{_SMALL[dtype]}2float({text})" if dtype in _SMALL else text


def store(dtype: np.dtype, text: str) -> str:
    return f"__float2{_SMALL[dtype]}_rn({text})" if dtype in _SMALL else text


def emits(op: str, dtypes: list[np.dtype]) -> bool:
    """Has this file a row for `op` of arguments of `dtypes`? Most functions of complex numbers are the library's."""
    return dtypes[-1].kind != "c" or op in _COMPLEX or op in ("cast", "sum", "prod", "any", "all")


def expression(op: str, dtypes: list[np.dtype], arguments: list[str]) -> str:
    """One element of `op`. `dtypes` are the arguments', alike but for the condition of `where` and `ldexp`'s powers."""
    dtype = dtypes[op == "where"]
    small = dtype in _SMALL or dtype.kind == "f"
    numbers = [_FLOAT] if small else [_INTEGER]
    tables = {"c": [_COMPLEX], "b": [_BOOL, _ANY, _INTEGER]}.get(dtype.kind, [*numbers, _ANY])
    template = next((table[op] for table in tables if op in table), None)
    if template is None or (op == "nextafter" and dtype in _SMALL):  # computed in float, it would change nothing
        raise UnsupportedOp(f"the cuda table (eqfuse/emit/cuda_ops.py) has no row {op!r} for {dtype.name}")
    kind = computed(dtype)
    return template.format(*arguments, s="" if kind == "double" else "f", T=kind)


def cast(source: np.dtype, target: np.dtype, text: str) -> str:
    if target in _SMALL:
        word = "double" if source == np.float64 else "float"
        rounded = f"__double2{_SMALL[target]}({text})" if word == "double" else store(target, f"(float){text}")
        return load(target, rounded)
    if target.kind == "c" and source.kind != "c":
        return f"{computed(target)}(({'float' if target == np.complex64 else 'double'}){text})"
    if target.kind == "b":
        return f"(bool){text}" if source.kind == "c" else f"{text} != 0"
    return f"({computed(target)}){text}"


def reduction(op: str, source: np.dtype, result: np.dtype) -> Reduction:
    """The row of a reduction over values of `source`; it accumulates in `result`'s computing type."""
    T = computed(result)
    if op == "sum":
        return Reduction(f"({T})0", "{a} + {b}")
    if op == "prod":
        return Reduction(f"({T})1", "{a} * {b}")
    if op in ("any", "all"):
        return Reduction(*(("false", "{a} || {b}") if op == "any" else ("true", "{a} && {b}")))
    if op in ("max", "min"):
        step = f"eqf_{op}<{T}>({{a}}, {{b}})"
        sign = "-" if op == "max" else ""
        if source in _SMALL or source.kind == "f":
            return Reduction(f"{sign}({T})__int_as_float(0x7f800000)", step)
        if source.kind == "b":
            return Reduction(*(("false", "{a} || {b}") if op == "max" else ("true", "{a} && {b}")))
        limits = np.iinfo(source)
        if op == "max":  # the smallest 64-bit integer has no literal of its own
            return Reduction(f"({T})({limits.min + 1}LL - 1)" if limits.min else f"({T})0", step)
        return Reduction(f"({T}){limits.max}{'ULL' if source.kind == 'u' else 'LL'}", step)
    raise UnsupportedOp(f"the cuda table (eqfuse/emit/cuda_ops.py) has no reduction {op!r}")
