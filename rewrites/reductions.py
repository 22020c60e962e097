"""Laws of sums, products, maxima and minima over axes (kept with extent 1, counted from the right).

In: nothing. Out: `LAWS`.
"""

from __future__ import annotations

import math

from eqfuse.ir import Literal, TensorType
from eqfuse.rewrites.law import (
    APPROXIMATE,
    EXACT,
    REASSOCIATES,
    Guard,
    Law,
    Term,
    apply,
    attrs,
    computed,
    floating,
    guard,
    over_complex,
    tensors,
)
from eqfuse.rewrites.words import exp, maximum, minimum, sqrt

x, y, s, b = tensors("x y s b")
p, q, n, m = attrs("p q n m")

Axes = tuple[int, ...]


def _union(p: Axes, q: Axes) -> Axes:
    return tuple(sorted({*p, *q}))


def _agree_along(t: TensorType, u: TensorType, axes: Axes) -> bool:
    return all(t.extent(a) == u.extent(a) for a in axes)


def count(t: TensorType, axes: Axes) -> int:
    return math.prod(t.extent(a) for a in axes)


def _filled(t: TensorType) -> bool:
    return t.size > 0


def _is_count(value: Literal, t: TensorType, axes: Axes) -> bool:
    return value.array.size == 1 and value.array.reshape(()).item() == count(t, axes) != 0


def filled(t: Term) -> Guard:
    return guard(f"{t} is not empty", _filled, t)


def counts(t: Term) -> Guard:
    return guard(f"n counts {t}'s elements along the axes", _is_count, n, t, p)


def constant(value: object) -> Term:
    return apply("const", attrs=(value,))


mean = x.sum(p) / constant(n)
distance = x - mean

LAWS = [
    # merging axes
    Law("sum_of_sum", x.sum(p).sum(q), x.sum(computed(_union, p, q)), exactness=REASSOCIATES),
    Law("max_of_max", x.max(p).max(q), x.max(computed(_union, p, q)), exactness=REASSOCIATES),
    Law("min_of_min", x.min(p).min(q), x.min(computed(_union, p, q)), exactness=REASSOCIATES),
    Law("sum_over_one", x.sum(p), x, exactness=REASSOCIATES),
    Law("max_over_one", x.max(p), x, exactness=EXACT),
    Law("min_over_one", x.min(p), x, exactness=EXACT),
    # hoisting what does not change along the axes: were it to change, the made side would have another type
    Law("scale_out_of_sum", (x * s).sum(p), x.sum(p) * s, exactness=REASSOCIATES),
    Law("divisor_out_of_sum", (x / s).sum(p), x.sum(p) / s, (filled(x),), REASSOCIATES),
    Law("negative_out_of_sum", (-x).sum(p), -x.sum(p), (floating(x),), REASSOCIATES),
    Law(
        "shift_out_of_mean", (x + b).sum(p) / constant(n), x.sum(p) / constant(n) + b,
        (counts(x),), REASSOCIATES,
    ),
    Law("sums_meet", x.sum(p) + y.sum(p), (x + y).sum(p),
        (guard("x and y agree along the axes", _agree_along, x, y, p), floating(x)), REASSOCIATES),
    # monotone functions
    Law("shift_out_of_max", (x + b).max(p), x.max(p) + b, (floating(x),), REASSOCIATES),
    Law("shift_out_of_min", (x + b).min(p), x.min(p) + b, (floating(x),), REASSOCIATES),
    Law("clamp_out_of_max", maximum(x, b).max(p), maximum(x.max(p), b), exactness=REASSOCIATES),
    Law("cap_out_of_min", minimum(x, b).min(p), minimum(x.min(p), b), exactness=REASSOCIATES),
    Law("max_of_negative", (-x).max(p), -x.min(p), (floating(x),), REASSOCIATES),
    Law("min_of_negative", (-x).min(p), -x.max(p), (floating(x),), REASSOCIATES),
    Law("exp_out_of_max", exp(x).max(p), exp(x.max(p)), exactness=REASSOCIATES),
    Law("sqrt_out_of_max", sqrt(x).max(p), sqrt(x.max(p)), exactness=APPROXIMATE),
    Law("argmax_of_negative", apply("argmax", -x, attrs=(p,)), apply("argmin", x, attrs=(p,)), (floating(x),), EXACT),
    Law("argmin_of_negative", apply("argmin", -x, attrs=(p,)), apply("argmax", x, attrs=(p,)), (floating(x),), EXACT),
    # sum (x - mean)^2 = sum x^2 - n mean^2: cancels badly, so never without being asked for
    Law(
        "one_pass_variance", (distance * distance).sum(p), (x * x).sum(p) - mean * x.sum(p),
        (counts(x),), APPROXIMATE,
    ),
]  # fmt: skip

# sums are of complex numbers too; order is not
LAWS = over_complex(
    LAWS, REASSOCIATES, max_of_max=None, min_of_min=None, max_over_one=None, min_over_one=None, clamp_out_of_max=None,
    cap_out_of_min=None, exp_out_of_max=None, sqrt_out_of_max=None, one_pass_variance=None, negative_out_of_sum=None,
    sums_meet=None, shift_out_of_max=None, shift_out_of_min=None, max_of_negative=None, min_of_negative=None,
    argmax_of_negative=None, argmin_of_negative=None,
)  # fmt: skip
