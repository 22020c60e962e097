"""The text of a fused kernel in C: loops over units, passes over rows, one line for each operator.

In: a `LoopsSchedule`. Out: the text of its functions, and the arrays that they take. Next stop: `kernels.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import Elements, indented, loop
from eqfuse.emit.c.joining import Joining
from eqfuse.emit.c.loops import Loops, held_elements, partial_dtype
from eqfuse.emit.c.nest import NAMES
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.passes import Pass, is_load
from eqfuse.emit.c.schedule import LoopsSchedule
from eqfuse.ir.graph import Node

WIDTH = 100  # of lists of arrays
RELEASED = 5e-6  # seconds from which a kernel lets other threads of Python work
PAIR_BYTES = 2048  # of a run whose sum is one vector of sums; those of runs are added in pairs


@dataclass(frozen=True)
class Text:
    """The functions of a kernel. `name`, the one that is called, runs the chunks of units, and joins the parts of rows
    where these are split."""

    source: str
    parameters: Parameters


def write(schedule: LoopsSchedule, name: str, rounds: bool) -> Text:
    writer = Writer(schedule, rounds)
    lines = [*_units(schedule), *writer.kernel()]
    parameters = writer.parameters
    joining = Joining(schedule, rounds, parameters).lines() if schedule.split is not None else []
    fetched, arguments = parameters.fetched(), "void *const *arrays"
    source = function(f"static void {name}_chunk({arguments}, long long chunk)", [*used(fetched, lines), *lines])
    if joining:
        source += function(f"static void {name}_joined({arguments})", [*used(fetched, joining), *joining])
    run = [f"{name}_chunk(arrays, 0);"]
    if schedule.chunks > 1:
        run = [f"eqf_run({name}_chunk, arrays, {schedule.chunks}, {schedule.threads});"]
    run += [f"{name}_joined(arrays);"] * bool(joining)
    return Text(source + called(name, parameters, run, schedule.seconds), parameters)


def called(name: str, parameters: Parameters, run: Sequence[str], seconds: float) -> str:
    """The function that Python calls: it runs the lines `run`, which take about so many seconds."""
    if seconds >= RELEASED:
        run = ["void *const python = eqf_python.release();", *run, "eqf_python.resume(python);"]
    lines = [f"void *const arrays[] = {{{listed(parameters.pointers())}}};", *run, "return eqf_none();"]
    return function(f"void *{name}(void *self, const Array *const *given, __PTRDIFF_TYPE__ count)", lines)


def listed(texts: Sequence[str]) -> str:
    """`texts` with commas between, on as many lines as they need."""
    lines = [""]
    for text in texts:
        if len(lines[-1]) + len(text) > WIDTH:
            lines.append("")
        lines[-1] += f"{text}, "
    return "\n        ".join(line.rstrip() for line in lines).removesuffix(",")


def used(fetched: dict[str, str], lines: Sequence[str]) -> list[str]:
    """The lines that fetch what `lines` name."""
    words = set(re.findall(r"\w+", "\n".join(lines)))
    return [line for name, line in fetched.items() if name in words]


def _units(schedule: LoopsSchedule) -> list[str]:
    """The units of a chunk."""
    units, chunk = schedule.units, schedule.chunk
    if schedule.chunks == 1:
        return []
    end = f"first + {chunk}"
    end = end if units % chunk == 0 else f"{end} < {units} ? {end} : {units}"
    return [f"const long first = chunk * {chunk}, last = {end};"]


def function(head: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{head} {{", *indented(lines), "}"]) + "\n"


class Writer(Elements):
    """Writes one kernel, pass after pass. `held`: values kept from one pass to later ones."""

    def __init__(self, schedule: Loops, rounds: bool, parameters: Parameters | None = None) -> None:
        super().__init__(schedule, rounds, parameters)
        self.held: dict[Node, str] = {}

    def kernel(self) -> list[str]:
        passes = self.schedule.passes[:1] if self.schedule.split is not None else self.schedule.passes
        inside = [line for number, p in enumerate(passes) for line in self._pass(number, p)]
        if self.nest.is_line:
            return [*self.top, *inside]
        blocks = [line for _, lines in self.blocks.values() for line in lines]
        lines = [*self.unit_lines(), *self._held_lines(), *blocks, *inside]
        if self.nest.counted:
            first, last = self.bounds
            lines = loop(f"for (long {self.unit} = {first}; {self.unit} < {last}; {self.unit}++)", lines)
        return [*self.top, *lines]

    def _held_lines(self) -> list[str]:
        return [f"{ops.computed(n.dtype)} {h}[{held_elements(self.nest)}];" for n, h in self.held.items()]

    # A pass

    def _pass(self, number: int, p: Pass) -> list[str]:
        unit: list[str] = []
        places: dict[str, list[str]] = {"top": self.top, "unit": unit, "mid": [], "column": [], "inner": []}
        for n in p.taken:
            self.enter(n, "inner", places["inner"], f"{self.held[n]}[{self.held_place()}]")
        read = {place: self._read_at(p, place) for place in ("column", "inner")}
        for n in p.nodes:
            own = self.place(n)
            if is_load(n):
                self._load(n, own, places, read)
            elif (n, own) not in self.names or own not in ("top", "unit"):
                self.enter(n, own, places[own], *self.computed(n, own))
                if own == "column" and n in read["inner"]:
                    self._keep_column(n, unit, places["column"])
                if n in p.held:
                    self.held[n] = f"h{len(self.held)}"
                    places["inner"].append(f"{self.held[n]}[{self.held_place()}] = {self.names[n, own]};")
        before, after = self._reductions(number, p, places["inner"])
        reduced = self._outputs(p, places["inner"], places["column"])
        lines = [*unit]
        if places["column"]:
            lines += ["#pragma omp simd", *loop(self.loop_head(self.nest.vector), places["column"])]
        if places["inner"]:
            lines += [*before, *self._loops(p, places["mid"], places["inner"], number), *after]
        return [*lines, *reduced]

    def _read_at(self, p: Pass, place: str) -> set[Node]:
        """What lines of a pass at `place` read."""
        outputs = [self.schedule.body.outputs[j] for j in p.outputs]
        found = {o for o in outputs if self._is_full(o) == (place == "inner")}
        if place == "inner":
            found.update(n.args[0] for n in p.reductions)
        for n in p.nodes:
            if not is_load(n) and self.place(n) == place:
                found.update(n.args)
        return found

    def _load(self, n: Node, own: str, places: dict[str, list[str]], read: dict[str, set[Node]]) -> None:
        if n not in self.schedule.arrays:
            return
        if own == "column":
            for place in (at for at in read if n in read[at]):
                self.enter(n, place, places[place], *self.element(n))
        elif (n, own) not in self.names or own not in ("top", "unit"):
            self.enter(n, own, places[own], *self.element(n))

    def _keep_column(self, n: Node, unit: list[str], column: list[str]) -> None:
        if n not in self.columns:
            name = f"c{len(self.columns)}"
            unit.append(f"{ops.computed(n.dtype)} {name}[{self.nest.runs.block}];")
            self.columns[n] = f"{name}[{self.column()}]"
        column.append(f"{self.columns[n]} = {self.names[n, 'column']};")

    def _is_full(self, output: Node) -> bool:
        shape = self.schedule.space
        axes = {a for d in self.reduced for a in self.nest.dims[d].axes}
        return output.shape == shape and (not axes or any(shape[a] != 1 for a in axes))

    def _outputs(self, p: Pass, inner: list[str], column: list[str]) -> list[str]:
        """Stores elements of results where they are computed; returns the lines that store those of a row."""
        after: list[str] = []
        for j in p.outputs:
            o = self.schedule.body.outputs[j]
            place = "inner" if self._is_full(o) else "column" if self.nest.by_columns else "unit"
            {"inner": inner, "column": column, "unit": after}[place].append(self.stored(j, place))
        return after

    def _loops(self, p: Pass, mid: list[str], inner: list[str], number: int) -> list[str]:
        lines = [*mid, *self._vector_loop(p, inner, number)]
        for d in reversed(self.nest.inside):
            lines = loop(self.loop_head(d), lines)
        return lines

    # Reductions

    def _rows(self, p: Pass) -> list[tuple[Node, ops.Reduction, str, str]]:
        return [(n, *self.reduction(n)) for n in p.reductions]

    def _reductions(self, number: int, p: Pass, inner: list[str]) -> tuple[list[str], list[str]]:
        """Adds the steps of reductions to the innermost loop; returns the lines before and after it."""
        before: list[str] = []
        after: list[str] = []
        columns = self.nest.by_columns
        for n, how, kind, name in self._rows(p):
            value = self.value(n.args[0], "inner")
            if how.places:
                self._places(n, value, before, inner)
                continue
            if ops.computed(n.args[0].dtype) != kind and how.clause in "+*":
                value = f"({kind}){value}"
            at = f"{name}[{self.column()}]" if columns else name
            summed = f"{name}_run" if self._is_paired(how) else at
            step = how.step if columns else how.quick or how.step
            inner.append(f"{summed} = {step.format(a=summed, b=value)};")
            if how.nan and not columns:
                before.append(f"int {name}_nan = 0;")
                inner.append(f"{name}_nan |= {value} != {value};")
                after.append(f"{name} = {name}_nan ? {how.nan} : {name};")
            if columns:
                before.append(f"{kind} {name}[{self.nest.runs.block}];")
                before.append(f"{self.loop_head(self.nest.vector)} {at} = {how.identity};")
            elif self._is_paired(how):
                before.append(f"{kind} {name}_sums[{ops.SUMS}];")
                after.append(f"{kind} {name} = eqf_total_{self.suffix(n)}({name}_sums, runs{number});")
            else:
                before.append(f"{kind} {name} = {how.identity};")
            self.results[n] = self.result(n, at)
            after += self._finished(n, kind, name, at)
        if any(self._is_paired(how) for _, how, _, _ in self._rows(p)):
            before.append(f"long runs{number} = 0;")
        return before, after

    def _places(self, n: Node, value: str, before: list[str], inner: list[str]) -> None:
        """The same of a reduction that finds a place."""
        lines, kind = self.places(n), ops.computed(n.dtype)
        if self.nest.by_columns:
            (at,) = (NAMES[d] for d in self.nest.inside)
            before += lines.columns_begun(self.loop_head(self.nest.vector), self.nest.runs.block, self.column())
            inner += lines.column_step(value, at, self.column())
            self.results[n] = f"({kind}){lines.name}_at[{self.column()}]"
        else:
            before += lines.begun()
            inner += lines.step(value, f"{NAMES[self.nest.vector]} - {self._first_of_run}")
            self.results[n] = f"({kind}){lines.name}_at"

    @property
    def _first_of_run(self) -> str:
        """The index at which a run of vectors begins."""
        return self.ends(self.nest.vector)[0] if self.nest.runs.block <= self.run else "run"

    def _finished(self, n: Node, kind: str, name: str, at: str) -> list[str]:
        """The lines that make of sums what the program has, or keep those of a part."""
        if self.schedule.split is not None:
            line = f"{self.part(n)} = {at};"
        else:
            text = self.as_stored(n, at)
            if text == at:
                return []
            line = f"{at} = {text};"
        return [f"{self.loop_head(self.nest.vector)} {line}" if self.nest.by_columns else line]

    def _is_paired(self, how: ops.Reduction) -> bool:
        """Is it a sum of several runs that are added in pairs?"""
        return how.pairwise and not self.nest.by_columns and (self._between > 1 or self.nest.runs.block > self.run)

    @property
    def _between(self) -> int:
        """Turns of the loops between a unit's and that of the vectors."""
        return math.prod(self.nest.dims[d].block for d in self.nest.inside)

    @property
    def run(self) -> int:
        """Elements whose sum is one vector of sums."""
        return PAIR_BYTES // max(partial_dtype(n).itemsize for n in self.schedule.reductions)

    def _vector_loop(self, p: Pass, inner: list[str], number: int) -> list[str]:
        if self.nest.by_columns or not p.reductions:
            return ["#pragma omp simd", *loop(self.loop_head(self.nest.vector), inner)]
        rows = self._rows(p)
        names = [(how.clause, f"{name}_run" if self._is_run(how) else name) for _, how, _, name in rows]
        names += [("|", f"{name}_run_nan" if how.places else f"{name}_nan") for _, how, _, name in rows if how.nan]
        pragma = "#pragma omp simd " + " ".join(f"reduction({clause} : {name})" for clause, name in names)
        runs = [row for row in rows if self._is_run(row[1])]
        known = "" if p.outputs or p.held else self._all_known(rows)
        if not runs and not known:
            return [pragma, *loop(self.loop_head(self.nest.vector), inner)]
        started, ended = self._runs(runs, number)
        run = self.run
        (first, last), name = self.ends(self.nest.vector), NAMES[self.nest.vector]
        if self.nest.runs.block <= run:
            return [*started, pragma, *loop(self.loop_head(self.nest.vector), inner), *ended]
        end = f"run + {run} < {last} ? run + {run} : {last}"
        inside = loop(f"for (long {name} = run; {name} < end; {name}++)", inner)
        going_on = f"run < {last}" + f" && !({known})" * bool(known)
        return loop(f"for (long run = {first}; {going_on}; run += {run})",
                     [f"const long end = {end};", *started, pragma, *inside, *ended])  # fmt: skip

    def _all_known(self, rows: Sequence[tuple[Node, ops.Reduction, str, str]]) -> str:
        """When the results of `rows` are known before their end; nothing if that is not said."""
        found = [f"{name} != {how.identity}" for _, how, _, name in rows if how.ends]
        return " && ".join(found) * (len(found) == len(rows))

    def _is_run(self, how: ops.Reduction) -> bool:
        """Is it reduced run by run?"""
        return how.places or self._is_paired(how)

    def _runs(self, rows: list[tuple[Node, ops.Reduction, str, str]], number: int) -> tuple[list[str], list[str]]:
        """The lines before and after a run of vectors."""
        started: list[str] = []
        ended: list[str] = []
        for n, how, kind, name in rows:
            if how.places:
                lines = self.places(n)
                started += lines.run_begun(min(self.run, self.nest.runs.block))
                ended += lines.run_ended(self._first_of_run)
            else:
                started.append(f"{kind} {name}_run = 0;")
                ended.append(f"eqf_push_{self.suffix(n)}({name}_sums, runs{number}, {name}_run);")
        if any(self._is_paired(how) for _, how, _, _ in rows):
            ended.append(f"runs{number}++;")
        return started, ended
