"""Laws of concatenation and padding: they compose, cancel with slices, and let work through.

In: nothing. Out: `LAWS`. A concatenation copies, so that what its parts share is done once, after it, and what takes a
part of it is taken of the parts. Work on what was padded is done before, on less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqfuse.ops import TABLE, row
from eqfuse.ops.types import TensorType, with_entry
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Law,
    Term,
    apply,
    attrs,
    computed,
    guard,
    tensors,
)
from eqfuse.rewrites.language.views import Ranges, before_transpose, moved_axis
from eqfuse.rewrites.layout import ARITHMETIC, COMMON, of_complex, unary
from eqfuse.rewrites.reductions import reduction_by

x, y, z, u, v, w = tensors("x y z u v w")
p, s, t, d, axis, widths, more = attrs("p s t d axis widths more")
strides, padding, dilations, groups, window = attrs("strides padding dilations groups window")

Widths = tuple[tuple[int, int], ...]

COMBINED = {name: op.joined_by for name, op in TABLE.items() if op.joined_by is not None}
# one product may overflow, the other underflow
PARTED = dict.fromkeys(("sum", "max", "min"), REASSOCIATES) | {"prod": APPROXIMATE, "any": EXACT, "all": EXACT}
UNSEEN = {"sum": 0.0, "prod": 1.0, "any": False, "all": True}  # what a reduction does not see


def concat(*parts: Term, along: Any = axis) -> Term:
    return apply("concat", *parts, attrs=(along,))


def pad(a: Term, value: Any, by: Any = widths) -> Term:
    return apply("pad", a, value, attrs=(by,))


def _part(number: int, count: int) -> Callable[..., Ranges | None]:
    """The slice of part `number` of a concatenation of `count` parts; None when it takes anything of another."""

    def part(*args: Any) -> Ranges | None:
        types, axis, ranges = args[:count], args[count], args[count + 1]
        before, n = sum(t.shape[axis] for t in types[:number]), types[number].shape[axis]
        start, stop, step = ranges[axis]
        if not (before <= start and start + max(0, len(range(start, stop, step)) - 1) * step < before + n):
            return None
        return with_entry(ranges, axis, (start - before, min(stop - before, n), step))

    return part


def _whole_along(t: TensorType, axis: int, ranges: Ranges, whole: int) -> Ranges | None:
    return with_entry(ranges, axis, (0, t.shape[axis], 1)) if ranges[axis] == (0, whole, 1) else None


def _of_first(t: TensorType, other: TensorType, axis: int, ranges: Ranges) -> Ranges | None:
    """The slice of one part when all of both is taken along the axis."""
    return _whole_along(t, axis, ranges, t.shape[axis] + other.shape[axis])


def _along(axis: int, axes: tuple[int, ...]) -> bool:
    return axis in axes


def _not_along(axis: int, axes: tuple[int, ...]) -> bool:
    return axis not in axes


def _both(a: Widths, b: Widths) -> Widths:
    return tuple((before + more, after + most) for (before, after), (more, most) in zip(a, b, strict=True))


def _inside(t: TensorType, widths: Widths, ranges: Ranges) -> Ranges | None:
    """The slice before padding; None when it takes of the padding."""
    inner = []
    for (start, stop, step), (before, _), n in zip(ranges, widths, t.shape, strict=True):
        last = start + max(0, len(range(start, stop, step)) - 1) * step
        if not (before <= start and last < before + n):
            return None
        inner.append((start - before, min(stop - before, n), step))
    return tuple(inner)


def _kept(widths: Widths, axes: tuple[int, ...]) -> Widths:
    return tuple((0, 0) if i - len(widths) in axes else w for i, w in enumerate(widths))


def _padded_window(padding: Widths, widths: Widths) -> Widths | None:
    """The padding of a window that also does what `widths` does; None when that reaches other axes."""
    outer, inner = widths[: len(widths) - len(padding)], widths[len(widths) - len(padding) :]
    return _both(padding, inner) if all(w == (0, 0) for w in outer) else None


def _laws_of_unary(op: str) -> list[Law]:
    f = unary(op)
    return [
        Law(f"{op}_of_parts", concat(f(x), f(y)), f(concat(x, y)), exactness=EXACT),
        Law(f"{op}_of_padded", f(pad(x, v)), pad(f(x), f(v)), exactness=EXACT),
    ]


def _laws_of_binary(op: str) -> list[Law]:
    def f(a: Any, b: Any) -> Term:
        return apply(op, a, b)

    laws = [Law(f"{op}_before_padding", f(pad(x, v), pad(y, z)), pad(f(x, y), f(v, z)), exactness=EXACT)]
    for g, side in [(f, "")] if row(op).commutes else [(f, ""), (lambda a, b: f(b, a), "_right")]:
        laws += [
            Law(f"{op}_of_parts{side}", concat(g(x, u), g(y, u)), g(concat(x, y), u), exactness=EXACT),
            Law(f"scalar_{op}_before_padding{side}", g(pad(x, v), u), pad(g(x, u), g(v, u)), exactness=EXACT),
        ]
    return laws


def _laws_of_reduction(op: str) -> list[Law]:
    f = reduction_by(op)
    return [
        Law(f"{op}_over_parts", f(concat(x, y)), apply(COMBINED[op], f(x), f(y)), exactness=PARTED[op]),
        Law(f"{op}_of_parts", f(concat(x, y)), concat(f(x), f(y)),
            exactness=REASSOCIATES if op in ("sum", "prod") else EXACT),
    ]  # fmt: skip


def _laws_of_slice(count: int) -> list[Law]:
    parts = (x, y, z, w)[:count]
    return [
        Law(f"slice_of_part_{i + 1}_of_{count}", concat(*parts).slice(s),
            part.slice(computed(_part(i, count), *parts, axis, s)), exactness=EXACT, everywhere=True)
        for i, part in enumerate(parts)
    ]  # fmt: skip


_OF_REALS = [
    # concatenation
    Law("concat_of_one", concat(x), x, exactness=EXACT),
    *(law for count in (2, 3, 4) for law in _laws_of_slice(count)),
    Law("slice_into_parts", concat(x, y).slice(s),
        concat(x.slice(computed(_of_first, x, y, axis, s)), y.slice(computed(_of_first, y, x, axis, s))),
        exactness=EXACT),
    Law("transpose_out_of_concat", concat(x.transpose(p), y.transpose(p)),
        concat(x, y, along=computed(moved_axis, p, axis)).transpose(p), exactness=EXACT),
    Law("flip_of_parts", concat(x.flip(p), y.flip(p)), concat(x, y).flip(p),
        (guard("the axis is not flipped", _not_along, axis, p),), EXACT),
    Law("flip_of_swapped_parts", concat(x.flip(p), y.flip(p)), concat(y, x).flip(p),
        (guard("the axis is flipped", _along, axis, p),), EXACT),
    # padding
    Law("pad_by_nothing", pad(x, v), x, exactness=EXACT),
    Law("pad_of_pad", pad(pad(x, v), v, more), pad(x, v, computed(_both, widths, more)), exactness=EXACT),
    Law("slice_within_padding", pad(x, v).slice(s), x.slice(computed(_inside, x, widths, s)), exactness=EXACT),
    Law("transpose_out_of_pad", pad(x.transpose(p), v), pad(x, v, computed(before_transpose, p, widths)).transpose(p),
        exactness=EXACT),
    Law("cast_before_padding", pad(x, v).cast(d), pad(x.cast(d), v.cast(d)), exactness=EXACT),
    Law("padding_of_conv", apply("conv", pad(x, 0.0), w, attrs=(strides, padding, dilations, groups)),
        apply("conv", x, w, attrs=(strides, computed(_padded_window, padding, widths), dilations, groups)),
        exactness=REASSOCIATES),
    Law("padding_of_window_sum", apply("window_sum", pad(x, 0.0), attrs=(window, strides, padding)),
        apply("window_sum", x, attrs=(window, strides, computed(_padded_window, padding, widths))),
        exactness=REASSOCIATES),
    # work
    *(law for op in COMMON for law in _laws_of_unary(op)),
    *(law for op in ARITHMETIC for law in _laws_of_binary(op)),
    *(law for op in COMBINED for law in _laws_of_reduction(op)),
]  # fmt: skip

# an index does not look at what it moves
LAWS = [
    *map(of_complex, _OF_REALS),
    *(Law(f"{op}_of_idle_padding", apply(op, pad(x, idle), attrs=(p,)),
          pad(apply(op, x, attrs=(p,)), idle, computed(_kept, widths, p)),
          exactness=EXACT if op in ("any", "all") else REASSOCIATES) for op, idle in UNSEEN.items()),
]  # fmt: skip
