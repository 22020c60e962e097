"""Pointwise laws on all values: every one of a small dtype, every float16 among them, or a dense sample of tuples.

In: `Law`. Out: one `Sweep` per dtype. Laws that keep every bit are judged by bits. The others are judged by
running error bounds: in the dtype, and over the reals, which is in float64 on the values of float16, where no product
of a few of them over- or underflows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np

from eqfuse.dtypes import BFLOAT16, FLOAT8, FLOAT16, kind
from eqfuse.ir.evaluate import evaluate, every_value
from eqfuse.ir.graph import Node
from eqfuse.ops.facts import Fact, of_array, sort_key
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.checking.agreement import (
    Comparison,
    NumberKinds,
    bounds_of,
    compare_sides,
    disagreement,
    elements_of,
    same_elements,
)
from eqfuse.rewrites.checking.cases import LawCase, chosen, is_pointwise, roles
from eqfuse.rewrites.checking.data import FLOAT_VALUES, Arrays, quiet
from eqfuse.rewrites.language.law import APPROXIMATE, EXACT, REASSOCIATES, VARIABLE, Exactness, Law, names

FLOAT64 = np.dtype(np.float64)
ENUMERATED = (*map(np.dtype, ("bool", "int8", "uint8", "int16", "uint16")), FLOAT16, BFLOAT16, *FLOAT8)

ALL = 1 << 17  # tuples of values: all are tried where there are no more,
GRID, RANDOM = 1 << 16, 100_000  # else a grid of some, and random ones
TRIED_ALONE = 64  # elements in which a law fails that are tried on their own


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
    if not is_pointwise(law):
        return
    for dtype in ENUMERATED:
        yield from _sweep(law, dtype, dtype)
    if law.exactness > EXACT:
        yield from _sweep(law, FLOAT16, FLOAT64)


def _sweep(law: Law, dtype: np.dtype, computed: np.dtype) -> Iterator[Sweep]:
    """The law over the values of `dtype`, computed in `computed`; nothing where it is not about them."""
    case, arrays, complete = _tuples(law, dtype, computed)
    if case is None:
        return
    with np.errstate(all="ignore"):
        try:
            values = every_value(case.graph, tuple(arrays.values()))
        except ValueError:  # NumPy refuses some of them: 2 ** -1 in integers
            return
        wrong, tuples, reached = _judged(case, arrays, values)
    failure = _simplest(case, arrays, wrong) if wrong.any() else None
    yield Sweep(dtype, computed, tuples, complete, reached if dtype == computed else EXACT, failure)


def _judged(case: LawCase, arrays: Arrays, values: Mapping[Node, np.ndarray]) -> tuple[np.ndarray, int, Exactness]:
    """Where the sides differ by more than the law claims, among the tuples that the guards about values allow; how many
    these are; and how exact the law is on the others."""
    allowed = _allowed(case, arrays)
    for read in case.read_bits(values):
        allowed &= ~np.isnan(read)
    tuples, differ = int(allowed.sum()), np.zeros(allowed.shape, bool)
    for a, b in case.sides:
        differ |= ~same_elements(values[a], values[b])
    differ &= allowed
    if case.claimed == EXACT or not differ.any():
        return differ, tuples, EXACT
    data = _numbers(arrays)
    looser, untrue = (np.zeros(allowed.shape, bool) for _ in range(2))
    for left, right in bounds_of(case.sides, values):
        for mask, differing in zip((looser, untrue), disagreement(left, right, data), strict=True):
            mask |= differing & allowed
    reached = APPROXIMATE if looser.any() else REASSOCIATES
    return untrue if case.claimed == APPROXIMATE else looser, tuples, reached


def _numbers(arrays: Arrays) -> NumberKinds:
    """What kind of numbers each tuple is of."""
    each = elements_of([a for a in arrays.values() if kind(a.dtype) == "f"])
    kinds = (reduce(np.logical_and, masks, True) for masks in (each.finite, each.moderate, each.ordinary))
    finite, moderate, ordinary = kinds
    return NumberKinds(finite, moderate, ordinary)


def _allowed(case: LawCase, arrays: Arrays) -> np.ndarray:
    """Which tuples the guards about values allow."""
    allowed = np.ones(next(iter(arrays.values())).shape, bool)
    for g in (g for g in case.guards if g.about_values):
        subject, *others = (arrays[t.name] for t in g.tensors)
        if g.judged is not None:
            allowed &= g.judged(subject.dtype, *map(_ElementFacts, (subject, *others)))
        if g.wanted is None:
            continue
        if not others:
            allowed &= _includes(g.wanted(), subject)
            continue
        (other,) = others
        _, first, group = np.unique(other.view(f"u{other.itemsize}"), return_index=True, return_inverse=True)
        for number, one in enumerate(first):
            members = np.flatnonzero(group == number)
            allowed[members] &= _includes(g.wanted(of_array(other[one])), subject[members])
    return allowed


class _ElementFacts:
    """What is known of each element of an array: what it is. Read as a `Fact`."""

    def __init__(self, array: np.ndarray) -> None:
        self.lower = self.upper = array.astype(np.float64)
        self.smallest = self.largest = np.abs(self.lower)


def _includes(fact: Fact, array: np.ndarray) -> np.ndarray:
    """`fact.includes`, element by element."""
    values = array.astype(np.float64)
    nan, zero, minus = np.isnan(values), values == 0, np.signbit(values)
    inside = (values >= fact.lower) & (values <= fact.upper) & (fact.zero | ~zero)
    if kind(array.dtype) == "f":
        inside &= ~(zero & minus & (sort_key(fact.lower) == (0, 1)))
        inside &= ~(zero & ~minus & (sort_key(fact.upper) == (0, -1)))
    return inside | (nan & fact.nan)


def _tuples(law: Law, dtype: np.dtype, computed: np.dtype) -> tuple[LawCase | None, Arrays, bool]:
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


def _simplest(case: LawCase, values: Arrays, differ: np.ndarray) -> Comparison:
    """The law failing on one tuple of numbers, if possible on simple ones."""
    where = np.flatnonzero(differ)
    with np.errstate(all="ignore"):
        effort = np.sum([_effort(column[where].astype(np.float64)) for column in values.values()], 0)
    tried = where[np.argsort(effort, kind="stable")[:TRIED_ALONE]]
    for shape in ((), (1,)):
        for index in tried:
            one = {name: v[index].reshape(shape) for name, v in values.items()}
            alone = chosen(case.law, {name: TensorType(v.dtype, shape) for name, v in one.items()}, {})
            comparison = compare_sides(alone, one) if alone is not None else None
            if comparison is not None and not comparison.holds:
                return comparison
    few = {name: v[tried] for name, v in values.items()}
    together = chosen(case.law, {name: TensorType(v.dtype, v.shape) for name, v in few.items()}, {})
    assert together is not None
    with np.errstate(all="ignore"):
        outputs = evaluate(together.graph, tuple(few.values()))
    return Comparison(together, few, outputs[0], outputs[len(outputs) // 2], None)


def _effort(column: np.ndarray) -> np.ndarray:
    """How far from simple each number is."""
    effort = np.where(column == np.rint(column), 0.0, 4.0) + np.abs(np.log2(np.abs(column) + 2.0**-30))
    for i, value in enumerate(FLOAT_VALUES):
        effort[same_elements(column, np.full_like(column, value))] = i / len(FLOAT_VALUES)
    return np.nan_to_num(effort, posinf=40.0)
