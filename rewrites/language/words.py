"""Operators of the table as functions on terms, under the names that laws are read by.

In: terms and numbers. Out: terms. (``np.exp(x)`` on a term makes the same term; these also satisfy a type checker.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqfuse.rewrites.language.term import Term, apply


def function(op: str) -> Callable[..., Term]:
    """The operator `op` as a function of tensors."""

    def call(*args: Any) -> Term:
        return apply(op, *args)

    return call


def constant(value: object) -> Term:
    """The constant `value`: an attribute, or what is computed of some."""
    return apply("const", attrs=(value,))


exp, log, log1p, expm1, sqrt = map(function, ("exp", "log", "log1p", "expm1", "sqrt"))
sin, cos, tanh, sign, square = map(function, ("sin", "cos", "tanh", "sign", "square"))
tan, sinh, cosh, erf, erfc, cbrt = map(function, ("tan", "sinh", "cosh", "erf", "erfc", "cbrt"))
hypot, logaddexp, copysign, power = map(function, ("hypot", "logaddexp", "copysign", "power"))
floor, ceil, trunc = map(function, ("floor", "ceil", "trunc"))
maximum, minimum, where = map(function, ("maximum", "minimum", "where"))
logical_not, logical_and, logical_or = map(function, ("logical_not", "logical_and", "logical_or"))
equal, not_equal, less, less_equal = map(function, ("equal", "not_equal", "less", "less_equal"))
isnan, isinf, isfinite = map(function, ("isnan", "isinf", "isfinite"))
