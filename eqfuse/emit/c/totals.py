"""A kernel of rows and of what is reduced over all of them: two nests of loops, one after the other, in one function.

In: a body of kind total and a device. Out: `TotalsSchedule`, and its text. Next stop: `kernels.py`. What rows give lies
in workspaces between the two, each of which is scheduled as a kernel of its own is, and so gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.schedule import CompiledSchedule, LoopsSchedule, loops_schedule
from eqfuse.emit.c.writer import Text, called, functions_of, on_lines
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.schedule import Schedule
from eqfuse.kinds.total import Totals, totals_of
from eqfuse.ops.types import TensorType


@dataclass(frozen=True, eq=False, kw_only=True)
class TotalsSchedule(CompiledSchedule):
    """`rows`, then `after`, which makes of them the results that need totals."""

    body: Graph
    totals: Totals
    rows: LoopsSchedule
    after: LoopsSchedule

    @property
    def stored(self) -> list[Node]:
        """What rows give that is no result of the kernel."""
        return [n for n in self.totals.rows.outputs if n not in self.body.outputs]

    @property
    def workspaces(self) -> list[TensorType]:
        return [*(n.type for n in self.stored), *self.rows.workspaces, *self.after.workspaces]

    def __str__(self) -> str:
        return f"{self.rows}\nthen, of what rows give, {self.after}"


def totals_schedule(body: Graph, device: Device) -> Schedule:
    """UnsupportedOp where loops do not run rows, or what follows them."""
    totals = totals_of(body)
    if totals is None:
        raise UnsupportedOp("a c kernel of kind total reduces what rows are reduced to")
    rest = Graph(totals.rest.inputs, totals.results)
    rows, after = (loops_schedule(graph, device) for graph in (totals.rows, rest))
    if not isinstance(rows, LoopsSchedule) or not isinstance(after, LoopsSchedule):
        raise UnsupportedOp("rows of no elements have no loops")
    reads = [a + b for a, b in zip(rows.reads, after.reads, strict=False)]
    return TotalsSchedule(
        tuple(reads), tuple(o.type.nbytes for o in body.outputs), rows.calls + after.calls, body=body, totals=totals,
        rows=rows, after=after, threads=max(rows.threads, after.threads),
        seconds=rows.seconds + after.seconds, compute=rows.compute + after.compute, flops=rows.flops + after.flops,
    )  # fmt: skip


def totals_text(schedule: TotalsSchedule, name: str, rounds: bool) -> Text:
    places = _Places(schedule)
    stages = {
        "rows": (functions_of(schedule.rows, f"{name}_rows", rounds), places.of_rows),
        "after": (functions_of(schedule.after, f"{name}_after", rounds), places.of_after),
    }
    for functions, _ in stages.values():
        places.take(functions.parameters)
    misses = any(functions.misses for functions, _ in stages.values())
    names, lines = places.parameters.names(), list[str]()
    for stage, (functions, place) in stages.items():
        numbers = [names.index(place(functions.parameters, own)) for own in functions.parameters.names()]
        numbers += [len(names)] * functions.misses
        lines.append(f"void *const {stage}[] = {{{on_lines([f'arrays[{number}]' for number in numbers])}}};")
        lines += [line.format(arrays=stage) for line in functions.run]
    source = "".join(functions.source for functions, _ in stages.values())
    return Text(source + called(name, places.parameters, lines, schedule.seconds, misses), places.parameters, misses)


class _Places:
    """Which arrays of the whole kernel, by name, are those of its stages."""

    def __init__(self, schedule: TotalsSchedule) -> None:
        self.schedule, self.body = schedule, schedule.body
        self.parameters = Parameters(schedule.body, schedule.workspaces)

    def take(self, stage: Parameters) -> None:
        """The arrays that a stage reads, and its constants."""
        mine = self.parameters
        mine.reads += [n for n in stage.reads if n in self.body.inputs and n not in mine.reads]
        mine.constants += [literal for literal in stage.constants if literal not in mine.constants]

    def of_rows(self, stage: Parameters, name: str) -> str:
        number = int(name[1:])
        if name[0] == "w":
            return self._result(number)
        return self._shared(stage, name, len(self.schedule.stored))

    def of_after(self, stage: Parameters, name: str) -> str:
        number = int(name[1:])
        if name[0] == "w":
            totals = self.schedule.totals
            return f"w{totals.rest.outputs.index(totals.results[number])}"
        if name[0] == "r" and number >= len(self.body.inputs):
            return self._result(number - len(self.body.inputs))
        return self._shared(stage, name, len(self.schedule.stored) + len(self.schedule.rows.workspaces))

    def _shared(self, stage: Parameters, name: str, workspaces: int) -> str:
        """Of an input, a constant, or a workspace of a stage before which there are so many."""
        number = int(name[1:])
        if name[0] == "k":
            return f"k{self.parameters.constants.index(stage.constants[number])}"
        return f"p{workspaces + number}" if name[0] == "p" else name

    def _result(self, number: int) -> str:
        """Of what rows give."""
        n = self.schedule.totals.rows.outputs[number]
        if n in self.body.outputs:
            return f"w{self.body.outputs.index(n)}"
        return f"p{self.schedule.stored.index(n)}"
