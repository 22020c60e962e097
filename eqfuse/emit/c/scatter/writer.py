"""The text of a kernel that joins values to the elements that indices name.

In: a `ScatterSchedule`. Out: the text of its functions. Next stop: `emit/c/kernels.py`.
"""

from __future__ import annotations

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import MISSED, braced, indented
from eqfuse.emit.c.lines import Lines
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.passes import Pass
from eqfuse.emit.c.scatter.schedule import MODE_REDUCTIONS, ScatterSchedule, Update
from eqfuse.emit.c.writer import CHUNK_PARAMETERS, Text, Writer, called, definition, run_line, used


def scatter_text(schedule: ScatterSchedule, name: str, rounds: bool) -> Text:
    base = schedule.updates[0].base
    is_read = len(schedule.updates) == 1 and base in schedule.body.nodes
    parameters = Parameters(schedule.whole, schedule.workspaces, updated=base if is_read else None)
    writer = ScatterWriter(schedule, rounds, parameters)
    kernel, begun = [*writer.parts_begun(), *writer.kernel()], writer.begun()
    joined = writer.parts_joined() if schedule.in_parts else []
    source = definition(f"static void {name}_chunk({CHUNK_PARAMETERS})", writer.chunk(kernel))
    for when, lines in (("begun", begun), ("joined", joined)):
        inside = [*used(parameters.fetched(), lines), *lines]
        source += definition(f"static void {name}_{when}(void *const *arrays)", inside) * bool(lines)
    run = [f"{name}_begun(arrays);", run_line(f"{name}_chunk", schedule.chunks, schedule.threads)]
    run += [f"{name}_joined(arrays);"] * bool(joined)
    return Text(source + called(name, parameters, run, schedule.seconds, misses=True), parameters, misses=True)


class ScatterLines(Lines):
    """The lines of the loops over values."""

    schedule: ScatterSchedule

    def _outputs(self, p: Pass, inner: list[str], column: list[str]) -> list[str]:
        """Joins values to the elements at their places. Of a place beyond its array the kernel tells, and takes the
        first instead."""
        names: dict[tuple[str, int, bool], str] = {}
        outputs = self.form.body.outputs
        for j, update in enumerate(self.schedule.updates):
            place, value = (self.value(n, "inner") for n in outputs[2 * j : 2 * j + 2])
            key = place, update.extent, update.wraps
            if key not in names:
                names[key] = self._enter_place_of(update, place, inner)
            dtype, old = update.values.dtype, self.counts.name("u")
            array = f"v{j}" if self.schedule.in_parts else f"w{j}"
            element = f"{array}[{self.index(update.target)} + {update.stride} * {names[key]}]"
            joined = ops.expression(update.mode, [dtype, dtype], [old, value])
            steps = [
                f"const {ops.computing_type(dtype)} {old} = {ops.value_read(dtype, element)};",
                f"{element} = {ops.value_kept(dtype, joined)};",
            ]
            inner += steps
            if self.schedule.has_conflicts:
                self.steps.update(steps)
        return []

    def _enter_place_of(self, update: Update, place: str, inner: list[str]) -> str:
        """The name of a place in an array that is updated, which lines find."""
        name, extent = self.counts.name("g"), update.extent
        wrapped = f" + ({place} < 0 ? {extent} : 0)" * update.wraps
        inner += [
            f"const long {name} = (long){place}{wrapped};",
            f"{MISSED} |= (unsigned long){name} >= {extent};",
            f"const long {name}_at = (unsigned long){name} < {extent} ? {name} : 0;",
        ]
        return f"{name}_at"


class ScatterWriter(Writer):
    LINES = ScatterLines
    schedule: ScatterSchedule

    @property
    def misses(self) -> bool:
        return True

    def begun(self) -> list[str]:
        """The loops that write what is updated, skipped where the result lies in its memory."""
        lines = []
        for j, (schedule, update) in enumerate(zip(self.schedule.begun, self.schedule.updates, strict=True)):
            writer, parameters = Writer(schedule, self.rounds, self.parameters), self.parameters
            for form in writer.forms:
                form.first = j
            inside = writer.kernel()
            inside, head = [*writer.tables(), *inside], ""
            if update.base in parameters.reads:
                names = parameters.names()
                base = names.index(parameters.leaf(update.base))
                head = f"if (arrays[{base}] != arrays[{names.index(f'w{j}')}]) "
            lines += [f"{head}{{", *indented(inside), "}"]
        return lines

    def parts_begun(self) -> list[str]:
        """The arrays of a part, in which nothing is joined yet."""
        lines = []
        for j, update in enumerate(self.schedule.updates if self.schedule.in_parts else ()):
            size, dtype = update.base.type.size, update.base.dtype
            begun = ops.reduction(MODE_REDUCTIONS[update.mode], dtype, dtype).identity
            begun = "-0.0" if update.mode == "add" and dtype.kind == "f" else begun  # the sum may be one of such zeros
            lines.append(f"{ops.ctype(dtype).stored} *restrict v{j} = p{j} + chunk * {size};")
            lines.append(f"for (long at = 0; at < {size}; at++) v{j}[at] = {begun};")
        return lines

    def parts_joined(self) -> list[str]:
        """The arrays of all parts joined to what is updated."""
        lines = []
        for j, update in enumerate(self.schedule.updates):
            size, dtype = update.base.type.size, update.base.dtype
            values = [ops.value_read(dtype, text) for text in (f"w{j}[at]", f"p{j}[part * {size} + at]")]
            joined = ops.value_kept(dtype, ops.expression(update.mode, [dtype, dtype], values))
            lines += ["#pragma omp simd", *braced(f"for (long at = 0; at < {size}; at++)", [f"w{j}[at] = {joined};"])]
        return braced(f"for (long part = 0; part < {self.schedule.chunks}; part++)", lines)
