"""Laws of views: transposes, reshapes, broadcasts, slices and flips compose, cancel, and move through work.

In: nothing. Out: `LAWS`. Transposes, reshapes, broadcasts and flips move outwards (towards the result), where they meet
and cancel; slices move inwards (towards the inputs), where they save work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqfuse.ops import row
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.rewrites.language import views
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
from eqfuse.rewrites.reductions import REDUCTION_CLASSES, reduction_by

x, y, c, w = tensors("x y c w")
p, q, s, t, d = attrs("p q s t d")

# what NumPy does not do to complex numbers
OF_REALS = frozenset(op for op, ufunc in UFUNCS.items() if not any("D" in loop for loop in ufunc.types))

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
MOVED_OPERATORS = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "less", "less_equal", "equal",
    "not_equal", "logical_and", "logical_or", "bitwise_and", "bitwise_or",
)  # fmt: skip


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
        return a.reshape(computed(views.leading_ones, a, p)).transpose(computed(views.inverse, p))

    exactness = REASSOCIATES if op == "power" else EXACT  # NumPy takes short cuts for an exponent that is one number
    sides = [(f, "")] if row(op).commutes else [(f, ""), (lambda a, b: f(b, a), "_right")]
    laws = [
        Law(f"broadcast_out_of_{op}", f(x.broadcast_to(s), y.broadcast_to(s)), f(x, y).broadcast_to(s),
            exactness=exactness),
        Law(f"flip_out_of_{op}", f(x.flip(p), y.flip(p)), f(x, y).flip(p), exactness=exactness),
        Law(f"transpose_out_of_{op}", f(x.transpose(p), y.transpose(p)), f(x, y).transpose(p), exactness=exactness),
        Law(f"slice_into_{op}", f(x, y).slice(s),
            f(x.slice(computed(views.ranges_of, x, s)), y.slice(computed(views.ranges_of, y, s))), exactness=exactness),
    ]  # fmt: skip
    for g, side in sides:
        laws += [
            Law(f"transpose_over_smaller_in_{op}{side}", g(x.transpose(p), y), g(x, aligned(y)).transpose(p),
                (bounded("y is smaller than x", views.smaller, y, x),), exactness),
            Law(f"transpose_over_scalar_in_{op}{side}", g(x.transpose(p), y), g(x, y).transpose(p),
                (guard("y is a scalar", views.scalar, y),), exactness),
            Law(f"leading_ones_idle_in_{op}{side}", g(x, y.reshape(s)), g(x, y),
                (guard("the reshape adds or takes leading ones of y", views.moves_leading_ones, y, s),), exactness),
            Law(f"reshape_over_scalar_in_{op}{side}", g(x.reshape(s), y), g(x, y).reshape(s),
                (guard("y is a scalar", views.scalar, y),), exactness),
            Law(f"reshape_over_equal_in_{op}{side}", g(x.reshape(s), y),
                g(x, y.reshape(computed(views.shape, x))).reshape(s),
                (bounded("x has an axis of extent 1", views.has_unit, x),), exactness),
            Law(f"flip_over_scalar_in_{op}{side}", g(x.flip(p), y), g(x, y).flip(p),
                (guard("y is a scalar", views.scalar, y),), exactness),
            Law(f"broadcast_after_{op}{side}", g(x.broadcast_to(s), y), g(x, y).broadcast_to(s),
                (bounded("x and y are smaller together than s", views.smaller_than, y, x, s),), exactness),
            Law(f"broadcast_idle_in_{op}{side}", g(x.broadcast_to(s), y), g(x, y), exactness=exactness),
        ]  # fmt: skip
    return laws


def of_complex(law: Law) -> Law:
    """`law` as one of complex numbers too, where its operators are."""
    met = {t.op for side in (*law.lefts, *law.rights) for t in walk(side)}
    return law if met.intersection(OF_REALS) else restated(law, complex=law.exactness)


def _laws_of_reduction(op: str) -> list[Law]:
    f = reduction_by(op)
    return [
        Law(f"transpose_out_of_{op}", f(x.transpose(p), q), f(x, computed(views.moved_axes, p, q)).transpose(p),
            exactness=REDUCTION_CLASSES[op]),
        Law(f"reshape_out_of_{op}", f(x.reshape(s), q),
            f(x, computed(views.through_reshape, x, s, q)).reshape(computed(views.reduced, s, q)),
            exactness=REDUCTION_CLASSES[op]),
        Law(f"flip_out_of_{op}", f(x.flip(p), q), f(x, q).flip(p),
            exactness=EXACT if op in ("any", "all") else REASSOCIATES),
        Law(f"slice_into_{op}", f(x, q).slice(s), f(x.slice(computed(views.before_reduction, x, q, s)), q),
            exactness=REDUCTION_CLASSES[op]),
    ]  # fmt: skip


def _laws_of_places(op: str) -> list[Law]:
    f = reduction_by(op)
    return [
        Law(f"transpose_out_of_{op}", f(x.transpose(p), q), f(x, computed(views.moved_axes, p, q)).transpose(p),
            exactness=EXACT),
        Law(f"reshape_out_of_{op}", f(x.reshape(s), q),
            f(x, computed(views.one_through_reshape, x, s, q)).reshape(computed(views.reduced, s, q)), exactness=EXACT),
    ]  # fmt: skip


def _laws_of_broadcast_reduction(op: str) -> list[Law]:
    """Copies along the reduced axes count; along the others they are made after."""

    def f(a: Term) -> Term:
        return apply(op, a.reshape(computed(views.leading_ones, x, s)), attrs=(q,))

    copies = computed(views.copies, x, s, q)
    reduction = {"sum": lambda a: f(a) * copies, "prod": lambda a: f(a) ** copies}.get(op, f)
    return [
        Law(f"broadcast_out_of_{op}", apply(op, x.broadcast_to(s), attrs=(q,)),
            reduction(x).broadcast_to(computed(views.reduced_copies, s, q)),
            exactness=EXACT if op in ("any", "all") else REASSOCIATES)
    ]  # fmt: skip


def _laws_of_where() -> list[Law]:
    """A condition and two values, of which one may be a number."""
    laws = [
        Law("slice_into_where", where(c, x, y).slice(s),
            where(*(a.slice(computed(views.ranges_of, a, s)) for a in (c, x, y))), exactness=EXACT),
        Law("flip_out_of_where", where(c.flip(p), x.flip(p), y.flip(p)), where(c, x, y).flip(p),
            exactness=EXACT),
    ]  # fmt: skip
    for view, moved in (("transpose", lambda a: a.transpose(p)), ("reshape", lambda a: a.reshape(s))):
        laws += [
            Law(f"{view}_out_of_where", where(moved(c), moved(x), moved(y)), moved(where(c, x, y)), exactness=EXACT),
            Law(f"{view}_over_scalar_in_where", where(moved(c), moved(x), y), moved(where(c, x, y)),
                (guard("y is a scalar", views.scalar, y),), EXACT),
            Law(f"{view}_over_scalar_in_where_right", where(moved(c), y, moved(x)), moved(where(c, y, x)),
                (guard("y is a scalar", views.scalar, y),), EXACT),
        ]  # fmt: skip
    return laws


_OF_REALS = [
    # compose and cancel
    Law("transpose_of_transpose", x.transpose(q).transpose(p), x.transpose(computed(views.compose, p, q)),
        exactness=EXACT),
    Law("transpose_identity", x.transpose(p), x, (guard("p moves nothing", views.identity, p),), EXACT),
    Law("transpose_of_unit_axes", x.transpose(p), x.reshape(computed(views.permuted_shape, x, p)),
        (guard("only axes of extent 1 move", views.only_unit_axes_move, x, p),), EXACT),
    Law("reshape_of_reshape", x.reshape(s).reshape(t), x.reshape(t), exactness=EXACT),
    Law("reshape_identity", x.reshape(s), x, exactness=EXACT),
    Law("broadcast_of_broadcast", x.broadcast_to(s).broadcast_to(t), x.broadcast_to(t), exactness=EXACT),
    Law("broadcast_identity", x.broadcast_to(s), x, exactness=EXACT),
    Law("slice_of_slice", x.slice(s).slice(t), x.slice(computed(views.nested, s, t)), exactness=EXACT),
    Law("slice_identity", x.slice(s), x, exactness=EXACT, everywhere=True),
    Law("flip_of_flip", x.flip(p).flip(p), x, exactness=EXACT),
    Law("flip_of_other_flip", x.flip(p).flip(q), x.flip(computed(views.in_one, p, q)), exactness=EXACT),
    Law("flip_idle", x.flip(p), x, (guard("x is not longer than 1 along p", views.not_longer_than_one, x, p),), EXACT),
    Law("flip_before_transpose", x.flip(q).transpose(p), x.transpose(p).flip(computed(views.flipped_before, p, q)),
        exactness=EXACT),
    Law("slice_of_flip", x.flip(p).slice(s), x.slice(computed(views.mirrored, x, p, s)).flip(p), exactness=EXACT),
    Law("slice_of_broadcast", x.broadcast_to(s).slice(t),
        x.slice(computed(views.ranges_of, x, t)).broadcast_to(computed(views.lengths, t)), exactness=EXACT),
    Law("slice_of_unit_axes", x.reshape(s).slice(t),
        x.slice(computed(views.ranges_through_units, x, s, t)).reshape(computed(views.lengths, t)), exactness=EXACT),
    Law("transpose_of_broadcast", x.broadcast_to(s).transpose(p),
        x.reshape(computed(views.leading_ones, x, s)).transpose(p).broadcast_to(computed(views.permuted, s, p)),
        exactness=EXACT),
    Law("broadcast_of_leading_ones", x.reshape(s).broadcast_to(t), x.broadcast_to(t),
        (guard("the reshape only adds leading ones to x", views.adds_leading_ones, x, s),), EXACT),
    Law("slice_of_transpose", x.transpose(p).slice(s), x.slice(computed(views.before_transpose, p, s)).transpose(p),
        exactness=EXACT),
    # casts
    Law("transpose_out_of_cast", x.transpose(p).cast(d), x.cast(d).transpose(p), exactness=EXACT),
    Law("reshape_out_of_cast", x.reshape(s).cast(d), x.cast(d).reshape(s), exactness=EXACT),
    Law("broadcast_out_of_cast", x.broadcast_to(s).cast(d), x.cast(d).broadcast_to(s), exactness=EXACT),
    Law("slice_into_cast", x.cast(d).slice(s), x.slice(s).cast(d), exactness=EXACT),
    # work on elements
    *(law for op in UNARY for law in _laws_of_unary(op)),
    *(law for op in MOVED_OPERATORS for law in _laws_of_binary(op)),
    # reductions
    *_laws_of_where(),
    *(law for op in REDUCTION_CLASSES for law in _laws_of_reduction(op)),
    *(law for op in REDUCTION_CLASSES for law in _laws_of_broadcast_reduction(op)),
    *(law for op in ("argmax", "argmin") for law in _laws_of_places(op)),
    # products
    Law("slice_into_product", (x @ w).slice(s),
        x.slice(computed(views.rows, x, s)) @ w.slice(computed(views.columns, w, s)), exactness=REASSOCIATES),
    Law("product_of_merged_rows", x.reshape(s) @ w, (x @ w).reshape(computed(views.new_columns, s, w)),
        (bounded("w has no batch axes", lambda w: w.rank == 2, w),), REASSOCIATES),
]  # fmt: skip

# an index does not look at what it moves
LAWS = [of_complex(law) for law in _OF_REALS]
