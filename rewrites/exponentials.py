"""Laws of exp, log, roots and their relatives.

In: nothing. Out: `LAWS`. Most are APPROXIMATE: they leave out an overflow, or a NaN outside a function's domain.
"""

from __future__ import annotations

from eqfuse.rewrites.law import APPROXIMATE, REASSOCIATES, Law, apply, over_complex, tensors
from eqfuse.rewrites.words import exp, expm1, log, log1p, sqrt

x, y = tensors("x y")

ODD = ("erf", "tanh", "sin", "tan", "asin", "atan", "sinh", "asinh", "atanh", "cbrt")
EVEN = ("cos", "cosh")

LAWS = [
    Law("product_of_exp", exp(x) * exp(y), exp(x + y), exactness=APPROXIMATE),
    Law("quotient_of_exp", exp(x) / exp(y), exp(x - y), exactness=APPROXIMATE),
    Law("reciprocal_of_exp", 1.0 / exp(x), exp(-x), exactness=APPROXIMATE),
    Law("log_of_exp", log(exp(x)), x, exactness=APPROXIMATE),
    Law("exp_of_log", exp(log(x)), x, exactness=APPROXIMATE),
    Law("log_of_quotient", log(x / y), log(x) - log(y), exactness=APPROXIMATE),
    Law("sum_of_log", log(x) + log(y), log(x * y), exactness=APPROXIMATE),
    Law("log1p", log(x + 1.0), log1p(x), exactness=APPROXIMATE),
    Law("expm1", exp(x) - 1.0, expm1(x), exactness=APPROXIMATE),
    Law("square_of_sqrt", sqrt(x) * sqrt(x), x, exactness=APPROXIMATE),
    Law("sqrt_of_square", sqrt(x * x), abs(x), exactness=APPROXIMATE),
    Law("product_of_sqrt", sqrt(x) * sqrt(y), sqrt(x * y), exactness=APPROXIMATE),
    Law("power_half", x**0.5, sqrt(x), exactness=APPROXIMATE),
    # f(-x) == -f(x) for odd functions, f(-x) == f(x) for even ones; one evaluation then serves both signs
    *(Law(f"{f}_of_negative", apply(f, -x), -apply(f, x), exactness=REASSOCIATES) for f in ODD),
    *(Law(f"{f}_of_negative", apply(f, -x), apply(f, x), exactness=REASSOCIATES) for f in EVEN),
]

# a complex log or root gives the principal one of many values
LAWS = over_complex(
    LAWS, APPROXIMATE, log_of_exp=None, log_of_quotient=None, sum_of_log=None, product_of_sqrt=None,
    sqrt_of_square=None, cbrt_of_negative=None,
)  # fmt: skip
