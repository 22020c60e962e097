"""Training graphs of the kinds that papers on checkpointing use, at 90 % and 80 % of the memory that they hold in the
order of the program, which is the one that these papers take: what is computed again costs at most 1 % more than the
plan without a limit, and, when slow, than the least that any such plan could take, by the bound that the exact
extractor proves, or than its plan where it proves none in time. Without a limit they hold less already, in another
order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import eqfuse as ef
from eqfuse.benches.corpus.checkpointing import chain, residual, u_net
from eqfuse.benches.corpus.training_steps import TrainingStep
from eqfuse.cost.profiles import DEVICES
from eqfuse.ir.pytree import tree_leaves
from eqfuse.runtime.program import Program
from tests.support.program_order import peak_in_program_order

CPU = DEVICES["cpu"]  # prices that are the same everywhere
WITHIN = 1.01
PATIENT = ef.Budget(seconds=120)  # ends no search, on slow machines either
PROVEN = 0.01  # the gap up to which a bound says something
NETWORKS: dict[str, tuple[Callable[[], TrainingStep], float]] = {
    "chain": (lambda: chain(12), 0.8), "residual blocks": (lambda: residual(8), 0.8), "U-Net": (lambda: u_net(4), 0.9),
}  # fmt: skip


def _optimum(network: TrainingStep) -> float:
    """Seconds that no plan without a limit takes less than, or those of the exact extractor's where it proves none."""
    function, arguments = network
    exact = ef.compile(function, *arguments, target=CPU, extractor="exact", budget=ef.Budget(optimum=4.0)).report
    gap = exact.optimality_gap
    return exact.predicted_seconds / (1 + gap) if gap is not None and gap <= PROVEN else exact.predicted_seconds


def _stays_near(least: float | None, network: TrainingStep, share: float) -> None:
    """Limited plans take hardly more than `least`, or than the plan without a limit."""
    function, arguments = network
    free = ef.compile(function, *arguments, target=CPU, budget=PATIENT)
    least = least or free.report.predicted_seconds
    limit = share * peak_in_program_order(free)
    limited = ef.compile(function, *arguments, target=CPU, memory_limit=limit, budget=PATIENT)
    assert limited.report.stop_reason not in ("seconds", "bytes")
    assert limited.peak_bytes <= limit
    assert limited.report.predicted_seconds <= WITHIN * least
    _computes_the_same(limited, network)


def _computes_the_same(program: Program, network: TrainingStep) -> None:
    function, arguments = network
    for got, wanted in zip(tree_leaves(program(*arguments))[0], tree_leaves(function(*arguments))[0], strict=True):
        assert abs(got - wanted).max() <= 1e-4 * abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_without_a_limit_it_holds_a_fifth_less_than_in_the_order_of_the_program(name: str) -> None:
    function, arguments = NETWORKS[name][0]()
    free = ef.compile(function, *arguments, target=CPU, budget=PATIENT)
    assert free.peak_bytes <= 0.81 * peak_in_program_order(free)


@pytest.mark.slow
def test_at_80_percent_of_its_memory_a_training_step_costs_what_it_costs_without_a_limit() -> None:
    """(Of twelve layers: less than that, as it is held against the optimum below.)"""
    _stays_near(None, chain(8), 0.8)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_it_costs_hardly_more_than_the_optimum(name: str) -> None:
    make, share = NETWORKS[name]
    network = make()
    _stays_near(_optimum(network), network, share)


@pytest.mark.slow
def test_a_limited_step_computes_the_same_across_the_ends_of_segments() -> None:
    function, arguments = residual(6, rows=256, width=16)
    free = ef.compile(function, *arguments, target=CPU, budget=PATIENT)
    limited = ef.compile(function, *arguments, target=CPU, memory_limit=0.7 * free.peak_bytes, budget=PATIENT)
    _computes_the_same(limited, (function, arguments))
