"""The C row of every operator: how one element is computed. In: an operator's name and its values' dtypes.
Out: a C expression over named values, or how a reduction begins and goes on. Next stop: `element.py`.

16-bit floats are computed in float. What is not one expression is a function `eqf_name_type` of `functions.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqfuse.dtypes import BFLOAT16, FLOAT8, FLOAT16
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node
from eqfuse.ops import Role, row
from eqfuse.ops.reductions import PLACES


@dataclass(frozen=True)
class CType:
    """How values of a dtype are written in C: their type in memory and in variables, and the end of the names of
    functions on them. `unsigned`: of integers, a type of no smaller size in which they wrap around."""

    stored: str
    computed: str
    suffix: str
    unsigned: str = ""


_TYPES = {
    np.dtype(np.bool_): CType("unsigned char", "_Bool", "bool"),
    np.dtype(np.int8): CType("signed char", "signed char", "i8", "unsigned"),
    np.dtype(np.uint8): CType("unsigned char", "unsigned char", "u8", "unsigned"),
    np.dtype(np.int16): CType("short", "short", "i16", "unsigned"),
    np.dtype(np.uint16): CType("unsigned short", "unsigned short", "u16", "unsigned"),
    np.dtype(np.int32): CType("int", "int", "i32", "unsigned"),
    np.dtype(np.uint32): CType("unsigned", "unsigned", "u32", "unsigned"),
    np.dtype(np.int64): CType("long long", "long long", "i64", "unsigned long long"),
    np.dtype(np.uint64): CType("unsigned long long", "unsigned long long", "u64", "unsigned long long"),
    np.dtype(np.float32): CType("float", "float", "f32"),
    np.dtype(np.float64): CType("double", "double", "f64"),
    FLOAT16: CType("unsigned short", "float", "f16"),
    BFLOAT16: CType("unsigned short", "float", "bf16"),
}
_HALVES = (FLOAT16, BFLOAT16)
_Rows = Mapping[str, str | None]  # operators without a row of their own in one are in the next; None: in none
_UNSIGNED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}  # by bytes
_COPIED = {  # what kernels copy; complex numbers have the rows of _COMPLEX, the others none
    **dict.fromkeys(FLOAT8, CType("unsigned char", "unsigned char", "")),
    np.dtype(np.complex64): CType("long long", "long long", ""), np.dtype(np.complex128): CType("Pair", "Pair", ""),
}  # fmt: skip

_ELEMENTARY = (  # of one float, functions of `vector_math`
    "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
)  # fmt: skip
QUICK_FUNCTIONS = ("sin", "cos", "tan")  # of which there is a function for arguments that are not far
# {f} is "f" for float and "" for double; {l} is "ll" for 64 bits; {s} ends names of functions; {T} is the computing
# type, {U} an unsigned one
_FLOAT = {name: f"eqf_{name}_{{s}}({{0}})" for name in _ELEMENTARY} | {
    "sqrt": "__builtin_sqrt{f}({0})", "abs": "__builtin_fabs{f}({0})", "floor": "__builtin_floor{f}({0})",
    "ceil": "__builtin_ceil{f}({0})", "trunc": "__builtin_trunc{f}({0})", "round": "__builtin_rint{f}({0})",
    "power": "eqf_power_{s}({0}, {1})", "atan2": "eqf_atan2_{s}({0}, {1})", "hypot": "eqf_hypot_{s}({0}, {1})",
    "copysign": "__builtin_copysign{f}({0}, {1})", "nextafter": "eqf_nextafter_{s}({0}, {1})",
    "fmax": "eqf_fmax_{s}({0}, {1})", "fmin": "eqf_fmin_{s}({0}, {1})", "logaddexp": "eqf_logaddexp_{s}({0}, {1})",
    "signbit": "__builtin_copysign{f}(1, {0}) < 0", "isnan": "{0} != {0}",
    "isinf": "__builtin_fabs{f}({0}) == __builtin_inf{f}()", "isfinite": "__builtin_fabs{f}({0}) < __builtin_inf{f}()",
    "floor_divide": "eqf_floor_divide_{s}({0}, {1})", "remainder": "eqf_remainder_{s}({0}, {1})",
    "fmod": "eqf_modulo_{s}({0}, {1})",
    "reciprocal": "1 / {0}", "divide": "{0} / {1}", "sign": "eqf_sign_{s}({0})",
}  # fmt: skip
_INTEGER = {
    "add": "({T})(({U}){0} + ({U}){1})", "subtract": "({T})(({U}){0} - ({U}){1})",
    "multiply": "({T})(({U}){0} * ({U}){1})", "square": "({T})(({U}){0} * ({U}){0})", "negative": "({T})-({U}){0}",
    "abs": "({T})({0} < 0 ? -{0} : {0})", "floor": "{0}", "ceil": "{0}", "trunc": "{0}", "round": "{0}", "conj": "{0}",
    "fmax": "eqf_max_{s}({0}, {1})", "fmin": "eqf_min_{s}({0}, {1})", "power": "eqf_power_{s}({0}, {1})",
    "floor_divide": "eqf_floor_divide_{s}({0}, {1})", "remainder": "eqf_remainder_{s}({0}, {1})",
    "fmod": "eqf_fmod_{s}({0}, {1})",
    "isnan": "0", "isinf": "0", "isfinite": "1", "sign": "({T})(({0} > 0) - ({0} < 0))",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}", "bitwise_invert": "({T})~{0}",
    "gcd": "({T})eqf_gcd_{s}({0}, {1})", "lcm": "({T})eqf_lcm_{s}({0}, {1})",
    "bitwise_count": "__builtin_popcount{l}(eqf_size_{s}({0}))",
    "bitwise_left_shift": "eqf_left_{s}({0}, {1})", "bitwise_right_shift": "eqf_right_{s}({0}, {1})",
}  # fmt: skip
_ANY = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "negative": "-{0}", "square": "{0} * {0}",
    "conj": "{0}", "maximum": "eqf_max_{s}({0}, {1})", "minimum": "eqf_min_{s}({0}, {1})",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "less": "{0} < {1}", "less_equal": "{0} <= {1}",
    "greater": "{0} > {1}", "greater_equal": "{0} >= {1}", "where": "{0} ? {1} : {2}",
    "logical_and": "({0} != 0) & ({1} != 0)", "logical_or": "({0} != 0) | ({1} != 0)",
    "logical_xor": "({0} != 0) ^ ({1} != 0)", "logical_not": "{0} == 0",
}  # fmt: skip
_BOOL = {
    "add": "{0} | {1}", "multiply": "{0} & {1}", "maximum": "{0} | {1}", "minimum": "{0} & {1}",
    "fmax": "{0} | {1}", "fmin": "{0} & {1}", "abs": "{0}", "conj": "{0}",
    "logical_and": "{0} & {1}", "logical_or": "{0} | {1}", "logical_xor": "{0} ^ {1}", "logical_not": "!{0}",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}", "bitwise_invert": "!{0}",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "where": "({0} & {1}) | (!{0} & {2})",
    "less": "{0} < {1}", "less_equal": "{0} <= {1}", "greater": "{0} > {1}", "greater_equal": "{0} >= {1}",
    "isnan": "0", "isinf": "0", "isfinite": "1",
}  # fmt: skip
_SIGNED: _Rows = {"power": None}  # NumPy refuses negative powers of integers
_HALF: _Rows = {"nextafter": None}  # computed in float, it would change nothing
_FLOAT16 = {  # of two zeros NumPy takes the first; of other floats the second, as vectors of x86 do
    "maximum": "eqf_max_{s}({1}, {0})", "minimum": "eqf_min_{s}({1}, {0})",
    "fmax": "eqf_fmax_{s}({1}, {0})", "fmin": "eqf_fmin_{s}({1}, {0})",
}  # fmt: skip
_BFLOAT16 = {"sign": "{0} == 0 ? {0} : eqf_sign_{s}({0})"}  # ml_dtypes keeps the sign of a zero
_BY_ONE = {
    "floor_divide": "eqf_quotient_{s}({0}, {1})", "remainder": "eqf_rest_{s}({0}, {1})",
    "fmod": "eqf_left_over_{s}({0}, {1})",
}  # fmt: skip
SUMS_WAITING = 64  # sums of sums that wait to be added, one for each binary digit of their number
SCANS = {"cumsum": "sum", "cumprod": "prod", "maximum": "max", "minimum": "min"}  # by operator, or ufunc
REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", *PLACES)


def _by_parts(real: str, imag: str, whole: str) -> dict[str, str]:
    """Rows of complex numbers that compute one part after the other. `real`, `imag`: the parts of {n}; `whole`: a
    number of such."""
    re, im = ([part.replace("{n}", f"{{{i}}}") for i in range(2)] for part in (real, imag))
    parts = {
        "conj": (re[0], f"-{im[0]}"), "negative": (f"-{re[0]}", f"-{im[0]}"),
        "add": (f"{re[0]} + {re[1]}", f"{im[0]} + {im[1]}"), "subtract": (f"{re[0]} - {re[1]}", f"{im[0]} - {im[1]}"),
    }  # fmt: skip
    return {"real": re[0], "imag": im[0]} | {op: whole.format(re=one, im=other) for op, (one, other) in parts.items()}


# What has NumPy's bits: its products of complex numbers are rounded differently from one processor to another.
_PACKED = "(long long)((unsigned long long)eqf_bits_f32({im}) << 32 | eqf_bits_f32({re}))"
_PAIR = "(Pair){{{{ {re}, {im} }}}}"
_COMPLEX = {
    np.dtype(np.complex64): _by_parts(
        "eqf_number_f32((unsigned){n})", "eqf_number_f32((unsigned)({n} >> 32))", _PACKED
    ),
    np.dtype(np.complex128): _by_parts("{n}.re", "{n}.im", _PAIR),
    np.dtype(np.float32): {"complex": _PACKED.format(re="{0}", im="{1}")},
    np.dtype(np.float64): {"complex": _PAIR.format(re="{0}", im="{1}")},
}


def ctype(dtype: np.dtype) -> CType:
    return _TYPES.get(dtype) or _COPIED[dtype]


def computing_type(dtype: np.dtype) -> str:
    """The C type of variables of `dtype`."""
    return ctype(dtype).computed


def value_read(dtype: np.dtype, text: str) -> str:
    """The value of an element of an array. A bool is true unless all its bits are 0."""
    if dtype.kind == "b":
        return f"{text} != 0"
    return f"eqf_load_{ctype(dtype).suffix}({text})" if dtype in _HALVES else text


def value_kept(dtype: np.dtype, text: str) -> str:
    """What an array keeps of a value."""
    return f"eqf_store_{ctype(dtype).suffix}({text})" if dtype in _HALVES else text


def is_half(dtype: np.dtype) -> bool:
    """Is it a 16-bit float, computed in float?"""
    return dtype in _HALVES


def rounded(dtype: np.dtype, text: str) -> str:
    """A value of `dtype` in its computing type, as exact as memory keeps it."""
    return value_read(dtype, value_kept(dtype, text)) if dtype in _HALVES else text


def emits(op: str, dtypes: Sequence[np.dtype], result: np.dtype) -> bool:
    """Has this file a row for `op` of arguments of `dtypes`?"""
    if dtypes and op in _COMPLEX.get(dtypes[0], {}):
        return True
    if any(dtype in _COPIED for dtype in (*dtypes, result)):
        return False
    if row(op).maps or row(op).role is Role.SCAN:  # loops make of them where they read, and what they carry
        return True
    return op in ("cast", *REDUCTIONS) or _template(op, dtypes) is not None


def expression(op: str, dtypes: Sequence[np.dtype], arguments: Sequence[str]) -> str:
    """One element of `op`. `dtypes` are the arguments', alike but for the condition of `where`."""
    template, dtype = _COMPLEX.get(dtypes[0], {}).get(op) or _template(op, dtypes), dtypes[row(op).values_from]
    if template is None:
        raise UnsupportedOp(f"the c table (eqfuse/emit/c/ops.py) has no row {op!r} for {dtype.name}")
    kind = ctype(dtype)
    suffix = "f32" if dtype in _HALVES else kind.suffix
    blanks = {"f": "f" * (kind.computed == "float"), "l": "ll" * (dtype.itemsize == 8)}
    return template.format(*arguments, s=suffix, T=kind.computed, U=kind.unsigned, **blanks)


def clamped(op: str, dtype: np.dtype, arguments: Sequence[str], bounds: Sequence[float | None]) -> str | None:
    """`expression` of a maximum or minimum where an argument is a known number: what NaNs and zeros need is left out
    where the number does not. Several selections in a row that ask for NaNs too are some twenty instructions."""
    if op not in ("maximum", "minimum") or not (dtype.kind == "f" or dtype in _HALVES):
        return None
    position = next((i for i, k in enumerate(bounds) if k is not None and k == k), None)
    if position is None:
        return None
    bound, suffix = bounds[position], "f64" if dtype == np.float64 else "f32"
    text = f"eqf_{'above' if op == 'maximum' else 'below'}_{suffix}({arguments[1 - position]}, {arguments[position]})"
    if bound != 0 or (position == 0) != (dtype == FLOAT16):  # of two zeros the one that is not the number's
        return text
    return f"{text} + 0" if math.copysign(1, bound) > 0 else None


def quick(op: str, text: str) -> str:
    """`text`, an expression of `op`, with its quick function if it has one."""
    return text.replace(f"eqf_{op}_", f"eqf_{op}_quick_", 1) if op in QUICK_FUNCTIONS else text


def is_prepared(op: str, dtype: np.dtype) -> bool:
    """Does `op` on integers take a second argument that is one number for all elements as a `Divisor`?"""
    return op in _BY_ONE and dtype.kind in "iu"


def divisor(dtype: np.dtype, text: str) -> str:
    return f"eqf_divisor_{ctype(dtype).suffix}({text})"


def divided(op: str, dtype: np.dtype, number: str, by: str) -> str:
    """One element of `op`, where a `Divisor` is the second argument."""
    return _BY_ONE[op].format(number, by, s=ctype(dtype).suffix)


def _template(op: str, dtypes: Sequence[np.dtype]) -> str | None:
    dtype = dtypes[row(op).values_from]
    halves: dict[np.dtype, list[_Rows]] = {FLOAT16: [_FLOAT16, _HALF], BFLOAT16: [_BFLOAT16, _HALF]}
    kinds: dict[str, list[_Rows]] = {"b": [_BOOL], "f": [_FLOAT, _ANY], "i": [_SIGNED, _INTEGER, _ANY]}
    tables = [*halves[dtype], *kinds["f"]] if dtype in halves else kinds.get(dtype.kind, [_INTEGER, _ANY])
    return next((table[op] for table in tables if op in table), None)


def cast(source: np.dtype, target: np.dtype, text: str) -> str:
    """An element as a `target`, before it is rounded to 16 bits."""
    if source == target:
        return text
    kind, from_float = ctype(target), source.kind == "f" or source in _HALVES
    if target in _HALVES and source == np.float64:
        return f"eqf_odd_f64({text})"
    if source.kind == "b" and target.kind != "c" and (target.kind == "f" or target in _HALVES):
        return f"{text} ? ({kind.computed})1 : 0"
    if target.kind == "b":
        return f"{text} != 0"
    if target.kind in "iu" and from_float:
        return f"eqf_to_{kind.suffix}_{'f64' if source == np.float64 else 'f32'}({text})"
    return f"({kind.computed}){text}"


@dataclass(frozen=True)
class Reduction:
    """How a reduction begins, and how values `a` and `b` combine, in the C type `kind`; `clause`: what `#pragma omp
    simd reduction` calls it. `pairwise`: sums of many are sums of sums of few, as NumPy's. `ends`: it is known as soon
    as it is not the identity, whatever follows. `nan`: what the largest and the smallest float are where a NaN is among
    the values, which `quick`, a shorter step, passes over. `places`: the result is where they lie."""

    kind: str
    identity: str
    step: str
    clause: str
    pairwise: bool = False
    ends: bool = False
    quick: str = ""
    nan: str = ""
    places: bool = False


def compared(dtype: np.dtype) -> np.dtype:
    """In what values of `dtype` are compared whose places are looked for."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype


def suffix(dtype: np.dtype) -> str:
    """The end of the names of functions on values that are compared as `dtype` is."""
    return "f32" if dtype in _HALVES else ctype(compared(dtype)).suffix


def reduction(op: str, source: np.dtype, result: np.dtype) -> Reduction:
    """The row of a reduction over values of `source`. Integers wrap around in an unsigned type; what is true or false
    is kept in one as wide as what it is found from."""
    kind, suffix = ctype(result), "f32" if source in _HALVES else ctype(source).suffix
    exact = result.kind in "biu"
    if op == "sum":
        return Reduction(kind.unsigned or kind.computed, "0", "{a} + {b}", "+", pairwise=not exact)
    if op == "prod":
        return Reduction(kind.unsigned or kind.computed, "1", "{a} * {b}", "*")
    if op in PLACES:
        dtype = compared(source)
        return replace(reduction(PLACES[op], dtype, dtype), places=True)
    truth = _UNSIGNED[4 if source in _HALVES else source.itemsize]
    if op == "any" or (op, source.kind) == ("max", "b"):
        return Reduction(truth, "0", "{a} | ({b} != 0)", "|", ends=True)
    if op == "all" or source.kind == "b":
        return Reduction(truth, "1", "{a} & ({b} != 0)", "&", ends=True)
    quick = f"{{b}} {'>' if op == 'max' else '<'} {{a}} ? {{b}} : {{a}}"
    if source.kind in "iu":
        return Reduction(kind.computed, _limit(source, op), quick, op)
    nan = '__builtin_nan("")' if source == np.float64 else '__builtin_nanf("")'
    step = f"eqf_{op}_{suffix}({{a}}, {{b}})"
    return Reduction(kind.computed, _limit(source, op), step, op, quick=quick, nan=nan)


def scanned_reduction(n: Node) -> Reduction:
    """The row of the reduction that the scan `n` runs. Nothing is added to its first element: its identity keeps the
    sign of a zero. UnsupportedOp where there is none."""
    source, name = n.args[0].dtype, n.op if n.op in SCANS else n.attr("ufunc")
    if name == "logaddexp":
        kind, suffix = computing_type(n.dtype), "f64" if n.dtype == np.float64 else "f32"
        return Reduction(kind, _limit(source, "max"), f"eqf_logaddexp_{suffix}({{a}}, {{b}})", "")
    if name not in SCANS:
        raise UnsupportedOp(f"the c table (eqfuse/emit/c/ops.py) has no scan by {name!r}")
    fold = reduction(SCANS[name], source, n.dtype)
    return replace(fold, identity="-0.0f") if name == "cumsum" and fold.pairwise else fold


def _limit(source: np.dtype, op: str) -> str:
    """The identity of max or min."""
    sign = "-" * (op == "max")
    if source.kind == "f" or source in _HALVES:
        return f"{sign}__builtin_inf{'' if source == np.float64 else 'f'}()"
    limits = np.iinfo(source)
    if op == "min":
        return f"{limits.max}{'U' * (source.kind == 'u')}LL"
    return f"({limits.min + 1}LL - 1)" if limits.min else "0"  # the smallest 64-bit integer has no literal of its own
