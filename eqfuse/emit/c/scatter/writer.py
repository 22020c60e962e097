"""The text of a kernel that joins values to the elements that indices name.

In: a `ScatterSchedule`. Out: the text of its functions. Next stop: `emit/c/kernels.py`.
"""

from __future__ import annotations

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import MISSED, indented, loop
from eqfuse.emit.c.lines import Lines
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.passes import Pass
from eqfuse.emit.c.scatter.schedule import ScatterSchedule
from eqfuse.emit.c.writer import CHUNK, Text, Writer, called, function
from eqfuse.ir.graph import Node


def write(schedule: ScatterSchedule, name: str, rounds: bool) -> Text:
    reads_updated = schedule.update.base in schedule.body.nodes
    parameters = Parameters(schedule.whole, [], updated=schedule.update.base if reads_updated else None)
    writer = ScatterWriter(schedule, rounds, parameters)
    begun, kernel = Writer(schedule.begun, rounds, parameters), writer.kernel()
    first = [*begun.kernel()]
    lines = [*_unless_in_place(parameters, schedule.update.base, [*begun.tables(), *first]), *kernel]
    source = function(f"static void {name}_chunk({CHUNK})", writer.chunk(lines))
    run = [f"{name}_chunk(arrays, 0);"]
    return Text(source + called(name, parameters, run, schedule.seconds, misses=True), parameters, misses=True)


def _unless_in_place(parameters: Parameters, base: Node, lines: list[str]) -> list[str]:
    """`lines`, which write what is updated, skipped where the result lies in its memory."""
    if base not in parameters.reads:
        return ["{", *indented(lines), "}"]
    names = parameters.names()
    return loop(f"if (arrays[{names.index(parameters.leaf(base))}] != arrays[{names.index('w0')}])", lines)


class ScatterLines(Lines):
    """The lines of the loops over values."""

    schedule: ScatterSchedule

    def _outputs(self, p: Pass, inner: list[str], column: list[str]) -> list[str]:
        """Joins a value to the element at its place. Of a place beyond the array the kernel tells, and takes the first
        instead."""
        update, (places, values) = self.schedule.update, self.form.body.outputs
        place, value, dtype = self.value(places, "inner"), self.value(values, "inner"), values.dtype
        at, old = self.counts.name("g"), self.counts.name("u")
        wrapped = f" + ({place} < 0 ? {update.extent} : 0)" * update.wraps
        inner += [
            f"const long {at} = (long){place}{wrapped};",
            f"{MISSED} |= (unsigned long){at} >= {update.extent};",
            f"const long {at}_at = (unsigned long){at} < {update.extent} ? {at} : 0;",
        ]
        element = f"w0[{self.index(update.target)} + {update.stride} * {at}_at]"
        joined = ops.expression(update.mode, [dtype, dtype], [old, value])
        steps = [
            f"const {ops.computed(dtype)} {old} = {ops.load(dtype, element)};",
            f"{element} = {ops.store(dtype, joined)};",
        ]
        inner += steps
        if self.schedule.has_conflicts:
            self.steps.update(steps)
        return []


class ScatterWriter(Writer):
    LINES = ScatterLines

    @property
    def misses(self) -> bool:
        return True
