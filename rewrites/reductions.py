"""Laws of sums, products, maxima, minima, any, all and argmax over axes (kept with extent 1, counted from the right).

In: nothing. Out: `LAWS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eqfuse.dtypes import kind
from eqfuse.ops import TABLE, row
from eqfuse.ops.literal import Literal
from eqfuse.ops.row import Rounding
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.domains import domain, has_upper_end
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Guard,
    Law,
    Term,
    apply,
    attrs,
    bounded,
    computed,
    floating,
    guard,
    nonempty,
    over_complex,
    over_float16,
    tensors,
    varies,
)
from eqfuse.rewrites.language.views import one_along
from eqfuse.rewrites.language.words import (
    constant,
    exp,
    function,
    isnan,
    less,
    log,
    logical_not,
    maximum,
    minimum,
    sqrt,
)
from eqfuse.rewrites.lattice import MONOTONE

x, y, s, b, w = tensors("x y s b w")
p, q, n, m, axis = attrs("p q n m axis")

Axes = tuple[int, ...]


def _union(p: Axes, q: Axes) -> Axes:
    return tuple(sorted({*p, *q}))


def _agree_along(t: TensorType, u: TensorType, axes: Axes) -> bool:
    return all(t.extent(a) == u.extent(a) for a in axes)


def elements_along(t: TensorType, axes: Axes) -> int:
    return math.prod(t.extent(a) for a in axes)


def _row(p: Axes) -> Axes:
    return p[-1:]


def _rest(p: Axes) -> Axes:
    return p[:-1]


def _last_axes(t: TensorType, p: Axes) -> bool:
    return len(p) > 1 and p == tuple(range(-len(p), 0)) and t.extent(-1) > 1


def _is_count(value: Literal, t: TensorType, axes: Axes) -> bool:
    return value.array.size == 1 and value.array.reshape(()).item() == elements_along(t, axes) != 0


def _counts_product(value: Literal, x: TensorType, w: TensorType, axes: Axes) -> bool:
    return value.array.size == 1 and value.array.reshape(()).item() == elements_along(product_type(x, w), axes) != 0


def product_type(x: TensorType, w: TensorType) -> TensorType:
    return row("matmul").type([x, w], ())


def counts_elements(t: Term) -> Guard:
    return guard(f"n counts {t}'s elements along the axes", _is_count, n, t, p)


def _wide(t: TensorType, axes: Axes) -> Axes | None:
    """Those of `axes` along which there is something to reduce, if these are some and not all."""
    wide = tuple(a for a in axes if t.extent(a) != 1)
    return wide if wide and wide != axes else None


def _last(t: TensorType, axis: int, ranges: tuple[tuple[int, int, int], ...]) -> bool:
    n = t.shape[axis]
    everything = [(0, m, 1) for m in t.shape]
    everything[axis] = (n - 1, n, 1)
    return n > 0 and list(ranges) == everything


def _is_bool(t: TensorType) -> bool:
    return kind(t.dtype) == "b"


def reduction_by(op: str) -> Callable[..., Term]:
    def call(a: Term, axes: Any = p) -> Term:
        return apply(op, a, attrs=(axes,))

    return call


def cumsum(a: Term) -> Term:
    return apply("cumsum", a, attrs=(axis,))


boolean = guard("x is bool", _is_bool, x)
several = bounded("x has several elements along the axes", lambda x, p: any(x.extent(a) != 1 for a in p), x, p)
single = bounded("x has extent 1 along the axes", one_along, x, p)
agree = guard("x and y agree along the axes", _agree_along, x, y, p)
constant_along = guard("b is constant along the axes", one_along, b, p)
axis_free = guard("s has extent 1 on the axis", lambda s, axis: s.extent(axis) == 1, s, axis)
mean, mean_of_y = x.sum(p) / constant(n), y.sum(p) / constant(n)
distance = x - mean
prod, any_, all_ = map(reduction_by, ("prod", "any", "all"))

# NumPy's order of summation follows the layout
REDUCTION_CLASSES = {
    op.name: REASSOCIATES if row(op.joined_by).rounding is Rounding.ONCE else EXACT
    for op in TABLE.values() if op.joined_by is not None
}  # fmt: skip


def _laws_of_axes(op: str) -> list[Law]:
    f, rounding = reduction_by(op), op in ("sum", "prod", "max", "min")
    return [
        Law(f"{op}_of_{op}", f(f(x, p), q), f(x, computed(_union, p, q)),
            exactness=APPROXIMATE if op == "prod" else REASSOCIATES if rounding else EXACT),
        Law(f"{op}_over_one", f(x), x, (single,), REASSOCIATES if op == "sum" else EXACT),
        Law(f"{op}_over_unit_axes", f(x), f(x, computed(_wide, x, p)), exactness=REDUCTION_CLASSES[op]),
    ]  # fmt: skip


def _laws_of_monotone(f: str) -> list[Law]:
    """The largest value of a growing function is its value at the largest."""
    g = function(f)
    return [
        Law(f"{f}_out_of_max", g(x).max(p), g(x.max(p)), domain(f, x), REASSOCIATES),
        Law(f"{f}_out_of_min", g(x).min(p), g(x.min(p)), domain(f, x) if has_upper_end(f) else (), REASSOCIATES),
    ]


def _laws_of_bounds(op: str) -> list[Law]:
    """All are within a bound if the worst is."""
    f = function(op)
    return [
        Law(f"all_{op}", all_(f(x, b)), f(x.max(p), b), exactness=EXACT),
        Law(f"all_{op}_right", all_(f(b, x)), f(b, x.min(p)), exactness=EXACT),
    ]


def _laws_of_places(op: str) -> list[Law]:
    """Where the largest or smallest value lies: of what is shifted alike, at the same place but for rounding."""
    f, mirrored = reduction_by(op), reduction_by("argmin" if op == "argmax" else "argmax")
    return [
        Law(f"{op}_of_negative", f(-x), mirrored(x), (floating(x),), EXACT),
        Law(f"{op}_of_shifted", f(x + b), f(x), (constant_along, floating(x)), APPROXIMATE),
        Law(f"{op}_of_difference", f(x - b), f(x), (constant_along, floating(x)), APPROXIMATE),
    ]


_OF_SUMS = [
    # a product's kernel adds up its rows, so that what is summed of it is not stored
    Law("sum_row_by_row", x.sum(p), x.sum(computed(_row, p)).sum(computed(_rest, p)),
        (bounded("p are the last axes, several of them", _last_axes, x, p),), REASSOCIATES),
    # hoisting what does not change along the axes: were it to change, the right side would have another type
    Law("scale_out_of_sum", (x * s).sum(p), x.sum(p) * s, exactness=REASSOCIATES),
    Law("divisor_out_of_sum", (x / s).sum(p), x.sum(p) / s, (nonempty(x),), REASSOCIATES),
    Law(
        "shift_out_of_mean", (x + b).sum(p) / constant(n), x.sum(p) / constant(n) + b,
        (counts_elements(x),), APPROXIMATE,  # b may cancel x
    ),
    # (a product has rounded what the shift cancels)
    Law(
        "shift_of_product_out_of_mean", (x @ w + b).sum(p) / constant(n), (x @ w).sum(p) / constant(n) + b,
        (guard("n counts the product's elements along the axes", _counts_product, n, x, w, p),), REASSOCIATES,
    ),
    Law("scale_out_of_cumsum", cumsum(x * s), cumsum(x) * s, (axis_free,), REASSOCIATES),
    Law("divisor_out_of_cumsum", cumsum(x / s), cumsum(x) / s, (axis_free,), REASSOCIATES),
    Law("last_of_cumsum", cumsum(x).slice(m), x.sum(computed(lambda axis: (axis,), axis)),
        (guard("m takes the last along the axis", _last, x, axis, m),), REASSOCIATES),
]  # fmt: skip

_OF_REALS = [
    Law("negative_out_of_sum", (-x).sum(p), -x.sum(p), (floating(x),), REASSOCIATES),
    Law("negative_out_of_cumsum", cumsum(-x), -cumsum(x), (floating(x),), REASSOCIATES),
    Law("shift_out_of_sum", (x + b).sum(p), x.sum(p) + b * computed(elements_along, x, p), (varies(b),), APPROXIMATE),
    Law("subtrahend_out_of_sum", (x - b).sum(p), x.sum(p) - b * computed(elements_along, x, p), (varies(b),),
        APPROXIMATE),
    Law("minuend_out_of_sum", (b - x).sum(p), b * computed(elements_along, x, p) - x.sum(p), (varies(b),), APPROXIMATE),
    # two reductions are one
    Law("sums_meet", x.sum(p) + y.sum(p), (x + y).sum(p), (agree, floating(x), several), REASSOCIATES),
    Law("sums_meet_in_difference", x.sum(p) - y.sum(p), (x - y).sum(p), (agree, floating(x), several), REASSOCIATES),
    Law("products_meet", prod(x) * prod(y), prod(x * y), (agree, floating(x), several), APPROXIMATE),
    Law("maxima_meet", maximum(x.max(p), y.max(p)), maximum(x, y).max(p), exactness=REASSOCIATES),
    Law("minima_meet", minimum(x.min(p), y.min(p)), minimum(x, y).min(p), exactness=REASSOCIATES),
    *(Law(f"{f}_meet", apply(f, any_(x), any_(y)), any_(apply(f, x, y)), (agree,), EXACT)
      for f in ("logical_or", "bitwise_or")),
    Law("logical_and_meet", apply("logical_and", all_(x), all_(y)), all_(apply("logical_and", x, y)), (agree,), EXACT),
    Law("bitwise_and_meet", apply("bitwise_and", all_(x), all_(y)), all_(apply("bitwise_and", x, y)),
        (agree, boolean), EXACT),
    # monotone functions
    Law("shift_out_of_max", (x + b).max(p), x.max(p) + b, (floating(x),), REASSOCIATES),
    Law("shift_out_of_min", (x + b).min(p), x.min(p) + b, (floating(x),), REASSOCIATES),
    Law("subtrahend_out_of_max", (x - b).max(p), x.max(p) - b, (floating(x),), REASSOCIATES),
    Law("subtrahend_out_of_min", (x - b).min(p), x.min(p) - b, (floating(x),), REASSOCIATES),
    Law("minuend_out_of_max", (b - x).max(p), b - x.min(p), (floating(x),), REASSOCIATES),
    Law("minuend_out_of_min", (b - x).min(p), b - x.max(p), (floating(x),), REASSOCIATES),
    Law("clamp_out_of_max", maximum(x, b).max(p), maximum(x.max(p), b), exactness=REASSOCIATES),
    Law("clamp_out_of_min", maximum(x, b).min(p), maximum(x.min(p), b), exactness=REASSOCIATES),
    Law("cap_out_of_max", minimum(x, b).max(p), minimum(x.max(p), b), exactness=REASSOCIATES),
    Law("cap_out_of_min", minimum(x, b).min(p), minimum(x.min(p), b), exactness=REASSOCIATES),
    Law("max_of_negative", (-x).max(p), -x.min(p), (floating(x),), REASSOCIATES),
    Law("min_of_negative", (-x).min(p), -x.max(p), (floating(x),), REASSOCIATES),
    *(law for f in MONOTONE for law in _laws_of_monotone(f)),
    *(law for op in ("argmax", "argmin") for law in _laws_of_places(op)),
    # products
    Law("product_of_exp_over_axes", prod(exp(x)), exp(x.sum(p)), exactness=APPROXIMATE),
    Law("log_of_prod", log(prod(x)), log(x).sum(p), domain("log", x), APPROXIMATE),
    Law("abs_out_of_prod", prod(abs(x)), abs(prod(x)), (floating(x),), REASSOCIATES),
    Law("sqrt_out_of_prod", prod(sqrt(x)), sqrt(prod(x)), domain("sqrt", x), APPROXIMATE),
    Law("scale_out_of_prod", prod(x * s), prod(x) * s ** computed(elements_along, x, p), exactness=APPROXIMATE),
    # log-sum-exp: shifted by anything it is the same, but only shifted by the maximum is it safe
    Law("log_sum_exp_shift", log(exp(x - b).sum(p)) + b, log(exp(x).sum(p)), exactness=APPROXIMATE),
    Law("log_sum_exp_of_shifted", log(exp(x + b).sum(p)), log(exp(x).sum(p)) + b, exactness=APPROXIMATE),
    # sum (x - mean)^2 = sum x^2 - n mean^2: cancels badly, so never without being asked for
    Law("one_pass_covariance", (distance * (y - mean_of_y)).sum(p), (x * y).sum(p) - mean * y.sum(p),
        (counts_elements(x), agree), APPROXIMATE),
    Law("mean_square_minus_squared_mean", (x * x).sum(p) / constant(n) - mean * mean,
        (distance * distance).sum(p) / constant(n), (counts_elements(x),), APPROXIMATE),
    # questions
    Law("any_of_not", any_(logical_not(x)), logical_not(all_(x)), exactness=EXACT),
    Law("all_of_not", all_(logical_not(x)), logical_not(any_(x)), exactness=EXACT),
    *(law for op in ("less", "less_equal") for law in _laws_of_bounds(op)),
    Law("any_nan", any_(isnan(x)), isnan(x.max(p)), exactness=EXACT),
    Law("some_counted", less(0.0, x.sum(p)), any_(x), (boolean,), EXACT),
]  # fmt: skip

# sums are of complex numbers too; order is not
LAWS = [
    *over_complex([law for op in ("sum", "prod") for law in _laws_of_axes(op)], REASSOCIATES),
    *(law for op in ("max", "min", "any", "all") for law in _laws_of_axes(op)),
    *over_complex(_OF_SUMS, REASSOCIATES),
    *_OF_REALS,
]

# a sum that is scaled before may stay in float16's range where the same scaled after does not, and vice versa
LAWS = over_float16(
    LAWS, "scale_out_of_sum", "divisor_out_of_sum", "scale_out_of_cumsum", "divisor_out_of_cumsum", "sums_meet",
    "sums_meet_in_difference", "shift_of_product_out_of_mean",
)  # fmt: skip
