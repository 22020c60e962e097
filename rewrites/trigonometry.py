"""Laws of sine, cosine and tangent, of their hyperbolic relatives, and of their inverses.

In: nothing. Out: `LAWS`. An infinite angle has no sine, so that `sin² + cos² = 1` loses a NaN.
"""

from __future__ import annotations

from eqfuse.ops import TABLE
from eqfuse.rewrites.algebra import filled_with, one_literal
from eqfuse.rewrites.language.domains import domain, has_upper_end
from eqfuse.rewrites.language.law import APPROXIMATE, REASSOCIATES, Law, apply, over_complex, over_float16, tensors
from eqfuse.rewrites.language.words import cos, cosh, exp, sin, sinh, sqrt, tan, tanh

x, y = tensors("x y")

ODD = [name for name, op in TABLE.items() if op.odd]
EVEN = [name for name, op in TABLE.items() if op.even]
INVERSES = (
    ("sin", "asin"), ("cos", "acos"), ("tan", "atan"), ("sinh", "asinh"), ("asinh", "sinh"), ("cosh", "acosh"),
    ("tanh", "atanh"),
)  # fmt: skip

one = filled_with(one_literal, x)
growing, falling = exp(x), exp(-x)

LAWS = [
    # f(-x) == -f(x) for odd functions, f(-x) == f(x) for even one_literal; one evaluation then serves both signs
    *(Law(f"{f}_of_negative", apply(f, -x), -apply(f, x), exactness=REASSOCIATES) for f in ODD),
    *(Law(f"{f}_of_negative", apply(f, -x), apply(f, x), exactness=REASSOCIATES) for f in EVEN),
    *(Law(f"{f}_of_abs", apply(f, abs(x)), apply(f, x), exactness=REASSOCIATES) for f in EVEN),
    *(Law(f"{f}_undoes_{g}", apply(f, apply(g, x)), x, domain(g, x),
          REASSOCIATES if has_upper_end(g) and f != "cos" else APPROXIMATE) for f, g in INVERSES),
    # quotients
    Law("sin_over_cos", sin(x) / cos(x), tan(x), exactness=REASSOCIATES),
    Law("tan_times_cos", tan(x) * cos(x), sin(x), exactness=REASSOCIATES),
    Law("sinh_over_cosh", sinh(x) / cosh(x), tanh(x), exactness=APPROXIMATE),
    Law("tanh_times_cosh", tanh(x) * cosh(x), sinh(x), exactness=REASSOCIATES),
    # squares
    Law("sin_squared_plus_cos_squared", sin(x) * sin(x) + cos(x) * cos(x), one, exactness=APPROXIMATE),
    Law("one_minus_sin_squared", 1.0 - sin(x) * sin(x), cos(x) * cos(x), exactness=APPROXIMATE),
    Law("one_minus_cos_squared", 1.0 - cos(x) * cos(x), sin(x) * sin(x), exactness=APPROXIMATE),
    Law("cosh_squared_minus_sinh_squared", cosh(x) * cosh(x) - sinh(x) * sinh(x), one, exactness=APPROXIMATE),
    Law("one_minus_tanh_squared", 1.0 - tanh(x) * tanh(x), 1.0 / (cosh(x) * cosh(x)), exactness=APPROXIMATE),
    # double angles and sums of angles
    Law("sin_times_cos", sin(x) * cos(x), sin(x + x) * 0.5, exactness=REASSOCIATES),
    Law("cos_squared_minus_sin_squared", cos(x) * cos(x) - sin(x) * sin(x), cos(x + x), exactness=REASSOCIATES),
    Law("sin_of_sum", sin(x) * cos(y) + cos(x) * sin(y), sin(x + y), exactness=APPROXIMATE),
    Law("sin_of_difference", sin(x) * cos(y) - cos(x) * sin(y), sin(x - y), exactness=APPROXIMATE),
    Law("cos_of_sum", cos(x) * cos(y) - sin(x) * sin(y), cos(x + y), exactness=APPROXIMATE),
    Law("cos_of_difference", cos(x) * cos(y) + sin(x) * sin(y), cos(x - y), exactness=APPROXIMATE),
    Law("sinh_times_cosh", sinh(x) * cosh(x), sinh(x + x) * 0.5, exactness=APPROXIMATE),
    # by exponentials
    Law("sinh_by_exp", (growing - falling) * 0.5, sinh(x), exactness=APPROXIMATE),
    Law("cosh_by_exp", (growing + falling) * 0.5, cosh(x), exactness=APPROXIMATE),
    Law("cosh_plus_sinh", cosh(x) + sinh(x), exp(x), exactness=APPROXIMATE),
    Law("cosh_minus_sinh", cosh(x) - sinh(x), exp(-x), exactness=APPROXIMATE),
    Law("tanh_by_exp", (growing - falling) / (growing + falling), tanh(x), exactness=APPROXIMATE),
    Law("tanh_by_exp_of_double", (exp(x + x) - 1.0) / (exp(x + x) + 1.0), tanh(x), exactness=APPROXIMATE),
    Law("tanh_by_expm1", apply("expm1", x + x) / (apply("expm1", x + x) + 2.0), tanh(x), exactness=APPROXIMATE),
    # an inverse within another function
    Law("cos_of_asin", cos(apply("asin", x)), sqrt(1.0 - x * x), exactness=APPROXIMATE),
    Law("sin_of_acos", sin(apply("acos", x)), sqrt(1.0 - x * x), exactness=APPROXIMATE),
]

LAWS = over_float16(LAWS, "sin_times_cos", "cos_squared_minus_sin_squared")  # twice an angle may overflow

# inverses of complex functions give the principal one of many values
LAWS = over_complex(
    LAWS, APPROXIMATE, cos_of_abs=None, cosh_of_abs=None, asinh_undoes_sinh=None, cos_of_asin=None,
    sin_of_acos=None,
)  # fmt: skip
