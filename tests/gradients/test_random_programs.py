"""Gradients of random NumPy programs, against differences of their values, and forward mode against reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eqfuse as ef
from eqfuse.dtypes import kind
from tests.support.derivatives import difference
from tests.support.programs import RandomProgram, programs

QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


def _off_kinks(x: Any, rng: np.random.Generator) -> Any:
    """Floats that no step of a program has at a kink; other arguments as they are."""
    return np.asarray(x + rng.uniform(0.01, 0.1, x.shape)) if x.dtype.kind == "f" else x


def _changes_as_it_says(program: RandomProgram, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fn, arguments = program.build(precise=True)
    xs = [_off_kinks(x, rng) for x in arguments]
    places = [i for i, x in enumerate(xs) if x.dtype.kind == "f"]
    if not places:
        return

    def loss(*floats: Any) -> Any:
        every: dict[int, Any] = dict(enumerate(xs)) | dict(zip(places, floats, strict=True))
        results = [y for y in fn(*every.values()) if kind(np.asarray(y).dtype) == "f"]
        return sum([np.sum(y * np.cos(np.arange(np.size(y)).reshape(np.shape(y)))) for y in results], np.float64(0))

    points = [xs[i] for i in places]
    step = [rng.uniform(-1, 1, x.shape) for x in points]
    wanted, again = (_difference(loss, points, step, h) for h in (1e-4, 1e-5))
    scale = program.scale**2
    if not np.isclose(wanted, again, rtol=1e-6, atol=1e-9 * scale):
        return  # a kink is between the places that are compared
    gradients = ef.grad(loss, tuple(range(len(points))))(*points)
    slope = sum(np.sum(g * s) for g, s in zip(gradients, step, strict=True))
    np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-8 * scale, err_msg=program.reproducer)
    forward = ef.jvp(loss, tuple(points), tuple(step))[1]
    np.testing.assert_allclose(forward, slope, rtol=1e-9, atol=1e-11 * scale, err_msg=program.reproducer)


def _difference(loss: Callable[..., Any], points: list[Any], step: list[Any], h: float) -> Any:
    with np.errstate(all="ignore"):
        return difference(loss, points, step, h)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=QUIET)
@given(programs(), st.integers(0, 9))
def test_random_programs_change_as_their_gradients_say(program: RandomProgram, seed: int) -> None:
    _changes_as_it_says(program, seed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, database=None, suppress_health_check=QUIET)
@given(programs(24), st.integers(0, 99))
def test_three_hundred_random_programs_change_as_their_gradients_say(program: RandomProgram, seed: int) -> None:
    _changes_as_it_says(program, seed)
