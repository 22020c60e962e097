"""A result shares memory with nothing, whatever the arguments share and whoever changes them afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

import eqfuse as ef
from tests.runtime.test_arguments import RNG, C, assert_same


def test_arguments_may_share_memory() -> None:
    x = RNG.normal(size=100)
    f = ef.jit(lambda u, v: (u - v, u @ v))
    for u, v in ((x, x), (x[1:], x[:-1]), (x[::-1], x), (x, np.broadcast_to(x[3], 100))):
        assert_same(f(u, v), (u - v, u @ v))


def test_results_fed_back_do_not_disturb_what_they_came_from() -> None:
    def step(x: Any, y: Any) -> Any:
        return y + 0.1, x * 2, x

    f = ef.jit(step)
    got: Any = (np.arange(5.0), np.ones(5))
    wanted = got
    kept = []
    for _ in range(6):
        got, wanted = f(*got[:2]), step(*wanted[:2])
        kept.append((got, wanted))
    for g, w in kept:
        assert_same(g, w)




def owned(x: Any) -> list[Any]:
    y = np.exp(x)
    return [
        x, x, x.T, x[0], x[:, ::-1], np.broadcast_to(x[0], (4, 3)), C, C, C[::-1], C * 2, y, y, y.T, y[1],
        y.reshape(-1), np.broadcast_to(y, (2, 2, 3)), np.broadcast_to(y[:, :1], (2, 3))[::-1],
        np.broadcast_to(C, (2, 3)), y + 1,
    ]  # fmt: skip


def test_a_result_shares_memory_with_nothing_and_may_be_written_to() -> None:
    f = ef.jit(owned)
    x = RNG.normal(size=(2, 3))
    kept_x, kept_c = x.copy(), C.copy()
    wanted = [np.array(r) for r in owned(x)]
    results = f(x)
    for i, result in enumerate(results):
        assert result.flags.writeable
        assert not any(np.shares_memory(result, other) for other in (x, C, *results[:i]))
    for i, result in enumerate(results):
        result[...] = -i
    for i, result in enumerate(results):
        assert (result == -i).all()
    np.testing.assert_array_equal(x, kept_x)
    np.testing.assert_array_equal(C, kept_c)
    for again, w in zip(f(x), wanted, strict=True):
        np.testing.assert_allclose(again, w)


def test_a_changed_constant_of_the_caller_does_not_reach_the_program() -> None:
    w = np.ones(4)
    f = ef.jit(lambda x: x + w)
    np.testing.assert_array_equal(f(np.zeros(4)), np.ones(4))
    w[...] = 7
    np.testing.assert_array_equal(f(np.zeros(4)), np.ones(4))


def test_a_broadcast_result_outlives_the_kernels_that_follow_it() -> None:
    def f(x: Any) -> Any:
        y = np.exp(x)
        z = np.cumsum(np.sort(y), -1)
        w = np.cumsum(np.sort(z * -1), -1)
        return np.broadcast_to(y, (2, *y.shape)), np.sort(w)

    x = RNG.normal(size=3000)
    assert_same(ef.compile(f, x, laws="none", extractor="unfused")(x), f(x))
