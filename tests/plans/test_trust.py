"""Kernels are taken to run on trust while a search looks at them, and what is made of them is made of those that do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import UnsupportedOp
from eqfuse.extract.candidates.prices import Prices, SearchStage
from eqfuse.extract.candidates.trust import trusted
from tests.support.c_target import C

REFUSED_FROM = 3  # operators, of the kernels that the patched target refuses


@dataclass
class Kernels:
    """Stands for prices by estimates, and for one kernel, which runs if it `is_sure` to or is trusted."""

    is_sure: bool
    goes_by_estimates: bool = True

    def __post_init__(self) -> None:
        self.stage = SearchStage(None)
        self.asked: list[bool] = []

    @property
    def runs(self) -> bool:
        return self.stage.trusts or self.is_sure

    def make(self) -> str:
        self.asked.append(self.runs)
        return "merged" if self.runs else "apart"


@pytest.mark.parametrize("is_sure, asked, made", [(True, [True], "merged"), (False, [True, False], "apart")])
def test_what_is_made_on_trust_is_made_again_where_a_kernel_does_not_run(
    is_sure: bool, asked: list[bool], made: str
) -> None:
    kernels: Any = Kernels(is_sure)
    assert trusted(kernels, kernels.make, lambda _: [kernels]) == made
    assert kernels.asked == asked and not kernels.stage.trusts


def test_nothing_is_trusted_where_kernels_have_prices() -> None:
    kernels: Any = Kernels(False, goes_by_estimates=False)
    assert trusted(kernels, kernels.make, lambda _: [kernels]) == "apart" and kernels.asked == [False]


def test_trust_ends_with_what_interrupts_it() -> None:
    kernels: Any = Kernels(True)
    with pytest.raises(KeyboardInterrupt):
        trusted(kernels, lambda: (_ for _ in ()).throw(KeyboardInterrupt), lambda _: [kernels])
    assert not kernels.stage.trusts


def rolled(x: np.ndarray) -> Any:
    """A step of a field on a ring, four times."""
    for _ in range(4):
        x = np.sin(x) + 0.1 * np.roll(x, 1) * x
    return x, np.cos(x)


@pytest.mark.parametrize("size", [500, 100_000])
def test_a_plan_has_only_kernels_that_run_though_the_target_refuses_what_estimates_promise(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All fused is one kernel; refused are those of several operators that read arrays in pieces."""
    own = Prices._scheduled_alike
    refused = []

    def picky(prices: Prices, kind: Any, outputs: Any) -> Any:
        nodes = ef.Graph((), tuple(outputs)).nodes
        if sum(n.op == "sin" for n in nodes) >= REFUSED_FROM:
            refused.append(len(nodes))
            raise UnsupportedOp("too many sines for this test")
        return own(prices, kind, outputs)

    monkeypatch.setattr(Prices, "_scheduled_alike", picky)
    graph = ef.trace(rolled, ef.spec(size, np.float64))
    plan = ef.extract(ef.saturate(graph, laws="none"), target=C)
    assert refused and plan.seconds < math.inf
    assert all(sum(n.op == "sin" for n in kernel.body.nodes) < REFUSED_FROM for kernel in plan.kernels)
