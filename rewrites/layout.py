"""Laws of views: transposes, reshapes, broadcasts, slices and flips compose, cancel, and move through work.

In: nothing. Out: `LAWS`. Transposes, reshapes, broadcasts and flips move outwards (towards the result), where they meet
and cancel; slices move inwards (towards the inputs), where they save work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.ops import row
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.law import (
    EXACT,
    REASSOCIATES,
    Law,
    Term,
    apply,
    attrs,
    bounded,
    computed,
    guard,
    restated,
    tensors,
    walk,
)
from eqfuse.rewrites.language.words import where

x, y, c, w = tensors("x y c w")
p, q, s, t, d = attrs("p q s t d")

# what NumPy does not do to complex numbers
OF_REALS = ("cbrt", "floor", "ceil", "trunc", "bitwise_invert", "bitwise_and", "bitwise_or")

Perm = tuple[int, ...]
Ranges = tuple[tuple[int, int, int], ...]

COMMON = (
    "negative", "abs", "sqrt", "exp", "log", "log1p", "expm1", "tanh", "erf", "square", "reciprocal", "sign", "sin",
    "cos", "logical_not",
)  # fmt: skip
UNARY = (
    *COMMON, "cbrt", "exp2", "log2", "log10", "erfc", "tan", "atan", "sinh", "cosh", "floor", "ceil", "trunc", "round",
    "isnan", "isinf", "isfinite", "bitwise_invert",
)  # fmt: skip
WITHOUT_ROUNDING = (
    "negative", "sqrt", "square", "sign", "logical_not", "floor", "ceil", "trunc", "round", "isnan", "isinf",
    "isfinite", "bitwise_invert",
)  # fmt: skip
ARITHMETIC = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
BINARY = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "less", "less_equal", "greater",
    "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "bitwise_and", "bitwise_or",
)  # fmt: skip
REDUCTIONS = {"sum": REASSOCIATES, "prod": REASSOCIATES} | dict.fromkeys(("max", "min", "any", "all"), EXACT)
# (NumPy's order of summation follows the layout)


def _compose(p: Perm, q: Perm) -> Perm:
    return tuple(q[a] for a in p)


def inverse(p: Perm) -> Perm:
    return tuple(sorted(range(len(p)), key=p.__getitem__))


def _identity(p: Perm) -> bool:
    return list(p) == list(range(len(p)))


def _only_unit_axes_move(t: TensorType, p: Perm) -> bool:
    order = [a for a in p if t.shape[a] != 1]
    return order == sorted(order)


def _moved_axes(p: Perm, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes before the transpose `p` that stand at `axes` after it."""
    return tuple(sorted(p[a] - len(p) for a in axes))


def _permuted_shape(t: TensorType, p: Perm) -> tuple[int, ...]:
    return tuple(t.shape[a] for a in p)


def _aligned(t: TensorType, p: Perm) -> tuple[int, ...]:
    """Shape of `t` with leading ones up to the rank of the transpose `p`."""
    return (1,) * (len(p) - t.rank) + t.shape


def _smaller(y: TensorType, x: TensorType) -> bool:
    return 0 < y.rank <= x.rank and y.size < x.size


def _nested(inner: Ranges, outer: Ranges) -> Ranges:
    pieces = [range(*a)[b[0] : b[1] : b[2]] for a, b in zip(inner, outer, strict=True)]
    return tuple((r.start, r.stop, r.step) if len(r) else (0, 0, 1) for r in pieces)


def _ranges_of(t: TensorType, ranges: Ranges) -> Ranges:
    """What the slice of a broadcast result takes of the argument `t`: all of an axis of extent 1."""
    mine = ranges[len(ranges) - t.rank :]
    return tuple((0, min(1, len(range(*r))), 1) if n == 1 else r for n, r in zip(t.shape, mine, strict=True))


def _rows(t: TensorType, ranges: Ranges) -> Ranges:
    """What the slice of a product takes of its left operand."""
    return (*_ranges_of(TensorType(t.dtype, t.shape[:-2]), ranges[:-2]), ranges[-2], (0, t.shape[-1], 1))


def _columns(t: TensorType, ranges: Ranges) -> Ranges:
    return (*_ranges_of(TensorType(t.dtype, t.shape[:-2]), ranges[:-2]), (0, t.shape[-2], 1), ranges[-1])


def _before_transpose(p: Perm, ranges: Ranges) -> Ranges:
    return tuple(ranges[at] for at in inverse(p))


def _widened(t: TensorType, axes: tuple[int, ...], ranges: Ranges) -> Ranges | None:
    """The slice before a reduction: everything along the reduced axes; None when it drops the reduced element."""
    if any(len(range(*ranges[a])) != 1 for a in axes):
        return None
    return tuple((0, n, 1) if at - t.rank in axes else r for at, (n, r) in enumerate(zip(t.shape, ranges, strict=True)))


def _adds_leading_ones(t: TensorType, s: tuple[int, ...]) -> bool:
    return s == (1,) * (len(s) - t.rank) + t.shape


def axis_groups(t: tuple[int, ...], s: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """The axes other than 1 of two shapes with equal elements in equal order, in the smallest groups that hold the
    same elements; counted from the right."""
    mine, theirs = ([a - len(shape) for a, n in enumerate(shape) if n != 1] for shape in (t, s))
    blocks = []
    while mine and theirs:
        ours: tuple[list[int], list[int]] = [mine.pop(0)], [theirs.pop(0)]
        while (a := math.prod(t[m] for m in ours[0])) != (b := math.prod(s[m] for m in ours[1])):
            waiting, group = (mine, ours[0]) if a < b else (theirs, ours[1])
            if not waiting:
                return None
            group.append(waiting.pop(0))
        blocks.append(ours)
    return None if mine or theirs else blocks


def _through_reshape(t: TensorType, s: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of `t` that are `axes` of its reshape to `s`, which merges or splits none of them with another."""
    found: list[int] = []
    for mine, theirs in axis_groups(t.shape, s) or ():
        inside = [a in axes for a in theirs]
        if any(inside) and not all(inside):
            return None
        found += mine if any(inside) else []
    return tuple(found) or None


def _ranges_through_units(t: TensorType, s: tuple[int, ...], ranges: Ranges) -> Ranges | None:
    """The slice before a reshape to `s` that only drops or adds axes of extent 1."""
    blocks = axis_groups(t.shape, s)
    kept = all(r == (0, 1, 1) for r, n in zip(ranges, s, strict=True) if n == 1)
    if blocks is None or not kept or any(len(mine) > 1 or len(theirs) > 1 for mine, theirs in blocks):
        return None
    found = [(0, 1, 1)] * t.rank
    for (mine,), (theirs,) in blocks:
        found[mine] = ranges[theirs]
    return tuple(found)


def _lengths(ranges: Ranges) -> tuple[int, ...]:
    return tuple(len(range(*r)) for r in ranges)


def _mirrored(t: TensorType, axes: tuple[int, ...], ranges: Ranges) -> Ranges:
    """The slice before a flip along `axes`."""
    found = list(ranges)
    for a in axes:
        start, _, step = ranges[a]
        k = len(range(*ranges[a]))
        found[a] = (t.shape[a] - 1 - start - (k - 1) * step, t.shape[a] - start, step) if k else (0, 0, 1)
    return tuple(found)


def _in_one(p: tuple[int, ...], q: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes that two flips reverse together; None when they reverse none."""
    return tuple(sorted({*p} ^ {*q})) or None


def _not_longer_than_one(t: TensorType, axes: tuple[int, ...]) -> bool:
    return all(t.extent(a) <= 1 for a in axes)


def _flipped_before(p: Perm, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Where the axes `axes` before the transpose `p` stand after it."""
    return tuple(sorted(inverse(p)[a] - len(p) for a in axes))


def _copies(t: TensorType, s: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """How often a broadcast of `t` to `s` holds each element along `axes`."""
    return math.prod(s[a] for a in axes if t.extent(a) == 1)


def _leading_ones(t: TensorType, s: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (len(s) - t.rank) + t.shape


def _permuted(s: tuple[int, ...], p: Perm) -> tuple[int, ...]:
    return tuple(s[a] for a in p)


def _smaller_than(y: TensorType, x: TensorType, s: tuple[int, ...]) -> bool:
    """Whether x and y broadcast to less than `s`."""
    return math.prod(np.broadcast_shapes(x.shape, y.shape)) < math.prod(s)


def _reduced(s: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if at - len(s) in axes else n for at, n in enumerate(s))


def _reduced_copies(s: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """`_reduced`, of a broadcast that holds every element."""
    return _reduced(s, axes) if math.prod(s) else None


def _new_columns(s: tuple[int, ...], w: TensorType) -> tuple[int, ...]:
    return (*s[:-1], w.shape[-1])


def _scalar(t: TensorType) -> bool:
    return t.rank == 0


def unary(op: str) -> Callable[[Any], Term]:
    return lambda a: apply(op, a)


def _laws_of_unary(op: str) -> list[Law]:
    f = unary(op)
    return [
        Law(f"transpose_out_of_{op}", f(x.transpose(p)), f(x).transpose(p), exactness=EXACT),
        Law(f"reshape_out_of_{op}", f(x.reshape(s)), f(x).reshape(s), exactness=EXACT),
        Law(f"broadcast_out_of_{op}", f(x.broadcast_to(s)), f(x).broadcast_to(s), exactness=EXACT),
        Law(f"slice_into_{op}", f(x).slice(s), f(x.slice(s)), exactness=EXACT),
        # NumPy's loops over negative strides are others, which round in their own way
        Law(f"flip_out_of_{op}", f(x.flip(p)), f(x).flip(p),
            exactness=EXACT if op in WITHOUT_ROUNDING else REASSOCIATES),
    ]


def _laws_of_binary(op: str) -> list[Law]:
    def f(a: Any, b: Any) -> Term:
        return apply(op, a, b)

    def aligned(a: Term) -> Term:
        return a.reshape(computed(_aligned, a, p)).transpose(computed(inverse, p))

    exactness = REASSOCIATES if op == "power" else EXACT  # NumPy takes short cuts for an exponent that is one number
    sides = [(f, "")] if row(op).commutes else [(f, ""), (lambda a, b: f(b, a), "_right")]
    laws = [
        Law(f"broadcast_out_of_{op}", f(x.broadcast_to(s), y.broadcast_to(s)), f(x, y).broadcast_to(s),
            exactness=exactness),
        Law(f"flip_out_of_{op}", f(x.flip(p), y.flip(p)), f(x, y).flip(p), exactness=exactness),
        Law(f"transpose_out_of_{op}", f(x.transpose(p), y.transpose(p)), f(x, y).transpose(p), exactness=exactness),
        Law(f"reshape_out_of_{op}", f(x.reshape(s), y.reshape(s)), f(x, y).reshape(s), exactness=exactness),
        Law(f"slice_into_{op}", f(x, y).slice(s),
            f(x.slice(computed(_ranges_of, x, s)), y.slice(computed(_ranges_of, y, s))), exactness=exactness),
    ]  # fmt: skip
    for g, side in sides:
        laws += [
            Law(f"transpose_over_smaller_in_{op}{side}", g(x.transpose(p), y), g(x, aligned(y)).transpose(p),
                (bounded("y is smaller than x", _smaller, y, x),), exactness),
            Law(f"transpose_over_scalar_in_{op}{side}", g(x.transpose(p), y), g(x, y).transpose(p),
                (guard("y is a scalar", _scalar, y),), exactness),
            Law(f"leading_ones_idle_in_{op}{side}", g(x, y.reshape(s)), g(x, y),
                (guard("the reshape only adds leading ones to y", _adds_leading_ones, y, s),), exactness),
            Law(f"reshape_over_scalar_in_{op}{side}", g(x.reshape(s), y), g(x, y).reshape(s),
                (guard("y is a scalar", _scalar, y),), exactness),
            Law(f"reshape_over_equal_in_{op}{side}", g(x.reshape(s), y),
                g(x, y.reshape(computed(_shape, x))).reshape(s),
                (bounded("x has an axis of extent 1", _has_unit, x),), exactness),
            Law(f"flip_over_scalar_in_{op}{side}", g(x.flip(p), y), g(x, y).flip(p),
                (guard("y is a scalar", _scalar, y),), exactness),
            Law(f"broadcast_after_{op}{side}", g(x.broadcast_to(s), y), g(x, y).broadcast_to(s),
                (bounded("x and y are smaller together than s", _smaller_than, y, x, s),), exactness),
            Law(f"broadcast_idle_in_{op}{side}", g(x.broadcast_to(s), y), g(x, y), exactness=exactness),
        ]  # fmt: skip
    return laws


def of_complex(law: Law) -> Law:
    """`law` as one of complex numbers too, where its operators are."""
    met = {t.op for side in (*law.lefts, *law.rights) for t in walk(side)}
    return law if met.intersection(OF_REALS) else restated(law, complex=law.exactness)


def _shape(t: TensorType) -> tuple[int, ...]:
    return t.shape


def _has_unit(t: TensorType) -> bool:
    return 1 in t.shape


def _laws_of_reduction(op: str) -> list[Law]:
    def f(a: Term, axes: Any) -> Term:
        return apply(op, a, attrs=(axes,))

    return [
        Law(f"transpose_out_of_{op}", f(x.transpose(p), q), f(x, computed(_moved_axes, p, q)).transpose(p),
            exactness=REDUCTIONS[op]),
        Law(f"reshape_out_of_{op}", f(x.reshape(s), q),
            f(x, computed(_through_reshape, x, s, q)).reshape(computed(_reduced, s, q)), exactness=REDUCTIONS[op]),
        Law(f"flip_out_of_{op}", f(x.flip(p), q), f(x, q).flip(p),
            exactness=EXACT if op in ("any", "all") else REASSOCIATES),
        Law(f"slice_into_{op}", f(x, q).slice(s), f(x.slice(computed(_widened, x, q, s)), q), exactness=REDUCTIONS[op]),
    ]  # fmt: skip


def _laws_of_broadcast_reduction(op: str) -> list[Law]:
    """Copies along the reduced axes count; along the others they are made after."""

    def f(a: Term) -> Term:
        return apply(op, a.reshape(computed(_leading_ones, x, s)), attrs=(q,))

    copies = computed(_copies, x, s, q)
    made = {"sum": lambda a: f(a) * copies, "prod": lambda a: f(a) ** copies}.get(op, f)
    return [
        Law(f"broadcast_out_of_{op}", apply(op, x.broadcast_to(s), attrs=(q,)),
            made(x).broadcast_to(computed(_reduced_copies, s, q)),
            exactness=EXACT if op in ("any", "all") else REASSOCIATES)
    ]  # fmt: skip


def _laws_of_where() -> list[Law]:
    """A condition and two values, of which one may be a number."""
    laws = [
        Law("slice_into_where", where(c, x, y).slice(s),
            where(*(a.slice(computed(_ranges_of, a, s)) for a in (c, x, y))), exactness=EXACT),
        Law("flip_out_of_where", where(c.flip(p), x.flip(p), y.flip(p)), where(c, x, y).flip(p),
            exactness=EXACT),
    ]  # fmt: skip
    for view, moved in (("transpose", lambda a: a.transpose(p)), ("reshape", lambda a: a.reshape(s))):
        laws += [
            Law(f"{view}_out_of_where", where(moved(c), moved(x), moved(y)), moved(where(c, x, y)), exactness=EXACT),
            Law(f"{view}_over_scalar_in_where", where(moved(c), moved(x), y), moved(where(c, x, y)),
                (guard("y is a scalar", _scalar, y),), EXACT),
            Law(f"{view}_over_scalar_in_where_right", where(moved(c), y, moved(x)), moved(where(c, y, x)),
                (guard("y is a scalar", _scalar, y),), EXACT),
        ]  # fmt: skip
    return laws


_OF_REALS = [
    # compose and cancel
    Law("transpose_of_transpose", x.transpose(q).transpose(p), x.transpose(computed(_compose, p, q)), exactness=EXACT),
    Law("transpose_identity", x.transpose(p), x, (guard("p moves nothing", _identity, p),), EXACT),
    Law("transpose_of_unit_axes", x.transpose(p), x.reshape(computed(_permuted_shape, x, p)),
        (guard("only axes of extent 1 move", _only_unit_axes_move, x, p),), EXACT),
    Law("reshape_of_reshape", x.reshape(s).reshape(t), x.reshape(t), exactness=EXACT),
    Law("reshape_identity", x.reshape(s), x, exactness=EXACT),
    Law("broadcast_of_broadcast", x.broadcast_to(s).broadcast_to(t), x.broadcast_to(t), exactness=EXACT),
    Law("broadcast_identity", x.broadcast_to(s), x, exactness=EXACT),
    Law("slice_of_slice", x.slice(s).slice(t), x.slice(computed(_nested, s, t)), exactness=EXACT),
    Law("slice_identity", x.slice(s), x, exactness=EXACT, everywhere=True),
    Law("flip_of_flip", x.flip(p).flip(p), x, exactness=EXACT),
    Law("flip_of_other_flip", x.flip(p).flip(q), x.flip(computed(_in_one, p, q)), exactness=EXACT),
    Law("flip_idle", x.flip(p), x, (guard("x is not longer than 1 along p", _not_longer_than_one, x, p),), EXACT),
    Law("flip_before_transpose", x.flip(q).transpose(p), x.transpose(p).flip(computed(_flipped_before, p, q)),
        exactness=EXACT),
    Law("slice_of_flip", x.flip(p).slice(s), x.slice(computed(_mirrored, x, p, s)).flip(p), exactness=EXACT),
    Law("slice_of_broadcast", x.broadcast_to(s).slice(t),
        x.slice(computed(_ranges_of, x, t)).broadcast_to(computed(_lengths, t)), exactness=EXACT),
    Law("slice_of_unit_axes", x.reshape(s).slice(t),
        x.slice(computed(_ranges_through_units, x, s, t)).reshape(computed(_lengths, t)), exactness=EXACT),
    Law("transpose_of_broadcast", x.broadcast_to(s).transpose(p),
        x.reshape(computed(_leading_ones, x, s)).transpose(p).broadcast_to(computed(_permuted, s, p)), exactness=EXACT),
    Law("broadcast_of_leading_ones", x.reshape(s).broadcast_to(t), x.broadcast_to(t),
        (guard("the reshape only adds leading ones to x", _adds_leading_ones, x, s),), EXACT),
    Law("slice_of_transpose", x.transpose(p).slice(s), x.slice(computed(_before_transpose, p, s)).transpose(p),
        exactness=EXACT),
    # casts
    Law("transpose_out_of_cast", x.transpose(p).cast(d), x.cast(d).transpose(p), exactness=EXACT),
    Law("reshape_out_of_cast", x.reshape(s).cast(d), x.cast(d).reshape(s), exactness=EXACT),
    Law("broadcast_out_of_cast", x.broadcast_to(s).cast(d), x.cast(d).broadcast_to(s), exactness=EXACT),
    Law("slice_into_cast", x.cast(d).slice(s), x.slice(s).cast(d), exactness=EXACT),
    # work on elements
    *(law for op in UNARY for law in _laws_of_unary(op)),
    *(law for op in BINARY for law in _laws_of_binary(op)),
    # reductions
    *_laws_of_where(),
    *(law for op in REDUCTIONS for law in _laws_of_reduction(op)),
    *(law for op in REDUCTIONS for law in _laws_of_broadcast_reduction(op)),
    *(Law(f"transpose_out_of_{op}", apply(op, x.transpose(p), attrs=(q,)),
          apply(op, x, attrs=(computed(_moved_axes, p, q),)).transpose(p), exactness=EXACT)
      for op in ("argmax", "argmin")),
    # products
    Law("slice_into_product", (x @ w).slice(s), x.slice(computed(_rows, x, s)) @ w.slice(computed(_columns, w, s)),
        exactness=REASSOCIATES),
    Law("product_of_merged_rows", x.reshape(s) @ w, (x @ w).reshape(computed(_new_columns, s, w)),
        (bounded("w has no batch axes", lambda w: w.rank == 2, w),), REASSOCIATES),
]  # fmt: skip

# an index does not look at what it moves
LAWS = [of_complex(law) for law in _OF_REALS]
