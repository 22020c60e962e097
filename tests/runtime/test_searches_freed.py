"""What a search has made is freed when a compile ends, without a collection: egglog's e-graphs may be dropped by the
thread alone that made them, and a collection runs in any."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.egraph.engine import Engine
from eqfuse.egraph.space import Segment
from eqfuse.extract.candidates.grammar import Grammar
from tests.support.c_target import C

SEARCH = (Engine, Segment, Grammar)
X, W = np.ones((20, 30)), np.ones((30, 4))
FEW = ef.Budget(nodes=200, rounds=2)


def attention(x: Any, w: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)) @ w


def layers(x: Any, w: Any) -> Any:
    return (np.tanh(x @ w @ w.T) + x).sum()


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def left() -> int:
    return sum(isinstance(o, SEARCH) for o in gc.get_objects())


@pytest.mark.slow
@pytest.mark.parametrize(
    "function, target", [(attention, "numpy"), (ef.grad(layers), C), (ef.grad(layers), "cuda:a100")],
    ids=["numpy", "c", "cuda"],
)  # fmt: skip
def test_a_compile_leaves_nothing_of_its_search(function: Callable[..., Any], target: Any, no_collection: None) -> None:
    before = left()
    graph = ef.trace(function, X, W)
    plan = ef.extract(ef.saturate(graph), target=target)
    assert left() == before and plan.kernels


@pytest.mark.slow
def test_nor_does_one_under_a_limit_of_memory_whether_a_plan_keeps_it_or_none(no_collection: None) -> None:
    def twice(x: Any, w: Any) -> Any:
        return layers(np.tanh(x @ w @ w.T) + x, w)

    before = left()
    with pytest.raises(ef.MemoryLimitError) as refused:
        ef.compile(ef.grad(twice), X, W, budget=FEW, memory_limit=1)
    least = refused.value.least
    del refused  # its traceback holds the frames of the search
    assert left() == before
    assert ef.compile(ef.grad(twice), X, W, budget=FEW, memory_limit=least).peak_bytes <= least
    assert left() == before
