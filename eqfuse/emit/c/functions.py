"""Functions that kernels call, as C text: what NumPy computes where one C expression does not.

In: a kernel's text. Out: the text of every `eqf_name_type` in it and below. Next stop: `kernels.py`.
NumPy's rules: floor division rounds down and the remainder has the divisor's sign; integer division by zero is 0; a
shift by the width or more leaves 0 or the sign; the largest of values with a NaN among them is NaN,
the larger of two zeros is the second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from eqfuse.emit.c import division
from eqfuse.emit.c.product import tile
from eqfuse.emit.c.vector_math import ARGUMENTS, definition_text, texts

# suffix: type, unsigned type, signed type that floats are converted to, bits
_INTEGERS = {
    "i8": ("signed char", "unsigned", "int", 8), "u8": ("unsigned char", "unsigned", "int", 8),
    "i16": ("short", "unsigned", "int", 16), "u16": ("unsigned short", "unsigned", "int", 16),
    "i32": ("int", "unsigned", "int", 32), "u32": ("unsigned", "unsigned", "long long", 32),
    "i64": ("long long", "unsigned long long", "long long", 64),
    "u64": ("unsigned long long", "unsigned long long", "long long", 64),
}  # fmt: skip
_FLOATS = {"f32": ("float", "f", "unsigned", "int"), "f64": ("double", "", "unsigned long long", "long long")}
_DTYPES = {"f32": "float32", "f64": "float64"}
_CALL = re.compile(r"\beqf_(\w+)_([a-z]+[0-9]*)\b")

MANY_LINES = 1500  # lines that elementary functions paste into a kernel: beyond, gcc takes seconds
_STATEMENT = re.compile(r"(?<== )eqf_(\w+)_(f32|f64)(?=\([\w, ]+\);)")
_CHOICE = re.compile(r"const (float|double) (\w+) = (\w+) \? (\w+) : (\w+);")
# (clang has no vectors of functions.)
_VECTORS = """#if defined(__GNUC__) && !defined(__clang__)
#define EQF_VECTOR _Pragma("omp declare simd notinbranch") static __attribute__((noinline))
#else
#define EQF_VECTOR static inline
#endif
"""

_BOTH = {  # (in two steps: loops with several of one step are no vectors)
    "max": "{T} eqf_max_{s}({T} a, {T} b) {{ const {T} m = a > b ? a : b; return a != a ? a : m; }}",
    "min": "{T} eqf_min_{s}({T} a, {T} b) {{ const {T} m = a < b ? a : b; return a != a ? a : m; }}",
}
_PLACE = {  # of a NaN that of the first one
    "place": """long eqf_place_{s}(const {T} *values, {T} wanted) {{
    long k = 0;
    while (values[k] != wanted && (wanted == wanted || values[k] == values[k])) k++;
    return k;
}}""",
}
_INTEGER = _BOTH | _PLACE | {
    "size": "{U} eqf_size_{s}({T} a) {{ return a < 0 ? -({U})a : ({U})a; }}",
    "power": """{T} eqf_power_{s}({T} a, {T} n) {{
    {U} p = 1;
    for ({U} x = ({U})a; n > 0; n >>= 1, x *= x) if (n & 1) p *= x;
    return ({T})p;
}}""",
    "gcd": """{U} eqf_gcd_{s}({T} x, {T} y) {{
    {U} a = eqf_size_{s}(x), b = eqf_size_{s}(y);
    while (a != 0) {{ const {U} r = b % a; b = a; a = r; }}
    return b;
}}""",
    "lcm": """{U} eqf_lcm_{s}({T} a, {T} b) {{
    const {U} g = eqf_gcd_{s}(a, b);
    return g == 0 ? 0 : eqf_size_{s}(a) / g * eqf_size_{s}(b);
}}""",
    # Of so many numbers that are 0 or 1 the sum, and the places of those that are 1, of eight in any order: of a few
    # one after another, of more without branches, which no processor would foresee.
    "asked": """long eqf_asked_{s}(const {T} *asks, long lanes) {{
    int count = 0;
    for (long lane = 0; lane < lanes; lane++) count += asks[lane];
    return count;
}}""",
    "found": """void eqf_found_{s}(const {T} *restrict asks, long lanes, long asked, {T} *restrict at) {{
    long lane = 0, count = 0;
    for (; asked * 64 <= lanes && lane + 8 <= lanes; lane += 8) {{
        unsigned long long eight;
        __builtin_memcpy(&eight, asks + lane, 8);
        for (; eight; eight &= eight - 1)
            at[count++] = lane + (__builtin_ctzll(eight) / 8 ^ 7 * (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__));
    }}
    for (; lane < lanes; lane++) {{
        at[count] = lane;
        count += asks[lane];
    }}
}}""",
    "left": "{T} eqf_left_{s}({T} a, {T} n) {{ return ({U})n < {bits} ? ({T})(({U})a << n) : 0; }}",
    "right": "{T} eqf_right_{s}({T} a, {T} n) {{ return ({U})n < {bits} ? ({T})(a >> n) : a < 0 ? ({T})-1 : 0; }}",
}
_FLOAT = _BOTH | _PLACE | {  # one instruction on x86, if it stands alone: k is no NaN, and a is taken of equal ones
    "above": "{T} eqf_above_{s}({T} a, {T} k) {{ return k > a ? k : a; }}",
    "below": "{T} eqf_below_{s}({T} a, {T} k) {{ return k < a ? k : a; }}",
    "fmax": "{T} eqf_fmax_{s}({T} a, {T} b) {{ return a > b || b != b ? a : b; }}",
    "fmin": "{T} eqf_fmin_{s}({T} a, {T} b) {{ return a < b || b != b ? a : b; }}",
    "nextafter": """{T} eqf_nextafter_{s}({T} x, {T} y) {{
    const {W} bits = eqf_bits_{s}(x), least = (eqf_bits_{s}(y) & ~({W})0 - (~({W})0 >> 1)) | 1;
    const {T} next = eqf_number_{s}(x == 0 ? least : (x < y) == (x > 0) ? bits + 1 : bits - 1);
    return x == y ? y : x != x || y != y ? x + y : next;
}}""",
    "pick": """{T} eqf_pick_{s}(_Bool c, {T} a, {T} b) {{
    const {W} mask = -({W})c;
    return eqf_number_{s}((eqf_bits_{s}(a) & mask) | (eqf_bits_{s}(b) & ~mask));
}}""",
    "sign": "{T} eqf_sign_{s}({T} a) {{ return a != a ? a : ({T})((a > 0) - (a < 0)); }}",
    "remainder": """{T} eqf_remainder_{s}({T} a, {T} b) {{
    const {T} m = eqf_modulo_{s}(a, b);
    const {T} moved = ({S})(eqf_bits_{s}(m) ^ eqf_bits_{s}(b)) < 0 ? m + b : m;
    return m != m ? m : m == 0 ? __builtin_copysign{f}(0, b) : moved;
}}""",
    "floor_divide": """{T} eqf_floor_divide_{s}({T} a, {T} b) {{
    const {W} zero = -({W})(b == 0);
    const {T} m = eqf_modulo_{s}(a, b), near = (a - m) / b;
    const {T} q = m != 0 && ({S})(eqf_bits_{s}(m) ^ eqf_bits_{s}(b)) < 0 ? near - 1 : near;
    const {T} down = __builtin_floor{f}(q), whole = q - down > ({T})0.5 ? down + 1 : down;
    const {T} result = q == 0 ? __builtin_copysign{f}(0, a / b) : whole;
    return eqf_number_{s}((eqf_bits_{s}(result) & ~zero) | (eqf_bits_{s}(a / b) & zero));
}}""",
    "logaddexp": """{T} eqf_logaddexp_{s}({T} a, {T} b) {{
    if (a == b) return a + ({T})0.693147180559945309417232;
    const {T} d = a - b;
    return d > 0 ? a + eqf_log1p_{s}(eqf_exp_{s}(-d)) : d <= 0 ? b + eqf_log1p_{s}(eqf_exp_{s}(d)) : d;
}}""",
    # Sums of many as sums of sums of few: the n-th part joins those before it as carries run when one counts to n.
    "push": """void eqf_push_{s}({T} *sums, long n, {T} part) {{
    long top = __builtin_popcountl(n);
    for (; n & 1; n >>= 1) part += sums[--top];
    sums[top] = part;
}}""",
    "total": """{T} eqf_total_{s}(const {T} *sums, long n) {{
    long top = __builtin_popcountl(n);
    {T} sum = top ? sums[--top] : 0;
    while (top) sum += sums[--top];
    return sum;
}}""",
}
_HALVES = {
    "load_bf16": "float eqf_load_bf16(unsigned short h) { return eqf_number_f32((unsigned)h << 16); }",
    "store_bf16": """unsigned short eqf_store_bf16(float x) {
    const unsigned u = eqf_bits_f32(x);
    return x != x ? (u >> 16 & 0x8000) | 0x7fc0 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}""",
    "load_f16": """float eqf_load_f16(unsigned short h) {
    const unsigned size = (unsigned)(h & 0x7fff) << 13;
    const unsigned wide = size >= 0x0f800000 ? size | 0x7f800000 : eqf_bits_f32(eqf_number_f32(size) * 0x1p112f);
    return eqf_number_f32((unsigned)(h & 0x8000) << 16 | wide);
}""",
    # The sum with a power of two rounds to the digits that a half keeps; too large a number has become infinite.
    "store_f16": """unsigned short eqf_store_f16(float x) {
    const unsigned u = eqf_bits_f32(x), exponent = u + u & 0xff000000;
    const unsigned unit = exponent < 0x71000000 ? 0x71000000 : exponent;
    const float sum = eqf_number_f32((unit >> 1) + 0x07800000) + __builtin_fabsf(x) * 0x1p112f * 0x1p-110f;
    const unsigned r = eqf_bits_f32(sum);
    return u >> 16 & 0x8000 | (x != x ? 0x7e00 : (r >> 13 & 0x7c00) + (r & 0xfff));
}""",
    # Rounds to odd, so that rounding once more, to 16 bits, gives the nearest.
    "odd_f64": """float eqf_odd_f64(double x) {
    const float near = (float)x;
    const unsigned u = eqf_bits_f32(near);
    const _Bool beyond = __builtin_fabs((double)near) > __builtin_fabs(x);
    return (double)near == x || x != x ? near : eqf_number_f32(u - beyond | 1);
}""",
}
_TO = """{T} eqf_to_{s}_{g}({F} a) {{
    const {F} end = {end};
    const _Bool high = {wide} && a >= end;
    if (high) a -= end;
    const {T} whole = ({T})(a > -end - 1 && a < end ? ({C})a : {least});
    return high ? whole ^ ({T}){least} : whole;
}}"""


def with_functions(kernels: Sequence[str]) -> str:
    """The texts of kernels behind the functions that they call, and those that they call, each after what it needs."""
    of_all: dict[str, None] = {}
    texts = [_shared(text, of_all) for text in kernels]
    functions = needed_functions("\n".join([*of_all, *texts]))
    vectors = "".join([_VECTORS, *of_all]) if of_all else ""
    return "\n".join(part for part in (functions, vectors, *texts) if part)


def needed_functions(text: str) -> str:
    """The functions that `text` calls, and those that they call, each after what it needs."""
    elementary: dict[tuple[str, str], None] = {}
    bodies: dict[str, str] = {}
    _enter(text, elementary, bodies)
    ours = [f"static {'' if source.startswith('__attribute__') else 'inline '}{source}\n" for source in bodies.values()]
    return (texts(elementary) if elementary else "") + "".join(ours)


def _shared(text: str, of_all: dict[str, None]) -> str:
    """`text` where each statement that calls an elementary function calls one for all, which is a function of vectors;
    as it is where these paste few lines. What loops compute does not change. These functions go to `of_all`.

    A choice between values is one of bits: else gcc calls functions in the branch that takes what they return, and
    loops with branches are no vectors.
    """
    calls = [m for m in _STATEMENT.finditer(text) if m[1] in ARGUMENTS]
    if sum(_lines(m[1], m[2]) for m in calls) < MANY_LINES:
        return text
    for name, suffix in dict.fromkeys((m[1], m[2]) for m in calls):
        T, arguments = _FLOATS[suffix][0], ("x", "y")[: ARGUMENTS[name]]
        taken = ", ".join(f"{T} {a}" for a in arguments)
        body = f"return eqf_{name}_{suffix}({', '.join(arguments)});"
        of_all[f"EQF_VECTOR {T} each_{name}_{suffix}({taken}) {{ {body} }}\n"] = None
    text = _STATEMENT.sub(lambda m: f"each_{m[1]}_{m[2]}" if m[1] in ARGUMENTS else m[0], text)
    pick = {"float": "eqf_pick_f32", "double": "eqf_pick_f64"}
    return _CHOICE.sub(lambda m: f"const {m[1]} {m[2]} = {pick[m[1]]}({', '.join(m.group(3, 4, 5))});", text)


@cache
def _lines(name: str, suffix: str) -> int:
    """Of an elementary function and what it calls."""
    return texts({(name, _DTYPES[suffix]): None}).count(";")


def _enter(text: str, elementary: dict[tuple[str, str], None], sources: dict[str, str]) -> None:
    for name, suffix in dict.fromkeys(_CALL.findall(text)):
        if definition_text(name, _DTYPES.get(suffix, "")) is not None:
            elementary[name, _DTYPES[suffix]] = None
        elif f"{name}_{suffix}" not in sources:
            source = _source(name, suffix)
            _enter(source.replace(f"eqf_{name}_{suffix}", ""), elementary, sources)
            sources[f"{name}_{suffix}"] = source


def _source(name: str, suffix: str) -> str:
    if f"{name}_{suffix}" in _HALVES:
        return _HALVES[f"{name}_{suffix}"]
    if tiled := tile.tile_function(name, (_FLOATS.get(suffix) or _INTEGERS[suffix])[0], suffix):
        return tiled
    if suffix in _INTEGERS:
        T, U, _, bits = _INTEGERS[suffix]
        text = division.template(name, suffix) or _INTEGER[name]
        return text.format(T=T, U=U, s=suffix, bits=bits, **division.blanks(suffix))
    T, f, W, S = _FLOATS[suffix]
    if name.startswith("to_"):
        return _conversion(name.removeprefix("to_"), suffix)
    return _FLOAT[name].format(T=T, f=f, W=W, S=S, s=suffix)


def _conversion(target: str, source: str) -> str:
    """A float as an integer: what does not fit gives what x86 gives."""
    T, _, C, _ = _INTEGERS[target]
    F, f, _, _ = _FLOATS[source]
    wide = C == "long long"
    end = ("9223372036854775808.0" if wide else "2147483648.0") + f
    least = "(-9223372036854775807LL - 1)" if wide else "(-2147483647 - 1)"
    return _TO.format(T=T, s=target, g=source, F=F, C=C, end=end, least=least, wide=int(target == "u64"))
