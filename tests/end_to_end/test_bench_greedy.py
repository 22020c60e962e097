"""`eqfuse bench greedy`: what it prints and writes, and the figures behind it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches import ablations, shortfalls
from eqfuse.benches.ablations import ABLATIONS, Choices, choices
from eqfuse.benches.measured import SAME, Measurement, PlanTiming, agreement, geometric_mean
from eqfuse.benches.same import kernels_of
from eqfuse.benches.subjects import FITS, SUBJECTS
from eqfuse.cli import main
from eqfuse.cost.profiles import datasheet
from eqfuse.egraph.saturate import saturate
from eqfuse.plan.plan import Plan


@pytest.mark.slow
def test_two_graphs_are_predicted_measured_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    assert main(["bench", "greedy", "--quick", "--json", str(file), "G7", "N9"]) == 0
    printed = capsys.readouterr().out
    assert "predicted on A100, textbook" in printed and "measured on this CPU" in printed and "Spearman" in printed
    contents = json.loads(file.read_text())
    assert {(row["id"], row["device"]) for row in contents["predicted"]} == {
        (id, device) for id in ("G7", "N9") for device in ("A100, textbook", "A100", "H200", "this CPU")
    }
    for row in contents["predicted"]:
        assert set(row["ablations"]) == set(ABLATIONS)
        seconds = {name: ablation["seconds"] for name, ablation in row["ablations"].items()}
        assert seconds["joint"] <= min(seconds.values()) * (1 + 1e-9)
        assert row["factor"] == pytest.approx(seconds["greedy"] / seconds["joint"])
        assert row["extractors"][row["ablations"]["greedy"]["extractor"]] == seconds["greedy"]
    g7, n9 = contents["measured"]
    assert all(plan["measured"] > 0 < plan["predicted"] for row in (g7, n9) for plan in row["plans"])
    joint = g7["plans"][g7["ablations"]["joint"]]
    assert not g7["same"] and joint["kernels"] == 2  # B + C, and one product instead of two
    assert n9["same"] and n9["factor"] == 1
    compared = contents["summary"]["measured"]["agreement"]["suite and controls"]
    assert compared["plans"] == len(g7["plans"]) + len(n9["plans"])


def test_an_unknown_graph_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "greedy", "G77"]) == 2
    assert "no graph or group is named 'G77'" in capsys.readouterr().err


def plan(function: Callable[..., Any], arguments: int = 1) -> Plan:
    graph = ef.trace(function, *[ef.spec((8, 8), np.float32)] * arguments)
    return ef.extract(ef.saturate(graph, laws="none"), target=datasheet("a100"))


def test_plans_that_differ_in_the_order_of_a_sum_run_the_same_kernels() -> None:
    one = kernels_of(plan(lambda x, y: np.tanh(x + 2 * y), 2))
    assert one == kernels_of(plan(lambda x, y: np.tanh(y * 2 + x), 2))
    assert one != kernels_of(plan(lambda x, y: np.tanh(x - 2 * y), 2))
    assert one != kernels_of(plan(lambda x, y: np.tanh(y + 2 * x), 2))


def test_a_value_known_before_the_call_is_the_same_kernel_however_it_is_computed() -> None:
    w = np.ones((8, 8), np.float32)
    assert kernels_of(plan(lambda x: x @ (w + w))) == kernels_of(plan(lambda x: x @ np.exp(w)))


def test_ranks_are_compared_over_all_plans_and_in_pairs_within_a_program() -> None:
    def row(id: str, *times: tuple[float, float]) -> Measurement:
        plans = tuple(PlanTiming((f"e{i}",), 1, p, m) for i, (p, m) in enumerate(times))
        return Measurement(id, plans, {"greedy": 0, "joint": len(plans) - 1}, SAME)

    ranking = agreement([row("a", (4.0, 8.0), (2.0, 4.0)), row("b", (1.0, 2.0), (1.05, 1.0), (0.5, 3.0))])
    assert (ranking.plans, ranking.pairs, ranking.right) == (5, 3, 1)  # 1.0 against 1.05 is too near to be asked
    assert ranking.error == pytest.approx((2 * 2 * 2 * 1.05 * 6) ** 0.2)
    assert -1 <= ranking.spearman < 1
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_every_row_of_the_suite_has_a_size_that_is_measured_or_fits_as_it_is() -> None:
    assert set(FITS) <= set(SUBJECTS)
    full_size = {"G6", "G25 M=1"}
    assert {id for id, s in SUBJECTS.items() if s.group != "networks"} - set(FITS) == full_size


@cache
def suite() -> dict[str, Choices]:
    """The greedy and the joint choice for every row of the suite, with the gap to the optimum."""
    graphs = {id: subject.full() for id, subject in SUBJECTS.items() if subject.group == "suite"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablations, "ABLATIONS", {name: ABLATIONS[name] for name in ("greedy", "joint")})
        return {id: choices(saturate(graph), datasheet("a100"), exact=True) for id, graph in graphs.items()}


@pytest.mark.slow
def test_every_shortfall_of_the_suite_has_a_reason_and_no_reason_is_left_over() -> None:
    """A row that gains what was predicted must leave the table of reasons."""
    for alternatives in suite().values():
        assert alternatives.ablation("joint").seconds <= alternatives.ablation("greedy").seconds * (1 + 1e-9)
    assert {id for id, alternatives in suite().items() if shortfalls.short(id, alternatives)} == set(shortfalls.REASONS)


@pytest.mark.slow
def test_every_plan_of_the_suite_is_within_a_hundredth_of_the_optimum() -> None:
    for id, alternatives in suite().items():
        assert alternatives.gap is None or alternatives.gap <= 0.01, id
