"""A plan made for one size is transferred to others where it is proved equal there, and never without that proof."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.demo.programs import softmax
from eqfuse.ir.correspondence import Correspondence, NoTransfer
from eqfuse.rewrites import book
from eqfuse.specialise import family
from eqfuse.specialise.plan_transfer import PlanTransfer
from tests.runtime.test_symbolic_sizes import agrees, attention, batch_norm, normal


def in_pairs(x: Any) -> Any:
    return x.reshape(len(x) // 2, 2, -1).sum(1) * (1 / len(x))


def differences(x: Any) -> Any:
    return x[1:, ::-1] - x[:-1] + np.concatenate([x, x])[2 : len(x) + 1]


@pytest.mark.parametrize("function", [in_pairs, differences])
def test_slices_and_reshapes_that_depend_on_the_size_are_transferred(function: Any) -> None:
    program = ef.compile(function, ef.spec(("n", 6), np.float32))
    for n in (2, 4, 48, 96, 1000, 5000):
        agrees(program, function, normal(n, 6))
    assert program._family.anew == 0


@pytest.mark.slow
def test_a_symbol_in_the_contracted_axes_is_transferred() -> None:
    program = ef.compile(attention, *[ef.spec((2, tokens, 16), np.float32) for tokens in ("t", "s", "s")])
    for t, s in ((1, 1), (5, 9), (16, 16), (9, 2), (100, 300)):
        agrees(program, attention, normal(2, t, 16), normal(2, s, 16), normal(2, s, 16))
    assert program._family.anew == 0


def test_a_wrong_guess_is_never_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the constants not followed to the new size, one would be made of the old one: the proof refuses it."""

    def share(x: Any) -> Any:
        return x * 0.5 * x.shape[0]

    plan = ef.compile(share, ef.spec((960, 5), np.float32), target=DEVICES["cpu"]).plan
    transfer = PlanTransfer(plan, book())
    assert transfer.plan_for(ef.trace(share, ef.spec((70, 5), np.float32))).kernels
    monkeypatch.setattr(Correspondence, "compute", lambda *_: None)
    with pytest.raises(NoTransfer, match="does not prove"):
        transfer.plan_for(ef.trace(share, ef.spec((70, 5), np.float32)))


@pytest.mark.parametrize("limit", [{"seconds": 0.0}, {"rounds": 0}], ids=["seconds", "rounds"])
def test_a_plan_found_after_a_limit_ended_the_search_is_transferred_too(limit: dict[str, Any]) -> None:
    """It rests on laws that the search never came to: the algebraic pass took them, and the proof of the plan."""

    def centred(x: Any) -> Any:
        return (x - x.mean(0)) @ np.eye(4, 3, dtype=np.float32)

    program = ef.compile(centred, ef.spec(("n", 4), np.float32), budget=ef.Budget(**limit))
    for n in (960, 70, 3):
        agrees(program, centred, normal(n, 4))
    assert program._family.anew == 0 and program._family.plans[0].program.report.stop_reason in limit


def test_a_plan_is_not_transferred_to_another_function() -> None:
    transfer = PlanTransfer(ef.compile(lambda x: np.exp(x) + 1, ef.spec((960,), np.float32)).plan, book())
    for other in (lambda x: np.exp(x) - 1, lambda x: np.exp(x + 1), lambda x: (x, x), lambda x: np.exp(x).sum()):
        with pytest.raises(NoTransfer):
            transfer.plan_for(ef.trace(other, ef.spec((70,), np.float32)))


@pytest.mark.slow
def test_a_size_at_which_an_extent_stands_for_two_is_planned_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """n + 16 meets the other argument's extent at n = 48: what a plan made there would say of 64 is not clear."""

    def f(x: Any, w: Any) -> Any:
        longer = np.concatenate([x, x[:16]])
        return (longer.reshape(1, -1) * 2).reshape(-1) @ np.ones(len(longer), np.float32) + w.sum()

    jitted = ef.jit(f, dynamic=True)
    for n in (48, 50, 64):
        agrees(jitted, f, normal(n), normal(64))


def test_a_gpus_plan_is_transferred_without_a_gpu() -> None:
    program = ef.compile(batch_norm, ef.spec(("n", 64), np.float32), target="cuda:h100")
    sized = program.at(n=77)
    assert program._family.anew == 0
    alone = ef.compile(batch_norm, ef.spec((77, 64), np.float32), target="cuda:h100")
    assert sized.report.n_kernels == alone.report.n_kernels


def test_verify_checks_transferred_programs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ef.compile(softmax, ef.spec(("n", 8), np.float32), verify=True)
    checked: list[Any] = []
    monkeypatch.setattr(family, "verified", lambda p: checked.append(p) or p)
    program.at(n=30)
    assert [p.plan.graph.inputs[0].shape for p in checked] == [(30, 8)]  # and no size that was not asked for
