"""`wait=False`: a program runs as NumPy calls until its kernels in C are there, and from then on as these."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.runtime.pending import PendingProgram
from tests.support.c_kernels import needs_compiler

X = np.random.default_rng(0).standard_normal((60, 50))


def scores(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def program(target: str) -> ef.Program:
    return ef.compile(scores, X, target=target)


def pending(make: Callable[[], ef.Program]) -> tuple[PendingProgram, Event]:
    """A program by NumPy, which that of `make` replaces from the event on."""
    go_on = Event()

    def delayed() -> ef.Program:
        assert go_on.wait(60)
        return make()

    return PendingProgram(program("numpy"), delayed), go_on


@needs_compiler
def test_it_is_the_program_by_numpy_until_the_other_is_there_and_then_that_one():
    other = program("c")
    current, go_on = pending(lambda: other)
    assert not current.wait(0.01)
    np.testing.assert_allclose(current(X), scores(X), rtol=1e-14)
    assert current.plan.device.target == "numpy" and "void" not in current.source()
    go_on.set()
    assert current.wait(60)
    np.testing.assert_array_equal(current(X), other(X))
    assert current.plan.device.target == "c" and current.source() == other.source() and current.report == other.report


@needs_compiler
def test_threads_that_call_it_meanwhile_get_one_answer_or_the_other():
    other = program("c")
    current, go_on = pending(lambda: other)
    answers = {current(X).tobytes(), other(X).tobytes()}
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(lambda: current(X).tobytes()) for _ in range(200)]
        go_on.set()
        assert {call.result() for call in calls} <= answers
    assert current.wait(60)


def test_where_none_can_be_made_a_warning_says_why_and_the_first_goes_on():
    def fails() -> ef.Program:
        raise ef.TargetUnavailable("the disk is full")

    current, go_on = pending(fails)
    with pytest.warns(UserWarning, match="no faster program was made.*the disk is full"):
        go_on.set()
        assert current.wait(60)
    np.testing.assert_allclose(current(X), scores(X), rtol=1e-14)


@needs_compiler
def test_compile_and_jit_take_it_and_a_plan_that_is_known_waits_for_nothing():
    def shifted(x):
        return scores(x) + 0.12345

    function = ef.jit(shifted, target="c", wait=False)
    np.testing.assert_allclose(function(X), shifted(X), rtol=1e-14)
    current = function.program(X)
    assert isinstance(current, PendingProgram) and current.wait(60) and current.plan.device.target == "c"
    np.testing.assert_allclose(function(X), shifted(X), rtol=1e-14)
    again = ef.compile(shifted, X, target="c", wait=False)
    assert type(again) is ef.Program and again.wait() and again.plan.device.target == "c"


def test_it_is_refused_for_many_sizes_and_of_other_values():
    with pytest.raises(ef.EqfuseError, match="wait holds for one size of the arguments: leave out dynamic"):
        ef.jit(scores, dynamic=True, wait=False)
    with pytest.raises(ef.EqfuseError, match="wait holds for one size of the arguments: give specs without symbols"):
        ef.compile(scores, ef.spec(("n", 50)), wait=False)
    with pytest.raises(ef.EqfuseError, match="wait is 'no': it takes True or False"):
        ef.jit(scores, wait="no")
