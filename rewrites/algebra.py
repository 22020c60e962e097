"""Laws of arithmetic on elements: units, signs, common factors, and constants that fold when the program is built.

In: nothing. Out: `LAWS`. Where a tensor is known at build time, what a made side does to it alone runs once, then.
"""

from __future__ import annotations

from eqfuse.rewrites.law import EXACT, REASSOCIATES, Law, apply, known, over_complex, tensors, varies

x, y, z = tensors("x y z")
a, b, w = tensors("a b w")

COMMUTATIVE = ("add", "multiply", "maximum", "minimum")

LAWS = [
    Law("add_commutes", x + y, y + x, exactness=EXACT),
    Law("multiply_commutes", x * y, y * x, exactness=EXACT),
    Law("maximum_commutes", apply("maximum", x, y), apply("maximum", y, x), exactness=REASSOCIATES),  # max(0, -0)
    Law("minimum_commutes", apply("minimum", x, y), apply("minimum", y, x), exactness=REASSOCIATES),
    # units
    Law("times_one", x * 1.0, x, exactness=EXACT),
    Law("over_one", x / 1.0, x, exactness=EXACT),
    Law("minus_zero", x - 0.0, x, exactness=EXACT),
    Law("plus_zero", x + 0.0, x, exactness=REASSOCIATES),  # -0 + 0 is +0
    Law("plus_minus_zero", x + -0.0, x, exactness=EXACT),
    Law("zero_minus", 0.0 - x, -x, exactness=REASSOCIATES),  # 0 - 0 is +0
    # signs
    Law("negative_of_negative", apply("negative", -x), x, exactness=EXACT),
    Law("plus_negative", x + -y, x - y, exactness=EXACT),
    Law("minus_negative", x - -y, x + y, exactness=EXACT),
    Law("times_minus_one", x * -1.0, -x, exactness=EXACT),
    Law("negative_out_of_product", -x * y, -(x * y), exactness=EXACT),
    Law("negative_out_of_quotient", -x / y, -(x / y), exactness=EXACT),
    Law("negatives_in_product", -x * -y, x * y, exactness=EXACT),
    Law("negative_of_difference", -(x - y), y - x, exactness=REASSOCIATES),  # 1 - 1 is +0 both ways
    # doubling, squares
    Law("double", x + x, x * 2.0, exactness=EXACT, both=True),
    Law("square_is_product", apply("square", x), x * x, exactness=EXACT, both=True),
    Law("power_one", x**1.0, x, exactness=EXACT),
    Law("power_two", x**2.0, x * x, exactness=REASSOCIATES),
    Law("power_three", x**3.0, x * x * x, exactness=REASSOCIATES),
    Law("power_four", x**4.0, apply("square", x * x), exactness=REASSOCIATES),
    Law("power_minus_one", x**-1.0, 1.0 / x, exactness=REASSOCIATES),
    Law("reciprocal_is_quotient", apply("reciprocal", x), 1.0 / x, exactness=EXACT),
    Law("times_reciprocal", x * (1.0 / y), x / y, exactness=REASSOCIATES),
    # common factors: fewer operations, never more
    # (a constant has many factors: pulling them out of constants would never end)
    Law("factor_of_sum", x * y + x * z, x * (y + z), (varies(x),), REASSOCIATES),
    Law("known_factor_of_sum", x * y + x * z, x * (y + z), (varies(y, z),), REASSOCIATES),
    Law("factor_of_difference", x * y - x * z, x * (y - z), (varies(x),), REASSOCIATES),
    Law("known_factor_of_difference", x * y - x * z, x * (y - z), (varies(y, z),), REASSOCIATES),
    Law("divisor_of_sum", x / z + y / z, (x + y) / z, (varies(x, y),), REASSOCIATES),
    Law("divisor_of_difference", x / z - y / z, (x - y) / z, (varies(x, y),), REASSOCIATES),
    Law("x_plus_multiple", x + x * y, x * (y + 1.0), (varies(x),), REASSOCIATES),
    Law("quotient_of_quotient", x / y / z, x / (y * z), exactness=REASSOCIATES),
    # a(1 - w) + b w = a + (b - a) w
    Law("lerp", a * (1.0 - w) + b * w, a + (b - a) * w, exactness=REASSOCIATES, both=True),
    # constants meet
    Law("known_factors_meet", x * a * b, x * (a * b), (known(a, b),), REASSOCIATES),
    Law("known_terms_meet", x + a + b, x + (a + b), (known(a, b),), REASSOCIATES),
    Law("known_factor_meets_divisor", x * a / b, x * (a / b), (known(a, b),), REASSOCIATES),
    Law("divide_by_known", x / a, x * (1.0 / a), (known(a),), REASSOCIATES),
    Law("subtract_known", x - a, x + -a, (known(a),), EXACT),
    Law("subtract_from_known", a - x, a + -x, (known(a),), EXACT),
]

# complex numbers have no order, and a product of them rounds in each of its parts
LAWS = over_complex(
    LAWS, REASSOCIATES, add_commutes=EXACT, minus_zero=EXACT, negative_of_negative=EXACT, plus_negative=EXACT,
    minus_negative=EXACT, subtract_known=EXACT, subtract_from_known=EXACT, maximum_commutes=None, minimum_commutes=None,
)  # fmt: skip

x, y, z, s = tensors("x y z s")

DISTRIBUTION = [
    # expanding: only by name
    Law("distribute_product", x * (y + z), x * y + x * z, exactness=REASSOCIATES),
    Law("distribute_left", x @ (y + z), x @ y + x @ z, exactness=REASSOCIATES),
    Law("distribute_right", (y + z) @ x, y @ x + z @ x, exactness=REASSOCIATES),
    Law("associate_sum", x + (y + z), (x + y) + z, exactness=REASSOCIATES, both=True),
    Law("associate_product", x * (y * z), (x * y) * z, exactness=REASSOCIATES, both=True),
]

DISTRIBUTION = over_complex(DISTRIBUTION, REASSOCIATES)
