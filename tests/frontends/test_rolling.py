"""Loops that tracing unrolled are found again: the graph that is left computes the same, step by step or at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.rolling import roll
from tests.support.random_unrolled import random_unrolled
from tests.support.rolling import is_rolled, of_any_length, rolled_graph

__all__ = ["of_any_length"]

RNG = np.random.default_rng(5)


def operators(graph: ef.Graph) -> Counter[str]:
    return Counter(n.op for n in graph.operators)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_many_random_loops_compute_the_same_when_rolled(part: int) -> None:
    assert sum(is_rolled(random_unrolled, seed) for seed in range(1000 + 120 * part, 1120 + 120 * part)) > 60


def fibonacci(x, w):
    a, b, c = x[0], x[1], x[2]
    for i in range(30):
        a, b, c = b, c, np.tanh(a + 0.1 * b) - c * np.cos(w[i])
    return a, b, c


def test_a_recurrence_of_order_three_carries_three_values():
    graph = rolled_graph(fibonacci, RNG.normal(size=(3, 4)), RNG.normal(size=30))
    assert graph.rolled == ("30 alike steps were rolled into a loop",)
    assert operators(graph)["scan"] == 1 and len(graph.operators) < 15


def euler(f, y, t, h):
    return y + h * f(t, y)


def midpoint(f, y, t, h):
    return y + h * f(t + h / 2, y + h / 2 * f(t, y))


def heun(f, y, t, h):
    k = f(t, y)
    return y + h / 2 * k + h / 2 * f(t + h, y + h * k)


def runge_kutta(f, y, t, h):
    a = f(t, y)
    b = f(t + h / 2, y + h / 2 * a)
    c = f(t + h / 2, y + h / 2 * b)
    return y + h / 6 * a + h / 3 * b + h / 3 * c + h / 6 * f(t + h, y + h * c)


@pytest.mark.parametrize("method", [euler, midpoint, heun, runge_kutta])
def test_steps_whose_stages_look_alike_are_rolled(method):
    def solved(y):
        for i in range(40):
            y = method(lambda t, y: -y * np.sin(t), y, 0.1 * i, 0.1)
        return y

    graph = rolled_graph(solved, RNG.normal(size=5))
    assert operators(graph)["scan"] == 1 and len(graph.operators) < 60


def test_what_only_the_last_step_lacks_and_what_only_the_first_has_stay_outside():
    def f(x, v):
        p, q = x[0], v
        for i in range(20):
            p = np.sin(p + q)
            q = q * np.cos(p) + x[i]  # the last of these is read by nothing
        return p

    graph = rolled_graph(f, RNG.normal(size=(20, 4)), RNG.normal(size=4))
    assert operators(graph)["scan"] == 1 and operators(graph)["cos"] <= 1


def test_rows_are_read_forwards_backwards_by_columns_in_strides_and_as_windows():
    def f(x, y):
        s = np.zeros(4)
        for i in range(16):
            s = np.tanh(s + x[i] * x[40 - i] + y[:, 2 * i] - x[2 * i : 2 * i + 2].sum(0) + x[i : i + 3, 0].max())
        return s

    assert operators(rolled_graph(f, RNG.normal(size=(50, 4)), RNG.normal(size=(4, 50))))["scan"] == 1


SHORTEST = "np.minimum(p, {column} + {row})"


@pytest.mark.parametrize(("column", "row"), [
    ("p[:, k, None]", "p[k]"), ("p[:, k : k + 1]", "p[None, k, :]"), ("p[:, [k]]", "p[[k], :]"),
])  # fmt: skip
def test_places_of_a_carry_that_move_evenly_are_taken_at_an_index(column: str, row: str) -> None:
    scope: dict = {"np": np}
    exec(f"def f(p):\n for k in range(20):\n  p = {SHORTEST.format(column=column, row=row)}\n return p", scope)
    graph = rolled_graph(scope["f"], RNG.normal(size=(20, 20)))
    assert operators(graph)["scan"] == 1 and len(graph.operators) < 12


@pytest.mark.parametrize("written", [
    "g[i] = a", "g[i + 1, 1:3] = a[:2]", "g[2 * i : 2 * i + 2] *= 0.5", "g[40 - i] += a",
    "g[:, 1] = i; g[i, 2:] = a[1]",
])  # fmt: skip
def test_places_of_a_carry_that_move_evenly_are_written_at_an_index(written: str) -> None:
    scope: dict = {"np": np}
    text = f"def f(g):\n for i in range(20):\n  a = g[2 * i] + g.sum(0)\n  {written}\n  g = np.tanh(g + 0.1)\n return g"
    exec(text, scope)
    graph = rolled_graph(scope["f"], RNG.normal(size=(41, 4)))
    assert operators(graph)["scan"] == 1 and len(graph.operators) < 12


def test_a_loop_that_reads_the_values_of_an_earlier_one_backwards_is_rolled_too():
    def thomas(a, b, c, d):
        n = len(d)
        p, q, x = np.zeros(n), np.zeros(n), np.zeros(n)
        p[0], q[0] = c[0] / b[0], d[0] / b[0]
        for i in range(1, n):
            m = b[i] - a[i] * p[i - 1]
            p[i], q[i] = c[i] / m, (d[i] - a[i] * q[i - 1]) / m
        x[-1] = q[-1]
        for i in range(n - 2, -1, -1):
            x[i] = q[i] - p[i] * x[i + 1]
        return x

    graph = rolled_graph(thomas, *(RNG.normal(size=30) + shift for shift in (0, 9, 0, 0)))
    assert operators(graph)["scan"] == 2 and len(graph.operators) < 60


def test_a_filter_that_adds_up_shifted_copies_stays_one_kernel(monkeypatch):
    monkeypatch.setattr(roll, "FEW_ON_WINDOWS", 1000)

    def filtered(x, taps):
        y = np.zeros(x.size + taps.size - 1)
        for k in range(taps.size):
            y[k : k + x.size] += taps[k] * x
        return y

    assert rolled_graph(filtered, RNG.normal(size=300), RNG.normal(size=30)).rolled == ()


def test_places_that_move_unevenly_are_no_loop():
    def f(g):
        for i in range(20):
            g = np.tanh(g + g[i * i % 7])
        return g

    assert operators(rolled_graph(f, RNG.normal(size=(9, 4))))["scan"] == 0


def test_values_of_all_steps_are_stacked_by_the_loop():
    def f(x):
        s, all_of_them = x[0], []
        for i in range(20):
            s = np.tanh(s * 2 + x[i])
            all_of_them.append(s)
        return np.stack(all_of_them), s

    for turn in (0.0, 0.2):  # one step, and several in one
        graph = rolled_graph(f, RNG.normal(size=(20, 4)), turn=turn)
        assert operators(graph)["scan"] == 1 and not operators(graph).keys() & {"tanh", "concat"}
    assert graph.rolled is not None and graph.rolled[0] == "20 alike steps were rolled into a loop of 5, 4 in each"


def test_products_of_the_inputs_of_all_steps_are_one_before_the_loop():
    def f(xs, w, u):
        h = np.zeros(5)
        for x in xs:
            h = np.tanh(x @ w + h @ u)
        return h

    graph = rolled_graph(f, *(RNG.normal(size=s) for s in ((16, 3), (3, 5), (5, 5))))
    assert operators(graph)["matmul"] == 1 and operators(graph)["scan"] == 1


def test_loops_in_loops_are_rolled_from_the_inside():
    def f(x, a, b):
        for i in range(16):
            for j in range(17):
                x = np.tanh(x * a[i] + b[j])
        return x

    graph = rolled_graph(f, RNG.normal(size=4), RNG.normal(size=16), RNG.normal(size=(17, 4)))
    (outer,) = [n for n in graph.nodes if n.op == "scan"]
    assert [n.op for n in outer.attr("body").graph.nodes].count("scan") == 1


@pytest.mark.parametrize("place", ["[t, j]", "[j, t]", "[t, 0, j]"])
@pytest.mark.parametrize("kept", [2, 20])
def test_steps_that_write_a_row_by_its_elements_and_read_it_whole_are_alike(place: str, kept: int) -> None:
    shape = {"[t, j]": f"({kept}, 4)", "[j, t]": f"(4, {kept})", "[t, 0, j]": f"({kept}, 2, 4)"}[place]
    row, scope = place.replace("j", ":"), {"np": np}
    text = f"""
def f(a, b):
    y, best = np.zeros({shape}), np.zeros({shape}, dtype=int)
    y{row.replace("t", "0")} = b[0]
    for step in range(1, 20):
        t, last = step % {kept}, (step - 1) % {kept}
        for j in range(4):
            scores = y{row.replace("t", "last")} + a[:, j]
            best{place} = np.argmax(scores)
            y{place} = scores[best{place}] * 0.5 + b[step, j]
    return y, best
"""
    exec(text, scope)
    graph = rolled_graph(scope["f"], RNG.normal(size=(4, 4)), RNG.normal(size=(20, 4)))
    assert any("steps were rolled into a loop" in said for said in graph.rolled)
    assert operators(graph)["argmax"] <= 8


def test_fewer_than_sixteen_steps_stay_as_they_are():
    def f(x, n):
        s = x[0]
        for i in range(n):
            s = np.tanh(s + x[i])
        return s

    x = RNG.normal(size=(20, 4))
    assert rolled_graph(lambda x: f(x, 15), x).rolled == ()
    assert rolled_graph(lambda x: f(x, 16), x).rolled == ("16 alike steps were rolled into a loop",)


def test_steps_with_weights_of_their_own_stay_as_they_are():
    weights = [RNG.normal(size=(4, 4)) for _ in range(20)]

    def f(x, weights):
        for w in weights:
            x = np.tanh(x @ w)
        return x

    def with_constants(x):
        return f(x, weights)

    assert rolled_graph(f, RNG.normal(size=4), weights).rolled == ()
    assert rolled_graph(with_constants, RNG.normal(size=4)).rolled == ()


def test_steps_of_shrinking_shapes_stay_as_they_are():
    def f(a):
        for _ in range(20):
            a = np.tanh(a[1:] - a[:-1])
        return a

    assert rolled_graph(f, RNG.normal(size=30)).rolled == ()


def test_a_chain_of_few_operators_stays_one_kernel(monkeypatch):
    monkeypatch.setattr(roll, "FEW_OPERATORS", 200)
    monkeypatch.setattr(roll, "MANY_OPERATORS", 400)

    def f(n):
        def chain(x):
            for i in range(n):
                x = np.tanh(x) * (1.0 + 0.01 * i)
            return x

        return chain

    x = RNG.normal(size=4)
    assert rolled_graph(f(90), x).rolled == () and rolled_graph(f(250), x).rolled == (
        "250 alike steps were rolled into a loop",
    )  # fmt: skip


@pytest.mark.parametrize("join", [np.stack, np.concatenate, np.vstack])
def test_alike_pieces_that_are_joined_are_computed_at_once(join):
    x, w = RNG.normal(size=(20, 4)), RNG.normal(size=(4, 3))
    graph = rolled_graph(lambda x, w: join([(x[i] * i + 1.0) @ w for i in range(20)]), x, w)
    assert graph.rolled == ("20 alike pieces are computed at once",)
    assert operators(graph)["matmul"] == 1 and not operators(graph)["concat"]


def test_pieces_that_differ_are_joined_around_those_that_are_alike():
    def f(x):
        pieces = [np.tanh(x[i]) for i in range(20)]
        pieces[3] = x[0] + 1
        return np.stack([*pieces, x[5], *(x[i] * 2 for i in range(18))])

    graph = rolled_graph(f, RNG.normal(size=(20, 4)))
    assert graph.rolled == ("16 alike pieces are computed at once", "18 alike pieces are computed at once")


@pytest.mark.parametrize("key", ["[i]", "[19 - i]", "[2 * i + 1]", "[:, i]", "[40 + 2 * i : 42 + 2 * i, :10]"])
def test_rows_that_are_written_one_by_one_are_written_at_once(key):
    scope: dict = {"np": np}
    shape = {"[:, i]": ":, i", "[40 + 2 * i : 42 + 2 * i, :10]": "2 * i : 2 * i + 2, :10"}.get(key, "i")
    exec(f"def f(x):\n y = x * 0.5\n for i in range(20):\n  y{key} = np.exp(x[{shape}]) * i\n return y", scope)
    graph = rolled_graph(scope["f"], RNG.normal(size=(100, 50)))
    assert graph.rolled == ("20 alike pieces are computed at once",)
    assert operators(graph)["exp"] == 1


@pytest.mark.parametrize(
    "piece",
    ["np.abs(np.fft.rfft(x[i : i + 8] * w))", "np.fft.ifft(x[2 * i : 2 * i + 5]).real",
     "(x[3] - x[i : i + 6]) @ (x[i : i + 6] * w[:6])", "np.outer(x[i : i + 3], x[i : i + 3]) @ np.ones((3, 2))",
     "np.dot(np.arange(-2, 3), x[i : i + 15].reshape(5, 3))", "np.ones((2, 5)) @ x[i : i + 15].reshape(5, 3)",
     "x[i : i + 12].reshape(3, 4) @ x[i + 1 : i + 13].reshape(4, 3)", "np.cumsum(x[i : i + 5])", "x[i : i + 5][::-1]",
     "np.array([x[i], w[2], x[i + 1] * x[i]])", "np.append(x[i : i + 3], 1.0)",
     "sliding_window_view(x[i : i + 9], 3).max(axis=0)"],
)  # fmt: skip
def test_pieces_are_computed_at_once_whatever_they_do_along_axes(piece: str) -> None:
    scope = {"np": np, "sliding_window_view": np.lib.stride_tricks.sliding_window_view}
    exec(f"def f(x, w):\n    return np.stack([{piece} * 0.5 for i in range(1, 20)])", scope)
    graph = rolled_graph(scope["f"], RNG.normal(size=60), RNG.normal(size=8))
    assert graph.rolled == ("19 alike pieces are computed at once",)


def test_writes_that_overlap_keep_their_order():
    def f(x):
        y = np.zeros(40)
        for i in range(20):
            y[i : i + 3] = x[i] * i
        return y

    rolled_graph(f, RNG.normal(size=(20, 3)))


@pytest.mark.parametrize("how", ["sum", "largest", "smallest"])
def test_what_python_adds_up_or_compares_one_by_one_is_one_reduction(how):
    def f(x):
        terms = [np.cos(x[i]) for i in range(40)]
        if how == "sum":
            return sum(terms)
        extreme = terms[0]
        for term in terms[1:]:
            extreme = (np.maximum if how == "largest" else np.minimum)(extreme, term)
        return extreme

    graph = rolled_graph(f, RNG.normal(size=(40, 4)))
    assert operators(graph)[{"sum": "sum", "largest": "max", "smallest": "min"}[how]] == 1
    assert operators(graph)["cos"] <= 2 and not operators(graph)["scan"]


def test_strict_numerics_add_in_the_order_of_the_program(monkeypatch):
    monkeypatch.setattr(roll, "FEW_OPERATORS", 200)
    x = RNG.normal(size=40)
    assert rolled_graph(lambda x: sum(x[i] for i in range(40)), x, exactly=True).rolled == ()
    assert rolled_graph(lambda x: sum(x[i] for i in range(40)), np.arange(40), exactly=True).rolled != ()


def test_a_running_sum_is_no_reduction():
    def f(x):
        total, sums = 0.0, []
        for i in range(20):
            total = total + x[i]
            sums.append(total)
        return np.stack(sums)

    assert not operators(rolled_graph(f, RNG.normal(size=20)))["sum"]


def test_equal_graphs_become_equal_graphs():
    args = RNG.normal(size=(3, 4)), RNG.normal(size=30)
    assert rolled_graph(fibonacci, *args).key == rolled_graph(fibonacci, *args).key
