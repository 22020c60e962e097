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
from eqfuse.testing import cudasim
from eqfuse.testing.emulated_gpu import EmulatedGpu
from tests.support.c_target import C
from tests.support.gpu import program_on
from tests.support.loops import assert_same

TARGETS = {"numpy": DEVICES["cpu"], "c": C, "cuda": DEVICES["h100"]}
emulated = pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason="needs the CUDA emulator")
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


def _part_of_row(i, a, b, x):
    a[i, 1:-1] = a[i - 1, :2] + b[i, 1]
    a[i, ::2] = a[i, 1::2] * 0.5
    a[i, 0] = b[0, i - 1]


def _borders(i, a, b, x):
    a[0] = a[1]
    a[-1] = a[-2] * 0.5
    a[1] = b[1] + a[2]


def _borders_after(i, a, b, x):
    b[1] = a[2] - b[2]
    b[0] = b[1]
    b[2:4] = b[1:3]


def _row_where(i, a, b, x):
    def changed(a):
        a[i] = b[i] + a[i - 1]
        return a

    return ef.cond(b[i, 0] > 0, changed, lambda a: a, a), b


def _either_row(i, a, b, x):
    def changed(a, b):
        a[i] = b[0]
        return a, b * 0.5

    def other(a, b):
        b[i] = a[1] + b[i]
        return a, b

    return ef.cond(a[i, 0] > 0, changed, other, a, b)


def _other_where(i, a, b, x):
    return ef.cond(a[i, 0] > 0, lambda a, b: (b, a), lambda a, b: (a, b), a, b)


def _elements(i, a, b, x):
    def one(j, a):
        a[i, j] = a[i - 1, j] * 0.5 + b[i, j]
        return a

    return ef.fori_loop(0, COLUMNS, one, a), b


def _rows_of_both(i, a, b, x):
    def one(j, s):
        a, b = s
        a[j] = b[j - 1] + x[i]
        return b, a

    return ef.fori_loop(0, 3, one, (a, b))


def _rows_by_old(i, a, b, x):
    old = a.copy()

    def one(j, a):
        a[j] = a[j - 1] + old[j]
        return a

    return ef.fori_loop(0, ROWS, one, a), b


def _rows_of_copies(i, a, b, x):
    def one(j, s):
        c, d = s
        c[j] = d[j - 1]
        return c, d

    c, d = ef.fori_loop(0, 3, one, (a, a))
    return c + d, b


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
    _read_later, _view_read_later, _part_of_row, _borders, _borders_after, _row_where, _either_row, _other_where,
    _elements, _rows_of_both, _rows_by_old, _rows_of_copies, _new, _swapped, _one_for_both, _turned,
]  # fmt: skip


def stepped(statements: list[Statement], i: Any, a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    for statement in statements:
        changed = statement(i, a, b, x)
        if changed is not None:
            a, b = changed[0].copy(), changed[1].copy()
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
        s, rows = (a, b), []
        for i in range(TRIPS):
            before = s[0].copy()
            s = stepped(statements, i, *(v.copy() for v in s), x)
            rows.append({"before": before, "after": s[0], "a view of it": s[0][::-1]}.get(seen, s[0].sum()))
        if loop == "fori":
            return s, a
        return ((TRIPS, *s), a) if loop == "while" else ((s, np.stack(rows)), a)

    return program


SEEN = [
    "nothing", "the argument is both carries", "the argument is read by every step", "before", "after", "a view of it",
]  # fmt: skip
LOOPS = st.sampled_from(["fori", "while", "scan"])
STEPS = st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4)


def side_by_side(functions: list[Callable[..., Any]]) -> Callable[..., Any]:
    return lambda *args: tuple(fn(*args) for fn in functions)


def check(target: str, loop: str, steps: list[list[Statement]], seen: str) -> None:
    """Of several steps each has a loop of its own, in one program."""
    rng = np.random.default_rng(0)
    args = tuple(rng.normal(size=(ROWS, COLUMNS)) for _ in range(3))
    kept = [a.copy() for a in args]
    wanted = side_by_side([plain(loop, statements, seen) for statements in steps])(*(a.copy() for a in args))
    fn = side_by_side([looped(loop, statements, seen) for statements in steps])
    compiled = ef.compile(fn, *args, target=TARGETS[target], laws="none", extractor="greedy-priority")
    if target == "cuda":
        compiled = program_on(compiled.plan, EmulatedGpu())
    for _ in range(2):  # the second call finds the memory of the first
        assert_same(compiled(*args), wanted)
    np.testing.assert_array_equal(args, kept)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.__name__.strip("_").replace("_", " "))
def test_each_statement_alone_computes_what_pythons_loop_computes(statement: Statement) -> None:
    check("numpy", "fori", [[statement]], "nothing")


@pytest.mark.slow
@emulated
@pytest.mark.parametrize("first", range(0, len(STATEMENTS), 8))
def test_each_statement_alone_computes_it_on_a_gpu(first: int) -> None:
    check("cuda", "fori", [[statement] for statement in STATEMENTS[first : first + 8]], "nothing")


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(LOOPS, STEPS, st.sampled_from(SEEN))
def test_steps_of_statements_in_any_order_compute_what_pythons_loop_computes(
    loop: str, statements: list[Statement], seen: str
) -> None:
    check("numpy", loop, [statements], seen)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(LOOPS, STEPS, st.sampled_from(SEEN))
def test_steps_of_statements_in_any_order_compute_it_in_c(loop: str, statements: list[Statement], seen: str) -> None:
    check("c", loop, [statements], seen)


@pytest.mark.slow
@emulated
@settings(max_examples=25, deadline=None)
@given(LOOPS, STEPS, st.sampled_from(SEEN))
def test_steps_of_statements_in_any_order_compute_it_on_a_gpu(
    loop: str, statements: list[Statement], seen: str
) -> None:
    check("cuda", loop, [statements], seen)


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_an_update_writes_to_what_is_spread_over_no_more_places(target: str) -> None:
    def twice(x: Any, places: Any, values: Any) -> Any:
        x = x.copy()
        x[places] = values
        x[0:1] = x[-1]  # of one row: the row itself
        x[places] = 0
        return x + 1

    arguments = np.ones((1, 2)), np.array([0]), np.full((1, 2), 3.0)
    program = ef.compile(twice, *arguments, target=TARGETS[target])
    np.testing.assert_array_equal(program(*arguments), twice(*arguments))
