"""Kernels are taken to run on trust while a search looks at them, and what is made of them is made of those that do."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.emit.c.estimates import has_schedule
from eqfuse.errors import UnsupportedOp
from eqfuse.extract.candidates.prices import Prices, SearchStage
from eqfuse.extract.candidates.trust import trusted
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.evaluate import evaluate
from eqfuse.kinds import kind_named
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


@pytest.mark.parametrize("is_sure, asked, result", [(True, [True], "merged"), (False, [True, False], "apart")])
def test_what_is_made_on_trust_is_made_again_where_a_kernel_does_not_run(
    is_sure: bool, asked: list[bool], result: str
) -> None:
    kernels: Any = Kernels(is_sure)
    assert trusted(kernels, kernels.make, lambda _: [kernels]) == result
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


SIZES, FUNCTIONS = (7, 500, 100_000), (steps_on_a_ring, pieces_of_pieces, softened)


@pytest.mark.parametrize(  # each two of the three together
    "refused, function, size",
    [(refused, fn, SIZES[(i + j - 1) % 3]) for i, refused in enumerate((0, 1, None)) for j, fn in enumerate(FUNCTIONS)],
)
def test_a_plan_has_only_kernels_that_run_whatever_the_target_refuses(
    refused: int | None, function: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused are bodies of several operators that read arrays in pieces, where their texts have this parity, besides
    what the target refuses."""
    own = Prices._scheduled_alike

    def picky(prices: Prices, kind: Any, outputs: Any) -> Any:
        names = [n.op for n in ef.Graph((), tuple(outputs)).nodes if n.row.computes]
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
    for got, wanted in zip(evaluate(plan.graph, [x]), evaluate(graph, [x]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


BEFORE = [
    lambda x: x, lambda x: x[::-1], lambda x: x[:, ::-1], lambda x: x.T, lambda x: x[::-1, ::-1].T, lambda x: x[1:3],
    lambda x: x[:, 1:3], lambda x: x[::2], lambda x: x[:1], lambda x: np.broadcast_to(x[:1], (4, 4)),
    lambda x: x.reshape(2, 2, 4).transpose(1, 0, 2), lambda x: np.swapaxes(x.reshape(2, 2, 2, 2), 1, 2),
]  # fmt: skip


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("shape", [(-1,), (2, -1), (1, -1, 2)])
def test_what_is_known_to_have_a_schedule_has_one(before: Any, shape: tuple[int, ...]) -> None:
    x = np.arange(16.0).reshape(4, 4)
    whole = before(x).size == x.size
    for work in (np.exp, lambda v: v * x.reshape(v.shape) if whole else -v):
        graph = ef.trace(lambda v, work=work: work(before(v)).reshape(shape), x)
        answer = priced(graph, C)
        if not isinstance(answer, str) and has_schedule(answer[0]):
            kind_named(answer[0].kind).schedule(graph, C)
        seen = ef.trace(lambda v, work=work: work(before(v)).reshape(shape)[..., 1:], x)
        assert math.isfinite(ef.extract(ef.saturate(seen, laws="none"), target=C).seconds)
