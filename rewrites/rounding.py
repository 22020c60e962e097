"""Laws of rounding to whole numbers, of division with remainder, and of what they leave alone.

In: nothing. Out: `LAWS`.
"""

from __future__ import annotations

from eqfuse.dtypes import kind
from eqfuse.rewrites.casts import ROUNDINGS
from eqfuse.rewrites.language.law import APPROXIMATE, EXACT, REASSOCIATES, Law, apply, attrs, floating, guard, tensors
from eqfuse.rewrites.language.words import ceil, floor, function, trunc

x, y = tensors("x y")
(d,) = attrs("d")

floor_divide, remainder = map(function, ("floor_divide", "remainder"))

whole = guard("x whole", lambda t: kind(t.dtype) in "biu", x)

LAWS = [
    *(Law(f"{f}_of_{g}", apply(f, apply(g, x)), apply(g, x), exactness=EXACT) for f in ROUNDINGS for g in ROUNDINGS),
    *(Law(f"{f}_of_whole", apply(f, x.cast(d)), x.cast(d), (whole,), EXACT) for f in ROUNDINGS),
    *(Law(f"{f}_of_negative", apply(f, -x), -apply(f, x), exactness=EXACT) for f in ("trunc", "round")),
    Law("floor_of_negative", floor(-x), -ceil(x), exactness=EXACT),
    Law("ceil_of_negative", ceil(-x), -floor(x), exactness=EXACT),
    Law("whole_of_trunc", trunc(x).cast(d), x.cast(d),
        (guard("d whole", lambda d: kind(d) in "iu", d),), EXACT),
    Law("quotient_and_remainder", floor_divide(x, y) * y + remainder(x, y), x, (floating(x),), APPROXIMATE),
    Law("remainder_by_floor", x - floor_divide(x, y) * y, remainder(x, y), (floating(x),), APPROXIMATE),
    Law("remainder_twice", remainder(remainder(x, y), y), remainder(x, y), exactness=REASSOCIATES),
]  # fmt: skip
