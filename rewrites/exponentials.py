"""Laws of exp, log, powers and roots.

In: nothing. Out: `LAWS`. Most are APPROXIMATE: they leave out an overflow.
"""

from __future__ import annotations

from eqfuse.rewrites.language.domains import domain
from eqfuse.rewrites.language.law import APPROXIMATE, EXACT, REASSOCIATES, Law, over_complex, tensors
from eqfuse.rewrites.language.words import (
    cbrt,
    exp,
    expm1,
    function,
    hypot,
    log,
    log1p,
    logaddexp,
    maximum,
    power,
    sqrt,
)

x, y, z, a = tensors("x y z a")

BASES = (("exp", "log"), ("exp2", "log2"))
LOGARITHMS = ("log", "log2", "log10")


def _laws_of_base(e: str, log: str) -> list[Law]:
    """What makes powers of one base one power."""
    raised, logarithm = function(e), function(log)
    return [
        Law(f"product_of_{e}", raised(x) * raised(y), raised(x + y), exactness=APPROXIMATE),
        Law(f"quotient_of_{e}", raised(x) / raised(y), raised(x - y), exactness=APPROXIMATE),
        Law(f"reciprocal_of_{e}", 1.0 / raised(x), raised(-x), exactness=APPROXIMATE),
        Law(f"power_of_{e}", raised(x) ** a, raised(x * a), exactness=APPROXIMATE),
        Law(f"sqrt_of_{e}", sqrt(raised(x)), raised(x * 0.5), exactness=APPROXIMATE),
        Law(f"{log}_of_{e}", logarithm(raised(x)), x, exactness=APPROXIMATE),
        Law(f"{e}_of_{log}", raised(logarithm(x)), x, domain(log, x), REASSOCIATES),
        Law(f"{e}_of_scaled_{log}", raised(logarithm(x) * y), x**y, exactness=APPROXIMATE),
    ]


def _laws_of_logarithm(f: str) -> list[Law]:
    g = function(f)
    return [
        Law(f"{f}_of_quotient", g(x / y), g(x) - g(y), domain(f, x), APPROXIMATE),  # which cancels near 1
        Law(f"{f}_of_quotient_by_positive", g(x / y), g(x) - g(y), domain(f, y), APPROXIMATE),
        Law(f"sum_of_{f}", g(x) + g(y), g(x * y), domain(f, x), APPROXIMATE),  # the product may overflow
        Law(f"{f}_of_power", g(x**a), a * g(x), exactness=APPROXIMATE),
        Law(f"{f}_of_reciprocal", g(1.0 / x), -g(x), exactness=REASSOCIATES),
        Law(f"{f}_of_sqrt", g(sqrt(x)), g(x) * 0.5, exactness=REASSOCIATES),
    ]


LAWS = [
    *(law for e, log_e in BASES for law in _laws_of_base(e, log_e)),
    *(law for f in LOGARITHMS for law in _laws_of_logarithm(f)),
    # near zero and one
    Law("log1p", log(x + 1.0), log1p(x), exactness=APPROXIMATE),
    Law("expm1", exp(x) - 1.0, expm1(x), exactness=APPROXIMATE),
    Law("expm1_of_log1p", expm1(log1p(x)), x, domain("log1p", x), REASSOCIATES),
    Law("expm1_plus_one", expm1(x) + 1.0, exp(x), exactness=APPROXIMATE),
    # log(e^x + e^y)
    Law("logaddexp_commutes", logaddexp(x, y), logaddexp(y, x), exactness=EXACT),
    Law("logaddexp", log(exp(x) + exp(y)), logaddexp(x, y), exactness=APPROXIMATE),
    Law("logaddexp_by_maximum", maximum(x, y) + log1p(exp(-abs(x - y))), logaddexp(x, y), exactness=REASSOCIATES),
    Law("logaddexp_of_shifted", logaddexp(x + z, y + z), logaddexp(x, y) + z, exactness=APPROXIMATE),
    Law("exp_of_logaddexp", exp(logaddexp(x, y)), exp(x) + exp(y), exactness=APPROXIMATE),
    # roots
    Law("square_of_sqrt", sqrt(x) * sqrt(x), x, domain("sqrt", x), REASSOCIATES),
    Law("sqrt_of_square", sqrt(x * x), abs(x), exactness=APPROXIMATE),
    # the norms of two vectors are numbers of usual size where the product of their squares is none
    # (where the other is negative, both sides are NaN)
    Law("product_of_sqrt", sqrt(x) * sqrt(y), sqrt(x * y), domain("sqrt", x), APPROXIMATE),
    Law("quotient_of_sqrt", sqrt(x) / sqrt(y), sqrt(x / y), domain("sqrt", x), APPROXIMATE),
    Law("x_over_sqrt", x / sqrt(x), sqrt(x), exactness=APPROXIMATE),
    Law("sqrt_over_x", sqrt(x) / x, 1.0 / sqrt(x), exactness=APPROXIMATE),
    Law("sqrt_of_reciprocal", sqrt(1.0 / x), 1.0 / sqrt(x), exactness=APPROXIMATE),
    Law("power_half", power(x, 0.5), sqrt(x), exactness=REASSOCIATES),
    Law("power_minus_half", x**-0.5, 1.0 / sqrt(x), exactness=APPROXIMATE),
    Law("power_one_and_a_half", x**1.5, x * sqrt(x), exactness=REASSOCIATES),
    Law("cbrt_of_cube", cbrt(x * x * x), x, exactness=APPROXIMATE),
    Law("cube_of_cbrt", cbrt(x) * cbrt(x) * cbrt(x), x, exactness=REASSOCIATES),
    Law("product_of_cbrt", cbrt(x) * cbrt(y), cbrt(x * y), exactness=APPROXIMATE),
    Law("cbrt_of_negative", cbrt(-x), -cbrt(x), exactness=REASSOCIATES),
    Law("hypot", sqrt(x * x + y * y), hypot(x, y), exactness=APPROXIMATE),
    Law("hypot_of_negative", hypot(-x, y), hypot(x, y), exactness=EXACT),
    Law("hypot_of_abs", hypot(abs(x), y), hypot(x, y), exactness=EXACT),
    Law("hypot_commutes", hypot(x, y), hypot(y, x), exactness=EXACT),
]

# a complex log or root gives the principal one of many values
LAWS = over_complex(
    LAWS, None, product_of_exp=APPROXIMATE, quotient_of_exp=APPROXIMATE, reciprocal_of_exp=APPROXIMATE,
    log1p=APPROXIMATE, expm1=APPROXIMATE, expm1_plus_one=APPROXIMATE,
    power_half=APPROXIMATE, product_of_exp2=APPROXIMATE, quotient_of_exp2=APPROXIMATE,
    log_of_sqrt=APPROXIMATE,
)  # fmt: skip
