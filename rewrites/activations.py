"""Laws of activation functions: the ways in which sigmoid, tanh, softplus, GELU and rectifiers are written.

In: nothing. Out: `LAWS`. Forms that overflow, or that cancel where another form does not, meet only as APPROXIMATE.
"""

from __future__ import annotations

from eqfuse.rewrites.language.law import APPROXIMATE, EXACT, REASSOCIATES, Law, floating, over_complex, tensors
from eqfuse.rewrites.language.words import (
    erf,
    erfc,
    exp,
    expm1,
    less,
    less_equal,
    log1p,
    logaddexp,
    maximum,
    minimum,
    tanh,
    where,
)

x, y, a = tensors("x y a")

sigmoid = 1.0 / (exp(-x) + 1.0)
overflowing_sigmoid = exp(x) / (exp(x) + 1.0)

LAWS = [
    # sigmoid
    Law("sigmoid_by_growing_exp", overflowing_sigmoid, sigmoid, exactness=APPROXIMATE),
    Law("sigmoid_by_sign", where(less_equal(0.0, x), sigmoid, overflowing_sigmoid), sigmoid, exactness=APPROXIMATE),
    Law("sigmoid_by_strict_sign", where(less(0.0, x), sigmoid, overflowing_sigmoid), sigmoid, exactness=APPROXIMATE),
    Law("sigmoid_by_negative_sign", where(x < 0.0, overflowing_sigmoid, sigmoid), sigmoid, exactness=APPROXIMATE),
    Law("sigmoid_of_difference", exp(x) / (exp(x) + exp(y)), 1.0 / (exp(y - x) + 1.0), exactness=APPROXIMATE),
    Law("one_minus_sigmoid", 1.0 - sigmoid, 1.0 / (exp(x) + 1.0), exactness=APPROXIMATE),
    Law("sigmoid_by_tanh", tanh(x * 0.5) * 0.5 + 0.5, sigmoid, exactness=APPROXIMATE),
    Law("sigmoid_by_shifted_tanh", (tanh(x * 0.5) + 1.0) * 0.5, sigmoid, exactness=APPROXIMATE),
    Law("tanh_by_sigmoid", 2.0 / (exp(x * -2.0) + 1.0) - 1.0, tanh(x), exactness=APPROXIMATE),
    Law("tanh_by_falling_sigmoid", 1.0 - 2.0 / (exp(x * 2.0) + 1.0), tanh(x), exactness=APPROXIMATE),
    # softplus
    Law("softplus_by_log1p", log1p(exp(x)), logaddexp(x, 0.0), exactness=APPROXIMATE),
    Law("softplus_without_overflow", maximum(x, 0.0) + log1p(exp(-abs(x))), logaddexp(x, 0.0),
        exactness=REASSOCIATES),
    Law("softplus_minus_x", logaddexp(x, 0.0) - x, logaddexp(-x, 0.0), exactness=APPROXIMATE),
    Law("exp_of_negative_softplus", exp(-logaddexp(x, 0.0)), 1.0 / (exp(x) + 1.0), exactness=APPROXIMATE),
    # GELU
    Law("one_minus_erf", 1.0 - erf(x), erfc(x), exactness=APPROXIMATE),
    Law("one_plus_erf", erf(x) + 1.0, erfc(-x), exactness=APPROXIMATE),
    # rectifiers
    Law("rectifier_by_parts", maximum(x, 0.0) + minimum(x, 0.0) * a, where(less(0.0, x), x, x * a),
        exactness=APPROXIMATE),
    Law("rectifier_by_negative_part", maximum(x, 0.0) - maximum(-x, 0.0) * a, where(less(0.0, x), x, x * a),
        (floating(x),), APPROXIMATE),
    Law("rectifier_of_not_negative", where(less_equal(0.0, x), x, x * a), where(less(0.0, x), x, x * a),
        exactness=APPROXIMATE),
    Law("elu_at_zero", where(less_equal(0.0, x), x, expm1(x) * a), where(less(0.0, x), x, expm1(x) * a),
        exactness=APPROXIMATE),
    Law("unscaled_elu_at_zero", where(less_equal(0.0, x), x, expm1(x)), where(less(0.0, x), x, expm1(x)),
        exactness=REASSOCIATES),
    Law("rectifier_of_negative", where(x < 0.0, x * a, x), where(less_equal(0.0, x), x, x * a), exactness=EXACT),
]  # fmt: skip

LAWS = over_complex(LAWS, None)
