"""Laws of exp, log, roots and their relatives.

In: nothing. Out: `LAWS`. Most are APPROXIMATE: they leave out an overflow, or a NaN outside a function's domain.
"""

from __future__ import annotations

import numpy as np

from eqfuse.rewrites.law import APPROXIMATE, EXACT, REASSOCIATES, Law, tensors

x, y = tensors("x y")

LAWS = [
    Law("product_of_exp", np.exp(x) * np.exp(y), np.exp(x + y), exactness=APPROXIMATE),
    Law("quotient_of_exp", np.exp(x) / np.exp(y), np.exp(x - y), exactness=APPROXIMATE),
    Law("reciprocal_of_exp", 1.0 / np.exp(x), np.exp(-x), exactness=APPROXIMATE),
    Law("log_of_exp", np.log(np.exp(x)), x, exactness=APPROXIMATE),
    Law("exp_of_log", np.exp(np.log(x)), x, exactness=APPROXIMATE),
    Law("log_of_quotient", np.log(x / y), np.log(x) - np.log(y), exactness=APPROXIMATE),
    Law("sum_of_log", np.log(x) + np.log(y), np.log(x * y), exactness=APPROXIMATE),
    Law("log1p", np.log(x + 1.0), np.log1p(x), exactness=APPROXIMATE),
    Law("expm1", np.exp(x) - 1.0, np.expm1(x), exactness=APPROXIMATE),
    Law("square_of_sqrt", np.sqrt(x) * np.sqrt(x), x, exactness=APPROXIMATE),
    Law("sqrt_of_square", np.sqrt(x * x), abs(x), exactness=APPROXIMATE),
    Law("product_of_sqrt", np.sqrt(x) * np.sqrt(y), np.sqrt(x * y), exactness=APPROXIMATE),
    Law("power_half", x**0.5, np.sqrt(x), exactness=APPROXIMATE),
    Law("abs_of_exp", abs(np.exp(x)), np.exp(x), exactness=EXACT),
    Law("tanh_of_negative", np.tanh(-x), -np.tanh(x), exactness=REASSOCIATES),
    Law("sin_of_negative", np.sin(-x), -np.sin(x), exactness=REASSOCIATES),
    Law("cos_of_negative", np.cos(-x), np.cos(x), exactness=REASSOCIATES),
]
