"""Long chains of views are a few views of what they begin with, and show the same elements."""

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.rolling.view_chains import LONG_VIEWS, views_met
from eqfuse.ir.evaluate import evaluate

STEPS = (
    lambda x: x.T, lambda x: x[1:], lambda x: x[:, :-1], lambda x: x[::-1], lambda x: x[:, ::-1],
    lambda x: x[: len(x) // 2 * 2 : 2] if len(x) > 9 else x.T, lambda x: x[-2::-1], lambda x: x.transpose(1, 0)[:, 1:],
)  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_random_chains_of_views_show_the_same_elements(seed):
    steps = np.random.default_rng(seed).integers(len(STEPS), size=30)

    def viewed(x):
        kept = None
        for i, step in enumerate(steps):
            x = STEPS[step](x)
            kept = x * 2.0 if i == 15 else kept
        return x, kept

    x = np.arange(61.0 * 67).reshape(61, 67)
    graph = ef.trace(viewed, x)
    met = views_met(graph)
    assert len(met.operators) < len(graph.operators)
    for got, wanted in zip(evaluate(met, [x]), viewed(x), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert views_met(met) is met


def test_a_chain_of_thousands_of_views_is_two():
    def turned(x):
        for _ in range(1000):
            x = x.T[1:]
        return x

    met = views_met(ef.trace(turned, ef.spec((1000, 1000), np.float64)))
    assert {n.op for n in met.operators} <= {"transpose", "slice"}
    assert len(met.operators) <= 2


def test_short_chains_are_left_to_the_search():
    def turned(x):
        for _ in range(LONG_VIEWS // 2 - 1):
            x = x.T[1:]
        return x

    graph = ef.trace(turned, ef.spec((10, 10), np.float64))
    assert views_met(graph) is graph
