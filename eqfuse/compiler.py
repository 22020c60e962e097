"""The whole road in one call: a traced graph in, a `Program` out.

Each stage is timed, printed at its EQFUSE_DEBUG level, and skipped where the cache already holds its result.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.targets import device_for, package
from eqfuse.egraph.saturate import Budget, budget_of, saturated
from eqfuse.egraph.space import Space
from eqfuse.extract import Limit, choose
from eqfuse.extract.unfused import unfused_plan
from eqfuse.ir.graph import Graph, check
from eqfuse.plan.loops import completed, with_inner
from eqfuse.plan.memory import Needs, limit_of
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.plan.report import make_report
from eqfuse.rewrites import Law
from eqfuse.rewrites.own import usable
from eqfuse.runtime import disk_cache
from eqfuse.runtime.program import Program, emit
from eqfuse.runtime.verify import verified
from eqfuse.show import debug


def compile_graph(
    graph: Graph,
    *,
    target: str | Device = "cpu",
    numerics: str = "reassociate",
    laws: Any = "all",
    extractor: str = "flow",
    budget: Budget | None = None,
    memory_limit: float | None = None,
    verify: bool = False,
) -> Program:
    """`compile` for a traced graph and validated options."""
    program = _compiled(
        graph, device_for(target), numerics, usable(laws, numerics), extractor, budget, limit_of(memory_limit)
    )
    return verified(program) if verify else program


def _compiled(
    graph: Graph, device: Device, numerics: str, chosen: tuple[Law, ...], extractor: str, budget: Budget | None,
    limit: int | None,
) -> Program:  # fmt: skip
    key = disk_cache.key(graph, device, numerics, chosen, extractor, budget, limit)
    started = time.perf_counter()
    found = disk_cache.find(key, graph)
    if found is None:
        program = _build(check(graph), device, numerics, chosen, extractor, budget, limit)
        disk_cache.keep(key, program.plan, program.report)
    else:
        plan, report = found
        program = emit(replace(plan, graph=graph))
        program.report = replace(report, seconds={"cache": time.perf_counter() - started})
    program.laws = chosen
    return program


def extract(
    space: Space,
    target: str | Device = "cpu",
    extractor: str = "flow",
    memory_limit: float | None = None,
    budget: Budget | None = None,
) -> Plan:
    """The cheapest plan in `space` for `target` that `extractor` finds, with calls that hold `memory_limit` at most.

    The extractor "exact" finds it within `budget.optimum`.
    """
    seconds = budget_of(budget).optimum
    device = device_for(target)
    plan_of = _Inner(device, space.numerics, usable("all", space.numerics), extractor, budget)
    plan = choose(space, device, extractor, limit=_limit(limit_of(memory_limit), plan_of), seconds=seconds)
    return with_inner(plan, plan_of)


class _Inner:
    """Makes the plans of what the steps of loops compute, each once."""

    def __init__(
        self, device: Device, numerics: str, laws: tuple[Law, ...], extractor: str, budget: Budget | None
    ) -> None:
        self._device = device
        self._compile = lambda graph: _compiled(graph, device, numerics, laws, extractor, budget, None)
        self._programs: dict[Graph, Program] = {}

    def __call__(self, graph: Graph) -> Plan:
        if graph not in self._programs:
            self._programs[graph] = self._compile(graph)
        return self._programs[graph].plan

    def unfused(self, graph: Graph) -> Plan:
        return with_inner(unfused_plan(graph, self._device), self.unfused)


def _limit(nbytes: int | None, plan_of: _Inner) -> Limit | None:
    def needs(kernel: Kernel, device: Device) -> Needs:
        return package(device.target).needs(completed(kernel, device, plan_of), device)

    return None if nbytes is None else Limit(nbytes, needs, lambda plan: emit(with_inner(plan, plan_of)).peak_bytes)


def _build(
    graph: Graph, device: Device, numerics: str, laws: tuple[Law, ...], extractor: str, budget: Budget | None,
    memory_limit: int | None,
) -> Program:  # fmt: skip
    seconds: dict[str, float] = {}
    started = time.perf_counter()

    def lap(stage: str) -> None:
        nonlocal started
        now = time.perf_counter()
        seconds[stage], started = now - started, now

    space = saturated(graph, laws, numerics, budget)
    lap("saturate")
    debug.show_space(space)
    inner = _Inner(device, numerics, laws, extractor, budget)
    plan = choose(space, device, extractor, limit=_limit(memory_limit, inner), seconds=budget_of(budget).optimum)
    lap("extract")
    plan = with_inner(plan, inner)
    lap("steps")
    debug.show_plan(plan)
    unfused = with_inner(choose(space, device, "unfused", proved=False), inner.unfused)
    program = emit(plan)
    lap("emit")
    debug.show_source(program.source)
    program.report = make_report(plan, unfused, space, seconds, program.peak_bytes, numerics, memory_limit)
    return program
