"""Arrays for one case of a law: half-integers, special values, any bits, any magnitudes; contiguous and strided.

In: `LawCase` and a generator of random numbers. Out: arrays by variable. Half-integers make equalities over the reals
bit equalities; special values show what becomes of NaN, infinities and signed zeros; any bits show rounding; numbers of
mixed magnitudes, some of which cancel others, show where a side loses digits that the other keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from eqfuse.dtypes import epsilon, kind
from eqfuse.ir.evaluate import every_value
from eqfuse.ops.approximation import safe_range
from eqfuse.ops.elementwise import complex_array
from eqfuse.ops.facts import Fact, of_array
from eqfuse.ops.row import Role
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.checking.cases import LawCase
from eqfuse.rewrites.language.law import Guard

Arrays = dict[str, np.ndarray]

PLAIN, SPECIAL, ANY, SPREAD, EDGES, DISTINCT = "plain", "special", "any", "spread", "edges", "distinct"
STYLES = (PLAIN, SPECIAL, ANY, SPREAD, EDGES, DISTINCT)
_MOVES = (Role.VIEW, Role.PIECES)

# from the simplest
FLOAT_VALUES = (
    0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 4.0, -4.0, 1.5, -1.5, 8.0, -8.0, 0.25, -0.25,
    -0.0, np.nan, np.inf, -np.inf,
)  # fmt: skip
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0)


def styles_of(case: LawCase) -> tuple[str, ...]:
    """The styles that differ for `case`: no elements are alike in any, what only moves elements moves all alike, and
    magnitudes are those of real numbers."""
    if not any(t.size for t in case.types.values()):
        return (PLAIN,)
    if not any(g.about_values for g in case.guards) and all(n.row.role in _MOVES for n in case.graph.operators):
        return (ANY,)
    if not any(_has_magnitudes(case, t) for t in case.types.values()):
        return tuple(style for style in STYLES if style not in MAGNITUDES)
    return STYLES


def _has_magnitudes(case: LawCase, t: TensorType) -> bool:
    return kind(t.dtype) == "f" and not case.truncates


def arrays(case: LawCase, style: str, rng: np.random.Generator) -> Arrays:
    """Random arrays of `style` in random memory layouts, as the law's guards about values want them where they can."""
    reach = 7 if style != PLAIN or rng.random() < 0.8 else 61  # now and then beyond the bounds that laws like to name
    by_name = MAGNITUDES[style](case, rng) if style in MAGNITUDES else {}
    by_name |= {name: _array(case, name, t, style, reach, rng) for name, t in case.types.items() if name not in by_name}
    return _laid_out(case, {name: by_name[name] for name in case.types}, rng)


def cancelling(case: LawCase, old: Arrays, rng: np.random.Generator) -> Arrays:
    """`old` with one array set to a value that the sides come by, or its negative, or nearly so: what is added to that
    value then cancels it."""
    floats = [name for name, a in old.items() if kind(a.dtype) == "f" and a.size]
    if not floats:
        return old
    with np.errstate(all="ignore"):
        met = [v for v in every_value(case.graph, tuple(old.values())).values() if kind(v.dtype) == "f" and v.size]
        name = floats[rng.integers(len(floats))]
        array, value = old[name], met[rng.integers(len(met))]
        near = 1 + float(epsilon(array.dtype)) * rng.integers(-8, 9, array.shape) * rng.integers(0, 2)
        new = (rng.choice((-1, 1)) * np.resize(value.astype(np.float64), array.shape) * near).astype(array.dtype)
    return _laid_out(case, {**old, name: np.where(np.isfinite(new), new, array)}, rng)


def _laid_out(case: LawCase, drawn: Arrays, rng: np.random.Generator) -> Arrays:
    """`drawn` in random memory layouts, as the guards about values want them where they can."""
    for guard in case.guards:
        if guard.wanted is not None:
            subject = guard.tensors[0].name
            with np.errstate(all="ignore"):
                drawn[subject] = _wanted(guard, drawn).obeying(drawn[subject])
    return {name: laid_out(a, LAYOUT_NAMES[rng.integers(len(LAYOUT_NAMES))]) for name, a in drawn.items()}


def obeyed(case: LawCase, arrays: Arrays) -> bool:
    """Are `arrays` as the guards about values want them?"""
    return all(_obeys(g, arrays) for g in case.guards if g.about_values)


def _obeys(guard: Guard, arrays: Arrays) -> bool:
    subject = arrays[guard.tensors[0].name]
    if guard.wanted is not None and not _wanted(guard, arrays).includes(subject):
        return False
    facts = (of_array(arrays[t.name]) for t in guard.tensors)
    return guard.judged is None or bool(guard.judged(subject.dtype, *facts))


def _wanted(guard: Guard, arrays: Arrays) -> Fact:
    """What must be so of the first tensor that `guard` is about, given the others."""
    assert guard.wanted is not None
    return guard.wanted(*(of_array(arrays[t.name]) for t in guard.tensors[1:]))


def _array(case: LawCase, name: str, t: TensorType, style: str, reach: int, rng: np.random.Generator) -> np.ndarray:
    if "indices" in case.roles.get(name, set()):
        return rng.integers(0, index_limit(case, name), t.shape).astype(t.dtype)
    if t.dtype.kind == "c":
        of_part = TensorType(np.dtype(f"f{t.dtype.itemsize // 2}"), t.shape)
        return complex_array(*(_array(case, name, of_part, style, reach, rng) for _ in range(2)))
    if t.dtype.kind == "b":
        return rng.integers(0, 2, t.shape).astype(bool)
    if style == ANY and not case.truncates:
        return _any(t, rng)
    data = rng.integers(0 if case.truncates else 1 - reach, reach, t.shape) * (rng.random(t.shape) < 0.8)
    if t.dtype.kind in "iu":
        limits = np.iinfo(t.dtype)
        large = [limits.min, limits.max, *(limits.max // n for n in (3, 5, 7))]
        extremes = rng.choice(np.array(large, t.dtype), t.shape)
        odd = (style == SPECIAL) & (rng.random(t.shape) < 0.3)
        return np.where(odd, extremes, data.astype(t.dtype)).astype(t.dtype)
    if style == SPECIAL and not case.truncates:
        odd = rng.choice(np.array(_SPECIAL), t.shape)
        return np.where(rng.random(t.shape) < 0.5, odd, data / 2).astype(t.dtype)
    return (data / 2).astype(t.dtype)


def _spread(case: LawCase, rng: np.random.Generator) -> Arrays:
    """Real numbers from all over the safe range, or some of it: of all magnitudes in one array, or in each its own; of
    either sign, or all positive; some of them zeros."""
    share = rng.choice((0.03, 0.1, 0.3, 1.0))
    within, alike, zeros = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.2
    by_name = {}
    for name, t in case.types.items():
        if not _has_magnitudes(case, t):
            continue
        least, most = _exponents(t.dtype, share)
        exponents = rng.integers(least, most + 1, t.shape if within else ())
        digits = np.where(rng.random(t.shape) < 0.5, rng.uniform(1, 2, t.shape), 1 + rng.integers(0, 4, t.shape) / 4)
        signs = 1 if alike else rng.choice((-1, 1), t.shape)
        value = np.ldexp(signs * digits, exponents) * (1 if not zeros else rng.random(t.shape) < 0.8)
        by_name[name] = value.astype(t.dtype)
    return by_name


def _distinct(case: LawCase, rng: np.random.Generator) -> Arrays:
    """Positive numbers, no two of one magnitude, nor of that of 1, from all over the safe range."""
    types = {name: t for name, t in case.types.items() if _has_magnitudes(case, t)}
    count = sum(t.size for t in types.values())
    if not count:
        return {}
    least, most = _exponents(next(iter(types.values())).dtype, 1.0)
    exponents = rng.permutation(np.array([e for e in range(least, most, 2) if e not in (-2, -1, 0)]))
    drawn = iter(exponents if count <= len(exponents) else np.resize(exponents, count))
    by_name = {}
    for name, t in types.items():
        chosen = np.array([next(drawn) for _ in range(t.size)], int).reshape(t.shape)
        by_name[name] = np.ldexp(rng.uniform(1, 1.99, t.shape), chosen).astype(t.dtype)
    return by_name


def _edges(case: LawCase, rng: np.random.Generator) -> Arrays:
    """Arrays of numbers as large, or as small, as the safe range has them, or near 1; mostly of one sign."""
    alike, by_name = rng.random() < 0.7, {}
    for name, t in case.types.items():
        if _has_magnitudes(case, t):
            signs = 1 if alike else rng.choice((-1, 1), t.shape)
            least, most = _exponents(t.dtype, 1.0)
            exponent = rng.choice((least, 0, most, most))
            by_name[name] = np.ldexp(signs * rng.uniform(1, 1.99, t.shape), exponent).astype(t.dtype)
    return by_name


MAGNITUDES = {SPREAD: _spread, EDGES: _edges, DISTINCT: _distinct}


def _exponents(dtype: np.dtype, share: float) -> tuple[int, int]:
    """The exponents of `share` of the safe range."""
    least, largest = safe_range(dtype)
    least = least or float(ml_dtypes.finfo(dtype).smallest_normal)
    return int(share * math.log2(least)), max(1, int(share * math.log2(largest)) - 1)


def _any(t: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Any bits: full significands, and (for half of the arrays) every exponent, subnormals and NaN among them."""
    if kind(t.dtype) == "f" and rng.random() < 0.5:
        return rng.standard_normal(t.shape).astype(t.dtype)
    bits = rng.integers(0, 256, (*t.shape, t.dtype.itemsize), dtype=np.uint8)
    return quiet(bits.reshape(-1).view(t.dtype).reshape(t.shape))


def quiet(a: np.ndarray) -> np.ndarray:
    """`a` with one NaN for all: arithmetic makes no signalling ones, and only `power` tells them from others."""
    with np.errstate(all="ignore"):
        return np.where(np.isnan(a), np.full_like(a, np.nan), a) if kind(a.dtype) == "f" else a


def index_limit(case: LawCase, name: str) -> int:
    """How large an index may be: the least extent that is not 0 of the other variables."""
    return min((n for other, t in case.types.items() if other != name for n in t.shape if n), default=1)


def simple_values(case: LawCase, name: str) -> list:
    """Values that an element of the variable may take, from the simplest."""
    dtype = case.types[name].dtype
    if "indices" in case.roles.get(name, set()):
        return list(range(index_limit(case, name)))
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        near = [0, 1, -1, 2, -2, 3, -3, 4, -4, limits.max, limits.min]
        return [dtype.type(v) for v in dict.fromkeys(near) if limits.min <= v]
    if case.truncates:
        return [dtype.type(v) for v in FLOAT_VALUES if v >= 0 and not np.signbit(v) and np.isfinite(v)]
    if dtype.kind == "c":
        reals = (0.0, 1.0, -1.0, 2.0)
        values = [complex(v) for v in FLOAT_VALUES] + [complex(a, b) for b in (1.0, -1.0, 2.0) for a in reals]
        return [dtype.type(v) for v in [*values, complex(-0.0, -0.0), complex(0.0, -0.0), complex(0.0, np.inf)]]
    finfo = ml_dtypes.finfo(dtype)
    edges = [float(finfo.smallest_subnormal), float(finfo.tiny), float(finfo.max), 1 + float(finfo.eps)]
    return [np.asarray(v).astype(dtype)[()] for v in (*FLOAT_VALUES, *edges, *(-v for v in edges))]


def same_value(a: Any, b: Any) -> bool:
    """Are two elements of one dtype the same, a zero's sign included?"""
    return np.asarray(a).tobytes() == np.asarray(b, np.asarray(a).dtype).tobytes() or (a != a and b != b)


def _reversed(a: np.ndarray) -> np.ndarray:
    back = (slice(None, None, -1),) * a.ndim
    return a[back].copy()[back]


def _sliced(a: np.ndarray) -> np.ndarray:
    buffer = np.zeros([2 * n for n in a.shape], a.dtype)
    view = buffer[(slice(None, None, 2),) * a.ndim]
    view[...] = a
    return view


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "negative strides": _reversed,
    "every second element of a larger array": _sliced,
}
LAYOUT_NAMES = tuple(LAYOUTS)


def laid_out(a: np.ndarray, layout: str) -> np.ndarray:
    """The same array in another memory layout."""
    return LAYOUTS[layout](a) if a.ndim else np.asarray(a)


def layout_name(a: np.ndarray) -> str:
    """The name of the layout, as far as it matters: "" for C order."""
    if a.flags.c_contiguous:
        return ""
    if a.flags.f_contiguous:
        return "Fortran order"
    return "negative strides" if any(s < 0 for s in a.strides) else "every second element of a larger array"
