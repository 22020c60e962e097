"""The lines of one form of a kernel: what a pass loads, computes, reduces and writes in the cells that are alike.

In: a form of `Loops`. Out: lines of C, pass by pass. Next stop: `writer.py`, or `product/`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import FAR, MISSED, loop
from eqfuse.emit.c.fission import fission
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.loops import Loops, held_elements, partial_dtype
from eqfuse.emit.c.nest import NAMES
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.passes import Pass, Strip, by_scans, is_gather, is_load, is_scan
from eqfuse.emit.c.scans import Scans
from eqfuse.emit.c.table import Counts
from eqfuse.ir.graph import Node, topological

AHEAD = 64  # bytes of a cache line
PAIR_BYTES = 2048  # of a run whose sum is one vector of sums; those of runs are added in pairs


class Lines(Scans):
    """`held`: values kept from one pass to later ones; `strips`: the array of each that is in a strip, and that."""

    def __init__(
        self, schedule: Loops, form: Form, rounds: bool, parameters: Parameters, counts: Counts, top: list[str]
    ) -> None:
        super().__init__(schedule, form, rounds, parameters, counts, top)
        self.held: dict[Node, str] = {}
        self.strips: dict[Node, tuple[str, Strip]] = {}
        self._declared: dict[int, list[str]] = {}

    def declared(self, number: int) -> list[str]:
        """The arrays of columns that pass `number` is the first to fill."""
        return self._declared.get(number, [])

    def held_lines(self) -> list[str]:
        """The arrays of values that are kept between passes."""
        return [f"{ops.computed(n.dtype)} {h}[{held_elements(self.nest)}];" for n, h in self.held.items()]

    def of_pass(self, number: int) -> list[str]:
        """The lines of pass `number` for a cell of a unit; of a kernel by rows, for one element."""
        p = self.form.passes[number]
        if self.schedule.seams:
            self._forget()
        places: dict[str, list[str]] = {"top": self.top, "unit": [], "mid": [], "column": [], "inner": []}
        strips = [line for strip in self.form.strips for line in self._strip(strip, places)]
        for n in p.taken:
            text = self._in_strip(n, places["unit"]) if strips else f"{self.held[n]}[{self.held_place()}]"
            self.enter(n, "inner", places["inner"], text)
        read = {place: self._read_at(p, place) for place in ("column", "inner")}
        for n in by_scans(p.nodes) if self.scans(p) else p.nodes:
            own = self.place(n)
            if is_load(n):
                self._load(n, own, places, read)
            elif not self._is_known(n, own):
                self._compute(n, own, places)
                if own == "column" and n in read["inner"]:
                    self._keep_column(n, number, places["column"])
                if n in p.held:
                    self.held[n] = self.counts.name("h")
                    places["inner"].append(f"{self.held[n]}[{self.held_place()}] = {self.names[n, own]};")
        self._reduce(p, places["inner"])
        rows = self._outputs(p, places["inner"], places["column"])
        blocks = [line for _, copied in self.blocks.values() for line in copied]
        lines = [*blocks, *places["unit"], *rows]
        if places["column"]:
            head = self.simd([], places["column"])
            lines += [head, *loop(self.loop_head(self.nest.vector), places["column"])]
        if self.schedule.is_by_rows:
            lines += [*places["mid"], *places["inner"]]
        elif strips:
            lines += self._by_strips([*strips, *self._over_strip(places["inner"])])
        elif places["inner"]:
            lines += self._loops(p, places["mid"], places["inner"], number)
        words = set(re.findall(r"\w+", "\n".join(lines)))
        return [*self.table.lines(words, len(self.schedule.forms) > 1), *lines]

    def _strip(self, strip: Strip, places: dict[str, list[str]]) -> list[str]:
        """The loops that fill `strip`. What a row computes once goes to `places`; of rows to come, into their loop."""
        unit: list[str] = [] if strip.rows else places["unit"]
        if strip.rows:
            self._forget()
        inner: list[str] = []
        for n in strip.taken:
            self.enter(n, "inner", inner, self._in_strip(n, unit))
        for n in strip.nodes:
            own = self.place(n)
            if is_load(n):
                self._load(n, own, {**places, "unit": unit, "inner": inner}, {})
            elif not self._is_known(n, own):
                self._compute(n, own, {**places, "unit": unit, "inner": inner})
        name = self.counts.name("v")
        self.strips |= dict.fromkeys(strip.shifts, (name, strip))
        inner.append(f"{self._in_strip(strip.value, unit)} = {self.names[strip.value, 'inner']};")
        kind, over = ops.computed(strip.value.dtype), self._over_strip(inner, strip.before, strip.ahead)
        if not strip.rows:
            return [f"{kind} {name}[{strip.width}];", *over]
        self._forget()
        self.top += [f"{kind} {name}[{(strip.rows + 1) * strip.width}];", f"long {name}_next = 0;"]
        row = NAMES[self.nest.counted[0]]
        head = f"for (long ahead = {name}_next > {row} ? {name}_next : {row}; ahead <= {row} + {strip.rows}; ahead++)"
        return [*loop(head, [f"const long {row} = ahead;", *unit, *over]), f"{name}_next = {row} + {strip.rows + 1};"]

    def _is_known(self, n: Node, own: str) -> bool:
        """Has `n` a name where it is known to all loops of a unit?"""
        return own in ("top", "unit") and (n, own) in self.names

    def _forget(self) -> None:
        """What is known of one row or cell is not known of another."""
        self.names = {at: name for at, name in self.names.items() if at[1] == "top"}

    def _in_strip(self, n: Node, unit: list[str]) -> str:
        """An element of the strip of `n`; the lines that find its row go to `unit`."""
        name, strip = self.strips[n]
        rows, along = strip.shifts[n]
        if strip.rows:
            row, at = NAMES[self.nest.counted[0]], f"{name}_{rows}"
            place = f"({row} + {rows}) % {strip.rows + 1} * {strip.width}"
            line = f"{ops.computed(n.dtype)} *const {at} = {name} + {place};"
            unit += [line] * (line not in unit)
            name = at
        terms = [NAMES[self.nest.vector], f" - {self._strip_ends[0]}", f" + {strip.before + along}"]
        return f"{name}[{''.join(term for term in terms if term not in (' - 0', ' + 0'))}]"

    @property
    def _strip_ends(self) -> tuple[str, str]:
        """The first index of a strip, and the one after its last."""
        first = self.form.strips[0]
        is_whole = self.nest.runs.extent <= first.length or any(strip.rows for strip in self.form.strips)
        return self.cell_ends(self.nest.vector) if is_whole else ("strip", "end")

    def _over_strip(self, inner: list[str], before: int = 0, ahead: int = 0) -> list[str]:
        name, (first, last) = NAMES[self.nest.vector], self._strip_ends
        begin, end = f"{first}{f' - {before}' * bool(before)}", f"{last}{f' + {ahead}' * bool(ahead)}"
        return [self.simd([], inner), *loop(f"for (long {name} = {begin}; {name} < {end}; {name}++)", inner)]

    def _by_strips(self, lines: list[str]) -> list[str]:
        """A loop over the strips of a row, each of which runs `lines`."""
        (first, last), length = self.cell_ends(self.nest.vector), self.form.strips[0].length
        if self._strip_ends == (first, last):
            return lines
        end = f"strip + {length} < {last} ? strip + {length} : {last}"
        head = f"for (long strip = {first}; strip < {last}; strip += {length})"
        return loop(head, [f"const long end = {end};", *lines])

    def _read_at(self, p: Pass, place: str) -> set[Node]:
        """What lines of a pass at `place` read."""
        found = {self.form.body.outputs[j] for j in p.outputs if self._is_full(j) == (place == "inner")}
        if place == "inner":
            found.update(n.args[0] for n in p.reductions)
        for n in p.nodes:
            if not is_load(n) and self.place(n) == place:
                found.update(n.args)
        return found

    def _load(self, n: Node, own: str, places: dict[str, list[str]], read: dict[str, set[Node]]) -> None:
        if n not in self.form.arrays or n in self.form.gathered:
            return
        if own == "column":
            for place in (at for at in read if n in read[at]):
                self.enter(n, place, places[place], *self.element(n))
        elif not self._is_known(n, own):
            self.enter(n, own, places[own], *self.element(n))

    def _compute(self, n: Node, own: str, places: dict[str, list[str]]) -> None:
        if is_gather(n):
            outer = self.place(n.args[1])
            at = outer if outer in ("top", "unit", "mid") else own
            self.enter_place(n, at, places[at])
        if is_scan(n):
            self.scan(n, places[own])
            return
        if self.quick and n.op in ops.QUICK:
            places[own].append(f"{FAR} |= eqf_far_{ops.suffix(n.dtype)}({self.value(n.args[0], own)});")
        self.enter(n, own, places[own], *self.computed(n, own))

    def _keep_column(self, n: Node, number: int, column: list[str]) -> None:
        if n not in self.columns:
            name = self.counts.name("c")
            declared = f"{ops.computed(n.dtype)} {name}[{self.nest.runs.block}];"
            self._declared.setdefault(number, []).append(declared)
            self.columns[n] = f"{name}[{self.column()}]"
        column.append(f"{self.columns[n]} = {self.names[n, 'column']};")

    def _is_full(self, j: int) -> bool:
        """Has the result `j` an element for each of the space?"""
        shape = self.schedule.space
        axes = {a for d in self.reduced for a in self.nest.dims[d].axes}
        return self.schedule.body.outputs[j].shape == shape and (not axes or any(shape[a] != 1 for a in axes))

    def _outputs(self, p: Pass, inner: list[str], column: list[str]) -> list[str]:
        """Stores elements of results where they are computed; returns the lines that store those of a row."""
        rows: list[str] = []
        for j in p.outputs:
            place = "inner" if self._is_full(j) else "column" if self.nest.by_columns else "unit"
            {"inner": inner, "column": column, "unit": rows}[place].append(self.stored(j, place))
        return rows

    def _loops(self, p: Pass, mid: list[str], inner: list[str], number: int) -> list[str]:
        lines = [*mid, *self._vector_loop(p, inner, number)]
        for d in reversed(self.nest.inside):
            lines = loop(self.loop_head(d), lines)
        return lines

    # Reductions

    def _rows(self, p: Pass) -> list[tuple[Node, ops.Reduction, str, str]]:
        return [(n, *self.reduction(n)) for n in p.reductions]

    def _reduce(self, p: Pass, inner: list[str]) -> None:
        """Adds the steps of reductions to the innermost loop."""
        for n, how, kind, name in self._rows(p):
            value = self.value(n.args[0], "inner")
            if how.places:
                self._reduce_place(n, value, inner)
                continue
            if ops.computed(n.args[0].dtype) != kind and how.clause in "+*":
                value = f"({kind}){value}"
            summed = f"{name}_run" if self._is_paired(how) else self.accumulated(name)
            step = how.step if self.nest.by_columns else how.quick or how.step
            inner.append(f"{summed} = {step.format(a=summed, b=value)};")
            if how.nan and not self.nest.by_columns:
                inner.append(f"{name}_nan |= {value} != {value};")
            self.results[n] = self.result(n, self.accumulated(name))

    def _reduce_place(self, n: Node, value: str, inner: list[str]) -> None:
        """The same of a reduction that finds a place."""
        lines, kind = self.places(n), ops.computed(n.dtype)
        if self.nest.by_columns:
            (at,) = (NAMES[d] for d in self.nest.inside)
            inner += lines.column_step(value, at, self.column())
            self.results[n] = f"({kind}){lines.name}_at[{self.column()}]"
        else:
            inner += lines.step(value, f"{NAMES[self.nest.vector]} - {self._first_of_run}")
            self.results[n] = f"({kind}){lines.name}_at"

    @property
    def _first_of_run(self) -> str:
        """The index at which a run of vectors begins."""
        return self.cell_ends(self.nest.vector)[0] if self.nest.runs.block <= self.run else "run"

    def around(self, number: int) -> tuple[list[str], list[str]]:
        """The lines before and after the loops of pass `number`, which begin and end its reductions."""
        before = self.scans_begun(self.form.passes[number])
        after: list[str] = []
        rows = self._rows(self.form.passes[number])
        for n, how, kind, name in rows:
            if how.places:
                before += self._places_begun(n)
                continue
            at = self.accumulated(name)
            if how.nan and not self.nest.by_columns:
                before.append(f"int {name}_nan = 0;")
                after.append(f"{name} = {name}_nan ? {how.nan} : {name};")
            if self.nest.by_columns:
                before.append(f"{kind} {name}[{self.nest.runs.block}];")
                before.append(f"{self.loop_head(self.nest.vector, whole=True)} {at} = {how.identity};")
            elif self._is_paired(how):
                before.append(f"{kind} {name}_sums[{ops.SUMS}];")
                after.append(f"{kind} {name} = eqf_total_{self.suffix(n)}({name}_sums, runs{number});")
            else:
                before.append(f"{kind} {name} = {how.identity};")
            after += self._finished(n, at)
        if any(self._is_paired(how) for _, how, _, _ in rows):
            before.append(f"long runs{number} = 0;")
        return before, after

    def _places_begun(self, n: Node) -> list[str]:
        lines, vector = self.places(n), self.nest.vector
        if self.nest.by_columns:
            return lines.columns_begun(self.loop_head(vector, whole=True), self.nest.runs.block, self.column())
        return lines.begun()

    def _finished(self, n: Node, sum_text: str) -> list[str]:
        """The lines that make of sums what the program has, or keep those of a part."""
        if self.schedule.split is not None:
            lines = [f"{self.part(n)} = {sum_text};", *self._anchored(n, sum_text)]
        else:
            text = self.as_stored(n, sum_text)
            lines = [f"{sum_text} = {text};"] * (text != sum_text)
        return [f"{self.loop_head(self.nest.vector, whole=True)} {line}" if self.nest.by_columns else line
                for line in lines]  # fmt: skip

    def _anchored(self, n: Node, sum_text: str) -> list[str]:
        """What stands for the result of a part where later reductions need it."""
        cascade = self.schedule.cascade
        if cascade is None or n not in cascade.anchors:
            return []
        texts = {cascade.parts[n]: sum_text, cascade.count: self.count_of_part()}
        for m in topological((cascade.anchors[n],)):
            if m not in texts:
                values = [texts[a] for a in m.args]
                text = ops.expression(m.op, [a.dtype for a in m.args], values) if m.args else self.parameters.leaf(m)
                texts[m] = f"({text})"
        return [f"{sum_text} = {texts[cascade.anchors[n]]};"]

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
        return PAIR_BYTES // max([partial_dtype(n).itemsize for n in self.form.reductions], default=4)

    def simd(self, reduced: list[tuple[str, str]], lines: list[str]) -> str:
        """What lets the loop over `lines` be one of vectors, with variables that are `reduced`, by operator."""
        flags = [flag for flag in (MISSED, FAR) if any(line.lstrip().startswith(f"{flag} ") for line in lines)]
        found = [*reduced, *[("|", flag) for flag in flags]]
        return " ".join(["#pragma omp simd", *[f"reduction({clause} : {name})" for clause, name in found]])

    def _vector_loop(self, p: Pass, inner: list[str], number: int) -> list[str]:
        head, steps = self.loop_head(self.nest.vector), self.steps.intersection(inner)
        if self.nest.by_columns or not (p.reductions or steps):
            return [self.simd([], inner), *loop(head, inner)]
        rows = self._rows(p)
        names = [(how.clause, f"{name}_run" if self._is_run(how) else name) for _, how, _, name in rows]
        names += [("|", f"{name}_run_nan" if how.places else f"{name}_nan") for _, how, _, name in rows if how.nan]
        runs = [row for row in rows if self._is_run(row[1])]
        known = "" if p.outputs or p.held else self._early_end(rows)
        if not runs and not known and not steps:
            return [self.simd(names, inner), *loop(head, inner)]
        started, ended = self._runs(runs, number)
        run = self.run
        (first, last), name = self.cell_ends(self.nest.vector), NAMES[self.nest.vector]
        if self.nest.runs.block <= run:
            return [*started, *self._turns(head, inner, names, number), *ended]
        end = f"run + {run} < {last} ? run + {run} : {last}"
        inside = self._turns(f"for (long {name} = run; {name} < end; {name}++)", inner, names, number)
        inside = [*self._fetched_ahead(number), *inside]
        going_on = f"run < {last}" + f" && !({known})" * bool(known)
        return loop(f"for (long run = {first}; {going_on}; run += {run})",
                     [f"const long end = {end};", *started, *inside, *ended])  # fmt: skip

    def _fetched_ahead(self, number: int) -> list[str]:
        """In the last pass over a part of a cascade, what fetches the next part from memory, so that its first pass
        does not wait; behind the last part, where nothing may be, it does nothing."""
        is_last, along = number == len(self.form.passes) - 1, self.schedule.split == self.nest.vector
        if self.schedule.cascade is None or not (is_last and along):
            return []
        name, block = NAMES[self.nest.vector], self.nest.runs.block
        lines = []
        for n in self.form.passes[0].nodes:
            if n in self.form.arrays and self.nest.runs.step(self.form.arrays[n].access) == 1:
                line = AHEAD // n.dtype.itemsize
                text = "".join(self.element(n))
                head = f"for (long {name} = run; {name} < end; {name} += {line})"
                lines += loop(head, [f"__builtin_prefetch(&{text} + {block}, 0, 2);"])
        return lines

    def _turns(self, head: str, inner: list[str], reduced: list[tuple[str, str]], number: int) -> list[str]:
        """Loops of vectors over a run, and between them those of scans."""
        place = f"{NAMES[self.nest.vector]} - {self._first_of_run}"
        pieces, kept = fission(inner, self.steps, place)
        length = min(self.run, self.nest.runs.block)
        self._declared.setdefault(number, []).extend([f"{kind} {name}[{length}];" for name, kind in kept.items()])
        lines: list[str] = []
        for piece in pieces:
            words = set(re.findall(r"\w+", "\n".join(piece.lines)))
            found = [each for each in reduced if each[1] in words]
            lines += [] if piece.is_scan else [self.simd(found, piece.lines)]
            lines += loop(head, piece.lines)
        return lines

    def _early_end(self, rows: Sequence[tuple[Node, ops.Reduction, str, str]]) -> str:
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
