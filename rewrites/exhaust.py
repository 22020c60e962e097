"""Pointwise laws on all values: every one of a small dtype, every float16 among them, or a dense sample of tuples.

In: `Law`. Out: one `Sweep` per dtype. Laws that keep every bit are judged by bits. The others are judged over the
reals: in float64 on the values of float16, where no product of a few of them over- or underflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from eqfuse.dtypes import BFLOAT16, FLOAT8, kind
from eqfuse.facts import Fact, of_array, order
from eqfuse.ir import Node, TensorType
from eqfuse.meaning import evaluate
from eqfuse.rewrites.agreement import Comparison, compare, same_elements
from eqfuse.rewrites.cases import Case, chosen, pointwise, roles
from eqfuse.rewrites.data import FLOAT_VALUES, Arrays, quiet
from eqfuse.rewrites.law import APPROXIMATE, EXACT, VARIABLE, Exactness, Law, names

FLOAT16, FLOAT64 = np.dtype(np.float16), np.dtype(np.float64)
SMALL = (*map(np.dtype, ("bool", "int8", "uint8", "int16", "uint16")), FLOAT16, BFLOAT16, *FLOAT8)

ALL = 1 << 17  # tuples of values: all are tried where there are no more,
GRID, RANDOM = 1 << 16, 100_000  # else a grid of some, and random ones
ALONE = 64  # elements in which a law fails that are tried on their own
TOLERANCE = 1e-8  # of the largest number met on the way: float64 may lose half of its digits


@dataclass(frozen=True)
class Sweep:
    """A pointwise law on `tuples` of values of `dtype` (`all`: there are no others), computed in `computed`."""

    dtype: np.dtype
    computed: np.dtype
    tuples: int
    all: bool
    reached: Exactness
    failure: Comparison | None


def sweeps(law: Law) -> Iterator[Sweep]:
    """The law over all values, dtype by dtype; nothing for a law that is not pointwise."""
    if not pointwise(law):
        return
    for dtype in SMALL:
        case, values, complete = _tuples(law, dtype, dtype)
        if case is None:
            continue
        try:
            differ, tuples = _differ(case, values)
        except ValueError:  # NumPy refuses some of them: 2 ** -1 in integers
            continue
        judged = case.claimed == EXACT or kind(dtype) != "f"
        failure = _simplest(case, values, differ) if judged and differ.any() else None
        yield Sweep(dtype, dtype, tuples, complete, case.claimed if differ.any() else EXACT, failure)
    case, values, complete = _tuples(law, FLOAT16, FLOAT64)
    if case is not None and case.claimed > EXACT:
        differ, tuples = _differ(case, values, _differ_over_reals)
        failure = _simplest(case, values, differ) if differ.any() else None
        yield Sweep(FLOAT16, FLOAT64, tuples, complete, EXACT, failure)  # of bits it says nothing


def _differ(case: Case, arrays: Arrays, how: Callable[..., np.ndarray] | None = None) -> tuple[np.ndarray, int]:
    """Where the sides differ (in any bit), among the tuples that the guards about values allow; how many these are."""
    with np.errstate(all="ignore"):
        allowed = _allowed(case, arrays)
        values = dict(zip(case.steps.outputs, evaluate(case.steps, tuple(arrays.values())), strict=True))
        for read in case.read_bits(values):
            allowed &= ~np.isnan(read)
        differ = np.zeros(allowed.shape, bool)
        for left, right in case.pairs(values):
            differ |= ~same_elements(left, right) if how is None else how(case, arrays, values, left, right)
    return differ & allowed, int(allowed.sum())


def _allowed(case: Case, arrays: Arrays) -> np.ndarray:
    """Which tuples the guards about values allow."""
    allowed = np.ones(next(iter(arrays.values())).shape, bool)
    for g in case.guards:
        if g.wanted is None:
            continue
        subject, *others = (arrays[t.attrs[0]] for t in g.tensors)
        if not others:
            allowed &= _includes(g.wanted(), subject)
            continue
        (other,) = others
        _, first, group = np.unique(other.view(f"u{other.itemsize}"), return_index=True, return_inverse=True)
        for at, one in enumerate(first):
            members = np.flatnonzero(group == at)
            allowed[members] &= _includes(g.wanted(of_array(other[one])), subject[members])
    return allowed


def _includes(fact: Fact, array: np.ndarray) -> np.ndarray:
    """`fact.includes`, element by element."""
    values = array.astype(np.float64)
    nan, zero, minus = np.isnan(values), values == 0, np.signbit(values)
    inside = (values >= fact.lower) & (values <= fact.upper) & (fact.zero | ~zero)
    if kind(array.dtype) == "f":
        inside &= ~(zero & minus & (order(fact.lower) == (0, 1))) & ~(zero & ~minus & (order(fact.upper) == (0, -1)))
    return inside | (nan & fact.nan)


def _tuples(law: Law, dtype: np.dtype, computed: np.dtype) -> tuple[Case | None, Arrays, bool]:
    """All tuples of values of `dtype`, one for each variable, as arrays of `computed`; False: a dense sample."""
    uses = roles(law)
    variables = list(dict.fromkeys(name for lhs in law.lefts for what, name in names(lhs) if what == VARIABLE))
    dtypes = {v: np.dtype(bool) if "condition" in uses.get(v, ()) else dtype for v in variables}
    complete = math.prod(len(all_values(d)) for d in dtypes.values()) <= ALL
    share = int(GRID ** (1 / len(dtypes)))
    some = [all_values(d) if complete else _spread(d, share) for d in dtypes.values()]
    columns = [column.ravel() for column in np.meshgrid(*some, indexing="ij")]
    if not complete and all(g.wanted is None or len(g.tensors) == 1 for g in law.when):
        rng = np.random.default_rng(0)
        drawn = [all_values(d)[rng.integers(0, len(all_values(d)), RANDOM)] for d in dtypes.values()]
        columns = [np.concatenate(pair) for pair in zip(columns, drawn, strict=True)]
    with np.errstate(all="ignore"):
        arrays = {
            v: c.astype(computed if d == dtype else d) for (v, d), c in zip(dtypes.items(), columns, strict=True)
        }
    return chosen(law, {v: TensorType(a.dtype, a.shape) for v, a in arrays.items()}, {}), arrays, complete


@cache
def all_values(dtype: np.dtype) -> np.ndarray:
    """Every value of a dtype of up to 16 bits, one for each pattern of bits."""
    if dtype.kind == "b":
        return np.array([False, True])
    return quiet(np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype))


def _spread(dtype: np.dtype, count: int) -> np.ndarray:
    """About `count` values of `dtype`: the simple ones, then some of every magnitude."""
    everything = all_values(dtype)
    if len(everything) <= count:
        return everything
    with np.errstate(all="ignore"):
        simple = np.array(FLOAT_VALUES[: count // 2] if kind(dtype) == "f" else range(count // 4)).astype(dtype)
    rest = np.linspace(0, len(everything) - 1, count - len(simple)).astype(int)
    return np.concatenate([simple, everything[rest]])


def _simplest(case: Case, values: Arrays, differ: np.ndarray) -> Comparison:
    """The law failing on one tuple of numbers, if possible on simple ones."""
    where = np.flatnonzero(differ)
    with np.errstate(all="ignore"):
        effort = np.sum([_effort(column[where].astype(np.float64)) for column in values.values()], 0)
    tried = where[np.argsort(effort, kind="stable")[:ALONE]]
    for shape in ((), (1,)):
        for at in tried:
            one = {name: v[at].reshape(shape) for name, v in values.items()}
            alone = chosen(case.law, {name: TensorType(v.dtype, shape) for name, v in one.items()}, {})
            found = compare(alone, one) if alone is not None else None
            if found is not None and not found.holds:
                return found
    few = {name: v[tried] for name, v in values.items()}
    together = chosen(case.law, {name: TensorType(v.dtype, v.shape) for name, v in few.items()}, {})
    assert together is not None
    with np.errstate(all="ignore"):
        outputs = evaluate(together.graph, tuple(few.values()))
    return Comparison(together, few, outputs[0], outputs[len(outputs) // 2], None, False)


def _effort(column: np.ndarray) -> np.ndarray:
    """How far from simple each number is."""
    effort = np.where(column == np.rint(column), 0.0, 4.0) + np.abs(np.log2(np.abs(column) + 2.0**-30))
    for at, value in enumerate(FLOAT_VALUES):
        effort[same_elements(column, np.full_like(column, value))] = at / len(FLOAT_VALUES)
    return np.nan_to_num(effort, posinf=40.0)


def _differ_over_reals(
    case: Case, arrays: Arrays, values: dict[Node, np.ndarray], left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Where two sides differ by more than rounding, and nothing over- or underflowed on the way."""
    if kind(left.dtype) != "f":
        return ~same_elements(left, right)
    scale, normal = np.ones(left.shape), np.ones(left.shape, bool)
    for n, value in values.items():
        if value.dtype.kind == "f":
            scale = np.fmax(scale, np.where(np.isfinite(value), np.abs(value), 0))
            normal &= ~_flows_over(n, value, [values[a] for a in n.args])
    finite_left, finite_right = np.isfinite(left), np.isfinite(right)
    differ = finite_left & finite_right & (np.abs(left - right) > TOLERANCE * scale)
    if case.claimed < APPROXIMATE:
        return normal & (differ | (finite_left != finite_right))
    for a in arrays.values():
        normal &= np.isfinite(a)
    return normal & differ


_POLES = frozenset({"log", "log2", "log10", "log1p", "atanh"})  # infinite at one argument, and never by overflow
_QUOTIENTS = frozenset({"divide", "reciprocal", "power"})  # infinite at zero, or by overflow


def _flows_over(n: Node, value: np.ndarray, args: list[np.ndarray]) -> np.ndarray:
    """Where the operator `n` makes an infinity, or next to nothing, of finite numbers that are not zero."""
    if not args or n.op in _POLES:
        return np.zeros(value.shape, bool)
    finite, zero = np.ones(value.shape, bool), np.zeros(value.shape, bool)
    for a in args:
        finite &= np.isfinite(a)
        zero |= a == 0
    at_pole = zero if n.op in _QUOTIENTS else np.zeros(value.shape, bool)
    over = np.isinf(value) & finite & ~at_pole
    under = (np.abs(value) < np.finfo(value.dtype).tiny) & finite
    products = under & ~zero if n.op in ("multiply", "divide", "power", "square") else under & (value != 0)
    return over | products | (under if n.op in ("exp", "exp2") else np.zeros(value.shape, bool))
