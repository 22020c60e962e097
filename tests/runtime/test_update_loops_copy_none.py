"""Loops that update arrays write no more than they change: no step copies the whole array, and results are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.cost.targets import package
from eqfuse.plan.loops import carried, loop_of
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.c_target import C
from tests.support.gpu import program_on
from tests.support.loops import assert_same
from tests.support.some import some

TARGETS = {"numpy": DEVICES["cpu"], "c": C} | ({} if cudasim.cudasim_missing() else {"cuda": DEVICES["h100"]})


def compiled_for(target: str, fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The program of `fn` for a target, on the emulated GPU where it is one for GPUs."""
    program = ef.compile(fn, *args, target=TARGETS[target], **options)
    return program_on(program.plan, EmulatedGpu()) if target == "cuda" else program


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_that_every_step_sets_is_all_that_the_step_writes(target: str) -> None:
    a, x = np.zeros((300, 200)), np.ones((300, 200))

    def step(i: Any, a: Any) -> Any:
        a[i] = x[i] * 2 + a[i - 1]
        return a

    program = compiled_for(target, lambda a: ef.fori_loop(1, 300, step, a), a)
    np.testing.assert_array_equal(program(a)[:, 0], np.r_[0, np.arange(1, 300) * 2])
    (loop,) = (k for k in program.plan.kernels if k.inner)
    assert sum(k.price.bytes_written for k in loop.inner[-1].kernels) < 4 * x[0].nbytes
    assert program.peak_bytes < a.nbytes // 4


def _filled(x: Any) -> Any:
    def step(i: Any, a: Any) -> Any:
        a[i] = x[i] * i
        return a

    return ef.fori_loop(0, len(x), step, np.zeros_like(x))


def _substituted(x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        y[i] = (x[:, i] - x[i, :50] @ y[:50]) / (2 + x[i, i % 7])
        return y

    return ef.fori_loop(0, len(x), step, np.zeros_like(x.T[: len(x)]))


def _recurrence(x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        y[i] += 0.5 * y[i - 1]
        return y

    return ef.fori_loop(1, len(x), step, x)


def _history(x: Any) -> Any:
    def step(i: Any, s: Any) -> Any:
        history, u = s
        u = u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        history[i] = u
        return history, u

    return ef.fori_loop(0, len(x), step, (x, x[0]))


def _sieve(x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        y[2 * i + np.arange(20) * i] = 0.0
        return y

    return ef.fori_loop(2, 60, step, x.ravel())


def _table(x: Any) -> Any:
    def row(i: Any, d: Any) -> Any:
        def element(j: Any, d: Any) -> Any:
            d[i, j] = np.maximum(d[i - 1, j], d[i, j - 1]) + x[i, j]
            return d

        return ef.fori_loop(1, 9, element, d)

    return ef.fori_loop(1, 9, row, np.zeros_like(x))


def _joined_at(x: Any) -> Any:
    def step(y: Any, k: Any) -> Any:
        y[k] += x[0]
        return y, None

    return ef.scan(step, x, np.arange(60) % 7)[0]


def _one_of_two(x: Any) -> Any:
    def step(i: Any, s: Any) -> Any:
        y, u = s
        y[i] = u
        return y, np.tanh(u) + y[i // 2]

    return ef.fori_loop(0, len(x), step, (x, x[0]))


def _in_turn(x: Any) -> Any:
    def step(i: Any, s: Any) -> Any:
        before, now = s
        before[i] = now[i] * 0.5 + before[i]
        return now, before

    return ef.fori_loop(0, 61, step, (x, x * 2))


def _where(x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        def negated(y: Any) -> Any:
            y[i] = -y[i]
            return y

        return ef.cond(y[i].sum() > 0, negated, lambda y: y, y)

    return ef.fori_loop(0, len(x), step, x)


def _inside_rows(x: Any) -> Any:
    def sweep(t: Any, y: Any) -> Any:
        def row(i: Any, y: Any) -> Any:
            y[i, 1:-1] = 0.25 * (y[i - 1, 1:-1] + y[i + 1, 1:-1] + y[i, :-2] + y[i, 2:])
            return y

        return ef.fori_loop(1, len(x) - 1, row, y)

    return ef.fori_loop(0, 3, sweep, x)


def _halves_of_rows(x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        y[i, ::2] = y[i - 1, ::2] * 0.5
        y[i, 1::2] = y[i, ::2]
        return y

    return ef.fori_loop(1, len(x), step, x)


def _border_rows(x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        y[0] = y[1]
        y[-1] = y[-2]
        y[1] = y[1] + 0.5 * y[2]
        return y

    return ef.fori_loop(0, 60, step, x)


def _exchanged(x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        row = y[i].copy()
        y[i] = y[len(x) - 1 - i]
        y[len(x) - 1 - i] = row
        return y

    return ef.fori_loop(0, len(x) // 2, step, x)


def _picked(x: Any) -> Any:
    def step(i: Any, s: Any) -> Any:
        y, total = s
        j = np.argmax(y[:, 0])
        total = total + y[j].sum()
        y[j] = 0
        y[j, 0] = -9
        return y, total

    return ef.fori_loop(0, 60, step, (x, 0.0))


UPDATED = [
    _filled, _substituted, _recurrence, _history, _sieve, _table, _joined_at, _one_of_two, _in_turn, _where,
    _inside_rows, _halves_of_rows, _border_rows, _exchanged, _picked,
]  # fmt: skip


def written_by_steps(plan: ef.Plan) -> int:
    """Bytes that one run of `plan` writes, or of each loop in it one step, copies of results among them."""
    total = 0
    for k in plan.kernels:
        n = loop_of(k.body)
        if n is None:
            total += 0 if k.is_view else k.price.bytes_written
        for inner in k.inner:
            layout = package(plan.device.target).emit(inner, carried(n, inner)).layout
            total += written_by_steps(inner) + sum(inner.types[v].nbytes for v, copied in layout.outputs if copied)
    return total


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fn", some(UPDATED, 3), ids=lambda fn: fn.__name__.strip("_").replace("_", " "))
def test_a_step_of_an_update_loop_writes_no_more_than_rows(fn: Callable[[Any], Any], target: str) -> None:
    x = np.random.default_rng(0).normal(size=(70, 300))
    kept = x.copy()
    program = compiled_for(target, fn, x)
    assert_same(program(x), fn(x))
    np.testing.assert_array_equal(x, kept)
    steps = [k for k in program.plan.kernels if k.inner]
    assert steps and sum(written_by_steps(inner) for k in steps for inner in k.inner) < 10 * x[0].nbytes


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_begins_where_the_array_lies_that_only_it_reads(target: str) -> None:
    def program(x: Any) -> Any:
        return _recurrence(np.sin(x) * 0.5)

    x = np.random.default_rng(0).normal(size=(800, 300))
    compiled_program = compiled_for(target, program, x)
    assert_same(compiled_program(x), program(x))
    assert compiled_program.peak_bytes < x.nbytes // 2


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_sums_that_a_loop_carries_lie_in_one_place(target: str) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(7, 37, 5)), rng.normal(size=(7, 5, 531))

    def program(x: Any, y: Any) -> Any:
        def step(total: Any, rows: Any) -> Any:
            a, b = rows
            return total + np.cumsum(a @ b, 0), a.sum()

        return ef.scan(step, np.zeros((37, 531)), (x, y))

    compiled_program = compiled_for(target, program, x, y)
    assert_same(compiled_program(x, y), program(x, y))
    products = 2 * 37 * 531 * 8  # of a step, and what is summed up of it
    assert compiled_program.peak_bytes < products + 37 * 531 * 8, "no copy of the total is held beside the result"


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_over_a_reshaped_array_gives_an_array_of_that_shape(target: str) -> None:
    def program(x: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            y[i] += y[i - 1]
            return y

        return ef.fori_loop(1, 30, step, np.tanh(x).reshape(-1, 1))

    x = np.random.default_rng(0).normal(size=(40, 30))
    compiled = compiled_for(target, program, x)
    assert any(", over " in line for line in compiled.source().splitlines()), "the loop begins in its argument's memory"
    assert_same(compiled(x), program(x))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("written", "seen"), [(np.s_[1:5], np.s_[:8:2]), (np.s_[:12:3], np.s_[3:7]), (np.s_[1:5], np.s_[7:3:-1])]
)
def test_a_part_of_a_vector_is_read_as_it_was_before_it_is_written(written: slice, seen: slice, target: str) -> None:
    def program(x: Any) -> Any:
        y = x * 2
        y[written] = y[seen].copy()  # without a copy NumPy itself reads elements that it has written
        return y

    x = np.arange(12.0)
    compiled = compiled_for(target, program, x, laws="none", extractor="unfused")
    assert_same(compiled(x), program(x))


def _rows_in_turn(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + np.sin(x[i])
    return y


def _halves(x: Any) -> Any:
    y = np.empty_like(x)
    y[:80] = np.tanh(x[:80])
    y[80:] = x[80:] * y[:80] - 1
    return y


def _shifted(x: Any) -> Any:
    y = x * 2
    for i in range(16, 0, -1):
        y[i] += y[i + 1]
    return y


@pytest.mark.slow
@pytest.mark.parametrize("fn, target", [(_rows_in_turn, "numpy"), (_halves, "numpy"), (_halves, "c"), (_shifted, "c")])
def test_rows_that_kernels_and_loops_make_are_written_where_they_stay(fn: Callable[[Any], Any], target: str) -> None:
    x = np.random.default_rng(0).normal(size=(160, 300))
    program = compiled_for(target, fn, x)
    np.testing.assert_allclose(program(x), fn(x), rtol=1e-12, atol=1e-12)
    assert program.peak_bytes <= x.nbytes // 2
    assert ", into v" in program.source() or program.report.n_kernels == 1 or fn is _shifted


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_what_others_want_of_rows_is_not_written_over(target: str) -> None:
    """A value that is a result, one that is read after another update of its rows, and one that goes to two places."""

    def several(x: Any) -> Any:
        a, b, c = np.sin(x[:50]) + x[:50], np.cos(x[:50]) * 2, np.tanh(x[:50]) - 1
        y = np.zeros_like(x)
        y[:50], y[50:100], y[100:150], y[150:] = a, b, c, c
        z = y * 1
        z[50:100] = 7
        return y, a, z, b.sum(0), z[50:100] + b

    x = np.random.default_rng(0).normal(size=(200, 300))
    program = compiled_for(target, several, x, laws="none", extractor="unfused")
    for got, want in zip(program(x), several(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
