"""Kernels are taken to run on trust while a search looks at them, and what is made of them is made of those that do."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import UnsupportedOp
from eqfuse.extract.candidates.prices import Prices, SearchStage
from eqfuse.extract.candidates.trust import trusted
from eqfuse.ir.evaluate import evaluate
from eqfuse.ops import row
from tests.support.c_target import C


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


def steps_on_a_ring(x: np.ndarray) -> Any:
    for _ in range(4):
        x = np.sin(x) + 0.1 * np.roll(x, 1) * x
    return x, np.cos(x)


def pieces_of_pieces(x: np.ndarray) -> Any:
    """Pieces meet in more ways than a kernel holds, unless some of them are stored."""
    turned = np.concatenate([x[4:], x[:4]])
    ends = np.pad(turned, 1, mode="wrap")
    curved = ends[:-2] + ends[2:] - 2 * turned
    product = np.flip(curved[::-1] + x) * turned
    rolled = np.roll(product, -1)
    damped = np.tanh(rolled) * 0.5 + product
    ends = np.pad(rolled, 1)
    return np.concatenate([(ends[:-2] + ends[2:] - 2 * rolled)[6:], damped[:6]])


def softened(x: np.ndarray) -> Any:
    e = np.exp(x - x.max())
    return np.roll(e, 1) / e.sum() + np.tanh(x)


@pytest.mark.parametrize("size", [7, 500, 100_000])
@pytest.mark.parametrize("function", [steps_on_a_ring, pieces_of_pieces, softened])
@pytest.mark.parametrize("refused", [0, 1, None])
def test_a_plan_has_only_kernels_that_run_whatever_the_target_refuses(
    refused: int | None, function: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused are bodies of several operators that read arrays in pieces, where their texts have this parity, besides
    what the target refuses."""
    own = Prices._scheduled_alike

    def picky(prices: Prices, kind: Any, outputs: Any) -> Any:
        names = [n.op for n in ef.Graph((), tuple(outputs)).nodes if row(n.op).computes]
        if (
            len(names) > 1
            and not {"concat", "pad"}.isdisjoint(names)
            and zlib.crc32(" ".join(names).encode()) % 2 == refused
        ):
            raise UnsupportedOp("refused by this test")
        return own(prices, kind, outputs)

    monkeypatch.setattr(Prices, "_scheduled_alike", picky)
    graph = ef.trace(function, ef.spec(size, np.float64))
    plan = ef.extract(ef.saturate(graph, laws="none"), target=C)
    assert plan.seconds < math.inf
    x = np.random.default_rng(0).standard_normal(size)
    for found, wanted in zip(evaluate(plan.graph, [x]), evaluate(graph, [x]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
