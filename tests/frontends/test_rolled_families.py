"""Loops within loops, the inner of which computes its rows apart from one another: few operators, each on all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.rolling.families import FEWEST_OF_MANY, made_together
from eqfuse.frontends.rolling.rows import evenly
from eqfuse.ir.pytree import tree_leaves

RNG = np.random.default_rng(3)


def eliminated(a: Any) -> Any:
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            a[j, i:] -= a[j, i] / a[i, i] * a[i, i:]
    return a


def from_below(a: Any) -> Any:
    for i in range(len(a) - 1, -1, -1):
        for j in range(i - 1, -1, -1):
            a[j, : i + 1] -= a[j, i] / a[i, i] * a[i, : i + 1]
    return a


def orthogonal(a: Any) -> Any:
    a, q, r = a.copy(), np.zeros_like(a), np.zeros((len(a), len(a)))
    for k in range(len(a)):
        r[k, k] = np.sqrt(np.sum(a[:, k] ** 2))
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, len(a)):
            r[k, j] = q[:, k] @ a[:, j]
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


def growing(a: Any) -> Any:
    out = np.zeros_like(a)
    for i in range(1, len(a)):
        for j in range(i):
            out[i, j] = np.tanh(a[i, j]) * a[j, i] + out[i - 1, 0]
    return out


def read_apart(a: Any) -> Any:
    """Pieces that others read one by one, and what is computed for them."""
    halves = [np.exp(a[i]) * 0.5 for i in range(len(a))]
    return np.stack([h + 1 for h in halves]), halves[0] @ halves[-1], np.exp(a[3]).sum()


def together(fn: Any, *args: Any) -> tuple[ef.Graph, list[str]]:
    """`fn`'s graph with pieces made together, after a look at what it computes."""
    graph = ef.trace(fn, *args)
    rolled, said = made_together(graph)
    for got, wanted in zip(*(tree_leaves(ef.meaning(g, *args))[0] for g in (rolled, graph)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)
    return rolled, said


def matrix(n: int) -> np.ndarray:
    return RNG.normal(size=(n, n)) + n * np.eye(n)


@pytest.mark.parametrize("fn", [eliminated, from_below, orthogonal])
def test_each_turn_of_the_outer_loop_is_a_few_operators_on_all_rows(fn: Any) -> None:
    count = {}
    for n in (20, 30):
        rolled, said = together(fn, matrix(n))
        runs = [int(text.split(" in ")[1].split()[0]) for text in said if " runs" in text]
        assert max(runs) >= n - FEWEST_OF_MANY - 2
        count[n] = sum(node.op in ("multiply", "subtract", "divide", "matmul") for node in rolled.operators)
    assert count[30] - count[20] <= 10 * 10, "as many more as turns, whatever the rows"


@pytest.mark.parametrize("fn", [growing, read_apart])
def test_who_reads_a_piece_reads_a_row_of_all(fn: Any) -> None:
    rolled, said = together(fn, matrix(24))
    assert said
    computed = [node for node in rolled.operators if node.op in ("exp", "tanh")]
    shapes = sorted({node.shape for node in computed})
    assert len(computed) <= 26, "of 24 rows, the first few by elements"
    assert max(np.prod(shape) for shape in shapes) >= 23


def test_ranges_fall_into_runs_at_even_distances() -> None:
    def along(*places: tuple[int, int]) -> list[tuple[tuple[int, int, int], ...]]:
        return [((i, i + 1, 1), (j, 8, 1)) for i, j in places]

    shrinking = along(*((j, i) for i in range(3) for j in range(i, 5)))
    assert evenly(shrinking) == [range(5), range(5, 9), range(9, 12)]
    assert evenly(along((7, 7), (0, 0), (1, 0), (2, 0), (3, 0))) == [range(1), range(1, 5)]
    assert evenly(along((0, 0))) == [range(1)]
