"""Laws of views: transposes, reshapes, broadcasts, slices, flips and gathers compose, cancel, and move through work.

In: nothing. Out: `LAWS`. Transposes, reshapes, broadcasts and flips move outwards (towards the result), where they meet
and cancel; slices and gathers move inwards (towards the inputs), where they save work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eqfuse.ir import TensorType
from eqfuse.rewrites.law import EXACT, REASSOCIATES, Law, Term, apply, attrs, bounded, computed, guard, tensors
from eqfuse.rewrites.words import log

x, y, z, w, i = tensors("x y z w i")
p, q, s, t, d, axis = attrs("p q s t d axis")

Perm = tuple[int, ...]
Ranges = tuple[tuple[int, int, int], ...]

UNARY = (
    "negative", "abs", "sqrt", "exp", "log", "log1p", "expm1", "tanh", "erf", "square", "reciprocal", "sign", "sin",
    "cos", "logical_not",
)  # fmt: skip
BINARY = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "less", "less_equal", "greater",
    "greater_equal", "equal",
)  # fmt: skip
REDUCTIONS = {"sum": REASSOCIATES, "max": EXACT, "min": EXACT}  # NumPy's order of summation follows the layout


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


def _in_first(t: TensorType, axis: int, ranges: Ranges) -> Ranges | None:
    return ranges if ranges[axis][1] <= t.shape[axis] else None


def _in_second(t: TensorType, axis: int, ranges: Ranges) -> Ranges | None:
    start, stop, step = ranges[axis]
    if start < (n := t.shape[axis]):
        return None
    at = len(ranges) + axis
    return (*ranges[:at], (start - n, stop - n, step), *ranges[at + 1 :])


def _adds_leading_ones(t: TensorType, s: tuple[int, ...]) -> bool:
    return s == (1,) * (len(s) - t.rank) + t.shape


def _through_units(t: TensorType, s: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of `t` that are `axes` of its reshape to `s`, which only drops or adds axes of extent 1."""
    mine, theirs = ([a - len(shape) for a, n in enumerate(shape) if n != 1] for shape in (t.shape, s))
    if [t.shape[a] for a in mine] != [s[a] for a in theirs]:
        return None
    return tuple(m for m, u in zip(mine, theirs, strict=True) if u in axes) or None


def _reduced(s: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if at - len(s) in axes else n for at, n in enumerate(s))


def _matrices_and_list(t: TensorType, u: TensorType, i: TensorType) -> bool:
    return (t.rank, u.rank, i.rank) == (2, 2, 1)


def _new_columns(s: tuple[int, ...], w: TensorType) -> tuple[int, ...]:
    return (*s[:-1], w.shape[-1])


def _scalar(t: TensorType) -> bool:
    return t.rank == 0


def _axis_free(t: TensorType, axis: int) -> bool:
    return t.extent(axis) == 1


def unary(op: str) -> Callable[[Any], Term]:
    return lambda a: apply(op, a)


def _laws_of_unary(op: str) -> list[Law]:
    f = unary(op)
    return [
        Law(f"transpose_out_of_{op}", f(x.transpose(p)), f(x).transpose(p), exactness=EXACT),
        Law(f"reshape_out_of_{op}", f(x.reshape(s)), f(x).reshape(s), exactness=EXACT),
        Law(f"broadcast_out_of_{op}", f(x.broadcast_to(s)), f(x).broadcast_to(s), exactness=EXACT),
        Law(f"slice_into_{op}", f(x).slice(s), f(x.slice(s)), exactness=EXACT),
        Law(f"take_into_{op}", f(x).take(i, axis), f(x.take(i, axis)), exactness=EXACT),
    ]


def _laws_of_binary(op: str) -> list[Law]:
    def f(a: Any, b: Any) -> Term:
        return apply(op, a, b)

    def aligned(a: Term) -> Term:
        return a.reshape(computed(_aligned, a, p)).transpose(computed(inverse, p))

    exactness = REASSOCIATES if op == "power" else EXACT  # NumPy takes short cuts for an exponent that is one number
    mirrored = op not in ("add", "multiply", "maximum", "minimum")
    sides = [(lambda a, b: f(a, b), ""), (lambda a, b: f(b, a), "_right")] if mirrored else [(f, "")]
    laws = [
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
            Law(f"broadcast_idle_in_{op}{side}", g(x.broadcast_to(s), y), g(x, y), exactness=exactness),
        ]  # fmt: skip
    return laws


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
        Law(f"unit_axes_out_of_{op}", f(x.reshape(s), q),
            f(x, computed(_through_units, x, s, q)).reshape(computed(_reduced, s, q)), exactness=REDUCTIONS[op]),
        Law(f"slice_into_{op}", f(x, q).slice(s), f(x.slice(computed(_widened, x, q, s)), q), exactness=REDUCTIONS[op]),
    ]  # fmt: skip


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
    Law("slice_identity", x.slice(s), x, exactness=EXACT),
    Law("flip_of_flip", x.flip(p).flip(p), x, exactness=EXACT),
    Law("slice_of_concat_first", apply("concat", x, y, attrs=(axis,)).slice(s),
        x.slice(computed(_in_first, x, axis, s)), exactness=EXACT),
    Law("slice_of_concat_second", apply("concat", x, y, attrs=(axis,)).slice(s),
        y.slice(computed(_in_second, x, axis, s)), exactness=EXACT),
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
    *(law for op in REDUCTIONS for law in _laws_of_reduction(op)),
    # products
    Law("slice_into_product", (x @ w).slice(s), x.slice(computed(_rows, x, s)) @ w.slice(computed(_columns, w, s)),
        exactness=REASSOCIATES),
    Law("take_rows_of_product", (x @ w).take(i, -2), x.take(i, -2) @ w,
        (guard("x and w are matrices, i is a list", _matrices_and_list, x, w, i),),
        REASSOCIATES),
    Law("product_of_merged_rows", x.reshape(s) @ w, (x @ w).reshape(computed(_new_columns, s, w)),
        (bounded("w has no batch axes", lambda w: w.rank == 2, w),), REASSOCIATES),
    # gathers that pick along an axis
    Law("pick_from_difference", apply("take_along_axis", x - y, i, attrs=(axis,)),
        apply("take_along_axis", x, i, attrs=(axis,)) - y,
        (guard("y has extent 1 on the axis", _axis_free, y, axis),), EXACT),
    Law("pick_into_negative", apply("take_along_axis", -x, i, attrs=(axis,)),
        -apply("take_along_axis", x, i, attrs=(axis,)), exactness=EXACT),
    Law("pick_into_log", apply("take_along_axis", log(x), i, attrs=(axis,)),
        log(apply("take_along_axis", x, i, attrs=(axis,))), exactness=EXACT),
    Law("pick_from_quotient", apply("take_along_axis", x / y, i, attrs=(axis,)),
        apply("take_along_axis", x, i, attrs=(axis,)) / y,
        (guard("y has extent 1 on the axis", _axis_free, y, axis),), EXACT),
]  # fmt: skip

# an index does not look at what it moves
LAWS = [replace(law, complex=law.exactness) for law in _OF_REALS]
