"""Carries that steps update in place: results are those of Python's loop over copies, whoever reads a carry, when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from tests.support.c_target import C
from tests.support.loops import assert_same

TARGETS = {"numpy": DEVICES["cpu"], "c": C}
ROWS, COLUMNS, TRIPS = 5, 4, 4
Statement = Callable[[Any, Any, Any, Any], Any]  # of the index, two carries, and what does not change; may give two


def _row(i, a, b, x):
    a[i] = b[i] * 0.5 + a[i - 1]


def _turned_row(i, a, b, x):
    a[i] = a[i, ::-1] + 1


def _row_of_other(i, a, b, x):
    b[i - 1] = a[i] + x[i]


def _column(i, a, b, x):
    a[:, i % 2] += b[:, 1]


def _element(i, a, b, x):
    b[i, 2] = a[i - 1, 1] + b[i, 1]


def _slice(i, a, b, x):
    a[1:] = a[:-1] * 0.5 + 1


def _slices(i, a, b, x):
    b[::2] = b[:1] * 0.25
    b[1, :2] = a[0, 2:]


def _places(i, a, b, x):
    a[np.array([3, 0, 3])] = b[:3] + a[1:4]


def _places_by_data(i, a, b, x):
    a[(np.abs(b[0]) * 7).astype(int) % ROWS] = b[1:]


def _joined(i, a, b, x):
    np.add.at(b, np.array([1, 1, 4]), a[2:] * 0.5)


def _read_later(i, a, b, x):
    old = a.copy()
    a[i] = 2.0
    b[0] += old[i]


def _view_read_later(i, a, b, x):
    seen = a[::-1]
    a[0] = b[i]
    b[2] = seen[-1]


def _new(i, a, b, x):
    return a * 0.5 + x, b


def _swapped(i, a, b, x):
    return b, a


def _one_for_both(i, a, b, x):
    return a, a


def _turned(i, a, b, x):
    return a[::-1], b


def _added(i, a, b, x):
    return a * 0.5 + np.tanh(b), b


def _product_added(i, a, b, x):
    return a + b @ (b.T @ b) * 0.01, b


def _added_to_each_other(i, a, b, x):
    return a + b, b * 0.5 + a


def _added_turned(i, a, b, x):
    return (a + a[::-1]) * 0.5 + b, b


def _added_to_its_sum(i, a, b, x):
    return a * 0.5 + a.sum() * 0.01, b


STATEMENTS: list[Statement] = [
    _added, _product_added, _added_to_each_other, _added_turned, _added_to_its_sum,
    _row, _turned_row, _row_of_other, _column, _element, _slice, _slices, _places, _places_by_data, _joined,
    _read_later, _view_read_later, _new, _swapped, _one_for_both, _turned,
]  # fmt: skip


def stepped(statements: list[Statement], i: Any, a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    for statement in statements:
        found = statement(i, a, b, x)
        if found is not None:
            a, b = found[0].copy(), found[1].copy()
    return a, b


def looped(loop: str, statements: list[Statement], seen: str) -> Callable[..., Any]:
    """Two carries through a loop; `seen`: what else of them a step gives, or starts from."""

    def program(a: Any, b: Any, x: Any) -> Any:
        if seen == "the argument is both carries":
            b = a
        elif seen == "the argument is read by every step":
            x = a
        if loop == "fori":
            return ef.fori_loop(0, TRIPS, lambda i, s: stepped(statements, i, *s, x), (a, b)), a
        if loop == "while":

            def step(s: Any) -> Any:
                i, *carries = s
                return (i + 1, *stepped(statements, i, *carries, x))

            return ef.while_loop(lambda s: s[0] + (s[1][0, 0] > 1e9) < TRIPS, step, (0, a, b)), a

        def scanned(s: Any, i: Any) -> Any:
            before = s[0].copy()
            after = stepped(statements, i, *s, x)
            given = {"before": before, "after": after[0], "a view of it": after[0][::-1]}.get(seen, after[0].sum())
            return after, given

        return ef.scan(scanned, (a, b), np.arange(TRIPS)), a

    return program


def plain(loop: str, statements: list[Statement], seen: str) -> Callable[..., Any]:
    """The same by Python's loop, each step on copies."""

    def program(a: Any, b: Any, x: Any) -> Any:
        if seen == "the argument is both carries":
            b = a
        elif seen == "the argument is read by every step":
            x = a
        s, made = (a, b), []
        for i in range(TRIPS):
            before = s[0].copy()
            s = stepped(statements, i, *(v.copy() for v in s), x)
            made.append({"before": before, "after": s[0], "a view of it": s[0][::-1]}.get(seen, s[0].sum()))
        if loop == "fori":
            return s, a
        return ((TRIPS, *s), a) if loop == "while" else ((s, np.stack(made)), a)

    return program


SEEN = [
    "nothing", "the argument is both carries", "the argument is read by every step", "before", "after", "a view of it",
]  # fmt: skip
LOOPS = st.sampled_from(["fori", "while", "scan"])
STEPS = st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4)


def check(target: str, loop: str, statements: list[Statement], seen: str) -> None:
    rng = np.random.default_rng(0)
    args = tuple(rng.normal(size=(ROWS, COLUMNS)) for _ in range(3))
    kept = [a.copy() for a in args]
    wanted = plain(loop, statements, seen)(*(a.copy() for a in args))
    fn = looped(loop, statements, seen)
    compiled = ef.compile(fn, *args, target=TARGETS[target], laws="none", extractor="greedy-priority")
    for _ in range(2):  # the second call finds the memory of the first
        assert_same(compiled(*args), wanted)
    np.testing.assert_array_equal(args, kept)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.__name__.strip("_").replace("_", " "))
def test_each_statement_alone_computes_what_pythons_loop_computes(statement: Statement) -> None:
    check("numpy", "fori", [statement], "nothing")


@settings(max_examples=25, deadline=None)
@given(LOOPS, STEPS, st.sampled_from(SEEN))
def test_steps_of_statements_in_any_order_compute_what_pythons_loop_computes(
    loop: str, statements: list[Statement], seen: str
) -> None:
    check("numpy", loop, statements, seen)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(LOOPS, STEPS, st.sampled_from(SEEN))
def test_steps_of_statements_in_any_order_compute_it_in_c(loop: str, statements: list[Statement], seen: str) -> None:
    check("c", loop, statements, seen)


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_that_every_step_sets_is_all_that_the_step_writes(target: str) -> None:
    a, x = np.zeros((300, 200)), np.ones((300, 200))

    def step(i: Any, a: Any) -> Any:
        a[i] = x[i] * 2 + a[i - 1]
        return a

    program = ef.compile(lambda a: ef.fori_loop(1, 300, step, a), a, target=TARGETS[target])
    np.testing.assert_array_equal(program(a)[:, 0], np.r_[0, np.arange(1, 300) * 2])
    (loop,) = (k for k in program.plan.kernels if k.inner)
    assert sum(k.price.bytes_written for k in loop.inner[-1].kernels) < 4 * x[0].nbytes
    assert program.report.peak_bytes < a.nbytes // 4


@pytest.mark.parametrize("target", TARGETS)
def test_sums_that_a_loop_carries_lie_in_one_place(target: str) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(7, 37, 5)), rng.normal(size=(7, 5, 531))

    def program(x: Any, y: Any) -> Any:
        def step(total: Any, rows: Any) -> Any:
            a, b = rows
            return total + np.cumsum(a @ b, 0), a.sum()

        return ef.scan(step, np.zeros((37, 531)), (x, y))

    compiled_program = ef.compile(program, x, y, target=TARGETS[target])
    assert_same(compiled_program(x, y), program(x, y))
    products = 2 * 37 * 531 * 8  # of a step, and what is summed up of it
    assert compiled_program.peak_bytes < products + 37 * 531 * 8, "no copy of the total is held beside the result"
