"""Graphs in which loops are found again, after a look at what they compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.frontends.rolling import roll
from eqfuse.frontends.rolling.roll import Costs, rolled
from eqfuse.ir.pytree import tree_leaves


def rolled_graph(fn, *args, turn: float = 0.0, exactly: bool = False) -> ef.Graph:
    """The graph of `fn` with its loops, after a look at what it computes. `turn`: of a step, what it takes to the
    next."""
    graph = ef.trace(fn, *args)
    looped = rolled(graph, Costs(lambda _: 1.0, lambda _, __: turn, 1 << 20), exactly)
    for got, wanted in zip(*(tree_leaves(ef.meaning(g, *args))[0] for g in (looped, graph)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)
    return looped


@pytest.fixture(autouse=True)
def of_any_length(monkeypatch):
    monkeypatch.setattr(roll, "FEW_OPERATORS", 0)
    monkeypatch.setattr(roll, "FEW_ON_WINDOWS", 0)
    monkeypatch.setattr(roll, "FEW_APART", 0)
    monkeypatch.setattr(roll, "MANY_OPERATORS", 0)


def is_rolled(draw: Callable[[int], tuple], seed: int) -> bool:
    """Has the drawn program loops, and does it compute the same with them?"""
    text, fn, args = draw(seed)
    try:
        return bool(rolled_graph(fn, *args, turn=0.1 * (seed % 3)).rolled)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{text}") from None
