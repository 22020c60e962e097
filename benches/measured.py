"""Measured times of the ablations: every distinct plan of a program, answers checked first, then all timed in turn,
and the joint one against the fastest greedy ones call by call.

In: a graph that fits this machine. Out: predicted and measured seconds of its plans, and how well these agree in rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from eqfuse.benches.ablations import ABLATIONS, Choice, choices
from eqfuse.benches.same import kernels_of
from eqfuse.benches.timing import Ratio, duel, medians, uses_blas
from eqfuse.cost.targets import device_for
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import EqfuseError
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from eqfuse.runtime.program import emit

APART = 1.1  # predicted times that differ by less are not asked to be in the right order
SAME = Ratio(1.0, 1.0, 1.0)
CONTENDER = 1.15  # times the fastest greedy plan's median up to which another may be the fastest


@dataclass(frozen=True)
class PlanTiming:
    """One distinct plan. `extractors`: all that chose these kernels."""

    extractors: tuple[str, ...]
    kernels: int
    predicted: float
    measured: float


@dataclass(frozen=True)
class Measurement:
    """One program. `ablations`: which of `plans` is the fastest here of those that each ablation offers; of greedy ones
    within CONTENDER the one that does best against the joint plan. The others are decided by rounds of their own: of
    several medians the least is too small, and would flatter its ablation.

    `joint`: how many times as long the fastest greedy plan takes as the joint one; 1 for the same kernels.
    """

    id: str
    plans: tuple[PlanTiming, ...]
    ablations: Mapping[str, int]
    joint: Ratio

    def seconds(self, ablation: str) -> float:
        return self.plans[self.ablations[ablation]].measured

    @property
    def same(self) -> bool:
        """Are the fastest greedy plan and the joint one the same kernels?"""
        return self.ablations["greedy"] == self.ablations["joint"]

    def over(self, ablation: str) -> float:
        """Time of the fastest greedy plan over that of an ablation; 1 for the same kernels."""
        return self.factor if ablation == "joint" else self.seconds("greedy") / self.seconds(ablation)

    @property
    def factor(self) -> float:
        return self.joint.times


def measure(id: str, graph: Graph, seconds: float) -> Measurement:
    """Time the plans of `graph` for this CPU: all for about `seconds`, and each pair for twice that at most.

    EqfuseError when one gives a wrong answer.
    """
    distinct: dict[tuple[str, ...], list[Choice]] = {}
    for choice in choices(saturate(graph), device_for("cpu")).by.values():
        distinct.setdefault(kernels_of(choice.plan), []).append(choice)
    arrays = arguments(graph)
    wanted = evaluate(graph, arrays)
    programs = []
    for same in distinct.values():
        program = emit(same[0].plan)
        _check(id, same[0].extractor, program.run(arrays), wanted)
        programs.append(program)
    del wanted
    runs = [partial(p.run, arrays) for p in programs]
    before, taken = (medians(runs, seconds / 2) for _ in range(2))
    plans = tuple(
        PlanTiming(tuple(c.extractor for c in same), same[0].kernels, same[0].seconds, t)
        for same, t in zip(distinct.values(), taken, strict=True)
    )
    offered = {name: [i for i, p in enumerate(plans) if set(p.extractors) & set(by)] for name, by in ABLATIONS.items()}
    ablations = {name: min(indices, key=before.__getitem__) for name, indices in offered.items()}
    joint = ablations["joint"]
    contenders = [i for i in offered["greedy"] if before[i] < CONTENDER * before[ablations["greedy"]]]
    rested = uses_blas(graph)

    def renew() -> None:
        arrays[:] = [a.copy() for a in arrays]

    against = {i: SAME if i == joint else duel(runs[i], runs[joint], 2 * seconds, rested, renew) for i in contenders}
    ablations["greedy"] = min(contenders, key=lambda i: against[i].times)
    return Measurement(id, plans, ablations, against[ablations["greedy"]])


def arguments(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Random arrays for the inputs: normal numbers, small whole ones where integers are wanted."""
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal(n.shape, np.float32).astype(n.dtype) if n.dtype.kind == "f"
        else rng.integers(0, 8, n.shape).astype(n.dtype)
        for n in graph.inputs
    ]  # fmt: skip


def _check(id: str, extractor: str, got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    for g, w in zip(got, wanted, strict=True):
        near = 1e3 * float(np.finfo(w.dtype).eps) * max(1.0, float(np.abs(w).max(initial=0)))
        if (g.dtype, g.shape) != (w.dtype, w.shape) or not np.allclose(g, w, rtol=0, atol=near, equal_nan=True):
            raise EqfuseError(f"{id}, {extractor}: the answer is not the evaluator's")


@dataclass(frozen=True)
class Agreement:
    """How well predicted times rank measured ones.

    `spearman`: over all plans of all programs. `pairs`: plans of one program that are predicted clearly
    apart; `right`: of these, in the order that was measured. `error`: how many times a prediction is off, either way,
    in geometric mean.
    """

    plans: int
    spearman: float
    pairs: int
    right: int
    error: float


def agreement(rows: Sequence[Measurement]) -> Agreement:
    plans = [p for row in rows for p in row.plans]
    pairs = [
        (a.measured < b.measured) == (a.predicted < b.predicted)
        for row in rows
        for a, b in combinations(row.plans, 2)
        if max(a.predicted, b.predicted) > APART * min(a.predicted, b.predicted)
    ]
    from scipy.stats import spearmanr  # takes seconds to import

    rank = spearmanr([p.predicted for p in plans], [p.measured for p in plans]).statistic
    off = [abs(math.log(p.measured / p.predicted)) for p in plans]
    return Agreement(len(plans), float(rank), len(pairs), sum(pairs), math.exp(sum(off) / len(off)))


def geometric_mean(factors: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, factors)) / len(factors))


