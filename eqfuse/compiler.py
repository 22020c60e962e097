"""The whole road in one call: a traced graph in, a `Program` out.

Each stage is timed, printed at its EQFUSE_DEBUG level, and skipped where the cache already holds its result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from eqfuse.budget import Budget, Meter, budget_of
from eqfuse.cost.device import Device
from eqfuse.cost.targets import device_for, holds_tiles, package, runs_meanwhile
from eqfuse.egraph.saturate import saturated
from eqfuse.egraph.segments import segments
from eqfuse.egraph.space import Space
from eqfuse.errors import MemoryLimitError
from eqfuse.extract import Limit, chosen_plan
from eqfuse.extract.candidates.prices import schedules_shared
from eqfuse.extract.programs.constant_chains import constants_met
from eqfuse.extract.unfused import unfused_plan
from eqfuse.frontends.chunking.chunks import chunked, in_blocks
from eqfuse.frontends.rolling.empty_reductions import empty_reductions_known
from eqfuse.frontends.rolling.loop_operands import shared_within
from eqfuse.frontends.rolling.roll import Costs, rolled
from eqfuse.frontends.rolling.view_chains import views_met
from eqfuse.ir.graph import Graph, checked_graph
from eqfuse.ir.places import carried_over
from eqfuse.machine.gc_pause import gc_paused
from eqfuse.ops.loops import LOOPS
from eqfuse.plan.constants import with_constants, without_constants
from eqfuse.plan.loops import completed, inner_graphs, step_seconds, transition_seconds, with_inner
from eqfuse.plan.memory import Needs, limit_of
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.plan.report import make_report
from eqfuse.plan.rereads import rereads
from eqfuse.rewrites import Law
from eqfuse.rewrites.own import usable
from eqfuse.runtime import disk_cache
from eqfuse.runtime.pending import PendingProgram
from eqfuse.runtime.program import Program, emit
from eqfuse.runtime.verify import verified
from eqfuse.show import debug
from eqfuse.show.progress import patiently

UNCUT = 400  # operators at most of a graph that is searched without cutting it
LOST = 0.1  # of the time, by reading arguments again: from there on they may be read once, block by block
DEARER = 1.02  # times as long as without a limit: more, and large values may be cheaper block by block
SMALLER = (4, 2)  # times as small as usual are tiles, each of which holds arrays of its own, where memory is scarce
SATURATION, EXTRACTION = 0.4, 0.8  # of the seconds that are left when each begins; the next stages have the rest


@gc_paused()
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
    wait: bool = True,
    graphs: bool = False,
    meter: Meter | None = None,
    one_size: bool = True,
) -> Program:
    """`compile` for a traced graph and validated options. `meter`: of a compile that began with the trace. `one_size`:
    is the plan for these extents alone, so that blocks may be chosen by them?"""
    device = device_for(target, numerics)
    chosen, limit = usable(laws, numerics), limit_of(memory_limit)
    with patiently() as tell:
        meter = meter or Meter(budget_of(budget))
        meter.tell = tell
        meter.say("looking for loops")
        looped = before_search(graph, device, numerics, chosen)
        meanwhile = None if wait else runs_meanwhile(device)
        if meanwhile and not disk_cache.find(
            disk_cache.plan_key(looped, device, numerics, chosen, extractor, meter.budget, limit), looped
        ):
            compiled = partial(
                compile_graph, graph, numerics=numerics, laws=laws, extractor=extractor, budget=budget,
                memory_limit=memory_limit, verify=verify, graphs=graphs, one_size=one_size,
            )  # fmt: skip
            return PendingProgram(compiled(target=meanwhile), lambda: compiled(target=device))
        flat = looped if graph.rolled else constants_met(views_met(graph), chosen)

        def compiled_of(graph: Graph, uncut: bool = False, smaller: int = 1) -> Program:
            on = device if smaller == 1 else device.with_tiles(smaller)
            graph = graph if graph.places else carried_over(graph, looped)
            return _compiled(graph, on, numerics, chosen, extractor, meter.anew(), limit, uncut=uncut)

        # How much of the budget is left is asked when their turn comes: values in blocks need some of it too.
        tiles = (n for n in SMALLER if holds_tiles(device) and meter.allowance.left > meter.budget.seconds / 4)
        program = compiled_of(looped) if limit is None else _least_costly(compiled_of, looped, flat, limit, tiles)
        if one_size and extractor == "flow":
            program = _read_once(compiled_of, program, looped)
    if graphs:
        program.executable.use_graphs()
    return verified(program) if verify else program


def _read_once(compiled_of: Callable[..., Program], program: Program, graph: Graph) -> Program:
    """`program`; where it waits for arguments that it reads several times, that of `graph` in blocks of them which stay
    near, if it is clearly faster."""
    lost = rereads(program.plan)
    if lost.seconds < LOST * _predicted(program):
        return program
    blocks = in_blocks(graph, lost.blocks)
    try:
        other = compiled_of(blocks) if blocks != graph else program
    except MemoryLimitError:
        return program
    return other if _predicted(other) < (1 - LOST / 2) * _predicted(program) else program


def _least_costly(
    compiled_of: Callable[..., Program], looped: Graph, flat: Graph, limit: int, tiles: Iterable[int]
) -> Program:
    """The fastest program found that keeps a limit of memory: of the graph as it is searched, of `flat` where loops
    take more memory than their steps, with `tiles` that are so many times as small, of a graph that is not cut into
    segments, over whose ends nothing is computed again, or with large values block by block. MemoryLimitError where
    none does."""
    programs: list[Program] = []
    refused: list[MemoryLimitError] = []
    unlimited: list[tuple[float | None, int | None]] = []  # seconds and bytes without a limit, of each graph

    def is_enough() -> bool:
        seconds = unlimited[0][0]
        return bool(programs) and (seconds is None or min(map(_predicted, programs)) <= DEARER * seconds)

    def first_of(graphs: Iterable[Graph], uncut: bool = False, smaller: int = 1) -> bool:
        """Compile the first of `graphs` that keeps the limit, and others until the best so far is good enough or one is
        slower than it; is it good enough?"""
        for graph in graphs:
            best = min(map(_predicted, programs), default=None)
            try:
                programs.append(compiled_of(graph, uncut, smaller))
                unlimited.append((programs[-1].report.unlimited_seconds, programs[-1].report.unlimited_bytes))
            except MemoryLimitError as error:
                refused.append(error.with_traceback(None))  # which holds all that the search made
                unlimited.append(error.unlimited)
                continue
            if is_enough() or (best is not None and _predicted(programs[-1]) > best):
                break
        return is_enough()

    whole = [g for g in dict.fromkeys((flat, looped)) if len(g.operators) <= UNCUT and len(segments(g)[1]) > 1]
    if not (
        first_of(dict.fromkeys((looped, flat)))
        or any(first_of([looped], smaller=times) for times in tiles)
        or first_of(whole, uncut=True)
    ):
        most = unlimited[0][1]
        first_of(chunked(looped, limit / most if most else 1.0))
    if not programs:
        raise min(refused, key=lambda error: error.least)
    best = min(programs, key=_predicted)
    best.report = replace(best.report, unlimited_seconds=unlimited[0][0], unlimited_bytes=unlimited[0][1])
    return best


def _predicted(program: Program) -> float:
    return program.report.predicted_seconds


def before_search(graph: Graph, device: Device, numerics: str, laws: Sequence[Law]) -> Graph:
    """`graph` as it is searched: its alike steps are loops, which hold their constants, long chains of constants one
    constant, those of views a few views, sums of nothing constants."""
    costs = Costs(
        lambda body: step_seconds(body, device), lambda body, nbytes: transition_seconds(body, nbytes, device),
        device.l2_bytes,
    )  # fmt: skip
    met = constants_met(views_met(rolled(empty_reductions_known(graph), costs, numerics == "strict")), laws)
    return shared_within(carried_over(met, graph))


def _compiled(
    graph: Graph, device: Device, numerics: str, chosen: tuple[Law, ...], extractor: str, meter: Meter,
    limit: int | None, part: bool = False, uncut: bool = False,
) -> Program:  # fmt: skip
    """`part`: of a larger program, with which it shares the budget. `uncut`: without cutting it into segments."""
    key = disk_cache.plan_key(graph, device, numerics, chosen, extractor, meter.budget, limit, uncut)
    started = time.perf_counter()
    entry = disk_cache.find(key, graph)
    if entry is None:
        program = _build(checked_graph(graph), device, numerics, chosen, extractor, meter, limit, uncut)
        if not (part and meter.cut):
            disk_cache.keep_plan(key, program.plan, program.report)
    else:
        plan, report = entry
        program = _emitted(replace(plan, graph=graph), meter, limit)
        program.report = replace(
            report, seconds={"cache": time.perf_counter() - started}, rolled=graph.rolled or (),
            hurried=len(meter.hurried), uncompiled=len(meter.uncompiled),
        )  # fmt: skip
    program.laws = chosen
    return program


def _emitted(plan: Plan, meter: Meter, limit: int | None) -> Program:
    """Within what the `meter` has left; but a plan that keeps a limit was compiled whole when that was asked for."""
    meter.hurried.clear()  # of steps that were emitted when they were planned
    meter.uncompiled.clear()
    return emit(plan, meter if limit is None else None)


def extract(
    space: Space,
    target: str | Device = "cpu",
    extractor: str = "flow",
    memory_limit: float | None = None,
    budget: Budget | None = None,
) -> Plan:
    """The cheapest plan in `space` for `target` that `extractor` finds within `budget`, with calls that hold
    `memory_limit` at most."""
    meter = Meter(budget_of(budget))
    device = device_for(target, space.numerics)
    plan_of = _StepPlanner(device, space.numerics, usable("all", space.numerics), extractor, meter)
    plan = chosen_plan(space, device, extractor, limit=_limit(limit_of(memory_limit), plan_of), meter=meter)
    return with_inner(plan, plan_of)


class _StepPlanner:
    """Makes the plans of what the steps of loops compute, each once; of steps that differ in constants alone, one."""

    def __init__(
        self, device: Device, numerics: str, laws: tuple[Law, ...], extractor: str, meter: Meter
    ) -> None:
        self._device = device
        self._planned: Callable[[Graph], Plan] = lambda graph: _compiled(
            constants_met(graph, laws), device, numerics, laws, extractor, meter, None, part=True
        ).plan
        self._plans: dict[Graph, Plan] = {}
        self._alike: dict[Hashable, Graph] = {}

    def __call__(self, graph: Graph) -> Plan:
        if graph not in self._plans:
            first = self._alike.setdefault(without_constants(graph), graph)
            plan = None if first is graph else with_constants(self._plans[first], first, graph)
            self._plans[graph] = plan or self._planned(graph)
        return self._plans[graph]

    def unfused(self, graph: Graph) -> Plan:
        return with_inner(unfused_plan(graph, self._device), self.unfused)


def _limit(nbytes: int | None, plan_of: _StepPlanner) -> Limit | None:
    def needs(kernel: Kernel, device: Device) -> Needs:
        return package(device.target).needs(completed(kernel, device, plan_of), device)

    return None if nbytes is None else Limit(nbytes, needs, lambda plan: emit(with_inner(plan, plan_of)).peak_bytes)


def _exceeding(limit: Limit | None, plan_of: _StepPlanner) -> tuple[float | None, int | None]:
    """Predicted seconds, and bytes, of the plan without the `limit`, where that does not keep it."""
    if limit is None or limit.exceeding is None:
        return None, None
    return with_inner(limit.exceeding, plan_of).seconds, limit.peak(limit.exceeding)


def _share(graph: Graph) -> float:
    """The operators of `graph` as a share of these and those of the steps of its loops, which are planned after it."""
    own = len(graph.operators)
    inner = sum(len(g.operators) for n in graph.operators if n.op in LOOPS for g in inner_graphs(n))
    return own / max(1, own + inner)


@schedules_shared()
def _build(
    graph: Graph, device: Device, numerics: str, laws: tuple[Law, ...], extractor: str, meter: Meter,
    memory_limit: int | None, uncut: bool,
) -> Program:  # fmt: skip
    seconds: dict[str, float] = {}
    started = time.perf_counter()

    def lap(stage: str) -> None:
        nonlocal started
        now = time.perf_counter()
        seconds[stage], started = now - started, now

    own = meter.within(_share(graph))
    space = saturated(graph, laws, numerics, own.within(SATURATION), uncut)
    lap("saturate")
    debug.show_space(space)
    inner = _StepPlanner(device, numerics, laws, extractor, meter)
    limit = _limit(memory_limit, inner)
    try:
        plan = chosen_plan(space, device, extractor, limit=limit, meter=own.within(EXTRACTION))
    except MemoryLimitError as error:
        error.unlimited = _exceeding(limit, inner)
        raise
    lap("extract")
    plan = with_inner(plan, inner)
    exceeding = _exceeding(limit, inner)
    lap("steps")
    debug.show_plan(plan)
    unfused = with_inner(chosen_plan(space, device, "unfused", proved=False), inner.unfused)
    meter.say("emitting")
    program = _emitted(plan, meter, memory_limit)
    lap("emit")
    debug.show_source(program.source)
    program.report = make_report(plan, unfused, space, seconds, program.peak_bytes, meter, memory_limit, exceeding)
    return program
