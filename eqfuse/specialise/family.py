"""Programs of one function over a range of sizes: few plans, each transferred to sizes near the one it was priced at.

In: a `Pattern`, and how to trace the function at given sizes. Out: a `Version` per sizes. A size is traced (which
raises the user's own errors), then the plan priced nearest is transferred to it (`plan_transfer`, which proves it);
where that fails the size is compiled anew, and the reason is kept.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from eqfuse.compiler import before_search, compile_graph
from eqfuse.cost.targets import MANY_SIZES, device_for
from eqfuse.egraph.alike import SMALL_EXTENT
from eqfuse.errors import user_level
from eqfuse.extract.unfused import unfused_plan
from eqfuse.ir.correspondence import Ambiguity, Correspondence, NoTransfer
from eqfuse.ir.graph import Graph
from eqfuse.ir.strides import Strides
from eqfuse.ops.types import TensorType
from eqfuse.plan.plan import Plan
from eqfuse.plan.report import Report, report_at
from eqfuse.rewrites import Law
from eqfuse.rewrites.own import usable
from eqfuse.runtime.program import Program, emit
from eqfuse.runtime.verify import verified
from eqfuse.show import debug
from eqfuse.specialise.plan_transfer import PlanTransfer
from eqfuse.specialise.symbolic import Pattern, Sizes
from eqfuse.specialise.versions import Version

PLAN_REACH = 16  # a plan priced at n serves sizes from n / REACH to n * REACH
NEAR_SIZES = 4  # a new plan is priced at a size already compiled for, if that is so near
PLANS = 8  # the oldest go first
PLANS_NEAR = 3  # that serve one size: a function may branch on it
ANEW = 8  # sizes compiled anew before a warning
REASONS = 8  # why sizes were compiled anew: the last ones
FIRST = (16, 32, 960)  # times a prime: where nothing is known about a symbol; much divides the last


@dataclass(frozen=True)
class PricedPlan:
    """A plan and the sizes it was priced at. `transfer` is None where it fits no other size: `why` says so."""

    sizes: Sizes
    program: Program
    transfer: PlanTransfer | None
    why: str = ""


def size_ratio(a: Sizes, b: Sizes) -> float:
    """How many times larger or smaller one is than the other, at most."""
    pairs = ((max(m, SMALL_EXTENT), max(n, SMALL_EXTENT)) for m, n in zip(a, b, strict=True))
    return max(max(m / n, n / m) for m, n in pairs)


class Family:
    """The plans of a function for the sizes of `pattern`. `trace` gives its graph for other types of its arrays."""

    def __init__(
        self,
        name: str,
        pattern: Pattern,
        trace: Callable[[Sequence[TensorType | None], Sequence[Strides] | None], Graph],
        options: Mapping[str, Any],
        seen: Sequence[Sizes] = (),
    ) -> None:
        self.name, self.pattern = name, pattern
        target = options.get("target", "cpu")
        self.options = {
            **options, "target": MANY_SIZES if target == "cpu" else target,
            "verify": False,  # a size that no call has may be too large to run
        }  # fmt: skip
        self._verify = bool(options.get("verify"))
        self.plans: list[PricedPlan] = []
        self.transferred = self.anew = 0
        self.reasons: dict[str, int] = {}
        self._traced, self._seen = trace, seen

    def _trace(self, types: Sequence[TensorType | None], layouts: Sequence[Strides] | None) -> Graph:
        device = device_for(self.options["target"])
        numerics = self.options.get("numerics", "reassociate")
        return before_search(self._traced(types, layouts), device, numerics, self._laws())

    def make(self, sizes: Sizes, layouts: Sequence[Strides] | None = None) -> Version:
        """The program for `sizes`, of arrays in C order or as `layouts` says."""
        started = time.perf_counter()
        graph = self._trace(self.pattern.types_at(sizes), layouts)
        if not sizes:
            return self._version(compile_graph(graph, **self.options), graph, "nothing has changed its extent")
        try:
            return self._transferred(graph, sizes, started)
        except NoTransfer as reason:
            return self._anew(graph, sizes, str(reason))

    def plan_first(self) -> Program:
        """The program at sizes that stand for all, where no call has told any. Raises what the function raises there.

        The larger ones are taken where the function does the same there: a loop over an extent would not.
        """
        primes = _primes(len(self.pattern.symbols))
        candidates = [tuple(times * p for p in primes) for times in FIRST]
        chosen, graph = candidates[0], self._trace(self.pattern.types_at(candidates[0]), None)
        for sizes in candidates[1:]:
            try:
                chosen, graph = sizes, self._alike(sizes, graph)
            except NoTransfer:
                break
        self.plans.append(self._planned(chosen, graph))
        return self.plans[0].program

    def __str__(self) -> str:
        lines = [f"sizes: {self.pattern}"]
        for p in self.plans:
            rests = p.transfer.rests_on if p.transfer is not None else f"not transferred: {p.why}"
            lines.append(f"  plan priced at {self.pattern.said(p.sizes)}, for {self._range(p)}: {rests}")
        lines.append(f"  {self.transferred} sizes transferred, {self.anew} compiled anew")
        lines += [f"  anew {count}×: {why}" for why, count in self.reasons.items()]
        return "\n".join(lines)

    def _range(self, p: PricedPlan) -> str:
        low = (0 if n <= PLAN_REACH * SMALL_EXTENT else -(-n // PLAN_REACH) for n in p.sizes)
        pairs = zip(self.pattern.symbols, low, p.sizes, strict=True)
        return ", ".join(f"{s} in {a}..{PLAN_REACH * n}" for s, a, n in pairs)

    def _transferred(self, graph: Graph, sizes: Sizes, started: float) -> Version:
        """The program of a plan priced near `sizes`. NoTransfer where there is none, and none can be made."""
        near = [p for p in self.plans if size_ratio(p.sizes, sizes) <= PLAN_REACH]
        near.sort(key=lambda p: size_ratio(p.sizes, sizes))
        reason: NoTransfer | None = None
        for planned in near:
            try:
                return self._at_sizes(planned, graph, sizes, started)
            except NoTransfer as why:
                reason = why
            if planned.transfer is None:
                raise reason
        if reason is not None and len(near) >= PLANS_NEAR:
            raise reason
        chosen = self._representative(sizes, [p.sizes for p in near])
        plan = self._planned(chosen, graph if chosen == sizes else self._alike(chosen, graph))
        self.plans = [*self.plans, plan][-PLANS:]
        return self._at_sizes(plan, graph, sizes, started)

    def _at_sizes(self, planned: PricedPlan, graph: Graph, sizes: Sizes, started: float) -> Version:
        """`planned` at other sizes."""
        if planned.sizes == sizes and _same(planned.program.plan.graph, graph):
            return self._version(planned.program, graph, "planned at this size")
        if planned.transfer is None:
            raise NoTransfer(planned.why)
        plan = planned.transfer.plan_for(graph)
        debug.show_plan(plan)
        program = emit(plan)
        if self.options.get("graphs"):
            program.executable.use_graphs()
        debug.show_source(program.source)
        how = f"transferred from {self.pattern.said(planned.sizes)}: {planned.transfer.rests_on}"
        seconds = {"transfer": time.perf_counter() - started}
        told, report = f"{self.pattern.said(sizes)}, {how}", planned.program.report
        program.make_report = lambda: _report(report, plan, seconds, program.peak_bytes, told)
        program.laws = planned.program.laws
        self.transferred += 1
        return self._version(program, graph, how)

    def _anew(self, graph: Graph, sizes: Sizes, reason: str) -> Version:
        self.anew += 1
        self.reasons[reason] = self.reasons.pop(reason, 0) + 1
        while len(self.reasons) > REASONS:
            del self.reasons[next(iter(self.reasons))]
        if self.anew == ANEW + 1:
            warnings.warn(
                f"{self.name} is compiled anew for every size of {self.pattern}, because {reason}; keep these extents "
                "from changing (pad the arrays), or do not name them dynamic",
                stacklevel=user_level(),
            )
        return self._version(compile_graph(graph, **self.options), graph, f"compiled anew: {reason}")

    def _version(self, program: Program, graph: Graph, how: str) -> Version:
        if self._verify:
            verified(program)
        return Version(program, graph.signature, how)

    def _planned(self, sizes: Sizes, graph: Graph) -> PricedPlan:
        """The plan of `graph`, the function at `sizes`, by the whole road."""
        program = compile_graph(graph, one_size=False, **self.options)
        report, laws = program.report, self._laws()
        if report.stop_reason == "saturated":  # or else proofs may have matched what the search did not
            laws = tuple(law for law in laws if law.name in report.laws_fired)
        try:
            return PricedPlan(sizes, program, PlanTransfer(program.plan, laws))
        except NoTransfer as why:
            return PricedPlan(sizes, program, None, str(why))

    def _alike(self, sizes: Sizes, graph: Graph) -> Graph:
        """The function traced at `sizes`. NoTransfer when it does other things there than in `graph`."""
        try:
            traced = self._trace(self.pattern.types_at(sizes), None)
        except Exception as error:  # the user's function may raise anything at a size that no call has
            raise NoTransfer(f"the function cannot be traced at {self.pattern.said(sizes)}: {error}") from error
        with suppress(Ambiguity):
            Correspondence(traced, graph)
        return traced

    def _laws(self) -> tuple[Law, ...]:
        return usable(self.options.get("laws", "all"), self.options.get("numerics", "reassociate"))

    def _representative(self, sizes: Sizes, not_these: Sequence[Sizes]) -> Sizes:
        """Sizes near `sizes` to plan at: seen ones, or odd multiples, whose extents differ from all others."""
        for seen in self._seen:
            if seen not in not_these and size_ratio(seen, sizes) <= NEAR_SIZES and self._distinct(seen):
                return seen
        taken = self.pattern.fixed | {n for other in not_these for n in other}
        extents: list[int] = []
        for n in sizes:
            m = n = max(n, 1)
            while m < SMALL_EXTENT or m in taken:
                m += 2 * n
            extents.append(m)
            taken.add(m)
        return tuple(extents)

    def _distinct(self, sizes: Sizes) -> bool:
        extents = {*sizes, *self.pattern.fixed}
        return min(sizes) >= SMALL_EXTENT and len(extents) == len(sizes) + len(self.pattern.fixed)


def _same(a: Graph, b: Graph) -> bool:
    """Are two graphs of a function, for the same types, one and the same? They may be traced for other layouts."""
    return a == b and a.signature.layouts == b.signature.layouts  # type: ignore[union-attr]


def _report(planned: Report, plan: Plan, seconds: Mapping[str, float], peak_bytes: int, sizes: str) -> Report:
    return report_at(planned, plan, unfused_plan(plan.graph, plan.device), seconds, peak_bytes, sizes)


def _primes(count: int) -> list[int]:
    primes: list[int] = []
    n = 2
    while len(primes) < count:
        if all(n % p for p in primes):
            primes.append(n)
        n += 1
    return primes
