"""The whole road in one call: a traced graph in, a `Program` out.

Each stage is timed, printed on the EQFUSE_DEBUG ladder, and skipped where the cache already holds its result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.cost.targets import device_for
from eqfuse.dtypes import epsilon, kind, parts
from eqfuse.egraph.saturate import Budget, budget_of, saturated
from eqfuse.egraph.space import Space
from eqfuse.emit import emit, needs
from eqfuse.errors import EqfuseError
from eqfuse.extract import Limit, choose
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, check
from eqfuse.ir.pytree import flatten
from eqfuse.ir.signature import static_names
from eqfuse.ir.symbolic import SymbolicSpec
from eqfuse.options import refuse_unknown
from eqfuse.plan.memory import limit_of
from eqfuse.plan.plan import Plan
from eqfuse.plan.report import make_report
from eqfuse.rewrites import Law
from eqfuse.rewrites.own import usable
from eqfuse.runtime import disk_cache
from eqfuse.runtime.program import Program
from eqfuse.show import debug
from eqfuse.specialise.calls import Call


def compile(
    fn_or_graph: Callable[..., Any] | Graph,
    *example_args: Any,
    target: str | Device = "cpu",
    numerics: str = "reassociate",
    laws: Any = "all",
    extractor: str = "flow",
    budget: Budget | None = None,
    memory_limit: float | None = None,
    verify: bool = False,
    static_argnames: str | Iterable[str] = (),
    **example_kwargs: Any,
) -> Program:
    """The fused program of a NumPy function (traced on the examples: arrays or `ef.spec`s) or of a graph.

    Specs with symbols, such as ``ef.spec(("n", 64))``, give a `SymbolicProgram`, which runs at every size of them.
    Keywords that are not among these options are the function's own, as in `trace`.
    `target`: "numpy", "cpu", "cuda", "cuda:h100" and other profile names, or an `ef.Device`. `numerics`: "strict",
    "reassociate" or "approximate", the most a law may do to rounding. `laws`: "all", "none", a family, or a list of
    laws and families; your own laws are checked once (LawError: a false one), but those with ``check=False``.
    `memory_limit`: bytes that a call may hold beside its arguments and results, which costs time:
    values are computed again, where that adds least; MemoryLimitError where no such plan was found. `verify` runs the
    program once on random inputs and raises EqfuseError unless it agrees with the evaluator.
    """
    options: dict[str, Any] = {
        "target": target, "numerics": numerics, "laws": laws, "extractor": extractor, "budget": budget,
        "memory_limit": memory_limit, "verify": verify,
    }  # fmt: skip
    refuse_unknown(options)
    if isinstance(fn_or_graph, Graph):
        return compile_graph(fn_or_graph, **options)
    if any(isinstance(leaf, SymbolicSpec) for leaf in flatten((example_args, example_kwargs))[0]):
        from eqfuse.specialise.symbolic_program import SymbolicProgram

        if memory_limit is not None:
            raise EqfuseError("memory_limit holds for one size of the arguments: give specs without symbols")
        call = Call(fn_or_graph, static_names(static_argnames), example_args, example_kwargs)
        return SymbolicProgram(call, options)
    graph = trace(fn_or_graph, *example_args, static_argnames=static_argnames, **example_kwargs)
    return compile_graph(graph, **options)


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
    """`compile` for a graph that is already traced, with options that were looked at."""
    device = device_for(target)
    chosen = usable(laws, numerics)
    limit = limit_of(memory_limit)
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
    return verified(program) if verify else program


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
    return choose(space, device_for(target), extractor, limit=_limit(limit_of(memory_limit)), seconds=seconds)


def _limit(nbytes: int | None) -> Limit | None:
    return None if nbytes is None else Limit(nbytes, needs, lambda plan: emit(plan).peak_bytes)


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
    plan = choose(space, device, extractor, limit=_limit(memory_limit), seconds=budget_of(budget).optimum)
    lap("extract")
    debug.show_plan(plan)
    unfused = choose(space, device, "unfused", proved=False)
    program = emit(plan)
    lap("emit")
    debug.show_source(program.source)
    program.report = make_report(plan, unfused, space, seconds, program.peak_bytes, numerics, memory_limit)
    return program


def verified(program: Program, seed: int = 0) -> Program:
    """`program` itself, after one run on random inputs that agrees with the evaluator; EqfuseError otherwise."""
    rng = np.random.default_rng(seed)
    graph = program.plan.graph
    arrays = [_random(rng, n.dtype, n.shape) for n in graph.inputs]
    _compare(program.run(arrays), evaluate(graph, arrays))
    return program


def _random(rng: np.random.Generator, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if kind(dtype) == "f":
        return np.asarray(rng.normal(size=shape)).astype(dtype)
    return np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 10, size=shape)).astype(dtype)


def _compare(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            raise EqfuseError(f"verify: output {i} is {a.dtype}{a.shape}, the evaluator gives {b.dtype}{b.shape}")
        if kind(b.dtype) in "fc":
            finite = np.isfinite(b)  # a complex number is finite in both its parts
            a64, b64 = (parts(v[finite]).astype(np.float64) for v in (a, b))
            scale = max(1.0, float(np.abs(b64).max(initial=0.0)))
            agree = bool((np.isfinite(a) == finite).all())
            agree = agree and bool((np.abs(a64 - b64) <= 1e3 * epsilon(b.dtype) * scale).all())
        else:
            agree = bool((a == b).all())
        if not agree:
            raise EqfuseError(f"verify: output {i} differs from the evaluator; please report the graph it came from")
