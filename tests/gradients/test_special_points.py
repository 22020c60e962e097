"""Derivatives at the points where formulas and compositions tend to have kinks (0, 1, equal arguments, whole numbers):
where a ufunc of NumPy's, or one that is composed of others, has none, its derivative is that of differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.special
from numpy.testing.overrides import get_overridable_numpy_ufuncs

import eqfuse as ef
from eqfuse.errors import DtypeError
from eqfuse.frontends.numpy import ufuncs  # noqa: F401  (which fills the registry)
from eqfuse.frontends.numpy.registry import TRACED_UFUNCS
from eqfuse.ops.elementwise import UFUNCS as OPERATORS
from tests.support.some import some

POINTS = (0.0, 1.0, -1.0, 2.0, 0.5, -3.0)
STEP = 1e-4
ENDS = {np.float32: (1e-20, 0.05), np.float64: (1e-155, 1e-160)}  # of Kolmogorov's function
WEIGHTS = (-25 / 12, 4, -3, 4 / 3, -1 / 4)  # of a one-sided difference of the fourth order


def _results(ufunc: np.ufunc, *args: Any) -> list[float]:
    with np.errstate(all="ignore"):
        result = ufunc(*args)
    return [float(y) for y in (result if ufunc.nout > 1 else (result,))]


def _from_one_side(ufunc: np.ufunc, args: tuple[float, ...], position: int, step: float) -> Any:
    """What the results change by in the argument `position`, by differences from one side."""
    moved = [[*args[:position], args[position] + i * step, *args[position + 1 :]] for i in range(len(WEIGHTS))]
    values = np.array([_results(ufunc, *xs) for xs in moved])
    return np.array(WEIGHTS) @ values / step


def _of_floats(ufunc: np.ufunc) -> bool:
    if ufunc.signature is not None or ufunc.nin > 2:
        return False
    try:
        loop = ufunc.resolve_dtypes((np.dtype(float),) * ufunc.nin + (None,) * ufunc.nout)
    except TypeError:
        return False
    return all(d == np.float64 for d in loop[: ufunc.nin]) and loop[-1].kind in "fi"


NUMPY = set(get_overridable_numpy_ufuncs())
CHECKED = [u for u in TRACED_UFUNCS if _of_floats(u) and (u in NUMPY or u not in OPERATORS.values())]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ufunc", some(CHECKED, 2), ids=lambda ufunc: ufunc.__name__)
def test_where_both_sides_agree_the_derivative_is_theirs(ufunc: np.ufunc) -> None:
    for args in itertools.product(POINTS, repeat=ufunc.nin):
        for position in range(ufunc.nin):
            steps = (STEP, -STEP, STEP / 4, -STEP / 4)
            above, *others = (_from_one_side(ufunc, args, position, step) for step in steps)
            smooth = np.all([np.isclose(above, other, rtol=1e-6, atol=1e-6) for other in others], axis=0)
            for place in np.flatnonzero(smooth):
                slope = _derivative(ufunc, args, position, int(place))
                assert np.isclose(slope, above[place], rtol=1e-4, atol=1e-4), f"{args}, in argument {position}: {slope}"


@pytest.mark.parametrize(
    "ufunc, args, slope",
    [
        *[(scipy.special.kolmogorov, (dtype(x),), 0) for dtype, xs in ENDS.items() for x in xs],
        (scipy.special.kolmogorov, (np.inf,), 0), (scipy.special.digamma, (-1.0,), np.inf),
        (scipy.special.digamma, (-1.5,), np.pi**2 / 2 + 4 + 4 / 9), (scipy.special.digamma, (-np.inf,), np.inf),
        (lambda x: np.logaddexp(x, np.inf), (2.0,), 0), (lambda x: np.logaddexp(x, -np.inf), (-np.inf,), 0.5),
        (scipy.special.kolmogi, (0.0,), -np.inf),
        (lambda y: scipy.special.xlog1py(0.0, y), (-1.0,), 0),
    ],
)  # fmt: skip
def test_at_ends_and_poles_derivatives_are_limits_and_not_nan(ufunc: Any, args: tuple[Any, ...], slope: float) -> None:
    np.testing.assert_allclose(ef.jvp(ufunc, args, tuple([type(x)(1) for x in args]))[1], slope, rtol=1e-6)


@pytest.mark.parametrize(
    "function, x, curvature",
    [
        (np.sinc, 0.0, -np.pi**2 / 3), (np.sinc, 1e-12, -np.pi**2 / 3), (np.sinc, 1.0, 2.0),
        (lambda x: np.logaddexp2(x, 0.0), 0.0, np.log(2) / 4), (lambda x: np.logaddexp.reduce(x), 0.0, 2 / 9),
        (scipy.special.rgamma, -1.0, 2 - 2 * np.euler_gamma), (scipy.special.rgamma, 0.0, 2 * np.euler_gamma),
    ],
)  # fmt: skip
def test_second_derivatives_at_points_where_slopes_are_limits(function: Any, x: float, curvature: float) -> None:
    xs = np.full(3, x)
    hessian = ef.hessian(lambda x: function(x).sum())(xs)
    assert hessian[1, 1] == pytest.approx(curvature)


def _derivative(ufunc: np.ufunc, args: tuple[float, ...], position: int, place: int) -> Any:
    def result(x: Any) -> Any:
        values = ufunc(*args[:position], x, *args[position + 1 :])
        return values[place] if ufunc.nout > 1 else values

    try:
        return ef.jvp(result, (args[position],), (1.0,))[1]
    except DtypeError:  # a whole number
        return 0.0
