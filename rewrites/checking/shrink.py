"""The smallest counterexample: fewer axes and elements, simpler attributes and dtypes, simpler values, C order.

In: a `Comparison` in which a law fails. Out: a smaller one, in which it still fails; the same for the same input.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from eqfuse.ops.literal import Literal
from eqfuse.ops.types import Shape, TensorType
from eqfuse.rewrites.checking.agreement import Comparison, compare_sides
from eqfuse.rewrites.checking.cases import LawCase, chosen, fitting
from eqfuse.rewrites.checking.data import (
    LAYOUT_NAMES,
    STYLES,
    Arrays,
    arrays,
    laid_out,
    layout_name,
    same_value,
    simple_values,
)
from eqfuse.rewrites.language.law import Attr
from eqfuse.rewrites.language.samples import sample_attr

EVALUATIONS = 4000  # of both sides
DRAWS = 12  # of attributes, where those at hand do not fit smaller types
STYLED = 2  # arrays of each style, where the elements at hand do not fail
_DTYPES = tuple(map(np.dtype, ("float64", "float32", "int64", "complex128")))  # from the simplest

Types = dict[str, TensorType]


def smallest(failure: Comparison) -> Comparison:
    """A counterexample that no single step makes smaller."""
    return _Shrinker(failure).run()


class _Shrinker:
    def __init__(self, failure: Comparison) -> None:
        self.best, self.left = failure, EVALUATIONS

    def run(self) -> Comparison:
        before = None
        while before is not self.best and self.left > 0:
            before = self.best
            for step in (self._types, self._layouts, self._attributes, self._dtypes, self._values):
                while step() and self.left > 0:
                    pass
        return self.best

    def _try(self, case: LawCase | None, data: Arrays) -> bool:
        """Whether the law fails here too, which is then the best so far."""
        if case is None or self.left <= 0:
            return False
        self.left -= 1
        comparison = compare_sides(case, data)
        if comparison is None or comparison.holds:
            return False
        self.best = comparison
        return True

    # each step: make the counterexample smaller, and say whether that was possible

    def _types(self) -> bool:
        case = self.best.case
        for types in sorted(_smaller_types(case.types), key=_types_cost):
            if _types_cost(types) >= _types_cost(case.types):
                continue
            for smaller in _cases(case, types) if self.left > EVALUATIONS // 3 else ():
                for data in _data(smaller, self.best.arrays):
                    if self._try(smaller, data):
                        return True
        return False

    def _layouts(self) -> bool:
        data = self.best.arrays
        strided = [name for name, a in data.items() if layout_name(a)]
        for names in (strided, *([name] for name in strided[:-1])):
            arrays = {n: laid_out(a, LAYOUT_NAMES[0]) if n in names else a for n, a in data.items()}
            if names and self._try(self.best.case, arrays):
                return True
        return False

    def _attributes(self) -> bool:
        case = self.best.case
        for other in sorted(_drawn_attributes(case, case.types), key=_attributes_cost):
            if _attributes_cost(other) < _attributes_cost(case) and self._try(other, self.best.arrays):
                return True
        return False

    def _dtypes(self) -> bool:
        case = self.best.case
        for dtype in _DTYPES:
            for old in {t.dtype: None for t in case.types.values() if t.dtype.kind != "b"}:
                if old == dtype or (old in _DTYPES and _DTYPES.index(old) < _DTYPES.index(dtype)):
                    continue
                if (old.kind == "c") != (dtype.kind == "c"):
                    continue
                names = [n for n, t in case.types.items() if t.dtype == old and "indices" not in case.roles.get(n, ())]
                types = {n: TensorType(dtype, t.shape) if n in names else t for n, t in case.types.items()}
                with np.errstate(all="ignore"):
                    data = {n: a.astype(dtype) if n in names else a for n, a in self.best.arrays.items()}
                if names and self._try(chosen(case.law, types, case.attributes), data):
                    return True
        return False

    def _values(self) -> bool:
        case, changed = self.best.case, False
        for name in case.types:
            values = simple_values(case, name)
            for value in values:
                if self._try_value(name, ..., value, values):
                    changed = True
                    break
            for index in np.ndindex(self.best.arrays[name].shape):
                for value in _simpler(self.best.arrays[name][index], values):
                    if same_value(self.best.arrays[name][index], value):
                        break
                    if self._try_value(name, index, value, values):
                        changed = True
                        break
        return changed

    def _try_value(self, name: str, index: Any, value: Any, values: Sequence) -> bool:
        """Put `value` at `index`, or everywhere where that is no less simple than what is there."""
        old = self.best.arrays[name]
        if index is ... and (old.size < 2 or any(_rank(v, values) <= _rank(value, values) for v in old.ravel())):
            return False
        new = np.array(old, order="K")
        new[index] = value
        return self._try(self.best.case, {**self.best.arrays, name: new})


def _rank(value: Any, values: Sequence) -> int:
    return next((i for i, v in enumerate(values) if same_value(v, value)), len(values))


def _simpler(value: Any, values: Sequence) -> list:
    """What to put in place of `value`: `values`, then whole numbers nearer to zero; infinities only for what is odd."""
    dtype = value.dtype
    if dtype.kind in "bc":
        return list(values)
    size, sign = abs(float(value)), np.copysign(1.0, float(value))
    wanted = [2.0**k for k in range(4, 10) if not 2.0**k >= size]
    wanted += [n for n in (np.floor(size), np.floor(size) - 1) if 0 < n < size <= 1024]
    whole = [np.asarray(sign * n).astype(dtype)[()] for n in wanted]
    small = [v for v in values if abs(float(v)) <= 8 and np.rint(4 * v) == 4 * v]
    odd = [v for v in values if all(v is not s for s in small)]
    return [*small, *whole, *(odd if size != np.floor(size) or size > 1024 else ())]


def _types_cost(types: Mapping[str, TensorType]) -> tuple[int, int, int]:
    ts = types.values()
    empty = sum(n == 0 for t in ts for n in t.shape)
    return sum(t.rank for t in ts), sum(max(1, n) for t in ts for n in t.shape), empty


def _smaller_types(types: Types) -> Iterator[Types]:
    """`types` with axes taken away or made shorter: everywhere at once, then in one variable."""
    rank = max((t.rank for t in types.values()), default=0)
    for k in range(rank):
        yield _reshaped(types, lambda shape, k=k: shape[len(shape) - min(k, len(shape)) :])
        yield _reshaped(types, lambda shape, k=k: _without_axis(shape, k))
    for n in sorted({n for t in types.values() for n in t.shape}):
        for m in (1, *range(2, n)):
            yield _reshaped(types, lambda shape, n=n, m=m: tuple(m if e == n else e for e in shape))
    for places in (*combinations(range(1, rank + 1), 1), *combinations(range(1, rank + 1), 2)):
        for m in (1, 2, 3):
            yield _reshaped(types, lambda shape, places=places, m=m: tuple(
                m if len(shape) - i in places and e > m else e for i, e in enumerate(shape)))  # fmt: skip
    for name, t in types.items():
        if t.rank:
            yield {**types, name: TensorType(t.dtype, t.shape[1:])}
        for axis, extent in enumerate(t.shape):
            for m in (1, 2):
                if extent != m:
                    yield {**types, name: TensorType(t.dtype, (*t.shape[:axis], m, *t.shape[axis + 1 :]))}


def _without_axis(shape: Shape, k: int) -> Shape:
    """`shape` without the axis `k` places from the right."""
    return shape if k >= len(shape) else shape[: len(shape) - 1 - k] + shape[len(shape) - k :]


def _reshaped(types: Types, change: Any) -> Types:
    return {name: TensorType(t.dtype, change(t.shape)) for name, t in types.items()}


def _cases(case: LawCase, types: Types) -> Iterator[LawCase]:
    """Cases of `types`: with the attributes at hand, with one axis less in them, with drawn ones."""
    for attributes in (case.attributes, *_fewer_axes(case.attributes)):
        smaller = chosen(case.law, types, attributes)
        if smaller is not None:
            yield smaller
    if case.attributes:
        yield from sorted(_drawn_attributes(case, types), key=_attributes_cost)


def _fewer_axes(attributes: Mapping[Attr, Any]) -> Iterator[dict[Attr, Any]]:
    """`attributes`, tuples one element shorter at one place: a permutation stays one."""
    longest = max((len(v) for v in attributes.values() if isinstance(v, tuple)), default=0)
    for place in range(longest):
        yield {a: _without_place(v, place) if isinstance(v, tuple) else v for a, v in attributes.items()}


def _without_place(value: tuple, place: int) -> tuple:
    if sorted(map(str, value)) == sorted(map(str, range(len(value)))):
        return tuple(v - (v > place) for v in value if v != place)
    return value[:place] + value[place + 1 :]


def _drawn_attributes(case: LawCase, types: Types) -> list[LawCase]:
    rng = random.Random(0)
    main = next((t.dtype for t in types.values() if t.dtype.kind != "b"), np.dtype("float64"))

    def attribute_of(_: Attr, op: str, name: str, types: list[TensorType], before: tuple) -> Any:
        return sample_attr(op, name, types, before, main, rng)

    cases = [fitting(case.law, types.__getitem__, attribute_of) for _ in range(DRAWS if case.attributes else 0)]
    return list({str(c.attributes): c for c in cases if c is not None}.values())


def _attributes_cost(case: LawCase) -> tuple[int, int]:
    """Numbers of the attributes in all, and how large they are."""
    numbers = [n for value in case.attributes.values() for n in _numbers(value)]
    return len(numbers), sum(2 * abs(n) + (n < 0) for n in numbers)


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for v in value:
            yield from _numbers(v)
    elif isinstance(value, Literal):
        yield int(abs(np.nan_to_num(value.array.astype(np.float64)).max(initial=0)))


def _data(case: LawCase, old: Arrays) -> Iterator[Arrays]:
    """Arrays for `case`: what is at the ends of the old ones, then random ones."""
    for end in (0, -1):
        yield {name: _cut(old[name], t.shape, end) for name, t in case.types.items()}
    for draw in range(STYLED * len(STYLES)):
        rng = np.random.default_rng(draw)
        data = arrays(case, STYLES[draw % len(STYLES)], rng)
        yield {name: laid_out(a, layout_name(old[name]) or LAYOUT_NAMES[0]) for name, a in data.items()}


def _cut(a: np.ndarray, shape: Shape, end: int) -> np.ndarray:
    """The elements of `a` at its start or end, as an array of `shape`, repeated if need be."""
    while a.ndim > len(shape):
        a = a[end] if a.shape[0] else np.zeros(a.shape[1:], a.dtype)
    a = a.reshape((1,) * (len(shape) - a.ndim) + a.shape)
    for axis, extent in enumerate(shape):
        n = a.shape[axis]
        if n == 0 < extent:
            return np.zeros(shape, a.dtype)
        kept = np.arange(extent) if end == 0 else np.arange(n - extent, n)
        a = a.take(kept % max(n, 1), axis) if n else a
    return a
