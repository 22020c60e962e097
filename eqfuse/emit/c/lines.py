"""The lines of one form of a kernel: what a pass loads, computes, reduces and writes in the cells that are alike.

In: a form of `Loops`. Out: lines of C, pass by pass. Next stop: `writer.py`, or `product/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import FAR_FLAG, braced
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.loops import Loops, held_elements
from eqfuse.emit.c.nest import AXES, Access
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.passes import Pass, Strip, by_scans, is_gather, is_load, is_scan
from eqfuse.emit.c.reductions import AHEAD, Reductions
from eqfuse.emit.c.streaming import STAGE_BYTES
from eqfuse.emit.c.table import Counts
from eqfuse.ir.graph import Node

FAR_BYTES = 4 << 20  # of an array of which rows are fetched ahead, at least: shorter ones lie near
FETCHED_ROW = 1024  # bytes of a row of such a block at most: CPUs fetch longer rows ahead by themselves
FETCHED_AHEAD = 4096  # bytes of a block that are fetched before it needs them


class Lines(Reductions):
    """`held`: values kept from one pass to later ones; `strips`: the array of each that is in a strip, and that."""

    def __init__(
        self, schedule: Loops, form: Form, rounds: bool, parameters: Parameters, counts: Counts, top: list[str]
    ) -> None:
        super().__init__(schedule, form, rounds, parameters, counts, top)
        self.held: dict[Node, str] = {}
        self.strips: dict[Node, tuple[str, Strip]] = {}

    def held_lines(self) -> list[str]:
        """The arrays of values that are kept between passes."""
        return [f"{ops.computing_type(n.dtype)} {h}[{held_elements(self.nest)}];" for n, h in self.held.items()]

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
            lines += [head, *braced(self.loop_head(self.nest.vector), places["column"])]
        if self.schedule.is_by_rows:
            lines += [*places["mid"], *places["inner"]]
        elif strips:
            inner = places["inner"]
            is_staged = self.schedule.streamed.intersection(p.outputs)
            last = self._staged(p, inner, *self._strip_ends) if is_staged else self._over_strip(inner)
            lines += self._by_strips([*strips, *last])
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
        kind, over = ops.computing_type(strip.value.dtype), self._over_strip(inner, strip.before, strip.ahead)
        if not strip.rows:
            return [f"{kind} {name}[{strip.width}];", *over]
        self._forget()
        self.top += [f"{kind} {name}[{(strip.rows + 1) * strip.width}];", f"long {name}_next = 0;"]
        row = AXES[self.nest.counted[0]]
        head = f"for (long ahead = {name}_next > {row} ? {name}_next : {row}; ahead <= {row} + {strip.rows}; ahead++)"
        return [*braced(head, [f"const long {row} = ahead;", *unit, *over]), f"{name}_next = {row} + {strip.rows + 1};"]

    def _is_known(self, n: Node, own: str) -> bool:
        """Has `n` a name where it is known to all loops of a unit?"""
        return own in ("top", "unit") and (n, own) in self.names

    def _forget(self) -> None:
        """What is known of one row or cell is not known of another."""
        self.names = {key: name for key, name in self.names.items() if key[1] == "top"}

    def _in_strip(self, n: Node, unit: list[str]) -> str:
        """An element of the strip of `n`; the lines that find its row go to `unit`."""
        name, strip = self.strips[n]
        rows, along = strip.shifts[n]
        if strip.rows:
            row, start = AXES[self.nest.counted[0]], f"{name}_{rows}"
            place = f"({row} + {rows}) % {strip.rows + 1} * {strip.width}"
            line = f"{ops.computing_type(n.dtype)} *const {start} = {name} + {place};"
            unit += [line] * (line not in unit)
            name = start
        terms = [AXES[self.nest.vector], f" - {self._strip_ends[0]}", f" + {strip.before + along}"]
        return f"{name}[{''.join(term for term in terms if term not in (' - 0', ' + 0'))}]"

    @property
    def _strip_ends(self) -> tuple[str, str]:
        """The first index of a strip, and the one after its last."""
        first = self.form.strips[0]
        is_whole = self.nest.runs.extent <= first.length or any(strip.rows for strip in self.form.strips)
        return self.cell_ends(self.nest.vector) if is_whole else ("strip", "end")

    def _over_strip(self, inner: list[str], before: int = 0, ahead: int = 0) -> list[str]:
        first, last = self._strip_ends
        begin, end = f"{first}{f' - {before}' * bool(before)}", f"{last}{f' + {ahead}' * bool(ahead)}"
        return self.over(inner, begin, end)

    def _by_strips(self, lines: list[str]) -> list[str]:
        """A loop over the strips of a row, each of which runs `lines`."""
        (first, last), length = self.cell_ends(self.nest.vector), self.form.strips[0].length
        if self._strip_ends == (first, last):
            return lines
        end = f"strip + {length} < {last} ? strip + {length} : {last}"
        head = f"for (long strip = {first}; strip < {last}; strip += {length})"
        return braced(head, [f"const long end = {end};", *lines])

    def _read_at(self, p: Pass, place: str) -> set[Node]:
        """What lines of a pass at `place` read."""
        nodes = {self.form.body.outputs[j] for j in p.outputs if self._is_full(j) == (place == "inner")}
        if place == "inner":
            nodes.update(n.args[0] for n in p.reductions)
        for n in p.nodes:
            if not is_load(n) and self.place(n) == place:
                nodes.update(n.args)
        return nodes

    def _load(self, n: Node, own: str, places: dict[str, list[str]], read: dict[str, set[Node]]) -> None:
        if n not in self.form.arrays or n in self.form.gathered:
            return
        if own == "column":
            for place in (name for name in read if n in read[name]):
                self.enter(n, place, places[place], *self.element(n))
        elif not self._is_known(n, own):
            self.enter(n, own, places[own], *self.element(n))

    def _compute(self, n: Node, own: str, places: dict[str, list[str]]) -> None:
        if is_gather(n):
            outer = self.place(n.args[1])
            place = outer if outer in ("top", "unit", "mid") else own
            self.enter_place(n, place, places[place])
        if is_scan(n):
            self.scan(n, places[own])
            return
        if self.quick and n.op in ops.QUICK_FUNCTIONS:
            places[own].append(f"{FAR_FLAG} |= eqf_far_{ops.suffix(n.dtype)}({self.value(n.args[0], own)});")
        self.enter(n, own, places[own], *self.computed(n, own))

    def _keep_column(self, n: Node, number: int, column: list[str]) -> None:
        if n not in self.columns:
            name = self.counts.name("c")
            declared = f"{ops.computing_type(n.dtype)} {name}[{self.nest.runs.block}];"
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
            if place == "inner" and j in self.schedule.streamed:
                inner.append(f"staged{j}[{AXES[self.nest.vector]} - stage] = {self.stored_value(j, place)};")
            else:
                {"inner": inner, "column": column, "unit": rows}[place].append(self.stored(j, place))
        return rows

    def _loops(self, p: Pass, mid: list[str], inner: list[str], number: int) -> list[str]:
        if self.schedule.streamed.intersection(p.outputs):
            loop = self._staged(p, inner, *self.cell_ends(self.nest.vector))
        else:
            loop = self._vector_loop(p, inner, number)
        lines = [*mid, *self._rows_ahead(p), *loop]
        for d in reversed(self.nest.inside):
            lines = braced(self.loop_head(d), lines)
        return lines

    def _staged(self, p: Pass, inner: list[str], first: str, last: str) -> list[str]:
        """The loop of vectors from `first` to `last`, a stage after another: results that pass by the caches are
        computed into a buffer, and streamed from there."""
        name, outputs = AXES[self.nest.vector], sorted(self.schedule.streamed.intersection(p.outputs))
        sizes = {j: self.schedule.body.outputs[j].dtype.itemsize for j in outputs}
        length = STAGE_BYTES // max(sizes.values())
        kinds = {j: ops.ctype(self.schedule.body.outputs[j].dtype).stored for j in outputs}
        streams = [f"eqf_stream(&{self.written(j)}, staged{j}, (behind - stage) * {sizes[j]});" for j in outputs]
        lines = [
            f"const long behind = stage + {length} < {last} ? stage + {length} : {last};",
            *[f"_Alignas(64) {kinds[j]} staged{j}[{length}];" for j in outputs],
            *self.vectors(p, inner, "stage", "behind"), f"const long {name} = stage;", *streams,
        ]  # fmt: skip
        return braced(f"for (long stage = {first}; stage < {last}; stage += {length})", lines)

    def _rows_ahead(self, p: Pass) -> list[str]:
        """What fetches the lines that later rows of a narrow block of columns read and write: where each row is on a
        page of its own, one after another would be waited for; behind the last row, where nothing may be, it does
        nothing."""
        nest, name = self.nest, AXES[self.nest.vector]
        if not (nest.by_columns and nest.runs.blocks > 1 and nest.inside):
            return []
        first, last = self.cell_ends(nest.vector)
        head, lines = f"for (long {name} = {first}; {name} < {last}; {name} += ", list[str]()
        for array, access, offset, leaf, writes in self._rows_of(p):
            size = leaf.dtype.itemsize
            width, step = nest.runs.block * size, nest.dims[nest.inside[-1]].step(access)
            if leaf.type.nbytes >= FAR_BYTES and nest.runs.step(access) == 1 and width <= FETCHED_ROW:
                place = f"{self._index(nest.steps(access), offset, [])} + {step * (FETCHED_AHEAD // width)}"
                lines += braced(f"{head}{AHEAD // size})", [f"__builtin_prefetch(&{array}[{place}], {writes:d}, 2);"])
        return lines

    def _rows_of(self, p: Pass) -> Iterator[tuple[str, Access, int | str, Node, bool]]:
        """The arrays that pass `p` reads in each row, and writes: their names, where they lie, from which offset on,
        and what they are."""
        for n in p.nodes:
            if n in self.form.arrays and n not in self.form.gathered and self.place(n) == "inner":
                read = self.form.arrays[n]
                yield self.table.array(n), read.access, self.table.offset(n), read.leaf, False
        for j in filter(self._is_full, p.outputs):
            access = self.schedule.written[j]
            yield f"w{self.first + j}", access, access.offset, self.schedule.body.outputs[j], True
