"""Laws that rest on what is known of values: idle clamps, signs that are known, roots and logarithms that are defined.

In: nothing. Out: `LAWS`. Their guards ask for facts that `eqfuse.ops.ranges` derives, so that relu of sigmoid is idle
however the sigmoid is written. A fact is about every form of a value, under "reassociate" up to rounding.
"""

from __future__ import annotations

from eqfuse.ops.ranges import exchanges
from eqfuse.rewrites.law import (
    EXACT,
    REASSOCIATES,
    Law,
    at_least,
    at_most,
    attrs,
    between,
    defined,
    finite,
    floating,
    guard,
    nonnegative,
    nonpositive,
    nonzero,
    positive,
    symmetric,
    tensors,
)
from eqfuse.rewrites.words import cos, exp, function, log, maximum, minimum, sin, sqrt, tanh, where

x, y, c = tensors("x y c")
(p,) = attrs("p")
acos, asin, atanh, isfinite, isnan = map(function, ("acos", "asin", "atanh", "isfinite", "isnan"))

LAWS = [
    # clamps that are idle
    Law("maximum_with_less", maximum(x, y), x, (at_least(x, y), defined(y)), EXACT),
    Law("minimum_with_more", minimum(x, y), x, (at_most(x, y), defined(y)), EXACT),
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
    Law("square_of_sqrt_of_nonnegative", sqrt(x) * sqrt(x), x, (nonnegative(x),), REASSOCIATES),
    Law("product_of_sqrt_of_nonnegative", sqrt(x) * sqrt(y), sqrt(x * y),
        (nonnegative(x), nonnegative(y)), REASSOCIATES),
    Law("sqrt_of_square_of_nonnegative", sqrt(x * x), x, (nonnegative(x),), REASSOCIATES),
    Law("exp_of_log_of_nonnegative", exp(log(x)), x, (nonnegative(x),), REASSOCIATES),
    # (where the other is negative, both sides are NaN)
    Law("log_of_nonnegative_times", log(x * y), log(x) + log(y), (nonnegative(x),), REASSOCIATES),
    Law("log_of_nonnegative_over", log(x / y), log(x) - log(y), (nonnegative(x),), REASSOCIATES),
    Law("log_over_nonnegative", log(x / y), log(x) - log(y), (nonnegative(y),), REASSOCIATES),
    Law("sin_of_asin", sin(asin(x)), x, (between(x, -1.0, 1.0),), REASSOCIATES),
    Law("cos_of_acos", cos(acos(x)), x, (between(x, -1.0, 1.0),), REASSOCIATES),
    Law("tanh_of_atanh", tanh(atanh(x)), x, (between(x, -1.0, 1.0),), REASSOCIATES),
    # choices that are made
    Law("where_finite", where(isfinite(c), x, y), x, (finite(c),), EXACT),
    Law("where_nan", where(isnan(c), x, y), y, (defined(c),), EXACT),
    # symmetric matrices
    Law("transpose_of_symmetric", x.transpose(p), x,
        (symmetric(x), guard("p exchanges the matrix axes", exchanges, p)), EXACT),
]  # fmt: skip
