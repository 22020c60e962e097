"""Explanations of programs: a table of kernels, why neighbours were not fused, totals against unfused.

In: a `Report`, its `Plan` and, on request, measured times. Out: an `Explanation`, which prints as text or HTML.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from eqfuse.budget import ALL_LAWS, LIMITS
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.kinds import classify
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.plan.report import Report, running
from eqfuse.show.attribution import NeededLaws
from eqfuse.show.lines import kernel_lines
from eqfuse.summary import count, counted, duration, quantity

TEXT_WIDTH = 118  # characters


@dataclass(frozen=True, repr=False)
class Explanation:
    """A report ready to be read. `not_fused` holds (producer, consumer, reason), by number of kernel."""

    report: Report
    device: str
    shapes: tuple[str, ...]
    not_fused: tuple[tuple[int, int, str], ...]
    measured: tuple[float, ...] | None
    rests: NeededLaws | None = None
    schedules: tuple[str, ...] = ()
    notes: str = ""
    lines: tuple[str, ...] = ()
    against: tuple[float, float] | None = None

    def about(self, notes: str) -> Explanation:
        """The same, and `notes` below it."""
        return replace(self, notes="\n".join(filter(None, (self.notes, notes))))

    def __repr__(self) -> str:
        return f"Explanation: print shows it; of the\n{self.report!r}"

    def __str__(self) -> str:
        return self._print().file.getvalue()  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        return self._print(record=True).export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def __rich__(self) -> Group:
        notes = [Text(self.notes)] if self.notes else []
        sections = (*self._lines(), *self._schedules(), *self._refusals(), *self._laws())
        return Group(self._table(), *sections, Text(self._totals()), *notes)

    def _print(self, record: bool = False) -> Console:
        console = Console(file=io.StringIO(), width=TEXT_WIDTH, record=record, color_system=None)
        console.print(self)
        return console

    def _table(self) -> Table:
        table = Table(
            title=f"{count(self.report.n_kernels, 'kernel')} on {self.device}", title_justify="left", pad_edge=False
        )
        table.add_column("#", justify="right")
        table.add_column("kind")
        table.add_column("operators", ratio=1)
        table.add_column("writes")
        for heading in ("merged", "bytes", "flops", "% peak", "bound", "predicted"):
            table.add_column(heading, justify="right", no_wrap=True)
        if self.measured is not None:
            table.add_column("measured", justify="right", no_wrap=True)
        for i, (kernel, shape) in enumerate(zip(self.report.kernels, self.shapes, strict=True)):
            cells = [str(i), kernel.kind, counted(kernel.ops), shape, f"{len(kernel.ops)} / {kernel.accesses_merged}"]
            cells += [quantity(kernel.bytes_moved, "B"), quantity(kernel.flops), self._peaks(i), kernel.bound]
            cells += [duration(kernel.predicted_seconds)]
            if self.measured is not None:
                cells += [duration(self.measured[i])]
            table.add_row(*map(Text, cells))
        return table

    def _peaks(self, number: int) -> str:
        """How much a kernel has of the bandwidth, and of the rate of its operators, in percent."""
        kernel = self.report.kernels[number]
        seconds = kernel.predicted_seconds if self.measured is None else self.measured[number]
        percent = 100 * kernel.predicted_seconds / seconds if seconds else 0.0
        return f"{percent * kernel.bandwidth_share:.0f} / {percent * kernel.peak_share:.0f}"

    def _lines(self) -> list[Text]:
        lines = [f"  {i}: {text}" for i, text in enumerate(self.lines) if text]
        return [Text("\n".join(["Which lines they compute:", *lines]))] if lines else []

    def _schedules(self) -> list[Text]:
        lines = [f"  {i}: {'; '.join(schedule.splitlines())}" for i, schedule in enumerate(self.schedules) if schedule]
        return [Text("\n".join(["How they run:", *lines]))] if lines else []

    def _refusals(self) -> list[Text]:
        if not self.not_fused:
            return []
        lines = [f"  {a} → {b}: {reason}" for a, b, reason in self.not_fused]
        return [Text("\n".join(["Not fused:", *lines]))]

    def _laws(self) -> list[Text]:
        return [] if self.rests is None else [Text(str(self.rests))]

    def _limited(self) -> str:
        r = self.report
        if r.memory_limit is None:
            return ""
        longer = r.predicted_seconds / r.unlimited_seconds if r.unlimited_seconds else None
        costs = "" if longer is None else f", {longer:.2f}× the time without that limit"
        return f" of at most {quantity(r.memory_limit, 'B')}{costs}"

    def _against(self) -> list[str]:
        if self.against is None:
            return []
        numpy, own = self.against
        faster = f"speed-up {numpy / own:.2f}×, {100 * (1 - own / numpy):.0f} % less"
        return [f"  {duration(numpy)} in NumPy, call by call → {duration(own)} measured in turn, {faster}"]

    def _totals(self) -> str:
        r = self.report
        gap = "" if r.optimality_gap is None else f"; at most {100 * r.optimality_gap:.1f} % from the optimum"
        lines = [
            "merged: operators in one kernel / reads and writes of whole arrays that it saves",
            "% peak: of the bandwidth of the memory that the bytes fit in / of the best rate for these operators; "
            f"{'predicted' if self.measured is None else 'measured'}",
            "Against one kernel per operator:",
            f"  {r.unfused_kernels} → {r.n_kernels} kernels, fusion rate {100 * r.fusion_rate:.0f} %",
            f"  {quantity(r.unfused_bytes_moved, 'B')} → {quantity(r.bytes_moved, 'B')} moved, "
            f"{r.unfused_intensity:.3g} → {r.intensity:.3g} flops a byte, memory saving {100 * r.memory_saving:.0f} %; "
            f"temporaries {quantity(r.peak_bytes, 'B')}{self._limited()}",
            f"  {duration(r.unfused_seconds)} → {duration(r.predicted_seconds)} predicted, "
            f"speed-up {r.speedup:.2f}× (time ratio {r.time_ratio:.2f}, {100 * (1 - r.time_ratio):.0f} % less)",
            *self._against(),
            f"Search: {r.egraph_nodes:,} e-graph nodes, stopped: {r.stop_reason}{gap}",
        ]
        if r.stop_reason in LIMITS:
            lines.append(
                f"The {r.stop_reason} of the budget ended the search: "
                "with more, or on a faster machine, the plan may be another"
            )
        if cheaper := {level: times for level, times in r.searched.items() if level != ALL_LAWS}:
            parts = ", ".join(f"{times:,} {level}" for level, times in cheaper.items())
            lines.append(
                f"The budget ended before all of {sum(r.searched.values()):,} operators were searched with all laws; "
                f"planned by cheaper means: {parts}. ef.Budget(seconds=…, bytes=…) allows more"
            )
        if r.hurried:
            lines.append(
                f"The seconds of the budget did not suffice to compile {count(r.hurried, 'kernel')} with all "
                "optimisations; ef.Budget(seconds=…) allows more, and a plan from the cache needs them for nothing else"
            )
        if r.uncompiled:
            lines.append(
                f"The seconds of the budget did not suffice to compile {count(r.uncompiled, 'kernel')}, which NumPy "
                "runs, those that gain least; ef.Budget(seconds=…) allows more"
            )
        if r.laws_fired:
            fired = sorted(r.laws_fired.items(), key=lambda kv: (-kv[1], kv[0]))
            more = f", and {len(fired) - 8} more" if len(fired) > 8 else ""
            taken = [f"{name} ×{count} {duration(r.law_seconds.get(name, 0.0))}" for name, count in fired[:8]]
            lines.append("Laws that matched: " + ", ".join(taken) + more)
        if r.timed:
            times = ", ".join(f"{label} {duration(s)}" for label, s in sorted(r.timed.items(), key=lambda kv: kv[1]))
            lines.append(f"Timed on random inputs: {times}")
        if r.rolled:
            lines.append(f"Before the search: {'; '.join(r.rolled)}")
        if r.sizes:
            lines.append(f"Sizes: {r.sizes}")
        if r.seconds:
            lines.append("Compiled in " + ", ".join(f"{stage} {duration(s)}" for stage, s in r.seconds.items()))
        return "\n".join(lines)


def explain(
    report: Report, plan: Plan, measured: Sequence[float] | None = None, rests: NeededLaws | None = None,
    schedules: Sequence[str] = (), against: tuple[float, float] | None = None,
) -> Explanation:  # fmt: skip
    """The explanation of `plan`. For each kernel that is no view, in order: seconds in `measured`, how it runs in
    `schedules`. `against`: the seconds of NumPy, call by call, and of the program."""
    shapes = tuple(counted([str(plan.types[v]) for v in k.writes]) for k in running(plan))
    times = None if measured is None else tuple(measured)
    reasons, lines = tuple(why_not_fused(plan)), kernel_lines(plan)
    return Explanation(report, plan.device.name, shapes, reasons, times, rests, tuple(schedules), "", lines, against)


def why_not_fused(plan: Plan) -> list[tuple[int, int, str]]:
    """(producer, consumer, reason) for every two kernels of which one reads what the other writes.

    Kernels are numbered as in the report: views do not count, and are looked through.
    """
    kernels = running(plan)
    number = {id(k): i for i, k in enumerate(kernels)}
    writer = {v: k for k in plan.kernels for v in k.writes}
    readers = _readers(plan, writer, kernels)
    reached: list[int] = []  # by kernel number: the kernels it needs, a bit each
    reasons = []
    for consumer, kernel in enumerate(kernels):
        sources = [_source(v, writer) for v in kernel.reads]
        producers = list(dict.fromkeys(number[id(s)] for s in sources if s is not None))
        reached.append(0)
        for p in producers:
            reached[consumer] |= reached[p] | 1 << p
        for p in producers:
            between = [q for q in producers if reached[q] >> p & 1]
            kept = [v for v in kernels[p].writes if readers[v] - {consumer}]
            reasons.append((p, consumer, _reason(plan, kernels[p], kernel, writer, between, kept)))
    return reasons


def _readers(plan: Plan, writer: dict[int, Kernel], kernels: Sequence[Kernel]) -> dict[int, set[int]]:
    """The numbers of the kernels that read each value, behind views; -1 where it is a result."""
    readers: dict[int, set[int]] = {v: set() for k in kernels for v in k.writes}
    for number, values in [(-1, plan.outputs), *((number, k.reads) for number, k in enumerate(kernels))]:
        for v in values:
            readers.setdefault(_through(v, writer), set()).add(number)
    return readers


def _source(value: int, writer: dict[int, Kernel]) -> Kernel | None:
    """The kernel that computes `value`, behind views; None for inputs and constants."""
    while (kernel := writer.get(value)) is not None and kernel.is_view:
        (value,) = kernel.reads
    return kernel


def _reason(
    plan: Plan, producer: Kernel, consumer: Kernel, writer: dict[int, Kernel], between: list[int], kept: list[int]
) -> str:
    """`between`: kernels that stand between the two; `kept`: what `producer` writes for others than `consumer`."""
    if between:
        return f"kernel {between[0]} stands between them: it needs the one, and the other needs it"
    alone = classify(_joined(plan, producer, consumer, writer, []), plan.device)
    if isinstance(alone, str):
        return alone
    body = _joined(plan, producer, consumer, writer, kept)
    state = classify(body, plan.device)
    if isinstance(state, str):
        return f"others read the first one's result too, and {state}"
    fused = priced(body, plan.device)
    if isinstance(fused, str):
        return fused
    together, apart = fused[1].seconds, producer.price.seconds + consumer.price.seconds
    return f"one {state.kind} kernel could hold both: predicted {duration(together)}, against {duration(apart)} apart"


def _through(value: int, writer: dict[int, Kernel]) -> int:
    while value in writer and writer[value].is_view:
        (value,) = writer[value].reads
    return value


def _joined(plan: Plan, producer: Kernel, consumer: Kernel, writer: dict[int, Kernel], keep: list[int]) -> Graph:
    """One body for both kernels, which also returns the producer's values `keep`."""
    leaves: dict[int, Node] = {}

    def leaf(value: int) -> Node:
        return leaves.setdefault(value, input_node(f"v{value}", plan.types[value]))

    def body(kernel: Kernel, values: Sequence[Node]) -> tuple[Node, ...]:
        return substitute(kernel.body.outputs, dict(zip(kernel.body.inputs, values, strict=True)))

    nodes = dict(zip(producer.writes, body(producer, [leaf(v) for v in producer.reads]), strict=True))

    def value(v: int) -> Node:
        views: list[int] = []  # through which it shows another, the last first
        while v not in nodes and v in writer and writer[v].is_view:
            views.append(v)
            (v,) = writer[v].reads
        shown = nodes.get(v) or leaf(v)
        for view in reversed(views):
            (shown,) = body(writer[view], [shown])
            nodes[view] = shown
        return shown

    outputs = body(consumer, [value(v) for v in consumer.reads]) + tuple(nodes[v] for v in keep)
    graph = Graph((), outputs)
    return Graph(tuple(n for n in graph.nodes if n.op == "input"), outputs)
