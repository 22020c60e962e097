"""Laws that rest on what is known of values: idle clamps, signs that are known, roots and logarithms that are defined.

In: nothing. Out: `LAWS`. Their guards ask for facts that `eqfuse.ops.ranges` derives, so that relu of sigmoid is idle
however the sigmoid is written. A fact is about every form of a value, under "reassociate" up to rounding.
"""

from __future__ import annotations

import numpy as np

from eqfuse.ops.literal import Literal
from eqfuse.ops.ranges import exchanges
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.algebra import filled_with, one_literal
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Law,
    Term,
    apply,
    at_least,
    at_most,
    attrs,
    between,
    defined,
    finite,
    floating,
    guard,
    is_constant,
    nonnegative,
    nonpositive,
    nonzero,
    over_float16,
    positive,
    symmetric,
    tensors,
)
from eqfuse.rewrites.language.views import one_along
from eqfuse.rewrites.language.words import (
    cos,
    isfinite,
    isnan,
    less,
    less_equal,
    log,
    logical_not,
    maximum,
    minimum,
    sin,
    sqrt,
    where,
)
from eqfuse.rewrites.logic import OPPOSITE

x, y, z, w, a, b, c = tensors("x y z w a b c")
p, d = attrs("p d")

constant_along = guard("c is constant along the axes", one_along, c, p)


def zero_literal(like: TensorType) -> Literal:
    return Literal(np.zeros((), like.dtype))


def _laws_of_places(op: str) -> list[Law]:
    """Where the largest or smallest value lies: of what is scaled alike, at the same place but for rounding."""

    def f(a: Term) -> Term:
        return apply(op, a, attrs=(p,))

    return [
        Law(f"{op}_of_positive_multiple", f(x * c), f(x),
            (constant_along, positive(c), floating(x)), APPROXIMATE),
        Law(f"{op}_of_positive_quotient", f(x / c), f(x), (constant_along, positive(c)), APPROXIMATE),
    ]  # fmt: skip


LAWS = [
    # clamps that are idle
    Law("maximum_with_less", maximum(x, y), x, (at_least(x, y), defined(y)), EXACT),
    Law("minimum_with_more", minimum(x, y), x, (at_most(x, y), defined(y)), EXACT),
    Law("maximum_of_less_with", maximum(y, x), x, (at_least(x, y), defined(y)), EXACT),
    Law("minimum_of_more_with", minimum(y, x), x, (at_most(x, y), defined(y)), EXACT),
    # signs that are known
    Law("abs_of_nonnegative", abs(x), x, (nonnegative(x),), EXACT),
    Law("abs_of_nonpositive", abs(x), -x, (nonpositive(x),), EXACT),
    Law("nonnegative_factor_of_abs", abs(x * c), abs(x) * c, (nonnegative(c), floating(c)), EXACT),
    Law("positive_factor_of_relu", maximum(x * c, 0.0), maximum(x, 0.0) * c,
        (positive(c), finite(c), floating(c)), REASSOCIATES),
    Law("positive_divisor_of_relu", maximum(x / c, 0.0), maximum(x, 0.0) / c, (positive(c), finite(c)), REASSOCIATES),
    Law("positive_factor_of_max", (x * c).max(p), x.max(p) * c, (positive(c), floating(c)), REASSOCIATES),
    Law("positive_divisor_of_max", (x / c).max(p), x.max(p) / c, (positive(c), finite(c)), REASSOCIATES),
    Law("positive_factor_of_min", (x * c).min(p), x.min(p) * c, (positive(c), floating(c)), REASSOCIATES),
    Law("positive_divisor_of_min", (x / c).min(p), x.min(p) / c, (positive(c), finite(c)), REASSOCIATES),
    # quotients
    Law("quotient_times_divisor", x / c * c, x, (nonzero(c), finite(c)), REASSOCIATES),
    Law("product_over_factor", x * c / c, x, (nonzero(c), finite(c)), REASSOCIATES),
    # roots and logarithms
    Law("sqrt_of_square_of_nonnegative", sqrt(x * x), x, (nonnegative(x),), REASSOCIATES),
    # (where the other is negative, both sides are NaN)
    Law("log_of_nonnegative_times", log(x * y), log(x) + log(y), (nonnegative(x),), APPROXIMATE),
    Law("power_of_power_of_positive", (x**a) ** b, x ** (a * b),
        (is_constant(a, b), positive(x), floating(x)), APPROXIMATE),
    Law("positive_over_its_sqrt", x / sqrt(x), sqrt(x), (positive(x),), REASSOCIATES),
    Law("sqrt_of_finite_over_it", sqrt(x) / x, 1.0 / sqrt(x), (finite(x),), REASSOCIATES),
    Law("sqrt_of_reciprocal_of_nonnegative", sqrt(1.0 / x), 1.0 / sqrt(x), (nonnegative(x),), REASSOCIATES),
    Law("power_minus_half_of_nonnegative", x**-0.5, 1.0 / sqrt(x), (nonnegative(x),), REASSOCIATES),
    Law("power_minus_one_and_a_half_of_nonnegative", x**-1.5, 1.0 / (x * sqrt(x)), (nonnegative(x),), REASSOCIATES,
        float16=APPROXIMATE),
    # what is finite cancels
    Law("finite_minus_itself", x - x, filled_with(zero_literal, x), (finite(x),), EXACT),
    Law("finite_over_itself", x / x, filled_with(one_literal, x), (finite(x), nonzero(x)), EXACT),
    Law("sin_squared_plus_cos_squared_of_finite", sin(x) * sin(x) + cos(x) * cos(x), filled_with(one_literal, x),
        (finite(x),), REASSOCIATES),
    Law("finite_masked", x * c.cast(d), where(c, x, 0.0), (finite(x),), REASSOCIATES),
    # rectifiers
    Law("rectifier_is_maximum", where(less(0.0, x), x, x * a), maximum(x, x * a), (between(a, 0.0, 1.0), defined(a)),
        REASSOCIATES),
    Law("rectifier_by_parts_of_finite_slope", maximum(x, 0.0) + minimum(x, 0.0) * a, where(less(0.0, x), x, x * a),
        (finite(a),), REASSOCIATES),
    Law("rectifier_of_finite_slope_at_zero", where(less_equal(0.0, x), x, x * a), where(less(0.0, x), x, x * a),
        (finite(a),), REASSOCIATES),
    Law("relu_by_abs_of_finite", (x + abs(x)) * 0.5, maximum(x, 0.0), (finite(x),), REASSOCIATES),
    Law("positive_factor_of_maximum", maximum(x * c, y * c), maximum(x, y) * c,
        (positive(c), floating(c)), REASSOCIATES),
    Law("positive_factor_of_minimum", minimum(x * c, y * c), minimum(x, y) * c,
        (positive(c), floating(c)), REASSOCIATES),
    Law("positive_factor_into_known_floor", maximum(x, a) * c, maximum(x * c, a * c),
        (is_constant(a, c), positive(c), floating(c)), REASSOCIATES),
    Law("positive_factor_into_known_cap", minimum(x, a) * c, minimum(x * c, a * c),
        (is_constant(a, c), positive(c), floating(c)), REASSOCIATES),
    # the place of the largest
    *(law for op in ("argmax", "argmin") for law in _laws_of_places(op)),
    # choices that are made
    Law("where_never_less", where(x < y, z, w), w, (at_least(x, y),), EXACT),
    Law("where_always_at_most", where(x <= y, z, w), z, (at_most(x, y), defined(x), defined(y)), EXACT),
    *(Law(f"not_{op}_of_defined", logical_not(apply(op, x, y)), apply(opposite, y, x), (defined(x), defined(y)), EXACT)
      for op, opposite in OPPOSITE.items()),
    Law("where_finite", where(isfinite(c), x, y), x, (finite(c),), EXACT),
    Law("where_nan", where(isnan(c), x, y), y, (defined(c),), EXACT),
    # symmetric matrices
    Law("transpose_of_symmetric", x.transpose(p), x,
        (symmetric(x), guard("p exchanges the matrix axes", exchanges, p)), EXACT),
]  # fmt: skip

LAWS = over_float16(LAWS, "positive_factor_into_known_floor", "positive_factor_into_known_cap")
