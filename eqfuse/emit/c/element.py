"""Where the values of a kernel are computed and what its lines call them; the heads of its loops.

In: a form of `Loops`. Out: names, expressions and index arithmetic. Next stop: `lines.py`.
Names: r, k, w, p: see `parameters.py`; t: values; a: results of reductions; h: values held between passes; v: values
in strips; c: values of a column; b: blocks of arrays; g: places that are gathered; q, o, s: what differs from cell to
cell, see `table.py`; i, j, …: indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eqfuse.emit.c import ops
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.loops import Loops, partial_dtype
from eqfuse.emit.c.nest import AXES, Access, aligned, stride_of
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.passes import is_gather, is_known_number, is_load, is_reduction
from eqfuse.emit.c.places import Places
from eqfuse.emit.c.table import Counts, Table
from eqfuse.ir.graph import Node
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import leaf_chain
from eqfuse.ops.row import Rounding

GROUP = 64  # elements from one that is read to the next, up to which gcc may know it
MISSED = "missed"  # the variable that tells whether a place lies beyond its array
FAR_FLAG = "far"  # that tells whether an argument is too far for a quick function


def indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _times(step: int | str, name: str) -> str:
    return name if step == 1 else f"-{name}" if step == -1 else f"{step} * {name}"


def braced(head: str, lines: Sequence[str]) -> list[str]:
    return [f"{head} {{", *indented(lines), "}"]


def _known_number(n: Node) -> float | None:
    leaf, _ = leaf_chain(n)
    return float(leaf.number) if leaf.number is not None and leaf.dtype.kind != "c" else None


class Elements:
    """Names of values by node and place. Places, from the outermost: "top", "unit", "mid" (loops between), "column" (a
    loop over results), "inner". `quick`: functions are called that hold unless `FAR_FLAG`. `first`: the number
    of the first result among those of the kernel. `columns`: values of a column that are kept for the innermost loop;
    `counts` numbers what all forms name; `top`: their lines before the loop over units."""

    def __init__(
        self, schedule: Loops, form: Form, rounds: bool, parameters: Parameters, counts: Counts, top: list[str]
    ) -> None:
        self.schedule, self.nest, self.form, self.rounds = schedule, schedule.nest, form, rounds
        self.parameters, self.counts, self.top = parameters, counts, top
        self.table = Table(form, self.nest, parameters, counts)
        self.reduced = self.nest.reduced
        self.quick = False
        self.first = 0
        self.results: dict[Node, str] = {}
        self.columns: dict[Node, str] = {}
        self.gathers: dict[Node, str] = {}
        self.names: dict[tuple[Node, str], str] = {}
        self.bits: dict[str, str] = {}
        self.blocks: dict[str, tuple[str, list[str]]] = {}  # copies of blocks: names, and the lines that make them
        self.below: set[Node] = set()  # what is computed from reductions
        for n in form.body.nodes:
            if is_reduction(n) or any(a in self.below for a in n.args):
                self.below.add(n)

    def place(self, n: Node) -> str:
        """The outermost place where `n` is known."""
        dims = self.form.varying[n]
        if self.nest.vector in dims:
            return "column" if self.nest.by_columns and not dims & self.reduced else "inner"
        if dims & {*self.nest.inside}:
            return "mid"
        return "unit" if (dims and not self.nest.is_line) or n in self.below else "top"

    def value(self, n: Node, place: str) -> str:
        """The value of `n` as a line at `place` names it."""
        if is_known_number(n):
            return self.parameters.leaf(leaf_chain(n)[0])
        if is_reduction(n):
            return self.results[n]
        own = self.place(n)
        if own == "column" and place == "inner" and not is_load(n):
            return self.columns[n]
        return self.names[n, place if own in ("column", "inner") else own]

    def enter(self, n: Node, place: str, lines: list[str], text: str, bits: str = "") -> None:
        """Names the value of `n` at `place`: `text`, or, of a 16-bit float, what `bits` stand for."""
        name = self.names[n, place] = self.counts.name("t")
        if bits:
            self.bits[name] = f"{name}_bits"
            lines.append(f"const {ops.ctype(n.dtype).stored} {name}_bits = {bits};")
            text = ops.value_read(n.dtype, f"{name}_bits")
        lines.append(f"const {ops.computing_type(n.dtype)} {name} = {text};")

    def computed(self, n: Node, place: str) -> tuple[str, str]:
        """The expression of the operator `n`, or of the bits of its value: see `enter`."""
        if is_gather(n):
            return self.element(n.args[0], self.gathers[n])
        values, dtypes = [self.value(a, place) for a in n.args], [a.dtype for a in n.args]
        if n.op == "cast":
            text = ops.cast(dtypes[0], n.dtype, values[0])
        elif ops.is_prepared(n.op, n.dtype) and self.place(n.args[1]) == "top":
            text = ops.divided(n.op, n.dtype, values[0], self.divisor(n.args[1].dtype, values[1]))
        else:
            bounds = [_known_number(a) for a in n.args]
            text = ops.clamped(n.op, n.dtype, values, bounds) or ops.expression(n.op, dtypes, values)
            text = ops.quick(n.op, text) if self.quick else text
        if ops.is_half(n.dtype) and (n.op == "cast" or self._rounded(n)):
            return "", ops.value_kept(n.dtype, text)
        return text, ""

    def divisor(self, dtype: np.dtype, value: str) -> str:
        """The name of the divisor `value`, prepared before all loops."""
        name = f"d_{value}"
        line = f"const Divisor {name} = {ops.divisor(dtype, value)};"
        if line not in self.top:
            self.top.append(line)
        return name

    def as_stored(self, n: Node, text: str) -> str:
        """`text`, a value of `n`, as exact as the program has it."""
        return ops.rounded(n.dtype, text) if self._rounded(n) else text

    def _rounded(self, n: Node) -> bool:
        return self.rounds and n.row.rounding is not Rounding.NEVER

    def element(self, n: Node, place: str = "") -> tuple[str, str]:
        """An element of the array that `n` stands for, its value, or its bits: see `enter`; of an array that is
        gathered, that at `place` of its axis."""
        array, read = self.table.array(n), self.form.arrays[n]
        if self.parameters.is_number(array):
            return array, ""
        more = [_times(read.stride, place)] if place else []
        text = f"{array}[{self._index(self._steps(n), self.table.offset(n), more)}]"
        if not place and self.nest.reads_across(read.access):
            text = self._in_block(text, n)
        return ("", text) if ops.is_half(n.dtype) else (ops.value_read(n.dtype, text), "")

    def _steps(self, n: Node) -> list[int | str]:
        """The strides of `n` along each dimension. A far one along that of the vectors is one that gcc does not know:
        it would take all that lies between elements of several arrays for vectors too, and not end."""
        steps, vector = self.table.steps(n), self.nest.vector
        step = steps[vector]
        if isinstance(step, int) and abs(step) > GROUP and self.place(n) == "inner":
            name = f"step{abs(step)}"
            line = f'long {name} = {abs(step)}; __asm__("" : "+r"({name}));'
            if line not in self.top:
                self.top.append(line)
            steps[vector] = name if step > 0 else f"-{name}"
        return steps

    def _in_block(self, text: str, n: Node) -> str:
        """The same element in a copy of the unit's block: lines a power of two apart would drive one another out of
        the cache."""
        vector, (along,) = self.nest.vector, self.nest.inside
        pitch = stride_of(self.nest.dims[along].block, n.dtype.itemsize)
        place = f"{pitch} * {self._in_unit(vector)} + {self._in_unit(along)}"
        if text not in self.blocks:
            name = self.counts.name("b")
            copied = braced(self.loop_head(along), [f"{name}[{place}] = {text};"])
            size = pitch * self.nest.dims[vector].block
            lines = [f"{ops.ctype(n.dtype).stored} {name}[{size}];", *braced(self.loop_head(vector), copied)]
            self.blocks[text] = name, lines
        return f"{self.blocks[text][0]}[{place}]"

    def enter_place(self, n: Node, place: str, lines: list[str]) -> None:
        """The lines that find where in its array the gather `n` reads: places count from either end, and of those
        beyond it the kernel tells, and reads the first instead."""
        name, extent, value = self.counts.name("g"), self.form.arrays[n.args[0]].extent, self.value(n.args[1], place)
        lines += [
            f"const long {name} = (long){value} + ({value} < 0 ? {extent} : 0);",
            f"{MISSED} |= (unsigned long){name} >= {extent};",
            f"const long {name}_at = (unsigned long){name} < {extent} ? {name} : 0;",
        ]
        self.gathers[n] = f"{name}_at"

    def index(self, access: Access) -> str:
        """Where the element of an array of the kernel's own lies."""
        return self._index(self.nest.steps(access), access.offset, [])

    def _index(self, steps: Sequence[int | str], offset: int | str, more: Sequence[str]) -> str:
        terms = [_times(step, AXES[d]) for d, step in enumerate(steps) if step]
        terms += more
        if offset or not terms:
            terms.append(str(offset))
        return " + ".join(terms).replace("+ -", "- ")

    @property
    def bounds(self) -> tuple[str, str]:
        """The first unit of a chunk, and the one after its last."""
        return ("0", str(self.schedule.units)) if self.schedule.chunks == 1 else ("first", "last")

    @property
    def unit(self) -> str:
        """What counts units: an index or the number of a part, where they are those of one dimension."""
        counted = self.nest.counted
        if len(counted) != 1:
            return "unit"
        alone = counted[0] not in (*self.nest.inside, self.nest.vector)
        return AXES[counted[0]] if alone else "part" if counted[0] == self.schedule.split else "unit"

    def unit_lines(self) -> list[str]:
        """The lines that find where in each dimension a unit stands."""
        lines: list[str] = []
        step = self.nest.units
        for d in self.nest.counted:
            count = self.nest.count_of(d)
            step //= count
            text = "unit" if step == 1 else f"unit / {step}"
            text += "" if step * count == self.nest.units else f" % {count}"
            dim, name = self.nest.dims[d], AXES[d]
            own = name if d not in (*self.nest.inside, self.nest.vector) else "part" if d == self.schedule.split else ""
            if own and own != self.unit:
                lines.append(f"const long {own} = {text};")
            if own == name:
                continue
            index = own or (text if text == "unit" else f"({text})")
            lines.append(f"const long {name}_begin = {index} * {dim.block};")
            whole = f"{name}_begin + {dim.block}"
            end = whole if dim.extent % dim.block == 0 else f"{whole} < {dim.extent} ? {whole} : {dim.extent}"
            lines.append(f"const long {name}_end = {end};")
        return lines

    def ends(self, d: int) -> tuple[str, str]:
        """The first index of a unit along dimension `d`, and the one after its last."""
        if self.nest.is_line:
            return self.bounds
        dim, name = self.nest.dims[d], AXES[d]
        return (f"{name}_begin", f"{name}_end") if dim.blocks > 1 else ("0", str(dim.extent))

    def cell_ends(self, d: int) -> tuple[str, str]:
        """The same of what a cell has of the unit."""
        return (f"{AXES[d]}_from", f"{AXES[d]}_to") if d in self.schedule.seams else self.ends(d)

    def loop_head(self, d: int, whole: bool = False) -> str:
        """Of a loop over a cell's part of a unit, or the `whole`."""
        (first, last), name = self.ends(d) if whole else self.cell_ends(d), AXES[d]
        return f"for (long {name} = {first}; {name} < {last}; {name}++)"

    def column(self) -> str:
        """The place of an element among the columns of a unit."""
        first, _ = self.ends(self.nest.vector)
        name = AXES[self.nest.vector]
        return name if first == "0" else f"{name} - {first}"

    def accumulated(self, name: str) -> str:
        """What a reduction or a scan accumulates in."""
        return f"{name}[{self.column()}]" if self.nest.by_columns else name

    def held_place(self) -> str:
        """The place of an element among those of a unit."""
        terms, step = [], 1
        for d in reversed((*self.nest.inside, self.nest.vector)):
            index = self._in_unit(d)
            terms.append(index if step == 1 else f"{step} * {index}")
            step *= self.nest.dims[d].block
        return " + ".join(reversed(terms))

    def _in_unit(self, d: int) -> str:
        """The index along dimension `d` from the unit's first on."""
        first, _ = self.ends(d)
        return AXES[d] if first == "0" else f"({AXES[d]} - {first})"

    def part(self, n: Node) -> str:
        """Where the result of a part of a row is kept."""
        j, rows = self.number(n), n.type.size
        if rows == 1:
            return f"p{j}[part]"
        return f"p{j}[part * {rows} + {self.index(aligned(0, contiguous(n.shape), n.shape, self.schedule.space))}]"

    def count_of_part(self) -> str:
        """How many elements of a row a part has."""
        d = self.schedule.split
        assert d is not None
        dim, others = self.nest.dims[d], math.prod([self.nest.dims[o].extent for o in self.reduced if o != d])
        count = f"{dim.block}"
        if dim.extent % dim.block:
            count = f"(part < {dim.blocks - 1} ? {dim.block} : {dim.extent - dim.block * (dim.blocks - 1)})"
        return f"({count} * {others}L)" if others > 1 else count

    def reduction(self, n: Node) -> tuple[ops.Reduction, str, str]:
        """Of a reduction: its row, the type in which it accumulates, and its name."""
        how = ops.reduction(n.op, n.args[0].dtype, n.dtype)
        return how, how.kind, f"a{self.number(n)}"

    def number(self, n: Node) -> int:
        """Of a reduction, among those of all passes."""
        return [r for p in self.form.passes for r in p.reductions].index(n)

    def places(self, n: Node) -> Places:
        """The lines of an argmax or argmin."""
        how, kind, name = self.reduction(n)
        longest = max(self.nest.dims[d].extent for d in self.reduced)
        return Places(name, kind, ops.suffix(n.args[0].dtype), "int" if longest < 1 << 31 else "long", how)

    def result(self, n: Node, accumulator: str) -> str:
        """The result of a reduction: of integers, what an unsigned number stands for."""
        kind = ops.ctype(n.dtype)
        return f"({kind.computed}){accumulator}" if kind.unsigned else accumulator

    def suffix(self, n: Node) -> str:
        """The end of the names of functions on its sums."""
        return ops.ctype(partial_dtype(n)).suffix

    def stored(self, j: int, place: str) -> str:
        """The line that writes an element of the result `j`."""
        return f"{self.written(j)} = {self.stored_value(j, place)};"

    def stored_value(self, j: int, place: str) -> str:
        o = self.form.body.outputs[j]
        value = self.value(o, place)
        return self.bits.get(value) or ops.value_kept(o.dtype, value)

    def written(self, j: int) -> str:
        """The element of the result `j`."""
        return f"w{self.first + j}[{self.index(self.schedule.written[j])}]"
