"""The text of a fused kernel in C: loops over units, passes over rows, and in these over the cells of the space.

In: a `LoopsSchedule`. Out: the text of its functions, and the arrays that they take. Next stop: `kernels.py`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from eqfuse.emit.c import ops
from eqfuse.emit.c.branch_lines import BranchLines
from eqfuse.emit.c.element import FAR_FLAG, MISSED, braced, indented
from eqfuse.emit.c.joining import Joining
from eqfuse.emit.c.lines import Lines
from eqfuse.emit.c.nest import AXES
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.schedule import LoopsSchedule
from eqfuse.emit.c.streaming import FENCE
from eqfuse.emit.c.table import Counts

LIST_WIDTH = 100  # of lists
CHUNK_PARAMETERS = "void *const *arrays, long long chunk"  # the parameters of a function that runs one
ENTRY_PARAMETERS = "void *self, const Array *const *given, __PTRDIFF_TYPE__ count"  # of a function that Python calls
RELEASED = 5e-6  # seconds from which a kernel lets other threads of Python work


@dataclass(frozen=True)
class Text:
    """The functions of a kernel. `name`, the one that is called, runs the chunks of units, and joins the parts of rows
    where these are split. `misses`: it returns None where all places that it gathers from lie in their arrays, and else
    what is true."""

    source: str
    parameters: Parameters
    misses: bool = False


@dataclass(frozen=True)
class Functions:
    """The same without the function that is called, which runs the lines `run`, with what stands for the arrays."""

    source: str
    parameters: Parameters
    run: tuple[str, ...]
    misses: bool


def loops_text(schedule: LoopsSchedule, name: str, rounds: bool) -> Text:
    functions = functions_of(schedule, name, rounds)
    run = [line.format(arrays="arrays") for line in functions.run]
    text = called(name, functions.parameters, run, schedule.seconds, functions.misses)
    return Text(functions.source + text, functions.parameters, functions.misses)


def functions_of(schedule: LoopsSchedule, name: str, rounds: bool) -> Functions:
    parameters = Parameters(schedule.body, schedule.workspaces, overlays=schedule.overlays)
    writer = Writer(schedule, rounds, parameters)
    kernel = writer.kernel()
    joining = Joining(schedule, rounds, parameters).lines() if schedule.split is not None else []
    source, lines = "", writer.chunk(kernel)
    if any(n.op in ops.QUICK_FUNCTIONS for n in schedule.body.nodes):
        quick = Writer(schedule, rounds, parameters, quick=True)
        inside = [f"int {FAR_FLAG} = 0;", *quick.chunk(quick.kernel()), f"return {FAR_FLAG};"]
        source = definition(f"static int {name}_quick({CHUNK_PARAMETERS})", inside)
        lines = [f"if ({_apart(parameters)} && !{name}_quick(arrays, chunk)) return;", *lines]
    source += definition(f"static void {name}_chunk({CHUNK_PARAMETERS})", lines)
    if joining:
        fetched = used(parameters.fetched(), joining)
        source += definition(f"static void {name}_joined(void *const *arrays)", [*fetched, *joining])
    chunks = run_line(f"{name}_chunk", schedule.chunks, schedule.threads, "{arrays}")
    return Functions(source, parameters, (chunks, *[f"{name}_joined({{arrays}});"] * bool(joining)), writer.misses)


def _apart(parameters: Parameters) -> str:
    """When no array that is read lies where one is written: then what was written may be written anew."""
    body, places = parameters.body, {name: number for number, name in enumerate(parameters.names())}
    texts = []
    for i in parameters.read_numbers():
        for j, output in enumerate(body.outputs):
            read, written = (f"(const char *)arrays[{places[name]}]" for name in (f"r{i}", f"w{j}"))
            before = f"{read} + {body.inputs[i].type.nbytes} <= {written}"
            texts.append(f"({before} || {written} + {output.type.nbytes} <= {read})")
    return " && ".join(texts) or "1"


def run_line(name: str, chunks: int, threads: int, arrays: str = "arrays") -> str:
    """The line that runs all chunks by the function `name`."""
    return f"eqf_run({name}, {arrays}, {chunks}, {threads});" if chunks > 1 else f"{name}({arrays}, 0);"


def called(
    name: str, parameters: Parameters, run: Sequence[str], seconds: float, misses: bool = False,
    counted: Sequence[str] = (),
) -> str:  # fmt: skip
    """The function that Python calls: it runs the lines `run`, which take about so many seconds. `misses`: as in
    `Text`; `counted`: numbers from 0 on that these lines change, and functions find behind the arrays."""
    if seconds >= RELEASED:
        run = ["void *const python = eqf_python.release();", *run, "eqf_python.resume(python);"]
    pointers = [*parameters.pointers(), *[f"&{MISSED}"] * misses, *[f"(void *)&{number}" for number in counted]]
    lines = [*[f"int {MISSED} = 0;"] * misses, *[f"long {number} = 0;" for number in counted]]
    lines += [f"void *const arrays[] = {{{on_lines(pointers)}}};", *run]
    lines += [*[f"if ({MISSED}) return eqf_true(self);"] * misses, "return eqf_none();"]
    return definition(f"void *{name}({ENTRY_PARAMETERS})", lines)


def on_lines(texts: Sequence[object]) -> str:
    """`texts` with commas between, on as many lines as they need."""
    lines = [""]
    for text in texts:
        if len(lines[-1]) + len(str(text)) > LIST_WIDTH:
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
    if schedule.chunks == 1 or (schedule.chunks == units and not schedule.nest.is_line):
        return []
    end = f"first + {chunk}"
    end = end if units % chunk == 0 else f"{end} < {units} ? {end} : {units}"
    return [f"const long first = chunk * {chunk}, last = {end};"]


def definition(head: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{head} {{", *indented(lines), "}"]) + "\n"


class Writer:
    """Writes one kernel, pass after pass. `top`: what comes before the loop over units. `quick`: by functions that do
    not hold where `FAR_FLAG` is true at the end."""

    LINES: type[Lines] = BranchLines

    def __init__(self, schedule: LoopsSchedule, rounds: bool, parameters: Parameters, quick: bool = False) -> None:
        self.schedule, self.nest = schedule, schedule.nest
        self.rounds, self.parameters = rounds, parameters
        self.top: list[str] = []
        counts = Counts()
        self.forms = [self.LINES(schedule, form, rounds, self.parameters, counts, self.top) for form in schedule.forms]
        for form in self.forms:
            form.quick = quick
        self.main = self.forms[0]

    @property
    def misses(self) -> bool:
        return any(form.gathered for form in self.schedule.forms)

    def chunk(self, lines: Sequence[str]) -> list[str]:
        """The inside of the function that runs a chunk of units, of which `lines` are the loops."""
        lines = [*_units(self.schedule), *lines, *[FENCE] * bool(self.schedule.streamed)]
        if self.misses:
            told = f"if ({MISSED}) *(volatile int *)arrays[{len(self.parameters.names())}] = 1;"
            lines = [f"int {MISSED} = 0;", *lines, told]
        return [*used(self.parameters.fetched(), lines), *self.tables(), *lines]

    def kernel(self) -> list[str]:
        alone = self.schedule.split is not None and self.schedule.cascade is None
        inside = [line for number in range(1 if alone else len(self.schedule.passes)) for line in self._pass(number)]
        if self.nest.is_line:
            return [*self.top, *inside]
        held = [line for form in self.forms for line in form.held_lines()]
        lines = [*self.main.unit_lines(), *self._counted_cells(), *held, *inside]
        (first, last), unit = self.main.bounds, self.main.unit
        if self.nest.counted and self.schedule.chunks == self.schedule.units > 1:
            lines = [f"const long {unit} = chunk;", *lines]  # gcc 12 makes no vectors inside of a loop of one turn
        elif self.nest.counted:
            lines = braced(f"for (long {unit} = {first}; {unit} < {last}; {unit}++)", lines)
        return [*self.top, *lines]

    def _pass(self, number: int) -> list[str]:
        """A pass over all cells of a unit. What each form keeps of a column is declared before."""
        before, after = self.main.around(number)
        blocks = [form.of_pass(number) for form in self.forms]
        declared = [line for form in self.forms for line in form.declared(number)]
        return [*declared, *before, *self._over_cells(blocks), *after]

    # Cells

    @property
    def _looped(self) -> list[int]:
        """The dimensions with seams that a unit has more than one index of."""
        return [d for d in self.schedule.seams if d in (*self.nest.inside, self.nest.vector)]

    def _counted_cells(self) -> list[str]:
        """The lines that find in which cell a unit stands along the dimensions of which it has one index."""
        others = {d: places for d, places in self.schedule.seams.items() if d not in self._looped}
        texts = {d: " + ".join(f"({AXES[d]} >= {place})" for place in places[1:-1]) for d, places in others.items()}
        return [f"const long {AXES[d]}_cell = {text};" for d, text in texts.items()]

    def _over_cells(self, blocks: Sequence[list[str]]) -> list[str]:
        """Loops over the cells of a unit, each of which runs the block of its form."""
        if self.schedule.is_by_rows:
            return self._by_rows(blocks)
        if not self.schedule.seams:
            return blocks[0]
        terms, count = [], 1
        for d, places in reversed(self.schedule.seams.items()):
            terms.append(f"{count} * {AXES[d]}_cell" if count > 1 else f"{AXES[d]}_cell")
            count *= len(places) - 1
        lines = [f"const long *cell = cells[{' + '.join(reversed(terms))}];", *self._chosen(blocks)]
        for d in reversed(self._looped):
            name = AXES[d]
            head = f"for (long {name}_cell = 0; {name}_cell < {len(self.schedule.seams[d]) - 1}; {name}_cell++)"
            lines = braced(head, [*self._clipped(d), *lines])
        return lines if self._looped else ["{", *indented(lines), "}"]

    def _by_rows(self, blocks: Sequence[list[str]]) -> list[str]:
        """The loop of vectors, a turn of which computes the elements of a row one after another; of no vectors where
        turns update the same elements."""
        forms = {cell: block for form, block in zip(self.schedule.forms, blocks, strict=True) for cell in form.numbers}
        lines: list[str] = []
        for index in product(*[range(self.nest.dims[d].extent) for d in self.nest.inside]):
            index_of, cell = dict(zip(self.nest.inside, index, strict=True)), 0
            for d, places in self.schedule.seams.items():
                cell = cell * (len(places) - 1) + bisect_right(places, index_of[d]) - 1
            block = [*[f"const long {AXES[d]} = {place};" for d, place in index_of.items()], *forms[cell]]
            if self.schedule.seams:
                block = [f"const long *cell = cells[{cell}];", *block]
            lines += ["{", *indented(block), "}"]
        vectors = [] if self.schedule.has_conflicts else [self.main.simd([], lines)]
        return [*vectors, *braced(self.main.loop_head(self.nest.vector), lines)]

    def _clipped(self, d: int) -> list[str]:
        """The lines that find which indices of a unit lie in a cell."""
        (first, last), name = self.main.ends(d), AXES[d]
        low, high = f"{name}_seams[{name}_cell]", f"{name}_seams[{name}_cell + 1]"
        if (first, last) != ("0", str(self.nest.dims[d].extent)):
            low, high = f"{low} > {first} ? {low} : {first}", f"{high} < {last} ? {high} : {last}"
        return [f"const long {name}_from = {low};", f"const long {name}_to = {high};"]

    def _chosen(self, blocks: Sequence[list[str]]) -> list[str]:
        """The block of the form of a cell."""
        if len(blocks) == 1:
            return blocks[0]
        lines: list[str] = []
        for number, block in enumerate(blocks):
            head = f"case {number}:"
            lines += [f"{head} {{", *indented([*block, "break;"]), "}"]
        return braced("switch (cell[0])", lines)

    def tables(self) -> list[str]:
        """Where cells begin, and what differs from one to the next."""
        if not self.schedule.seams:
            return []
        rows: dict[int, list[int]] = {}
        for number, form in enumerate(self.forms):
            kind = [number] if len(self.forms) > 1 else []
            rows |= {cell: [*kind, *row] for cell, row in form.table.rows(self.parameters.names()).items()}
        width = max(1, *[len(row) for row in rows.values()])
        texts = [f"{{{', '.join(map(str, rows[cell]))}}}" for cell in sorted(rows)]
        lines = [f"static const long cells[][{width}] = {{{on_lines(texts)}}};"]
        for d in [] if self.schedule.is_by_rows else self._looped:
            lines.append(f"static const long {AXES[d]}_seams[] = {{{on_lines(self.schedule.seams[d])}}};")
        return lines
