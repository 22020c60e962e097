"""Laws of arrays with parts replaced: buffers filled by slices, borders written after the inside, reads of both.

In: nothing. Out: `LAWS`. An update copies what it does not replace, so that what follows is done on the part alone, a
read looks past what it does not see, and of two updates in a row one is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.ops.updates import apart
from eqfuse.rewrites.joins import Widths, concat, pad
from eqfuse.rewrites.language.law import (
    EXACT,
    REASSOCIATES,
    Exactness,
    Law,
    Term,
    apply,
    attrs,
    bounded,
    computed,
    guard,
    tensors,
)
from eqfuse.rewrites.language.views import Ranges
from eqfuse.rewrites.layout import of_complex

x, y, v, w, u, c = tensors("x y v w u c")
r, s, t, k, widths = attrs("r s t k widths")

Slices = tuple[Ranges, ...]


def update(a: Term, *values: Term, slices: Any = s) -> Term:
    return apply("slice_scatter", a, *values, attrs=(slices,))


def _around(t: TensorType, shape: tuple[int, ...], slices: Slices) -> Widths | None:
    """How far the one slice stays from each end; None where it skips elements or has none."""
    (ranges,) = slices
    whole = t.size and all(step == 1 for _, _, step in ranges)
    return tuple((start, n - stop) for (start, stop, _), n in zip(ranges, shape, strict=True)) if whole else None


def _between(t: TensorType, widths: Widths) -> Ranges:
    """The slice of a padded array that holds `t`."""
    return tuple((before, before + n, 1) for n, (before, _) in zip(t.shape, widths, strict=True))


def _one_between(t: TensorType, widths: Widths) -> Slices:
    return (_between(t, widths),)


def _alike(a: TensorType, b: TensorType, widths: Widths) -> bool:
    return a.shape == tuple(n + before + after for n, (before, after) in zip(b.shape, widths, strict=True))


def _apart(slices: Slices, ranges: Ranges) -> bool:
    return all(apart(ranges, written) for written in slices)


def _most(x: TensorType, ranges: Ranges) -> bool:
    return 2 * math.prod(len(range(*r)) for r in ranges) > x.size


def _within(inner: Ranges, outer: Ranges) -> Ranges | None:
    """The slice `inner` as one of what the slice `outer` holds; None where it holds more."""
    ranges = []
    for (start, stop, step), (first, end, by) in zip(inner, outer, strict=True):
        positions, base = range(start, stop, step), range(first, end, by)
        if not positions:
            ranges.append((0, 0, 1))
            continue
        if positions[0] not in base or positions[-1] not in base or (len(positions) > 1 and step % by):
            return None
        jump = step // by if len(positions) > 1 else 1
        ranges.append((base.index(positions[0]), base.index(positions[-1]) + 1, jump))
    return tuple(ranges)


def _seen(number: int) -> Callable[[Slices, Ranges], Ranges | None]:
    """The slice of value `number` that a slice of the update is; None where it sees anything else."""

    def seen(slices: Slices, ranges: Ranges) -> Ranges | None:
        hidden = not _apart(slices[number + 1 :], ranges)
        return None if hidden else _within(ranges, slices[number])

    return seen


def _hidden(slices: Slices, later: Slices) -> bool:
    """Does one later write cover the one before?"""
    return any(_within(slices[0], ranges) is not None for ranges in later)


def _none_hidden(slices: Slices, later: Slices) -> bool:
    return not any(_hidden((ranges,), later) for ranges in slices)


def _in_turn(slices: Slices, later: Slices) -> Slices:
    return (*slices, *later)


def _laws_of(count: int) -> list[Law]:
    values = (v, w, u)[:count]
    updated = update(x, *values)
    return [
        Law(f"slice_beside_{count}_updates", updated.slice(r), x.slice(r),
            (guard("nothing written is seen", _apart, s, r),), EXACT),
        *(Law(f"slice_of_update_{i + 1}_of_{count}", updated.slice(r), value.slice(computed(_seen(i), s, r)),
              exactness=EXACT) for i, value in enumerate(values)),
        Law(f"update_under_{count}_updates", update(update(x, y), *values, slices=t), update(x, *values, slices=t),
            (guard("the later writes hide the first", _hidden, s, t),), EXACT),
    ]  # fmt: skip


def _law_of_reader(count: int) -> Law:
    """Who reads most of an array may read what it becomes, which is read anyway."""
    updated = update(x, *(v, w)[:count])
    return Law(f"slice_after_{count}_updates", (updated, x.slice(r)), (updated, updated.slice(r)),
        (guard("nothing written is seen", _apart, s, r), bounded("most is seen", _most, x, r)), EXACT)  # fmt: skip


def _law_of_meeting(first: int, then: int) -> Law:
    values = (v, w, u, y)[: first + then]
    return Law(
        f"{first}_and_{then}_updates_meet",
        update(update(x, *values[:first]), *values[first:], slices=t),
        update(x, *values, slices=computed(_in_turn, s, t)),
        (guard("no later write hides an earlier one", _none_hidden, s, t),),
        EXACT,
    )


def _law_of_added(op: str, exactness: Exactness) -> Law:
    inside = x.slice(computed(_between, v, widths))
    return Law(f"{op}_of_padded_is_update", apply(op, x, pad(v, 0.0)),
        update(x, apply(op, inside, v), slices=computed(_one_between, v, widths)),
        (guard("x has the padded shape", _alike, x, v, widths),), exactness)  # fmt: skip


def _taking_turns(axes: int) -> Callable[[TensorType, Slices], tuple[int, ...] | None]:
    """So many axes along which the slices take all elements by turns, in order; of two axes, two of each."""

    def taking_turns(x: TensorType, slices: Slices) -> tuple[int, ...] | None:
        each = len(slices) if axes == 1 else 2
        taken = [[range(*r) for r in ranges] for ranges in slices]
        for chosen in combinations(range(x.rank), axes):
            by = [each if a in chosen else 1 for a in range(x.rank)]
            turns = [[*map(range, starts, x.shape, by)] for starts in product(*map(range, by))]
            if x.size and all(n % b == 0 for n, b in zip(x.shape, by, strict=True)) and taken == turns:
                return chosen
        return None

    return taking_turns


def _interleaved(name: str, values: list[Term], order: Sequence[int], axes: int = 1) -> Law:
    """A buffer that values fill by turns, in this order, is their elements side by side."""
    turns = _taking_turns(axes)

    def in_order(slices: Slices) -> Slices:
        return tuple([slices[i] for i in order])

    def parted(v: TensorType, x: TensorType, slices: Slices) -> tuple[int, ...] | None:
        """The shape of `v`, with an axis behind each along which the values take turns."""
        if (chosen := turns(x, in_order(slices))) is None:
            return None
        return tuple([n for a, extent in enumerate(v.shape) for n in ((extent, 1) if a in chosen else (extent,))])

    def along(number: int) -> Callable[[TensorType, Slices], int | None]:
        def axis(x: TensorType, slices: Slices) -> int | None:
            chosen = turns(x, in_order(slices))
            return None if chosen is None else chosen[number] - x.rank - (axes - 1 - number)

        return axis

    parts = [values[i].reshape(computed(parted, values[i], x, s)) for i in order]
    for number in reversed(range(axes)):
        size = len(parts) if axes == 1 else 2
        along_axis = computed(along(number), x, s)
        parts = [concat(*parts[i : i + size], along=along_axis) for i in range(0, len(parts), size)]
    return Law(name, update(x, *values), parts[0].reshape(computed(_shape, x)), exactness=EXACT)


def _is_replaced(slices: Slices, ranges: Ranges) -> bool:
    return slices == (ranges,)


def _cut(x: TensorType, ranges: Ranges) -> list[bool]:
    """Along which axes the slice does not hold all of `x`."""
    return [each != (0, extent, 1) for each, extent in zip(ranges, x.shape, strict=True)]


def _few(x: TensorType, ranges: Ranges) -> bool:
    return 8 * math.prod(extent for extent, cut in zip(x.shape, _cut(x, ranges), strict=True) if cut) <= x.size


def _law_in_place(op: str, neutral: float) -> Law:
    """What a number does to a slice along one axis, that number or a neutral one does to each element."""

    def along_axis(x: TensorType, ranges: Ranges, number: Literal) -> Literal | None:
        cut = _cut(x, ranges)
        if sum(cut) != 1 or number.array.shape:
            return None
        numbers = np.full([extent if c else 1 for extent, c in zip(x.shape, cut, strict=True)], neutral, x.dtype)
        numbers[tuple([slice(*each) if c else slice(None) for each, c in zip(ranges, cut, strict=True)])] = number.array
        return Literal(numbers)

    changed, numbers = apply(op, x.slice(r), apply("const", attrs=(k,))), computed(along_axis, x, r, k)
    when = guard("the slice is replaced", _is_replaced, s, r), bounded("the numbers are few", _few, x, r)
    return Law(f"{op}_in_a_slice", update(x, changed), apply(op, x, apply("const", attrs=(numbers,))), when, EXACT)


def _shape(x: TensorType) -> tuple[int, ...]:
    return x.shape


_OF_REALS = [
    Law("update_of_constant_is_pad", update(c.broadcast_to(r), v), pad(v, c, computed(_around, v, r, s)),
        exactness=EXACT),
    *(law for count in (1, 2, 3) for law in _laws_of(count)),
    *map(_law_of_reader, (1, 2)),
    *(_law_of_meeting(first, then) for first, then in ((1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (3, 1))),
    _law_of_added("add", REASSOCIATES),  # -0.0 + 0.0 is 0.0
    _law_of_added("subtract", EXACT),
    _interleaved("two_by_turns_are_joined", [v, w], (0, 1)),
    _interleaved("two_by_turns_backwards_are_joined", [v, w], (1, 0)),
    _interleaved("three_by_turns_are_joined", [v, w, u], (0, 1, 2)),
    _interleaved("four_by_turns_are_joined", [v, w, u, y], (0, 1, 2, 3)),
    _interleaved("two_by_two_by_turns_are_joined", [v, w, u, y], (0, 1, 2, 3), axes=2),
]  # fmt: skip

_IN_PLACE = [("multiply", 1), ("divide", 1), ("add", -0.0), ("subtract", 0)]  # no bit of any real number changes
LAWS = [*map(of_complex, _OF_REALS), *(_law_in_place(op, neutral) for op, neutral in _IN_PLACE)]
