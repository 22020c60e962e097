"""`while_loop`, `fori_loop`, `scan` and `cond`: what they mean, on arrays and traced, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import DtypeError, ShapeError, TraceError
from eqfuse.ops.loops import LOOPS
from tests.support.loops import LOOPED, assert_same
from tests.support.random_loops import random_loops

X = np.ones(3)


@pytest.mark.parametrize("name", LOOPED)
def test_on_arrays_a_loop_is_pythons_own(name: str) -> None:
    fn, plain, args, exact = LOOPED[name]
    before = [np.copy(a) for a in args]
    assert_same(fn(*args), plain(*args), exact)
    for array, kept in zip(args, before, strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.parametrize("name", LOOPED)
def test_a_traced_loop_means_the_same(name: str) -> None:
    fn, plain, args, exact = LOOPED[name]
    graph = ef.trace(fn, *args)
    assert_same(ef.meaning(graph, *args), plain(*args), exact)


@pytest.mark.parametrize("name", LOOPED)
def test_the_text_of_a_graph_with_loops_gives_it_back(name: str) -> None:
    graph = ef.trace(LOOPED[name].fn, *LOOPED[name].args)
    read = ef.parse(str(graph))
    assert read == graph and read.key == graph.key


@pytest.mark.parametrize("part", range(4))
def test_random_loops_mean_the_same_on_arrays_and_traced(part: int) -> None:
    for seed in range(30 * part, 30 * part + 30):
        text, fn, args = random_loops(seed)
        before = [np.copy(a) for a in args]
        wanted = fn(*args)
        assert all(np.array_equal(a, b) for a, b in zip(args, before, strict=True)), text
        graph = ef.trace(fn, *args)
        assert ef.parse(str(graph)) == graph, text
        np.testing.assert_allclose(ef.meaning(graph, *args), wanted, rtol=1e-9, atol=1e-12, err_msg=text)


def loops(graph):
    return [n for n in graph.nodes if n.op in LOOPS]


def test_what_does_not_change_is_computed_before_the_loop():
    graph = ef.trace(lambda a, x: ef.fori_loop(0, 9, lambda i, v: v + np.exp(a) @ np.tanh(a[0]), x), np.eye(3), X)
    (loop,) = loops(graph)
    assert {n.op for n in loop.attr("body").graph.operators} == {"add"}
    assert {"exp", "tanh", "matmul"} <= {n.op for n in graph.operators}


def test_a_carry_that_stays_as_it_is_is_none():
    graph = ef.trace(lambda a, x: ef.fori_loop(0, 9, lambda i, s: (s[0], s[0] @ s[1]), (a, x)), np.eye(3), X)
    (loop,) = loops(graph)
    assert loop.attr("carries") == 1 and loop.type == graph.inputs[1].type


def test_products_of_the_rows_of_a_scan_are_one_product_before_it():
    def f(xs, w, u, b):
        return ef.scan(lambda h, x: (np.tanh(x @ w + h @ u + b), h), np.zeros(4), xs)

    graph = ef.trace(f, np.ones((7, 3)), np.ones((3, 4)), np.ones((4, 4)), np.ones(4))
    (loop,) = loops(graph)
    assert [n.op for n in loop.attr("body").graph.operators].count("matmul") == 1
    (before,) = [n for n in graph.nodes if n.op == "matmul"]
    assert before.shape[0] == 7 and before.args[1] is graph.inputs[1]


def test_a_matrix_times_the_row_of_a_scan_is_a_product_of_all_rows_before_it():
    def f(xs, w):
        return ef.scan(lambda h, x: (np.maximum(h, w @ x * 2 - 1), np.exp(w @ x)), np.zeros(4), xs)

    args = np.arange(21.0).reshape(7, 3) / 9, np.arange(12.0).reshape(4, 3) / 9
    graph = ef.trace(f, *args)
    (loop,) = loops(graph)
    assert not any(n.op == "matmul" for n in loop.attr("body").graph.nodes)
    assert_same(ef.meaning(graph, *args), (np.maximum(0, (args[0] @ args[1].T * 2 - 1).max(0)),
                                           np.exp(args[0] @ args[1].T)))  # fmt: skip


def test_an_array_taken_at_the_index_of_a_loop_is_gone_through_by_rows():
    z = np.arange(15.0).reshape(5, 3)

    def f(z, n):
        return ef.fori_loop(1, 4, lambda i, v: v * z[i] + i, np.ones(3))

    graph = ef.trace(f, z, 4)
    (loop,) = loops(graph)
    assert not any(n.op == "take" for n in loop.attr("body").graph.nodes)
    wanted = np.ones(3)
    for i in range(1, 4):
        wanted = wanted * z[i] + i
    assert_same(ef.meaning(graph, z, 4), wanted)

    def beyond(z):
        return ef.fori_loop(-1, 4, lambda i, v: v + z[i], np.ones(3))

    assert_same(ef.meaning(ef.trace(beyond, z), z), 1 + z[-1] + z[:4].sum(0))


def test_a_branch_computes_its_own_and_reads_what_is_computed_outside():
    def f(x):
        y = np.exp(x)
        return ef.cond(x[0] > 0, lambda: np.sqrt(y), lambda: y)

    graph = ef.trace(f, X)
    (choice,) = loops(graph)
    assert {n.op for n in choice.attr("yes").graph.operators} == {"sqrt"}
    assert not choice.attr("no").graph.operators


def test_a_condition_that_is_known_takes_its_branch_when_traced():
    assert not loops(ef.trace(lambda x: ef.cond(len(x) > 2, lambda: x + 1, lambda: x), X))


def test_a_body_may_return_a_python_number_for_any_kind_of_carry_that_holds_it():
    init = np.ones(()), np.float32(2), 1 + 0j, np.uint8(3)
    wanted = 0.0, np.float32(1.5), 2 + 0j, np.uint8(7)
    assert_same(ef.fori_loop(0, 1, lambda i, s: (0, 1.5, 2, 7), init), wanted, True)


def both(fn, *args):
    """The refusals of a function on arrays, and traced."""
    refusals = []
    for call in (lambda: fn(*args), lambda: ef.trace(fn, *args)):
        with pytest.raises(ef.EqfuseError) as caught:
            call()
        refusals.append(caught.value)
    assert "test_loops.py" in str(refusals[0]) and "test_loops.py" in str(refusals[1])
    assert type(refusals[0]) is type(refusals[1])
    return refusals[1]


def test_a_step_that_changes_a_dtype_is_refused_by_the_name_of_the_leaf():
    error = both(lambda x: ef.fori_loop(0, 3, lambda i, s: {"a": s["a"], "b": [s["b"][0].astype("f4")]},
                                        {"a": x, "b": [x]}), X)  # fmt: skip
    assert isinstance(error, DtypeError)
    assert "init_val['b'][0] of ef.fori_loop is float64[3] before a step and float32[3] after it" in str(error)
    assert ".astype(np.float64)" in str(error)


def test_a_step_that_changes_a_shape_is_refused():
    error = both(lambda x: ef.while_loop(lambda v: v.sum() < 9, lambda v: np.concatenate([v, v]), x), X)
    assert isinstance(error, ShapeError)
    assert "float64[3] before a step and float64[6] after it" in str(error)


def test_a_python_number_that_does_not_fit_the_carry_is_refused():
    error = both(lambda n: ef.fori_loop(0, 3, lambda i, v: 0.5, n), 2)
    assert "int64[] before a step and float64[] after it" in str(error)


def test_a_python_number_that_its_dtype_does_not_hold_is_refused():
    assert "300" in str(both(lambda n: ef.fori_loop(0, 1, lambda i, v: 300, n), np.uint8(3)))


def test_a_step_that_returns_other_containers_is_refused():
    error = both(lambda x: ef.scan(lambda c, row: (c[0], row), (x, x), X), X)
    assert isinstance(error, TraceError)
    assert "a step of ef.scan returns · where its init is (·, ·)" in str(error)


def test_a_condition_of_many_numbers_or_of_none_is_refused():
    assert "not one bool" in str(both(lambda x: ef.while_loop(lambda v: v < 2, lambda v: v + 1, x), X))
    assert "x != 0" in str(both(lambda x: ef.cond(x.sum(), lambda: 1, lambda: 2), X))


def test_a_scan_without_steps_to_count_or_of_other_counts_is_refused():
    assert "length=100" in str(both(lambda x: ef.scan(lambda c, _: (c, c), x), X))
    assert "2 rows" in str(both(lambda x: ef.scan(lambda c, row: (c, c), x, (np.ones(3), np.ones(2))), X))
    assert "has no axes" in str(both(lambda x: ef.scan(lambda c, row: (c, c), x, 3.0), X))
    assert "two things" in str(both(lambda x: ef.scan(lambda c, row: c, x, X), X))


def test_bounds_are_whole_numbers():
    assert "give an int" in str(both(lambda x: ef.fori_loop(0, x[0], lambda i, v: v, x), X))


def test_a_carry_that_is_no_array_is_refused():
    assert "init_val[1] of ef.fori_loop is a builtins.object" in str(
        both(lambda x: ef.fori_loop(0, 3, lambda i, v: v, (x, object())), X)
    )


def refused(fn, *args):
    with pytest.raises(ef.EqfuseError) as caught:
        ef.trace(fn, *args)
    return str(caught.value)


def test_branches_of_other_types_are_refused():
    assert "float64[3] by true_fun and int64[3] by false_fun" in refused(
        lambda x: ef.cond(x[0] > 0, lambda: x, lambda: x.astype(int)), X
    )
    assert "(·, ·) and ·" in refused(lambda x: ef.cond(x[0] > 0, lambda: (x, x), lambda: x), X)


def test_a_body_that_writes_to_an_array_from_outside_is_refused():
    def f(x):
        y = x * 2

        def step(i, v):
            y[0] = v.sum()
            return v

        return ef.fori_loop(0, 3, step, x)

    assert "writes to an array of shape (3,) from outside" in refused(f, X)

    def g(x):
        def step(i, v):
            x[:2] += v[:2]
            return v

        return ef.fori_loop(0, 3, step, x + 1)

    message = refused(g, X)
    assert "Make the array a carry" in message and "x[:2] += v[:2]" in message


def test_a_value_of_a_step_that_is_used_outside_is_refused():
    def f(x):
        kept = []
        ef.fori_loop(0, 3, lambda i, v: kept.append(v) or v + 1, x)
        return kept[0]

    assert "return it from there" in refused(f, X)


def test_random_numbers_in_a_step_are_refused():
    def f(rng, x):
        return ef.fori_loop(0, 3, lambda i, v: v + rng.normal(size=3), x)

    message = refused(f, np.random.default_rng(0), X)
    assert "Draw all numbers before the loop" in message
    assert "Draw all numbers" in refused(lambda x: ef.fori_loop(0, 3, lambda i, v: v + np.random.rand(3), x), X)


def test_a_loop_of_pythons_own_over_values_that_are_not_known_shows_what_to_write():
    def f(x, eps):
        error = x.sum()
        while error > eps:
            error = error / 2
        return error

    message = refused(f, X, 1e-3)
    assert "while error > eps" in message and "ef.while_loop(" in message

    def g(x):
        if x.sum() > 0:
            return x
        return -x

    message = refused(g, X)
    assert "ef.cond(" in message and "np.where" in message

    def h(x, n):
        for _ in range(n):
            x = x * 2
        return x

    assert "ef.fori_loop(" in refused(h, X, 3)
