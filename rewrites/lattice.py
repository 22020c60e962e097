"""Laws of minimum, maximum and absolute value. (Clamps that a range makes idle are in `ranges`.)

In: nothing. Out: `LAWS`. A NaN passes through minimum and maximum, which rules out most absorption laws. A clip is
``minimum(maximum(x, low), high)``: of known bounds, that order is the one to which others are brought.
"""

from __future__ import annotations

from eqfuse.ops import TABLE
from eqfuse.rewrites.language.domains import domain, has_upper_end
from eqfuse.rewrites.language.law import APPROXIMATE, EXACT, REASSOCIATES, Law, floating, is_constant, tensors
from eqfuse.rewrites.language.words import copysign, function, maximum, minimum, sign, sqrt

x, y, z, a, b = tensors("x y z a b")

MONOTONE = [name for name, op in TABLE.items() if op.monotone]


def _laws_of_monotone(f: str) -> list[Law]:
    """One evaluation serves both; the function of the larger is the larger function."""
    g = function(f)
    return [
        Law(f"maximum_of_{f}", maximum(g(x), g(y)), g(maximum(x, y)), domain(f, x, y), REASSOCIATES),
        Law(f"minimum_of_{f}", minimum(g(x), g(y)), g(minimum(x, y)),
            domain(f, x, y) if has_upper_end(f) else (), REASSOCIATES),  # else the smaller is outside too
    ]  # fmt: skip


LAWS = [
    Law("maximum_of_itself", maximum(x, x), x, exactness=EXACT),
    Law("minimum_of_itself", minimum(x, x), x, exactness=EXACT),
    Law("maximum_twice", maximum(maximum(x, y), y), maximum(x, y), exactness=REASSOCIATES),
    Law("minimum_twice", minimum(minimum(x, y), y), minimum(x, y), exactness=REASSOCIATES),
    Law("known_maxima_meet", maximum(maximum(x, a), b), maximum(x, maximum(a, b)), (is_constant(a, b),), REASSOCIATES),
    Law("known_minima_meet", minimum(minimum(x, a), b), minimum(x, minimum(a, b)), (is_constant(a, b),), REASSOCIATES),
    Law("absorb_minimum", maximum(x, minimum(x, y)), x, exactness=APPROXIMATE),
    Law("absorb_maximum", minimum(x, maximum(x, y)), x, exactness=APPROXIMATE),
    Law("clip_in_order", maximum(minimum(x, a), b), minimum(maximum(x, b), maximum(a, b)), (is_constant(a, b),),
        REASSOCIATES),
    Law("minimum_of_clipped", minimum(maximum(x, y), maximum(x, z)), maximum(x, minimum(y, z)), (), REASSOCIATES),
    Law("maximum_of_clipped", maximum(minimum(x, y), minimum(x, z)), minimum(x, maximum(y, z)), (), REASSOCIATES),
    Law("maximum_plus_minimum", maximum(x, y) + minimum(x, y), x + y, exactness=REASSOCIATES),
    Law("maximum_times_minimum", maximum(x, y) * minimum(x, y), x * y, exactness=REASSOCIATES),
    Law("maximum_minus_minimum", maximum(x, y) - minimum(x, y), abs(x - y), (floating(x),), REASSOCIATES),
    Law("maximum_by_abs", (x + y + abs(x - y)) * 0.5, maximum(x, y), exactness=APPROXIMATE),
    Law("minimum_by_abs", (x + y - abs(x - y)) * 0.5, minimum(x, y), exactness=APPROXIMATE),
    Law("relu_by_abs", (x + abs(x)) * 0.5, maximum(x, 0.0), exactness=APPROXIMATE),
    Law("maximum_of_zero_and_negative", maximum(-x, 0.0), -minimum(x, 0.0), (floating(x),), REASSOCIATES),
    Law("minimum_of_zero_and_negative", minimum(-x, 0.0), -maximum(x, 0.0), (floating(x),), REASSOCIATES),
    Law("x_minus_relu", x - maximum(x, 0.0), minimum(x, 0.0), exactness=APPROXIMATE),
    Law("relu_minus_x", maximum(x, 0.0) - x, maximum(-x, 0.0), (floating(x),), APPROXIMATE),
    Law("maximum_of_differences", maximum(x - z, y - z), maximum(x, y) - z, (floating(x),), REASSOCIATES),
    Law("minimum_of_differences", minimum(x - z, y - z), minimum(x, y) - z, (floating(x),), REASSOCIATES),
    Law("maximum_from_one", maximum(z - x, z - y), z - minimum(x, y), (floating(x),), REASSOCIATES),
    Law("minimum_from_one", minimum(z - x, z - y), z - maximum(x, y), (floating(x),), REASSOCIATES),
    *(law for f in MONOTONE for law in _laws_of_monotone(f)),
    Law("maximum_of_negatives", maximum(-x, -y), -minimum(x, y), (floating(x),), REASSOCIATES),
    Law("minimum_of_negatives", minimum(-x, -y), -maximum(x, y), (floating(x),), REASSOCIATES),
    Law("maximum_of_shifted", maximum(x + z, y + z), maximum(x, y) + z, (floating(x),), REASSOCIATES),
    Law("minimum_of_shifted", minimum(x + z, y + z), minimum(x, y) + z, (floating(x),), REASSOCIATES),
    Law("abs_is_maximum", maximum(x, -x), abs(x), (floating(x),), REASSOCIATES),
    Law("abs_of_negative", abs(-x), abs(x), (floating(x),), EXACT),
    Law("product_of_abs", abs(x) * abs(y), abs(x * y), (floating(x),), EXACT),
    Law("quotient_of_abs", abs(x) / abs(y), abs(x / y), exactness=EXACT),
    Law("abs_of_difference", abs(-x + y), abs(x - y), (floating(x),), EXACT),
    Law("abs_of_sqrt", abs(sqrt(x)), sqrt(x), exactness=REASSOCIATES),  # the root of -0 is -0
    Law("abs_of_relu", abs(maximum(x, 0.0)), maximum(x, 0.0), exactness=REASSOCIATES),
    Law("maximum_with_abs", maximum(abs(x), x), abs(x), exactness=REASSOCIATES),
    Law("minimum_with_abs", minimum(abs(x), x), x, exactness=REASSOCIATES),
    Law("sign_of_sign", sign(sign(x)), sign(x), exactness=EXACT),
    Law("sign_of_negative", sign(-x), -sign(x), (floating(x),), REASSOCIATES),
    Law("sign_times_x", sign(x) * x, abs(x), exactness=REASSOCIATES),
    Law("x_over_abs", x / abs(x), sign(x), exactness=APPROXIMATE),
    Law("copysign_of_abs", copysign(abs(x), y), copysign(x, y), exactness=EXACT),
    Law("copysign_of_negative", copysign(-x, y), copysign(x, y), exactness=EXACT),
    Law("copysign_of_itself", copysign(x, x), x, exactness=EXACT),
    Law("abs_of_copysign", abs(copysign(x, y)), abs(x), exactness=EXACT),
    Law("sign_times_abs", sign(x) * abs(x), x, exactness=REASSOCIATES),
    Law("relu_of_sqrt", maximum(sqrt(x), 0.0), sqrt(x), exactness=REASSOCIATES),
]
