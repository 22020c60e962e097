"""Laws of minimum, maximum, absolute value and choice. (Clamps that a range makes idle are in `ranges`.)

In: nothing. Out: `LAWS`. A NaN passes through minimum and maximum, which rules out most absorption laws.
"""

from __future__ import annotations

from eqfuse.rewrites.law import APPROXIMATE, EXACT, REASSOCIATES, Law, floating, known, over_complex, tensors
from eqfuse.rewrites.words import equal, logical_and, logical_not, maximum, minimum, not_equal, sign, where

x, y, z, a, b, c = tensors("x y z a b c")

LAWS = [
    Law("maximum_of_itself", maximum(x, x), x, exactness=EXACT),
    Law("minimum_of_itself", minimum(x, x), x, exactness=EXACT),
    Law("maximum_twice", maximum(maximum(x, y), y), maximum(x, y), exactness=REASSOCIATES),
    Law("minimum_twice", minimum(minimum(x, y), y), minimum(x, y), exactness=REASSOCIATES),
    Law("known_maxima_meet", maximum(maximum(x, a), b), maximum(x, maximum(a, b)), (known(a, b),), REASSOCIATES),
    Law("known_minima_meet", minimum(minimum(x, a), b), minimum(x, minimum(a, b)), (known(a, b),), REASSOCIATES),
    Law("absorb_minimum", maximum(x, minimum(x, y)), x, exactness=APPROXIMATE),
    Law("absorb_maximum", minimum(x, maximum(x, y)), x, exactness=APPROXIMATE),
    Law("maximum_of_negatives", maximum(-x, -y), -minimum(x, y), (floating(x),), REASSOCIATES),
    Law("minimum_of_negatives", minimum(-x, -y), -maximum(x, y), (floating(x),), REASSOCIATES),
    Law("maximum_of_shifted", maximum(x + z, y + z), maximum(x, y) + z, (floating(x),), REASSOCIATES),
    Law("minimum_of_shifted", minimum(x + z, y + z), minimum(x, y) + z, (floating(x),), REASSOCIATES),
    Law("abs_is_maximum", maximum(x, -x), abs(x), (floating(x),), REASSOCIATES),
    Law("abs_of_negative", abs(-x), abs(x), (floating(x),), EXACT),
    Law("product_of_abs", abs(x) * abs(y), abs(x * y), (floating(x),), EXACT),
    Law("sign_times_abs", sign(x) * abs(x), x, exactness=REASSOCIATES),
    # choices
    Law("where_same", where(c, x, x), x, exactness=EXACT),
    Law("where_not", where(logical_not(c), x, y), where(c, y, x), exactness=EXACT),
    Law("where_of_sums", where(c, x + z, y + z), where(c, x, y) + z, exactness=EXACT),
    Law("where_of_products", where(c, x * z, y * z), where(c, x, y) * z, exactness=EXACT),
    Law("where_greater", where(x > y, x, y), maximum(x, y), exactness=APPROXIMATE),
    Law("where_less", where(x < y, x, y), minimum(x, y), exactness=APPROXIMATE),
    Law("not_of_not", logical_not(logical_not(logical_and(x, y))), logical_and(x, y), exactness=EXACT),
    Law("not_of_equal", logical_not(equal(x, y)), not_equal(x, y), exactness=EXACT),
]

# complex numbers have no order that arithmetic respects
LAWS = over_complex(
    LAWS, None, where_same=EXACT, where_not=EXACT, where_of_sums=EXACT, where_of_products=EXACT, not_of_equal=EXACT,
)  # fmt: skip
