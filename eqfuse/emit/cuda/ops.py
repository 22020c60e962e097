"""The CUDA row of every operator: how one element is computed. In: an operator's name and its values' dtypes.
Out: a C expression over named values, or a reduction's identity and step. Next stop: `element.py`.

16-bit floats are loaded as float and computed in float; the result is rounded, unless the program's numerics leave it
as it is until it is stored or cast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqfuse.dtypes import BFLOAT16
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node
from eqfuse.ops import row
from eqfuse.ops.reductions import PLACES

_STORED: dict[np.dtype, str] = {
    np.dtype(np.bool_): "bool", np.dtype(np.int8): "signed char", np.dtype(np.uint8): "unsigned char",
    np.dtype(np.int16): "short", np.dtype(np.uint16): "unsigned short", np.dtype(np.int32): "int",
    np.dtype(np.uint32): "unsigned", np.dtype(np.int64): "long long", np.dtype(np.uint64): "unsigned long long",
    np.dtype(np.float16): "__half", BFLOAT16: "__nv_bfloat16", np.dtype(np.float32): "float",
    np.dtype(np.float64): "double", np.dtype(np.complex64): "eqf_complex<float>",
    np.dtype(np.complex128): "eqf_complex<double>",
}  # fmt: skip
_Rows = Mapping[str, str | None]  # operators without a row of their own in one are in the next; None: in none
_SMALL = {np.dtype(np.float16): "half", BFLOAT16: "bfloat16"}

# The special functions that CUDA's math library has; {s} is "f" for float and "" for double.
SPECIAL_ROWS = {name: f"{c}{{s}}({{0}})" for name, c in {
    "gamma": "tgamma", "gammaln": "lgamma", "erfcx": "erfcx", "erfinv": "erfinv", "erfcinv": "erfcinv",
    "ndtri": "normcdfinv", "j0": "j0", "j1": "j1", "y0": "y0", "y1": "y1", "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1", "exp10": "exp10",
}.items()}  # fmt: skip

# {s} is "f" for float and "" for double; {T} the computing type.
_FLOAT = {name: f"{c}{{s}}({{0}})" for name, c in {
    "cbrt": "cbrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "erfc": "erfc", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "round": "rint", "abs": "fabs",
}.items()} | SPECIAL_ROWS | {
    "atan2": "atan2{s}({0}, {1})", "hypot": "hypot{s}({0}, {1})", "power": "pow{s}({0}, {1})",
    "copysign": "copysign{s}({0}, {1})", "nextafter": "nextafter{s}({0}, {1})", "fmax": "fmax{s}({0}, {1})",
    "fmin": "fmin{s}({0}, {1})", "logaddexp": "eqf_logaddexp<{T}>({0}, {1})", "signbit": "(bool)signbit({0})",
    "isnan": "{0} != {0}", "isinf": "(bool)isinf({0})", "isfinite": "(bool)isfinite({0})",
    "floor_divide": "eqf_ffloor_divide<{T}>({0}, {1})", "remainder": "eqf_fremainder<{T}>({0}, {1})",
    "fmod": "fmod{s}({0}, {1})",
    "reciprocal": "eqf_divided(({T})1, {0})", "divide": "eqf_divided({0}, {1})",
    "sqrt": "eqf_sqrt({0})", "tanh": "eqf_tanh({0})", "ldexp": "ldexp{s}({0}, eqf_int({1}))",
    "complex": "eqf_complex<{T}>({0}, {1})",
}  # fmt: skip
_INTEGER = {
    "abs": "({T})eqf_size<{T}, {U}>({0})", "floor": "{0}", "ceil": "{0}", "trunc": "{0}", "round": "{0}",
    "fmax": "eqf_max<{T}>({0}, {1})", "fmin": "eqf_min<{T}>({0}, {1})", "power": "eqf_power<{T}, {U}>({0}, {1})",
    "floor_divide": "eqf_floor_divide<{T}, {U}>({0}, {1})", "remainder": "eqf_remainder<{T}>({0}, {1})",
    "fmod": "eqf_fmod<{T}>({0}, {1})",
    "reciprocal": "eqf_to<{T}, {C}>(1.0 / {0})",
    "isnan": "false", "isinf": "false", "isfinite": "true",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}", "bitwise_invert": "~{0}",
    "gcd": "({T})eqf_gcd<{T}, {U}>({0}, {1})", "lcm": "({T})eqf_lcm<{T}, {U}>({0}, {1})",
    "bitwise_count": "eqf_count<{T}, {U}>({0})",
    "bitwise_left_shift": "eqf_left<{T}, {U}>({0}, {1})", "bitwise_right_shift": "eqf_right<{T}>({0}, {1})",
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
_WRAPPING = {  # C leaves undefined what overflows: these are computed modulo 2 to the number of bits
    "add": "({T})(({U}){0} + {1})", "subtract": "({T})(({U}){0} - {1})", "multiply": "({T})(({U}){0} * {1})",
    "square": "({T})(({U}){0} * {0})", "negative": "({T})-({U}){0}",
}  # fmt: skip
_COMPLEX = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}", "negative": "-{0}",
    "square": "{0} * {0}", "reciprocal": "eqf_reciprocal({0})", "real": "{0}.re", "imag": "{0}.im",
    "conj": "{T}({0}.re, -{0}.im)", "abs": "hypot({0}.re, {0}.im)", "exp": "eqf_exp({0})",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "where": "{0} ? {1} : {2}",
    "isnan": "{0} != {0}", "isinf": "isinf({0}.re) || isinf({0}.im)",
    "isfinite": "isfinite({0}.re) && isfinite({0}.im)",
    "logical_not": "!(bool){0}", "logical_and": "(bool){0} && (bool){1}", "logical_or": "(bool){0} || (bool){1}",
}  # fmt: skip
_SHORT: _Rows = {  # of 16-bit floats
    "exp": "eqf_short_exp({0})",  # which needs fewer digits
    "nextafter": None,  # computed in float, it would change nothing
}
_BFLOAT16 = {
    "sign": "{0} == ({T})0 ? {0} : eqf_sign<{T}>({0})",  # ml_dtypes keeps the sign of a zero
    "tanh": "eqf_short_tanh({0})", "divide": "eqf_short_divided({0}, {1})",
    "reciprocal": "eqf_short_divided(({T})1, {0})",
}  # fmt: skip
_BOOL = {
    "add": "{0} || {1}", "multiply": "{0} && {1}", "maximum": "{0} || {1}", "minimum": "{0} && {1}",
    "fmax": "{0} || {1}", "fmin": "{0} && {1}", "bitwise_invert": "!{0}", "abs": "{0}",
}  # fmt: skip


@dataclass(frozen=True)
class Reduction:
    """How accumulators `a` and `b` of C type `kind` combine, the one that changes nothing, that of `{value}` at the
    place `{at}` of its row, and what the result is of `{a}`."""

    kind: str
    identity: str
    step: str
    begun: str = "{value}"
    result: str = "{a}"


def stored(dtype: np.dtype) -> str:
    """The C type of an array's element."""
    try:
        return _STORED[dtype]
    except KeyError:
        names = ", ".join(map(str, _STORED))
        raise UnsupportedOp(f"the cuda target has no {dtype.name}; cast to one of {names}") from None


def computing_type(dtype: np.dtype) -> str:
    """The C type in which values of `dtype` are computed."""
    return "float" if dtype in _SMALL else stored(dtype)


def value_read(dtype: np.dtype, text: str) -> str:
    return f"__{_SMALL[dtype]}2float({text})" if dtype in _SMALL else text


def value_kept(dtype: np.dtype, text: str) -> str:
    return f"__float2{_SMALL[dtype]}_rn({text})" if dtype in _SMALL else text


def rounded(dtype: np.dtype, text: str) -> str:
    """A value of `dtype` in its computing type, as exact as memory keeps it."""
    if dtype == BFLOAT16:
        return f"eqf_bfloat16({text})"
    return value_read(dtype, value_kept(dtype, text))



def emits(op: str, dtypes: Sequence[np.dtype], result: np.dtype) -> bool:
    """Has this file a row for `op` of arguments of `dtypes`?"""
    if op in REDUCTIONS:
        return dtypes[0].kind != "c" or op not in ORDERED
    if op in SCANS:
        return result.kind != "c"
    return op == "cast" or row(op).maps or _template(op, dtypes) is not None  # `element.py` finds the place


def expression(op: str, dtypes: list[np.dtype], arguments: list[str]) -> str:
    """One element of `op`. `dtypes` are the arguments', alike but for the condition of `where` and `ldexp`'s powers."""
    template, dtype = _template(op, dtypes), dtypes[row(op).values_from]
    if template is None:
        raise UnsupportedOp(f"the cuda table (eqfuse/emit/cuda/ops.py) has no row {op!r} for {dtype.name}")
    kind = computing_type(dtype)
    U, C = _carriers(dtype)
    return template.format(*arguments, s="" if kind == "double" else "f", T=kind, U=U, C=C)


def _template(op: str, dtypes: Sequence[np.dtype]) -> str | None:
    dtype = dtypes[row(op).values_from]
    wrapping = [_WRAPPING] if dtype.char in "ilqH" else []
    short: list[_Rows] = [_SHORT, _FLOAT, _ANY]
    floats = {np.dtype(np.float16): short, BFLOAT16: [_BFLOAT16, *short]}
    kinds: dict[str, list[_Rows]] = {"c": [_COMPLEX], "b": [_BOOL, _ANY, _INTEGER], "f": [_FLOAT, _ANY]}
    tables = floats.get(dtype) or kinds.get(dtype.kind, [*wrapping, _INTEGER, _ANY])
    return next((table[op] for table in tables if op in table), None)


def _carriers(dtype: np.dtype) -> tuple[str, str]:
    """The C types of no smaller size in which integers wrap around, and to which floats are converted."""
    if dtype.itemsize == 8:
        return "unsigned long long", "long long"
    return "unsigned", "long long" if dtype == np.uint32 else "int"


def cast(source: np.dtype, target: np.dtype, text: str) -> str:
    if target in _SMALL:
        if source == np.float64:
            return value_read(target, stored_cast(source, target, text))
        return rounded(target, f"(float){text}")
    if target.kind == "c" and source.kind != "c":
        return f"{computing_type(target)}(({'float' if target == np.complex64 else 'double'}){text})"
    if target.kind == "b":
        return f"(bool){text}" if source.kind == "c" else f"{text} != 0"
    if target.kind in "iu" and (source.kind == "f" or source in _SMALL):
        return f"eqf_to<{computing_type(target)}, {_carriers(target)[1]}>({text})"
    return f"({computing_type(target)}){text}"


def stored_cast(source: np.dtype, target: np.dtype, text: str) -> str:
    """A cast as memory keeps it."""
    if target in _SMALL and source == np.float64:
        return f"__double2{_SMALL[target]}({text})"
    return value_kept(target, f"(float){text}" if target in _SMALL else cast(source, target, text))


ORDERED = ("max", "min", *PLACES)
SCANS = ("cumsum", "cumprod", "accumulate")
# by ufunc; the reduction that a scan runs, or what changes nothing, as C text or "" for an infinity
_FOLDS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_LOGIC = {"logical_and": "true", "logical_or": "false", "logical_xor": "false"}
REDUCTIONS = ("sum", "prod", "any", "all", *ORDERED)


def reduction(op: str, source: np.dtype, result: np.dtype) -> Reduction:
    """The row of a reduction over values of `source`; it accumulates in `result`'s computing type."""
    T = computing_type(result)
    begun = "{value}" if computing_type(source) == T else f"({T}){{value}}"
    if op == "sum":
        return Reduction(T, f"({T})0", expression("add", [result, result], ["{a}", "{b}"]), begun)
    if op == "prod":
        return Reduction(T, f"({T})1", expression("multiply", [result, result], ["{a}", "{b}"]), begun)
    if op in ("any", "all"):
        return Reduction(T, *(("false", "{a} || {b}") if op == "any" else ("true", "{a} && {b}")), begun)
    if source.kind == "c":
        raise UnsupportedOp(f"the cuda table (eqfuse/emit/cuda/ops.py) has no {op!r} of complex numbers")
    if op in PLACES:
        return _place(op, source)
    logical = "{a} || {b}" if op == "max" else "{a} && {b}"
    step = logical if source.kind == "b" else f"eqf_{op}<{T}>({{a}}, {{b}})"
    return Reduction(T, _worst(op, source), step)


def scanned_reduction(n: Node) -> Reduction:
    """The row of the reduction that the scan `n` runs. UnsupportedOp where there is none."""
    name = {"cumsum": "add", "cumprod": "multiply"}.get(n.op) or n.attr("ufunc")
    source, T = n.args[0].dtype, computing_type(n.dtype)
    if source.kind == "b" and name in _LOGIC:
        return Reduction(T, _LOGIC[name], expression(name, [source, source], ["{a}", "{b}"]))
    if name == "logaddexp":
        return Reduction(T, _worst("max", n.dtype), expression(name, [n.dtype, n.dtype], ["{a}", "{b}"]))
    if name not in _FOLDS or n.dtype.kind == "c":
        raise UnsupportedOp(f"the cuda table (eqfuse/emit/cuda/ops.py) has no scan by {name!r} of {source.name}")
    fold = reduction(_FOLDS[name], source, n.dtype)
    signed = name == "add" and T in ("float", "double")  # which keeps the sign of a zero that comes first
    return replace(fold, identity=f"-({T})0") if signed else fold


def _worst(op: str, dtype: np.dtype) -> str:
    """The value of `dtype` that none is below (`op` "max") or above ("min")."""
    T = computing_type(dtype)
    if dtype in _SMALL or dtype.kind == "f":
        return f"{'-' if op == 'max' else ''}({T})__int_as_float(0x7f800000)"
    if dtype.kind == "b":
        return "false" if op == "max" else "true"
    limits = np.iinfo(dtype)
    if op == "max":  # the smallest 64-bit integer has no literal of its own
        return f"({T})({limits.min + 1}LL - 1)" if limits.min else f"({T})0"
    return f"({T}){limits.max}{'ULL' if dtype.kind == 'u' else 'LL'}"


def _place(op: str, dtype: np.dtype) -> Reduction:
    """Where the largest or smallest value lies: the first NaN, or the first of the best."""
    value = computing_type(dtype) if dtype.itemsize >= 4 or dtype in _SMALL else "int"  # lanes pass on no smaller ones
    worst = f"eqf_best<{value}>{{({value})({_worst(PLACES[op], dtype)}), 0x7fffffffffffffffLL}}"
    begun = f"eqf_best<{value}>{{{{({value}){{value}}, {{place}}}}}}"
    return Reduction(f"eqf_best<{value}>", worst, f"eqf_first_{PLACES[op]}({{a}}, {{b}})", begun, "{a}.at")
