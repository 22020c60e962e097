"""Derivatives of the elementwise operators: ufuncs, where, cast, parts of complex numbers.

A partial derivative is written of the result `y` and the arguments `a`, `b`; at kinks it is JAX's choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from eqfuse.dtypes import kind
from eqfuse.gradients.expr import (
    Expr,
    cast,
    complex_of,
    conj,
    constant_number,
    f,
    filled,
    imag,
    real,
    spread_to,
    sum_of,
    summed_to,
    where,
    zeros_like,
)
from eqfuse.gradients.row import Changes, DerivativeRow, NoDerivative, by_partials, joint, zero_derivative
from eqfuse.ir.graph import Node
from eqfuse.ops.types import TensorType

JUMPING = (
    "floor ceil trunc round floor_divide isnan isinf isfinite signbit equal not_equal less less_equal "
    "greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor "
    "bitwise_invert "
    "bitwise_left_shift bitwise_right_shift bitwise_count gcd lcm"
)


# ---- linear operators: what an operand was spread to is summed


def _sum_tangent(n: Node, d: Changes) -> Node:
    tangents = [Expr(x) for x in d if x is not None]
    return spread_to(tangents[0] if len(tangents) == 1 else f("add", *tangents), n.shape).node


def _sum_transpose(n: Node, position: int, ct: Expr) -> Expr:
    return summed_to(ct, n.args[position].shape)


def _difference_tangent(n: Node, d: Changes) -> Node:
    a, b = (None if x is None else Expr(x) for x in d)
    if a is not None and b is not None:
        return (a - b).node
    tangent = a if b is None else -b
    assert tangent is not None
    return spread_to(tangent, n.shape).node


def _difference_transpose(n: Node, position: int, ct: Expr) -> Expr:
    return summed_to(-ct if position else ct, n.args[position].shape)


def _product_tangent(n: Node, d: Changes) -> Node:
    pairs = zip(d, n.args[::-1], strict=True)
    return sum_of([spread_to(Expr(x) * Expr(other), n.shape) for x, other in pairs if x is not None]).node


def _product_transpose(n: Node, position: int, ct: Expr) -> Expr:
    return summed_to(ct * Expr(n.args[1 - position]), n.args[position].shape)


def _quotient_tangent(n: Node, d: Changes) -> Node:
    y, b, terms = Expr(n), Expr(n.args[1]), []
    if d[0] is not None:
        terms.append(spread_to(Expr(d[0]) / b, n.shape))
    if d[1] is not None:
        slope = f("square", y) if constant_number(Expr(n.args[0])) == 1 else y / b
        terms.append(spread_to(-slope * Expr(d[1]), n.shape))
    return sum_of(terms).node


def _quotient_transpose(n: Node, position: int, ct: Expr) -> Expr:
    return summed_to(ct / Expr(n.args[1]), n.args[0].shape)


def _choice_transpose(n: Node, position: int, ct: Expr) -> Expr:
    yes, no = (ct, 0) if position == 1 else (0, ct)
    return summed_to(where(Expr(n.args[0]), yes, no), n.args[position].shape)


def _cast_tangent(n: Node, d: Changes) -> Node | None:
    return None if d[0] is None or kind(n.dtype) not in "fc" else cast(Expr(d[0]), n.dtype).node


def _cast_transpose(n: Node, _position: int, ct: Expr) -> Expr:
    return cast(ct, n.args[0].dtype)


def _parts_transpose(n: Node, position: int, ct: Expr) -> Expr:
    return summed_to(-imag(ct) if position else real(ct), n.args[position].shape)


# ---- functions with kinks, or with rules of their own for complex numbers


def _abs_tangent(n: Node, d: Changes) -> Node | None:
    if d[0] is None:
        return None
    x, change = Expr(n.args[0]), Expr(d[0])
    if x.dtype.kind != "c":
        return (f("sign", x) * change).node
    size = where(Expr(n).equals(0), 1, Expr(n))
    return (real(x) / size * real(change) + imag(x) / size * imag(change)).node


def _sign_tangent(n: Node, _d: Changes) -> None:
    if n.dtype.kind == "c":
        raise NoDerivative("of complex numbers it is z / abs(z), which is not differentiable: write that out")


def _share(better: str, nan_loses: bool = False) -> Callable[[Expr, Expr, Expr], Expr]:
    """The part of a choice that comes from the first argument: 1, 0, or 1/2 where both are equal."""

    def partial(_y: Expr, a: Expr, b: Expr) -> Expr:
        chosen = f(better, a, b)
        if nan_loses:
            chosen = f("logical_or", chosen, f("isnan", b))
        tie = where(a.equals(b), 0.5, 0, a.dtype)
        return where(chosen, 1, tie)

    return partial


def _choice(better: str, nan_loses: bool = False) -> DerivativeRow:
    share = _share(better, nan_loses)
    return by_partials(share, lambda y, a, b: share(y, b, a))


def _power_of_base(y: Expr, a: Expr, b: Expr) -> Expr | float:
    exponent = constant_number(b)
    if exponent is not None:
        lower: dict[float, Expr] = {2: a, 3: f("square", a)}
        if exponent in (0, 1):
            return float(exponent)
        return (lower.get(exponent) or f("power", a, exponent - 1)) * exponent
    none = b.equals(0)
    return where(none, 0, b * f("power", a, where(none, 1, b - 1)))


def _power_of_exponent(y: Expr, a: Expr, b: Expr) -> Expr:
    return f("log", where(a.equals(0), 1, a)) * y


def _safe(y: Expr) -> Expr:
    return where(y.equals(0), 1, y)


def _leg(y: Expr, a: Expr) -> Expr:
    """What the hypotenuse changes by in `a`."""
    return where(f("isinf", a), f("sign", a), a / _safe(y))


def _angle_slope(a: Expr, b: Expr) -> Expr:
    """What the angle of `b` and `a` changes by in `a`."""
    square = f("square", a) + f("square", b)
    return where(f("isinf", square), 0, b / square)


def _weight(y: Expr, a: Expr, b: Expr) -> Expr:
    """The part of ``exp(a)`` in ``exp(a) + exp(b)``, the exponential of `y`."""
    of_equal = where(a.equals(b), -math.log(2), 0, a.dtype)  # infinities, or numbers beside which log(2) is nothing
    return f("exp", where(a.equals(y), of_equal, a - y))


def _scaled(_y: Expr, a: Expr, b: Expr) -> Expr:
    return f("ldexp", filled(1, TensorType(a.dtype, ())), b)


ROWS: dict[str, DerivativeRow] = {
    **{name: zero_derivative() for name in JUMPING.split()},
    "sign": DerivativeRow(_sign_tangent, jumps=True),
    # linear
    "add": DerivativeRow(_sum_tangent, transpose=_sum_transpose, linear=(0, 1)),
    "subtract": DerivativeRow(_difference_tangent, transpose=_difference_transpose, linear=(0, 1)),
    "negative": joint({0: lambda n, ct: -ct}),
    "multiply": DerivativeRow(_product_tangent, transpose=_product_transpose, linear=(0, 1)),
    "divide": DerivativeRow(_quotient_tangent, transpose=_quotient_transpose, linear=(0,)),
    "where": joint(_choice_transpose, (1, 2)),
    "cast": DerivativeRow(_cast_tangent, transpose=_cast_transpose, linear=(0,)),
    "conj": joint({0: lambda n, ct: conj(ct)}),
    "real": joint({0: lambda n, ct: complex_of(ct, zeros_like(ct.node))}),
    "imag": joint({0: lambda n, ct: complex_of(zeros_like(ct.node), -ct)}),
    "complex": joint(_parts_transpose),
    # powers
    "square": by_partials(lambda y, a: a * 2),
    "power": by_partials(_power_of_base, _power_of_exponent),
    "sqrt": by_partials(lambda y, a: 0.5 / y),
    "cbrt": by_partials(lambda y, a: 1 / (f("square", y) * 3)),
    "reciprocal": by_partials(lambda y, a: -f("square", y)),
    "hypot": by_partials(lambda y, a, b: _leg(y, a), lambda y, a, b: _leg(y, b)),
    # exponentials and logarithms
    "exp": by_partials(lambda y, a: y),
    "exp2": by_partials(lambda y, a: y * math.log(2)),
    "expm1": by_partials(lambda y, a: y + 1),
    "log": by_partials(lambda y, a: 1 / a),
    "log2": by_partials(lambda y, a: 1 / math.log(2) / a),
    "log10": by_partials(lambda y, a: 1 / math.log(10) / a),
    "log1p": by_partials(lambda y, a: 1 / (a + 1)),
    "logaddexp": by_partials(_weight, lambda y, a, b: _weight(y, b, a)),
    # trigonometry
    "sin": by_partials(lambda y, a: f("cos", a)),
    "cos": by_partials(lambda y, a: -f("sin", a)),
    "tan": by_partials(lambda y, a: f("square", y) + 1),
    "asin": by_partials(lambda y, a: 1 / f("sqrt", 1 - f("square", a))),
    "acos": by_partials(lambda y, a: -1 / f("sqrt", 1 - f("square", a))),
    "atan": by_partials(lambda y, a: 1 / (f("square", a) + 1)),
    "atan2": by_partials(lambda y, a, b: _angle_slope(a, b), lambda y, a, b: -_angle_slope(b, a)),
    "sinh": by_partials(lambda y, a: f("cosh", a)),
    "cosh": by_partials(lambda y, a: f("sinh", a)),
    "tanh": by_partials(lambda y, a: 1 - f("square", y)),
    "asinh": by_partials(lambda y, a: 1 / f("sqrt", f("square", a) + 1)),
    "acosh": by_partials(lambda y, a: 1 / (f("sqrt", a - 1) * f("sqrt", a + 1))),
    "atanh": by_partials(lambda y, a: 1 / ((1 - a) * (a + 1))),
    "erf": by_partials(lambda y, a: f("exp", -f("square", a)) * (2 / math.sqrt(math.pi))),
    "erfc": by_partials(lambda y, a: f("exp", -f("square", a)) * (-2 / math.sqrt(math.pi))),
    # choices and kinks
    "abs": DerivativeRow(_abs_tangent),
    "maximum": _choice("greater"),
    "minimum": _choice("less"),
    "fmax": _choice("greater", nan_loses=True),
    "fmin": _choice("less", nan_loses=True),
    "copysign": by_partials(lambda y, a, b: f("copysign", 1, y) * f("copysign", 1, a), None),
    "remainder": by_partials(lambda y, a, b: 1, lambda y, a, b: -f("floor", a / b)),
    "fmod": by_partials(lambda y, a, b: 1, lambda y, a, b: -f("trunc", a / b)),
    "nextafter": by_partials(lambda y, a, b: 1, None),
    "ldexp": by_partials(_scaled, None),
}
