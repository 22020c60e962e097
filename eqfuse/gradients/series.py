"""Derivatives of special functions that no operator computes: by series, in elementary operators."""

from __future__ import annotations

import math

from eqfuse.gradients.expr import Expr, f, filled, sum_of, where
from eqfuse.gradients.row import NoDerivative

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # B2, B4, … B14
_SHIFTS = 10  # from which argument on the series is exact to a float64


def trigamma(_y: Expr, x: Expr) -> Expr:
    """The derivative of digamma, of real numbers: a series for large ones, after as many steps of its recurrence; below
    1/2 by reflection."""
    if x.dtype.kind == "c":
        raise NoDerivative("of complex numbers")
    reflected = x < 0.5
    point = where(reflected, 1 - x, x)
    large = point + _SHIFTS
    square = f("square", 1 / large)
    series = filled(0, x.node.type)
    for number in reversed(_BERNOULLI):
        series = (series + number) * square
    value = (series + 1) / large + square * 0.5
    for k in range(_SHIFTS):
        value = value + 1 / f("square", point + k)
    beyond = where(f("isinf", x), 0, x - f("round", x))
    sine = f("sin", where(reflected, beyond, 0.5) * math.pi)  # 0 at the poles, which all far numbers are
    return where(reflected, math.pi**2 / f("square", sine) - value, value)


def reciprocal_gamma(y: Expr, x: Expr) -> Expr:
    """The derivative of ``1 / gamma``, also at the poles of gamma: of real numbers, below 1/2 by reflection."""
    if x.dtype.kind == "c":
        return -(y * f("digamma", x))
    reflected = x < 0.5
    point = where(reflected, x, 0)
    turns = point * math.pi
    slope = f("cos", turns) - f("sin", turns) * f("digamma", 1 - point) * (1 / math.pi)
    return where(reflected, f("gamma", 1 - point) * slope, -(y * f("digamma", where(reflected, 1, x))))


def kolmogorov(_y: Expr, x: Expr) -> Expr:
    """The derivative of Kolmogorov's survival function, by its series; below 1, where that is slow, by the dual one.
    Beyond both ends it is 0 in every dtype."""
    small, none = x < 1, x < 0.04
    large, near = f("minimum", where(small, 1, x), 30), where(none, 1, where(small, x, 1))
    terms = [f("exp", f("square", large) * (-2 * k * k)) * ((-1) ** k * 8 * k * k) for k in range(1, 6)]
    above = sum_of(terms) * large
    inverse = 1 / near
    odd = [((2 * k + 1) * math.pi) ** 2 / 8 for k in range(4)]
    below = [f("exp", f("square", inverse) * -c) * (f("square", inverse) * (2 * c) - 1) for c in odd]
    slope = sum_of(below) * f("square", inverse) * -math.sqrt(2 * math.pi)
    return where(small, where(none, 0, slope), above)
