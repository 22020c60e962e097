"""Products of matrices and sums over many terms, as large as the safe range allows: more than a check of laws draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.ops.approximation import safe_range
from tests.numerics.contract import broken

DEPTH = 4096
PROGRAMS: dict[str, Callable[..., Any]] = {
    "quotients of rows and columns": lambda x, w: (x / x.max(1, keepdims=True)) @ (w / w.max(0, keepdims=True)),
    "quotients of three": lambda x, w: (((x / x[:, :1]) @ w) / w[:1]) @ (w / w[:1]).T,
    "scaled rows": lambda x, w: (x * (1 / x[:, :1])) @ w,
    "scaled by a number": lambda x, w: ((x / x.max()) @ (w / w.max())) / DEPTH,
    "a low-rank update": lambda x, w: x[:, :16] @ (w[:16] + x[:, :1].repeat(2, 0)[:16] @ w[:1]),
    "a mean of scaled rows": lambda x, w: ((x / x[:, :1]) * (w[:, 0] / w[0, 0])).mean(1),
    "a weighted sum": lambda x, w: ((x / x[:, :1]) @ w / w[:1]).sum(0),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("signs", ["positive", "alternating", "mixed"])
def test_deep_sums_of_large_numbers_keep_the_promise(name: str, signs: str) -> None:
    rng = np.random.default_rng(0)
    size = safe_range(np.dtype(np.float32))[1] / 2
    x, w = (np.full(shape, size, np.float32) for shape in ((32, DEPTH), (DEPTH, 16)))
    if signs == "alternating":
        x[:, 1::2] *= -1
    if signs == "mixed":
        x, w = (rng.uniform(0.5, 1, a.shape).astype(np.float32) * a for a in (x, w))
    graph = ef.trace(PROGRAMS[name], x, w)
    assert not broken(graph, [x, w], _results(ef.compile(graph, target="numpy")(x, w)))


def test_an_update_of_low_rank_that_cancels_the_matrix_leaves_nothing() -> None:
    rng = np.random.default_rng(0)
    x, u, v = (rng.uniform(1, 2, shape).astype(np.float32) for shape in ((4, 25 * DEPTH), (25 * DEPTH, 1), (1, 4)))
    arrays = [x, -(u @ v), u, v]
    graph = ef.trace(lambda x, w, u, v: x @ (w + u @ v), *arrays)
    assert not broken(graph, arrays, _results(ef.compile(graph, target="numpy")(*arrays)))


def _results(returned: Any) -> list[np.ndarray]:
    return list(returned) if isinstance(returned, tuple) else [returned]
