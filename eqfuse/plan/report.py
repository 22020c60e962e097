"""The report of a program: its kernels, what they move and cost, and what that saves against one kernel per operator.

In: the chosen `Plan`, the unfused one, and the `Space` they were chosen from. Out: a frozen `Report`.
Next stop: `eqfuse/show/explain.py` prints it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eqfuse.budget import Meter
from eqfuse.cost.device import Device
from eqfuse.cost.targets import copies_operands
from eqfuse.egraph.space import Space
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.product import narrowed
from eqfuse.ops import Role
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.summary import KernelLine, SummarisedValue, Summary, costs, count, of_kernels, quantity


@dataclass(frozen=True)
class KernelReport:
    """One kernel. Times in seconds; `ops` in the order they run, without views unless it only copies through them."""

    kind: str
    ops: tuple[str, ...]
    bytes_read: int
    bytes_written: int
    flops: int
    predicted_seconds: float
    bound: str  # "memory" | "compute" | "launch"
    accesses_merged: int  # reads and writes of whole intermediate arrays that do not happen
    peak_share: float  # predicted flops per second, as a share of the device's best rate for these operators
    bandwidth_share: float  # predicted bytes per second, as a share of those of the memory that the bytes fit in
    balance: float  # flops per byte at which that rate and that bandwidth take equally long

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Flops per byte of memory traffic."""
        return self.flops / max(self.bytes_moved, 1)


@dataclass(frozen=True, repr=False)
class Report(SummarisedValue):
    """What a program does per call, by prediction. Times in seconds; views count as no kernel.

    `fusion_rate`: of the operators that could share a kernel, the share that does. `memory_saving`: the share of the
    unfused program's traffic that is gone. `time_ratio` is fused over unfused time (below 1 is faster), `speedup` its
    inverse. `optimality_gap`: how far at most from the optimum over the same candidates, as a share of it; None where
    the extractor gives no bound. `searched`: how many operators were planned at each level (`budget.LEVELS`).
    `hurried`: how many kernels, those of loops too, were compiled with fewer optimisations, as the seconds of the
    budget came to an end; `uncompiled`: how many NumPy runs for that reason, in place of a compiled kernel.
    """

    kernels: tuple[KernelReport, ...]
    n_kernels: int
    bytes_moved: int
    flops: int
    predicted_seconds: float
    peak_bytes: int
    fusion_rate: float
    memory_saving: float
    speedup: float
    time_ratio: float
    stop_reason: str
    egraph_nodes: int
    numerics: str
    laws_fired: Mapping[str, int]  # matches
    law_seconds: Mapping[str, float]  # what `Engine.round` could tell apart: searching, judging, making nodes
    optimality_gap: float | None
    seconds: Mapping[str, float]
    unfused_kernels: int
    unfused_bytes_moved: int
    unfused_flops: int
    unfused_seconds: float
    memory_limit: int | None = None  # bytes, as asked for
    unlimited_seconds: float | None = None  # predicted, of the plan that does not keep the limit, if there is one
    unlimited_bytes: int | None = None  # that a call of that plan holds
    searched: Mapping[str, int] = field(default_factory=dict)  # operators by how thoroughly they were planned
    hurried: int = 0
    uncompiled: int = 0
    sizes: str = ""  # of symbols: which, and how the plan came to serve them
    timed: Mapping[str, float] = field(default_factory=dict)  # programs that autotune has timed, and their seconds
    rolled: tuple[str, ...] = ()  # what became of many alike steps, and of chains of constants

    @property
    def intensity(self) -> float:
        """Flops per byte of memory traffic."""
        return self.flops / max(self.bytes_moved, 1)

    @property
    def unfused_intensity(self) -> float:
        return self.unfused_flops / max(self.unfused_bytes_moved, 1)

    def summary(self) -> Summary:
        lines = [KernelLine(k.kind, k.ops, k.bytes_moved, k.predicted_seconds, k.bound) for k in self.kernels]
        title = (
            f"Report: {count(len(lines), 'kernel')}, {costs(lines)}, {quantity(self.peak_bytes, 'B')} of temporaries; "
            f"{self.speedup:.2f}× faster than one kernel per operator"
        )
        return of_kernels(title, lines)


def make_report(
    plan: Plan,
    unfused_plan: Plan,
    space: Space,
    seconds: Mapping[str, float],
    peak_bytes: int,
    meter: Meter,
    memory_limit: int | None = None,
    unlimited: tuple[float | None, int | None] = (None, None),
) -> Report:
    """The report of `plan`; `seconds` by stage of a compile that took what `meter` says. `unlimited`:
    seconds and bytes of the plan that does not keep the limit."""
    return Report(
        **_totals(plan, unfused_plan),
        peak_bytes=peak_bytes,
        stop_reason=meter.cut or space.stop_reason,
        egraph_nodes=space.n_nodes,
        numerics=space.numerics,
        laws_fired=space.laws_fired,
        law_seconds=space.law_seconds,
        optimality_gap=plan.gap,
        seconds=dict(seconds),
        memory_limit=memory_limit,
        unlimited_seconds=unlimited[0],
        unlimited_bytes=unlimited[1],
        searched=dict(meter.searched),
        hurried=len(meter.hurried),
        uncompiled=len(meter.uncompiled),
        rolled=plan.graph.rolled or (),
    )


def report_at(
    planned: Report, plan: Plan, unfused_plan: Plan, seconds: Mapping[str, float], peak_bytes: int, sizes: str
) -> Report:
    """The report of `plan`, which was transferred to other `sizes` from one that has the report `planned`."""
    return replace(
        planned, **_totals(plan, unfused_plan), peak_bytes=peak_bytes, optimality_gap=None, seconds=dict(seconds),
        hurried=0, uncompiled=0, sizes=sizes, rolled=plan.graph.rolled or (),
    )  # fmt: skip


def _totals(plan: Plan, unfused_plan: Plan) -> dict[str, Any]:
    """What a report says about the kernels themselves."""
    kernels = tuple(_kernel_report(k, plan.device) for k in running(plan))
    unfused = tuple(_kernel_report(k, plan.device) for k in running(unfused_plan))
    moved, unfused_moved = (sum(k.bytes_moved for k in ks) for ks in (kernels, unfused))
    predicted, unfused_predicted = (sum(k.predicted_seconds for k in ks) for ks in (kernels, unfused))
    return {
        "kernels": kernels,
        "n_kernels": len(kernels),
        "bytes_moved": moved,
        "flops": sum(k.flops for k in kernels),
        "predicted_seconds": predicted,
        "fusion_rate": _fusion_rate(plan),
        "memory_saving": 1 - moved / unfused_moved if unfused_moved else 0.0,
        "speedup": _ratio(unfused_predicted, predicted),
        "time_ratio": _ratio(predicted, unfused_predicted),
        "unfused_kernels": len(unfused),
        "unfused_bytes_moved": unfused_moved,
        "unfused_flops": sum(k.flops for k in unfused),
        "unfused_seconds": unfused_predicted,
    }


def running(plan: Plan) -> list[Kernel]:
    """The kernels that do something at every call: all but views."""
    return [k for k in plan.kernels if not k.is_view]


def _kernel_report(kernel: Kernel, device: Device) -> KernelReport:
    price, ops = kernel.price, kernel.body.computations
    moved = price.bytes_read + price.bytes_written
    memory, rate = device.memory_seconds(moved), _best_rate(ops, device) if ops else 0.0
    return KernelReport(
        kind=kernel.kind,
        ops=tuple(n.op for n in ops or kernel.body.operators),
        bytes_read=price.bytes_read,
        bytes_written=price.bytes_written,
        flops=price.flops,
        predicted_seconds=price.seconds,
        bound=price.bound,
        accesses_merged=_accesses_merged(kernel.body),
        peak_share=price.flops / price.seconds / rate if rate and price.seconds else 0.0,
        bandwidth_share=memory / price.seconds if price.seconds else 0.0,
        balance=rate * memory / moved if moved else 0.0,
    )


def _accesses_merged(body: Graph) -> int:
    """One write and one read for each reader of every value that stays inside the kernel."""
    inner = set(body.computations)
    readers = dict.fromkeys(inner, 0)
    source: dict[Node, Node] = {}  # behind views
    for n in body.nodes:
        source[n] = n if n in inner or not n.args else source[n.args[0]]
        if n in inner:
            for a in {source[a] for a in n.args} & inner:
                readers[a] += 1
    stored = {source[o] for o in body.outputs}
    return sum(count + (n not in stored) for n, count in readers.items() if count)


def _best_rate(ops: Sequence[Node], device: Device) -> float:
    """Flops per second of the fastest of `ops`, as the device's profile has it."""
    rates = []
    for n in ops:
        dtype = n.args[n.row.values_from].dtype.name
        if n.row.role is Role.CONTRACTION:
            rates.append(_product_rate(n, device))
        else:
            rates += [device.scalar_rate(dtype), 1 / (device.element_seconds(n.op, dtype) or math.inf)]
    return max(rates)


def _product_rate(n: Node, device: Device) -> float:
    """Of the fastest way to compute the product `n`: of its operands before they are widened, by tensor cores, or, in
    loops of our own for a CPU, at the rate of float32."""
    dtype = narrowed(n, device)[0].dtype
    rate = device.contraction_flops(dtype.name)
    in_loops = copies_operands(device) and (dtype.kind in "biu" or dtype.itemsize == 2)
    return max(rate, device.contraction_flops("float32")) if in_loops else rate


def _fusion_rate(plan: Plan) -> float:
    """Fused operators over fusible ones. 1 when there is nothing to fuse."""
    sizes = [sum(n.row.role not in (Role.LIBRARY, Role.UPDATE) for n in k.body.computations) for k in running(plan)]
    fusible = sum(sizes)
    return sum(n for n in sizes if n > 1) / fusible if fusible > 1 else 1.0


def _ratio(a: float, b: float) -> float:
    return a / b if b else 1.0
