"""Derivatives at infinities, at zero and at ends of domains: where those nearby go to a limit, they are that limit."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from eqfuse.gradients.table import DERIVATIVES
from eqfuse.ops import TABLE
from eqfuse.ops.elementwise import UFUNCS
from tests.support.derivatives import curvature, tangent

STEPS = (1e-5, 1e-7, 1e-9)  # from an end; far from infinities by their reciprocals
ENDS = {  # by their value, and the sides from which they are approached
    math.inf: (0,), -math.inf: (0,), 0.0: (1, -1), 1.0: (1, -1), -1.0: (1, -1),
}  # fmt: skip
OTHER = 0.5  # value of the argument that does not change
KINKED = {  # by choice, as the README of `gradients/` says
    ("abs", 0.0), ("i0e", 0.0), ("remainder", 0.0), ("remainder", -math.inf), ("fmod", 0.0),
}  # fmt: skip
# of degrees, whose values far away no longer are those of turns; of powers, whose slope is that of NumPy's formula
FAR = {(op, end) for op in ("sindg", "cosdg", "tandg", "cotdg", "power") for end in (math.inf, -math.inf)}
# of powers, whose slope in the base is 0 at the exponent 0, as in JAX
KINKED_TWICE = {("i0e", 0.0), ("power", 0.0)}
FLAT, GROWS = 1e-4, 1.5


def _tried(op: str) -> bool:
    row, ufunc = DERIVATIVES.get(op), UFUNCS[op]
    if row is None or row.jumps or row.refuses or ufunc.nin > 2:
        return False
    try:
        loop = ufunc.resolve_dtypes((np.dtype(float),) * ufunc.nin + (None,) * ufunc.nout)
    except TypeError:
        return False
    return all(d == np.float64 for d in loop) and (ufunc.nin == 1 or op in NUMPY)


NUMPY = {name for name, u in UFUNCS.items() if getattr(np, u.__name__, None) is u}
OPERATORS = [op for op in UFUNCS if _tried(op)]


def _arguments(op: str, x: float, place: int) -> tuple[float, ...]:
    return tuple([x if i == place else OTHER for i in range(UFUNCS[op].nin)])


def _value(op: str, xs: tuple[float, ...]) -> float | None:
    value = float(TABLE[op].meaning(*xs))
    return None if math.isnan(value) else value


def _slope(op: str, xs: tuple[float, ...], position: int) -> float:
    changes = [np.asarray(1.0) if i == position else None for i in range(len(xs))]
    slope = tangent(op, [np.asarray(x) for x in xs], changes)
    return 0.0 if slope is None else float(slope)


def _limit(slopes: list[float]) -> float | None:
    """What `slopes` go to, as far as that can be seen."""
    first, second, third = slopes
    if abs(third - second) <= FLAT * max(1, abs(third)) and abs(second - first) <= 100 * FLAT * max(1, abs(third)):
        return third
    grows = abs(third) > GROWS * abs(second) > GROWS**2 * abs(first) and abs(second) > 1e3
    return math.copysign(math.inf, third) if grows and first * second > 0 and second * third > 0 else None


def _limits(op: str, end: float, place: int, position: int) -> set[float | None]:
    """What slopes go to from each side on which there are values; None where that is not seen."""
    limits: set[float | None] = set()
    for side in ENDS[end]:
        near = [math.copysign(1 / step, end) if not side else end + side * step for step in STEPS]
        inputs = [_arguments(op, x, place) for x in near]
        slopes = [_slope(op, xs, position) for xs in inputs if _value(op, xs) is not None]
        if len(slopes) == len(near):
            limits.add(_limit(slopes))
    return limits


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", OPERATORS)
def test_at_an_end_the_derivative_is_its_limit(op: str) -> None:
    arity = UFUNCS[op].nin
    for place, position, end in itertools.product(range(arity), range(arity), ENDS):
        xs = _arguments(op, end, place)
        if (op, end) in KINKED | FAR or _value(op, xs) is None:
            continue
        limits = _limits(op, end, place, position)
        if len(limits) == 1 and None not in limits:
            (limit,) = limits
            assert _slope(op, xs, position) == pytest.approx(limit, rel=1e-3, abs=1e-3), f"{xs}, in argument {position}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", OPERATORS)
def test_the_second_derivative_at_a_point_is_its_limit(op: str) -> None:
    """Where a slope is no more than a value put in for 0/0, it has no slope of its own."""
    places, points = range(UFUNCS[op].nin), (0.0, OTHER, 1.0, -1.0)
    for place, first, second, x in itertools.product(places, places, places, points):
        xs = _arguments(op, x, place)
        near = [_arguments(op, x + step, place) for step in (-1e-3, -1e-4, 1e-4, 1e-3)]
        if (op, x) in KINKED_TWICE or any(_value(op, each) is None for each in (xs, *near)):
            continue
        curvatures = [curvature(op, each, first, second) for each in near]
        if np.ptp(curvatures) < 0.02 * max(1, abs(curvatures[1])):
            value = curvature(op, xs, first, second)
            assert value == pytest.approx(np.mean(curvatures), rel=0.02, abs=0.02), f"{xs}, in {first} and {second}"
