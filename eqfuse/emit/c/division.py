"""Division of integers that compilers vectorise, as C text: by an array's elements, and by one number for all.

In: a suffix of an integer type. Out: templates of functions for `functions.py`. NumPy's rules: quotients are rounded
down, the remainder has the divisor's sign, that of fmod the dividend's; all are 0 where the divisor is.

By elements: (a + 1/2) / b is no nearer to an integer than 1/(2b), so that two roundings of the product with 1/b leave
what is below it: of 8 and 16 bits in float, of 32 in double. Of 64 bits the product is off by less than 2**13, the next
one, of what is left, by 1 at most; estimates that would not fit are kept below. By one number: the high half of a
product with a factor, `Divisor` (Granlund and Montgomery, Division by invariant integers using multiplication, 1994,
figure 4.1); of negative n, n / d rounded down is ~(~n / d).
"""

from __future__ import annotations

from dataclasses import dataclass

# size: |d|; negative, known: all bits where d is negative, where it is not 0; and what figure 4.1 computes of |d|, the
# factor in the type of its lanes, so that compilers see a product of these. A shift of 16-bit lanes is a product too:
# `scale` is a power of two, or 0 where `whole` has all bits.
DIVISOR = """typedef struct {
    unsigned long long size, negative, known, factor_u64;
    unsigned factor_u32;
    unsigned short factor_u16, scale, whole;
    int first, last;
} Divisor;
"""

_BY_ELEMENTS = """{T} eqf_floor_divide_{s}({T} a, {T} b) {{
    const {F} inverse = 1 / ({F})(b == 0 ? 1 : b), half = b < 0 ? -({F})0.5 : ({F})0.5;
    const {F} quotient = __builtin_floor{f}((a + half) * inverse);
    return b == 0 ? 0 : ({T}){whole};
}}"""
_BY_LONG = """long long eqf_floor_divide_i64(long long a, long long b) {
    const double inverse = 1 / (double)(b == 0 ? 1 : b), near = a * inverse, whole = near + (near < 0 ? -0.5 : 0.5);
    const long long q = whole < 0x1.fffffffffffffp62 ? whole : 0x1.fffffffffffffp62, rest = a - q * b;
    const double left = rest * inverse;
    const long long more = left + (left < 0 ? -0.5 : 0.5), last = rest - more * b;
    return b == 0 ? 0 : q + more - (last != 0 && (last ^ b) < 0);
}"""
_BY_UNSIGNED_LONG = """unsigned long long eqf_floor_divide_u64(unsigned long long a, unsigned long long b) {
    const double inverse = 1 / (double)(b == 0 ? 1 : b), whole = a * inverse + 0.5;
    const unsigned long long q = whole < 0x1.fffffffffffffp63 ? whole : 0x1.fffffffffffffp63;
    const long long rest = a - q * b;
    const double left = rest * inverse;
    const long long more = left + (left < 0 ? -0.5 : 0.5), last = rest - more * b;
    return b == 0 ? 0 : b >> 63 ? a >= b : q + more - (last < 0);
}"""
_REMAINDER = """{T} eqf_remainder_{s}({T} a, {T} b) {{
    return b == 0 ? 0 : ({T})(({U})a - ({U})eqf_floor_divide_{s}(a, b) * ({U})b);
}}"""
_FMOD = """{T} eqf_fmod_{s}({T} a, {T} b) {{
    const {T} m = eqf_remainder_{s}(a, b);
    return m != 0 && (a < 0) != (b < 0) ? ({T})(m - b) : m;
}}"""

# Never inlined: else compilers widen the factor before the loop, where they no longer see that it has a lane's bits.
_DIVISOR = """__attribute__((noinline)) Divisor eqf_divisor_{s}({T} d) {{
    const {L} size = d < 0 ? -({L})d : d;
    const int bits = size > 1 ? 64 - __builtin_clzll(size - 1) : 0;
    {L} factor = 0, rest = bits ? ((({L})1 << (bits - 1)) - size) + (({L})1 << (bits - 1)) : 0;
    for (int i = 0; size && i < {lane}; i++) {{
        const _Bool more = rest >= ({L})(size - rest);
        rest = more ? rest - ({L})(size - rest) : rest + rest;
        factor = factor + factor + more;
    }}
    return (Divisor){{.size = size, .negative = -(d < 0), .known = -(size != 0), .factor_{l} = size ? factor + 1 : 0,
        .scale = bits > 1 ? 1ull << (17 - bits & 63) : 0, .whole = -(size == 1 || size == 2), .first = bits > 0,
        .last = bits ? bits - 1 : 0}};
}}"""
_HIGH = "{L} eqf_high_{l}({L} a, {L} b) {{ return ({W})a * b >> {lane}; }}"
_HIGH_LONG = """unsigned long long eqf_high_u64(unsigned long long a, unsigned long long b) {
    const unsigned long long low = 0xffffffff, c = a & low, d = b & low, middle = (a >> 32) * d + (c * d >> 32);
    return (a >> 32) * (b >> 32) + (middle >> 32) + (c * (b >> 32) + (middle & low) >> 32);
}"""
_SHARE = """{L} eqf_share_{l}({L} a, Divisor d) {{
    const {L} high = eqf_high_{l}(d.factor_{l}, a), sum = high + (({L})(a - high) >> d.first);
    return {last};
}}"""
_BY_ONE = "{T} eqf_quotient_{s}({T} a, Divisor d) {{ return eqf_share_{l}(a, d); }}"
_SIGNED_BY_ONE = """{T} eqf_quotient_{s}({T} a, Divisor d) {{
    const {S} turned = a ^ ({S})d.negative;
    const {L} below = -({L})(turned < ({S})d.negative) & ({L})d.known;
    return below ^ eqf_share_{l}(below ^ ({L})(turned - ({L})d.negative), d);
}}"""
_REST = """{T} eqf_rest_{s}({T} a, Divisor d) {{
    const {L} size = (d.size ^ d.negative) - d.negative;
    return ({L})(({L})a - ({L})eqf_quotient_{s}(a, d) * size) & ({L})d.known;
}}"""
_LEFT_OVER = """{T} eqf_left_over_{s}({T} a, Divisor d) {{
    const {T} m = eqf_rest_{s}(a, d);
    return m != 0 && (a < 0) != (d.negative != 0) ? ({T})(m - (({L})d.size ^ ({L})d.negative) + ({L})d.negative) : m;
}}"""


@dataclass(frozen=True)
class Lane:
    """The unsigned type in which integers are divided by one number; `wide` holds a product of two."""

    unsigned: str
    signed: str
    wide: str


_LANES = {
    16: Lane("unsigned short", "short", "unsigned"), 32: Lane("unsigned", "int", "unsigned long long"),
    64: Lane("unsigned long long", "long long", ""),
}  # fmt: skip


def template(name: str, suffix: str) -> str | None:
    """The function eqf_`name`_`suffix`, if it divides; blanks are those of `functions.py` and `blanks`."""
    bits = int(suffix[1:])
    if name == "floor_divide" and bits == 64:
        return _escaped(_BY_LONG if suffix == "i64" else _BY_UNSIGNED_LONG)
    if name == "high" and bits == 64:
        return _escaped(_HIGH_LONG)
    templates = {
        "floor_divide": _BY_ELEMENTS, "remainder": _REMAINDER, "divisor": _DIVISOR, "high": _HIGH, "share": _SHARE,
        "fmod": _FMOD, "left_over": _LEFT_OVER,
        "quotient": _BY_ONE if suffix[0] == "u" else _SIGNED_BY_ONE, "rest": _REST,
    }  # fmt: skip
    return templates.get(name)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def blanks(suffix: str) -> dict[str, str]:
    """What stands for the blanks of a template: of floats, {F}, and of lanes, {L}."""
    bits = int(suffix[1:])
    lane = max(16, bits)
    lanes = _LANES[lane]
    return {
        "F": "double" if bits == 32 else "float", "f": "" if bits == 32 else "f",
        "whole": "eqf_bits_f64(quotient + 0x1.8p52)" if bits == 32 else "(int)quotient",
        "L": lanes.unsigned, "S": lanes.signed, "W": lanes.wide, "l": f"u{lane}", "lane": str(lane),
        "last": "eqf_high_u16(sum, d.scale) + (sum & d.whole)" if lane == 16 else "sum >> d.last & d.known",
    }  # fmt: skip
