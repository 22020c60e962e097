"""Laws of arithmetic on elements: units, signs, common factors, and constants that fold when the program is built.

In: nothing. Out: `LAWS`. Where a tensor is known at build time, what a right side does to it alone runs once, then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqfuse.ops import row
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.language.constants import alike, exact_product, exact_quotient, exact_reciprocal
from eqfuse.rewrites.language.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Law,
    Term,
    apply,
    computed,
    floating,
    is_constant,
    over_complex,
    over_float16,
    positive,
    tensors,
    varies,
)
from eqfuse.rewrites.language.views import shape
from eqfuse.rewrites.language.words import power

x, y, z = tensors("x y z")
a, b, w = tensors("a b w")

COMMUTATIVE_FUNCTIONS = ("maximum", "minimum", "fmax", "fmin", "gcd", "lcm", "agm", "betaln")  # of reals


def _commutes(op: str) -> Law:
    exactness = REASSOCIATES if row(op).either_zero else EXACT  # of 0 and -0 the result may be either
    return Law(f"{op}_commutes", apply(op, x, y), apply(op, y, x), exactness=exactness)


def one_literal(like: TensorType) -> Literal:
    return Literal(np.ones((), like.dtype))


def filled_with(value: Callable[[TensorType], Literal], x: Term) -> Term:
    """A tensor of `x`'s type whose elements are all one scalar."""
    return apply("const", attrs=(computed(value, x),)).broadcast_to(computed(shape, x))


LAWS = [
    Law("add_commutes", x + y, y + x, exactness=EXACT),
    Law("multiply_commutes", x * y, y * x, exactness=EXACT),
    *(_commutes(op) for op in COMMUTATIVE_FUNCTIONS),
    # units
    Law("times_one", x * 1.0, x, exactness=EXACT),
    Law("over_one", x / 1.0, x, exactness=EXACT),
    Law("minus_zero", x - 0.0, x, exactness=EXACT),
    Law("plus_zero", x + 0.0, x, exactness=REASSOCIATES),  # -0 + 0 is +0
    Law("plus_minus_zero", x + -0.0, x, exactness=EXACT),
    # signs
    Law("negative_of_negative", apply("negative", -x), x, exactness=EXACT),
    Law("plus_negative", x + -y, x - y, exactness=EXACT),
    Law("minus_negative", x - -y, x + y, exactness=EXACT),
    Law("times_minus_one", x * -1.0, -x, exactness=EXACT),
    Law("negative_out_of_product", -x * y, -(x * y), exactness=EXACT),
    Law("negative_out_of_quotient", -x / y, -(x / y), exactness=EXACT),
    Law("negative_out_of_divisor", x / -y, -(x / y), exactness=EXACT),
    Law("negative_minus", -x - y, -(x + y), exactness=REASSOCIATES),
    Law("negatives_in_product", -x * -y, x * y, exactness=EXACT),
    Law("negative_of_difference", -(x - y), y - x, exactness=REASSOCIATES),  # 1 - 1 is +0 both ways
    Law("negative_into_known_factor", -(x * a), x * -a, (is_constant(a),), EXACT),
    # doubling, squares
    Law("double", x + x, x * 2.0, exactness=EXACT, both=True),
    Law("square_is_product", apply("square", x), x * x, exactness=EXACT, both=True),
    Law("power_one", x**1.0, x, exactness=EXACT),
    Law("power_zero", x**0.0, filled_with(one_literal, x), exactness=EXACT),  # of a NaN too
    Law("power_two", power(x, 2.0), x * x, exactness=REASSOCIATES),
    Law("power_three", x**3.0, x * x * x, exactness=REASSOCIATES),
    Law("power_four", x**4.0, apply("square", x * x), exactness=REASSOCIATES),
    Law("power_minus_one", power(x, -1.0), 1.0 / x, exactness=REASSOCIATES),
    Law("reciprocal_is_quotient", apply("reciprocal", x), 1.0 / x, exactness=EXACT),
    Law("power_minus_two", x**-2.0, 1.0 / (x * x), exactness=REASSOCIATES),
    Law("product_of_powers", x**a * x**b, x ** (a + b), (is_constant(a, b), positive(x), floating(x)), APPROXIMATE),
    Law("quotient_of_powers", x**a / x**b, x ** (a - b), (is_constant(a, b), positive(x)), APPROXIMATE),
    Law("power_times_base", x**a * x, x ** (a + 1.0), (is_constant(a), positive(x), floating(x)), APPROXIMATE),
    Law("reciprocal_of_quotient", 1.0 / (x / y), y / x, exactness=REASSOCIATES),
    Law("over_quotient", x / (y / z), x * z / y, (varies(z),), REASSOCIATES),
    Law("times_reciprocal", x * (1.0 / y), x / y, exactness=REASSOCIATES),
    # common factors: fewer operations, never more
    # (a constant has many factors: pulling them out of constants would never end; and where a program takes x from a
    # multiple of x, it may be splitting x into two halves, as Dekker and Veltkamp do)
    Law("factor_of_sum", x * y + x * z, x * (y + z), (varies(x, y),), REASSOCIATES),
    Law("known_factor_of_sum", x * y + x * z, x * (y + z), (varies(y, z),), REASSOCIATES),
    Law("factor_of_difference", x * y - x * z, x * (y - z), (varies(x, y),), REASSOCIATES),
    Law("factor_of_difference_from_known", x * y - x * z, x * (y - z), (varies(x, z),), REASSOCIATES),
    Law("known_factor_of_difference", x * y - x * z, x * (y - z), (varies(y, z),), REASSOCIATES),
    Law("divisor_of_sum", x / z + y / z, (x + y) / z, (varies(x, y),), REASSOCIATES),
    Law("divisor_of_difference", x / z - y / z, (x - y) / z, (varies(x, y),), REASSOCIATES),
    Law("x_plus_multiple", x + x * y, x * (y + 1.0), (varies(x, y),), REASSOCIATES),
    Law("x_minus_multiple", x - x * y, x * (1.0 - y), (varies(x, y),), APPROXIMATE),
    Law("multiple_minus_x", x * y - x, x * (y - 1.0), (varies(x, y),), APPROXIMATE),
    Law("quotient_of_quotient", x / y / z, x / (y * z), exactness=APPROXIMATE),  # y z may underflow: 0/y/y
    # a(1 - w) + b w = a + (b - a) w, which cancels where b is small beside a
    Law("lerp", a * (1.0 - w) + b * w, a + (b - a) * w, exactness=APPROXIMATE, both=True),
    # what cancels
    Law("sum_minus_term", x + y - y, x, exactness=APPROXIMATE),
    Law("difference_plus_term", x - y + y, x, exactness=APPROXIMATE),
    Law("minus_difference", x - (x - y), y, exactness=APPROXIMATE),
    Law("cancel_factor", x * y / y, x, exactness=APPROXIMATE),
    Law("cancel_divisor", x / y * y, x, exactness=APPROXIMATE),
    Law("common_factor_of_quotient", x * y / (z * y), x / z, (varies(y),), APPROXIMATE),
    # constants meet
    Law("known_factors_meet", x * a * b, x * (a * b), (is_constant(a, b), exact_product(a, b)), REASSOCIATES),
    Law("known_divisors_meet", x / a / b, x / (a * b), (is_constant(a, b), exact_product(a, b)), REASSOCIATES),
    Law("known_terms_meet", x + a + b, x + (a + b), (is_constant(a, b), alike(a, b)), REASSOCIATES),
    Law("known_dividends_meet", a / x * b, a * b / x, (is_constant(a, b), exact_product(a, b)), REASSOCIATES),
    Law("known_divisor_meets_dividend", a / (x * b), a / b / x,
        (is_constant(a, b), exact_quotient(a, b)), REASSOCIATES),
    Law("known_factor_meets_divisor", x * a / b, x * (a / b), (is_constant(a, b), exact_quotient(a, b)), REASSOCIATES),
    Law("divide_by_known", x / a, x * (1.0 / a), (is_constant(a), exact_reciprocal(a)), EXACT),
    Law("rounded_factors_meet", x * a * b, x * (a * b), (is_constant(a, b),), APPROXIMATE),
    Law("rounded_dividends_meet", a / x * b, a * b / x, (is_constant(a, b),), APPROXIMATE),
    Law("rounded_factor_meets_divisor", x * a / b, x * (a / b), (is_constant(a, b),), APPROXIMATE),
    Law("times_rounded_reciprocal", x / a, x * (1.0 / a), (is_constant(a),), APPROXIMATE),
    Law("subtract_known", x - a, x + -a, (is_constant(a),), EXACT),
    Law("subtract_from_known", a - x, a + -x, (is_constant(a),), EXACT),
]

# in float16 a product or a sum of two numbers soon overflows
LAWS = over_float16(
    LAWS, "power_minus_two", "over_quotient", "factor_of_sum", "known_factor_of_sum", "factor_of_difference",
    "factor_of_difference_from_known", "known_factor_of_difference", "divisor_of_sum", "divisor_of_difference",
)  # fmt: skip

# complex numbers have no order, and a product of them rounds in each of its parts
LAWS = over_complex(
    LAWS, REASSOCIATES, add_commutes=EXACT, minus_zero=EXACT, negative_of_negative=EXACT, plus_negative=EXACT,
    minus_negative=EXACT, subtract_known=EXACT, subtract_from_known=EXACT,
    power_zero=EXACT, product_of_powers=None, quotient_of_powers=None, power_times_base=None,
    reciprocal_of_quotient=APPROXIMATE, over_quotient=APPROXIMATE,
    sum_minus_term=APPROXIMATE, difference_plus_term=APPROXIMATE, minus_difference=APPROXIMATE,
    cancel_factor=APPROXIMATE, cancel_divisor=APPROXIMATE, common_factor_of_quotient=APPROXIMATE,
    quotient_of_quotient=APPROXIMATE, lerp=APPROXIMATE, known_terms_meet=None,
    **{f"{op}_commutes": None for op in COMMUTATIVE_FUNCTIONS},
)  # fmt: skip

DISTRIBUTION = [
    # expanding: only by name
    Law("distribute_over_difference", x * (y - z), x * y - x * z, exactness=APPROXIMATE),
    Law("distribute_divisor", (x + y) / z, x / z + y / z, exactness=APPROXIMATE),
    Law("distribute_divisor_of_difference", (x - y) / z, x / z - y / z, exactness=APPROXIMATE),
    Law("minus_sum", x - (y + z), x - y - z, exactness=APPROXIMATE, both=True),
    Law("minus_minus", x - (y - z), x - y + z, exactness=APPROXIMATE, both=True),
    Law("product_over", x * y / z, x * (y / z), exactness=REASSOCIATES, both=True),
    Law("difference_of_squares", x * x - y * y, (x - y) * (x + y), exactness=APPROXIMATE, both=True),
    Law("distribute_product", x * (y + z), x * y + x * z, exactness=APPROXIMATE),
    Law("distribute_left", x @ (y + z), x @ y + x @ z, exactness=APPROXIMATE),
    Law("distribute_right", (y + z) @ x, y @ x + z @ x, exactness=APPROXIMATE),
    Law("associate_sum", x + (y + z), (x + y) + z, exactness=APPROXIMATE, both=True),
    Law("associate_product", x * (y * z), (x * y) * z, exactness=REASSOCIATES, both=True),
]

DISTRIBUTION = over_float16(DISTRIBUTION, "product_over", "associate_product")
DISTRIBUTION = over_complex(DISTRIBUTION, APPROXIMATE, product_over=REASSOCIATES, associate_product=REASSOCIATES)
