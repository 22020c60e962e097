"""Tempting laws that are false. Each stays here with the reason, and the tests find its counterexample again.

In: nothing. Out: `REFUTED`, pairs of a law and why it fails. None of them can be selected.
"""

from __future__ import annotations

from eqfuse.rewrites.language.law import APPROXIMATE, EXACT, REASSOCIATES, Law, Term, apply, attrs, is_constant, tensors
from eqfuse.rewrites.language.words import (
    cos,
    exp,
    floor,
    log,
    logical_not,
    maximum,
    minimum,
    sign,
    sin,
    sqrt,
    square,
    tanh,
    where,
)

x, y, z, w, r, c = tensors("x y z w r c")
p, strides, padding, dilations, groups, window = attrs("p strides padding dilations groups window")


def argmax(a: Term) -> Term:
    return apply("argmax", a, attrs=(p,))


def prod(a: Term) -> Term:
    return apply("prod", a, attrs=(p,))


CONV = (strides, padding, dilations, groups)
WINDOW = (window, strides, padding)


REFUTED: list[tuple[Law, str]] = [
    (Law("plus_zero_exact", x + 0.0, x, exactness=EXACT), "-0 + 0 is +0"),
    (Law("zero_minus_exact", 0.0 - x, -x, exactness=EXACT), "0 - 0 is +0, -0 is not"),
    (Law("negative_of_difference_exact", -(x - y), y - x, exactness=EXACT), "x = y gives zeros of different sign"),
    (Law("power_of_power_unguarded", (x**y) ** z, x ** (y * z), exactness=APPROXIMATE), "x = -1, y = 2, z = 1.5"),
    (Law("factor_exact", x * y + x * z, x * (y + z), exactness=EXACT), "inf * 1 + inf * -0.5 is NaN"),
    (Law("absorb_exact", maximum(x, minimum(x, y)), x, exactness=EXACT), "y = NaN stays NaN on the left"),
    (Law("max_by_where_exact", where(x > y, x, y), maximum(x, y), exactness=EXACT), "NaN > y is false: y"),
    (Law("not_less_of_floats", logical_not(x < y), x >= y, exactness=EXACT), "both are false for NaN"),
    (Law("scale_out_of_max", (x * w).max(p), x.max(p) * w, exactness=APPROXIMATE), "w = -1"),
    (Law("square_of_any_sqrt", sqrt(x) * sqrt(x), x, exactness=APPROXIMATE), "x = -0.25: NaN is not a number"),
    (Law("sum_of_any_log", log(x) + log(y), log(x * y), exactness=APPROXIMATE), "both are negative"),
    (Law("log_out_of_any_max", log(x).max(p), log(x.max(p)), exactness=APPROXIMATE), "one of them is negative"),
    (Law("square_out_of_max", (x * x).max(p), x.max(p) * x.max(p), exactness=APPROXIMATE), "x = [-2, 1]"),
    (Law("max_of_sum", (x + y).max(p), x.max(p) + y.max(p), exactness=APPROXIMATE), "x = [0, 1], y = [1, 0]"),
    (Law("sum_of_elementwise_product", (x * y).sum(p), x.sum(p) * y.sum(p), exactness=APPROXIMATE), "x = y = [1, 1]"),
    (Law("sum_distributes", (x + y).sum(p), x.sum(p) + y.sum(p), exactness=REASSOCIATES), "a broadcast y counts more"),
    (Law("row_scale_unguarded", (x * r) @ w, (x @ w) * r, exactness=REASSOCIATES), "r varies where it is contracted"),
    (Law("exp_of_sum", exp(x + y), exp(x) + exp(y), exactness=APPROXIMATE), "x = y = 0"),
    (Law("relu_of_sum", maximum(x + y, 0.0), maximum(x, 0.0) + maximum(y, 0.0), (), APPROXIMATE), "1 - 2"),
    (Law("relu_into_product", maximum(x, 0.0) @ w, maximum(x @ w, 0.0), exactness=APPROXIMATE), "w = -1"),
    (
        Law("scale_through_relu", maximum(x, 0.0) * c, maximum(x * c, 0.0), (is_constant(c),), APPROXIMATE),
        "c = -1, so batch norm after relu does not fold",
    ),
    (
        Law(
            "shift_into_padded_conv",
            apply("conv", x + c, w, attrs=CONV), apply("conv", x, w, attrs=CONV) + c, exactness=APPROXIMATE,
        ),
        "neither do weights sum to one, nor is the padding shifted",
    ),
    (Law("argmax_of_square", argmax(x * x), argmax(x)), "x = [-2, 1]"),
    (Law("floor_of_quotient", apply("floor_divide", x, y), floor(x / y)), "-3 // inf is -1; 1 // 0.1 is 9"),
    (Law("argmax_of_exp", argmax(exp(x)), argmax(x)), "both overflow, or round to one number"),
    (Law("argmax_of_tanh", argmax(tanh(x)), argmax(x)), "both round to 1"),
    (Law("argmax_of_log", argmax(log(x)), argmax(x)), "the first NaN wins, of whatever is negative"),
    (Law("argmax_of_shifted_by_any", argmax(x + y), argmax(x), (), APPROXIMATE),
     "x = [0, 1], y = [2, 0]"),
    (Law("any_above", apply("any", x > y, attrs=(p,)), x.max(p) > y, exactness=EXACT), "a NaN hides in the maximum"),
    (Law("or_of_lower_bounds", apply("logical_or", x > y, x > z), x > minimum(y, z), exactness=EXACT),
     "a bound that is NaN"),
    (Law("prod_of_sum", prod(x + y), prod(x) + prod(y),
         exactness=APPROXIMATE), "(1 + 1)(1 + 1) is not 2"),
    (Law("mean_of_ratio", (x / y).sum(p), x.sum(p) / y.sum(p), exactness=APPROXIMATE), "1/1 + 1/2 is not 2/3"),
    (Law("sum_of_exp", exp(x).sum(p), exp(x.sum(p)), exactness=APPROXIMATE), "e + e is not e²"),
    (Law("not_greater_equal_of_floats", logical_not(x >= y), x < y, exactness=EXACT), "NaN is neither"),
    (Law("less_of_shifted", x + z < y + z, x < y, exactness=EXACT), "infinite z: inf < inf is false"),
    (Law("relu_of_product", maximum(x * y, 0.0), maximum(x, 0.0) * maximum(y, 0.0), exactness=APPROXIMATE),
     "both are -1"),
    (Law("abs_of_sum", abs(x + y), abs(x) + abs(y), exactness=APPROXIMATE), "1 - 1"),
    (Law("sqrt_of_sum", sqrt(x + y), sqrt(x) + sqrt(y), exactness=APPROXIMATE), "1 + 1"),
    (Law("log_of_sum", log(x + y), log(x) + log(y), exactness=APPROXIMATE), "2 + 2.5"),
    (Law("power_of_sum", square(x + y), square(x) + square(y), exactness=APPROXIMATE), "1 + 1"),
    (Law("floor_of_sum", floor(x + y), floor(x) + floor(y), exactness=APPROXIMATE),
     "0.5 + 0.5"),
    (Law("round_is_floor_of_half_more", apply("round", x), floor(x + 0.5), exactness=REASSOCIATES),
     "0.5 rounds to the even 0"),
    (Law("clip_out_of_order", minimum(maximum(x, y), z), maximum(minimum(x, z), y), exactness=REASSOCIATES),
     "the lower bound lies above the upper one"),
    (Law("where_swapped", where(c, x, y), where(c, y, x), exactness=APPROXIMATE), "the branches are not equal"),
    (Law("sign_of_sum", sign(x + y), sign(x) + sign(y), exactness=APPROXIMATE), "1 + 1"),
    (Law("tanh_of_sum", tanh(x + y), tanh(x) + tanh(y), exactness=APPROXIMATE), "1 + 1"),
    (Law("sin_of_double", sin(x + x), sin(x) * 2.0, exactness=APPROXIMATE), "x = 1"),
    (Law("cos_odd", cos(-x), -cos(x), exactness=APPROXIMATE), "cos 0 is 1"),
    (Law("cancel_exact", x + y - y, x, exactness=EXACT), "y = inf"),
    (Law("half_twice_integer", apply("floor_divide", x, 2) * 2, x, exactness=EXACT), "x = 1"),
    (
        Law("whole_shift_out_of_round", apply("round", x) + 1.0, apply("round", x + 1.0), exactness=APPROXIMATE),
        "halves round to even: 0.5 gives 1 and 2",
    ),
    (
        Law("dequantised_is_exact", apply("round", x / y) * y, x, exactness=APPROXIMATE),
        "quantised to steps of y, x is off by up to y / 2",
    ),
    (Law("round_of_sum", apply("round", x + y), apply("round", x) + apply("round", y), (), APPROXIMATE), "0.5 + 0.5"),
    (
        Law("negative_out_of_window_max", apply("window_max", -x, attrs=WINDOW), -apply("window_max", x, attrs=WINDOW)),
        "the largest of -x is the smallest of x",
    ),
    (Law("masked_by_zero", exp(where(c, x, 0.0)), where(c, exp(x), 0.0), exactness=APPROXIMATE), "exp(0) = 1"),
    (Law("commuted_product", x @ y, y @ x, exactness=APPROXIMATE), "matrices do not commute"),
    # equal over the reals, and not as accurate
    (Law("sum_in_any_order", (x + y) + z, x + (y + z), exactness=REASSOCIATES), "x + y cancels, z is small"),
    (Law("shifted_back", (x + y) - y, x, exactness=REASSOCIATES), "a large y rounds x: programs compute with that"),
    (Law("masked_by_interpolation", x * z + (1.0 - z) * y, y + (x - y) * z, exactness=REASSOCIATES),
     "z = 1: a large y takes x away"),
    (Law("scale_out_of_every_sum", (x * y).sum(p), x.sum(p) * y, exactness=REASSOCIATES), "float16 overflows"),
    (Law("any_constants_meet", x * y * z, x * (y * z), (is_constant(y, z),), REASSOCIATES), "300 times 300 in float16"),
    (Law("any_divisors_meet", x / y / z, x / (y * z), exactness=REASSOCIATES), "300 times 300 in float16"),
]  # fmt: skip
