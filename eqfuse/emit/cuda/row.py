"""Kernels that reduce: one thread group per row of the space, several passes over its columns. In: a row or reduce
body and its schedule. Out: the statements of one CUDA function. Next stop: `cuda.emit_kernel`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Indices, Parameters
from eqfuse.emit.cuda.joining import over_block, over_lanes
from eqfuse.emit.cuda.neighbours import neighbouring
from eqfuse.emit.cuda.row_elements import RowElements
from eqfuse.emit.cuda.scans import Scans
from eqfuse.emit.cuda.scheduling.passes import values_behind
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.emit.cuda.split_rows import SplitRows
from eqfuse.emit.cuda.totals import RowTotals
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.product import WARP

IN_SHARED_AHEAD = 2  # turns that a thread asks for at once, where it keeps them in shared memory: registers are full
SHARED = 32 << 10  # bytes through which threads join what they have of rows side by side, at most


def rows_lines(schedule: RowsSchedule, parameters: Parameters) -> list[str]:
    """The inside of the function."""
    return _Writer(parameters.body, parameters, schedule).write()


@dataclass(frozen=True)
class _PassLines:
    """Statements once per row, then once per element, then once per row. Later passes add to `inner` what they want
    kept, so a pass becomes text only when all are made. `reads`, `writes`: of neighbours at once."""

    before: list[str]
    reads: list[str]
    inner: list[str]
    writes: list[str]
    after: list[str]


class _Writer:
    def __init__(self, body: Graph, parameters: Parameters, schedule: RowsSchedule) -> None:
        self.body, self.parameters, self.schedule, self.space = body, parameters, schedule, schedule.space
        rows = schedule.rows
        self.layout, self.block, self.rows, self.columns = rows.layout, rows.block, rows.rows, rows.columns
        self.splits, self.width = schedule.splits, rows.width
        self.elements = RowElements(parameters, self._indices(), values_behind(schedule.held), schedule.holding, rows)
        self.row_index = self.elements.row_index
        self.parts = SplitRows(schedule, self.elements, self._combine)
        self.scans = Scans(schedule, self.elements, self._combine)
        self.totals = RowTotals(schedule, parameters)

    def _indices(self) -> Indices:
        indices = Indices()
        shape, kept, reduced = self.space.shape, self.space.wide(False), self.space.wide(True)
        self.axis_texts = [""] * len(shape)
        for name, half in (("row", False), ("col", True)):
            for a, text in zip(self.space.half(half), indices.split(name, self.space.extents(half)), strict=True):
                self.axis_texts[a] = text
        full = tuple(self.axis_texts)
        if not kept or not reduced:
            indices.know(full, shape, "col" if reduced else "row")
        elif kept[-1] < reduced[0]:
            indices.know(full, shape, f"(row * {self.columns} + col)")
        elif reduced[-1] < kept[0]:
            indices.know(full, shape, f"(col * {self.rows} + row)")
        self.full_index = full
        self.reduced_index = tuple("0" if n == 1 else t for t, n in zip(full, self.space.reduced_shape, strict=True))
        return indices

    def write(self) -> list[str]:
        passes: list[_PassLines] = []
        for number, reductions in enumerate(self.schedule.reductions):
            passes.append(self._reducing_pass(number, reductions))
            self.elements.next_pass()
        passes.append(self._writing_pass())
        segments = [line for p in passes for line in (*p.before, *(self._loops(p) if p.inner else ()), *p.after)]
        return [*self._places(), *self._held(), *self.elements.arrays.values(), *segments]

    def _held(self) -> list[str]:
        """Where elements are kept from pass to pass."""
        arrays, turns, start = self.elements.held_arrays(), self.schedule.holding.in_registers, 0
        lines = [f"{a.kind} {a.name}[{max(1, turns * a.per_turn)}];" for a in arrays]
        if not self.schedule.shared_bytes:
            return lines
        lines.append("EQF_DYN_SHARED(unsigned char, kept);")
        for a in arrays:
            lines.append(f"{a.kind}* const {a.name}s = ({a.kind}*)(kept + {start});")
            start += (self.schedule.turns - turns) * a.per_turn * a.itemsize * self.block[0]
        assert start == self.schedule.shared_bytes, "a block is given the shared memory that its threads use"
        return lines

    def _places(self) -> list[str]:
        """Where the thread finds its elements."""
        index, width = self.parameters.integer, self.elements.rows
        lane = "threadIdx.y" if self.layout == "column" else "threadIdx.x"
        whose, part = ("group", "part") if self.scans.shares else ("blockIdx.x", "blockIdx.y")
        group = f"({index}){whose}" + {
            "column": f" * {self.block[0]} + threadIdx.x", "block": "", "warp": f" * {self.block[1]} + threadIdx.y",
        }[self.layout]  # fmt: skip
        if width > 1:
            group = f"({group}) * {width}"
        size = self.schedule.per_split
        last = f"min(first + {size}, ({index}){self.columns})" if self.splits > 1 else f"{self.columns}"
        lines = [
            *self.scans.begun(),
            f"const {index} row_or_more = {group};",
            f"const bool live = row_or_more < {self.rows};",
            f"const {index} row{'_' * (width > 1)} = live ? row_or_more : {self.rows - width};"
            "  // spare threads write nothing",
            f"const {index} first = {f'({index}){part} * {size}' if self.splits > 1 else '0'};",
            f"const {index} end = {last};",
            f"const int lane = {lane};",
        ]
        by_columns = self.layout == "column" and (self.block[1] > 1 or self.scans.names)
        if self.layout == "block" or by_columns or self.totals.names:
            word = {8: "unsigned long long", 16: "Vec<unsigned, 4>"}.get(self.widest, "unsigned")
            count = max(WARP, math.prod(self.block) * self.at_once) if by_columns else WARP
            if self.scans.names:
                count = max(count, self.scans.shared)
            lines.append(f"__shared__ {word} shared[{count}];")
        return lines

    @property
    def widest(self) -> int:
        """Bytes of the largest result of a reduction."""
        every = [*chain(*self.schedule.reductions), *self.totals.names]
        return max([4, *[16 if r.op in ops.PLACES else r.dtype.itemsize for r in every]])

    @property
    def at_once(self) -> int:
        """How many of the rows side by side pass through shared memory at once."""
        return max(1, min(self.elements.rows, SHARED // (math.prod(self.block) * self.widest)))

    def _loops(self, p: _PassLines) -> list[str]:
        """Over all elements of a thread: of those in registers and those in shared memory, the turns that find elements
        in every thread, and others."""
        schedule, lines = self.schedule, list[str]()
        kept, full, turns = schedule.holding.in_registers, schedule.full_turns, schedule.turns
        for start, end in pairwise(sorted({0, min(kept, turns), min(full, turns), turns})):
            in_shared = start >= kept
            ahead = IN_SHARED_AHEAD if in_shared else schedule.rows.ahead
            times = "" if schedule.unrolled and not in_shared else f" {ahead}"
            loop = self._loop(p, f"#pragma unroll{times}", start, end, end > full)
            lines += map(self._in_shared_memory, loop) if in_shared else loop
        return lines

    def _in_shared_memory(self, line: str) -> str:
        """`line`, for a turn whose elements are kept there and not in registers: those of one thread apart, so that
        threads take them side by side."""
        first, threads = self.schedule.holding.in_registers, self.block[0]
        return re.sub(r"\b(h\d+)\[k\b(.*?)\]", rf"\1s[((k - {first})\2) * {threads} + lane]", line)

    def _loop(self, p: _PassLines, unrolled: str, start: int, end: int, checked: bool) -> list[str]:
        schedule, width, index, e = self.schedule, self.width, self.parameters.integer, self.elements
        iteration = "k" if index == "int" else f"({index})k"
        lines, first, place = p.inner, "col", f"{iteration} * {schedule.rows.stride} + lane"
        if self.scans.names and self.layout == "column":  # a thread takes elements side by side
            place = f"lane * {schedule.turns} + {iteration}"
        if e.rows > 1:
            lines = [*p.reads, *e.of_rows(lines), *p.writes]
        elif width > 1:
            first, place = "col_", f"({place}) * {width}"
            each = [f"const {index} col = col_ + v;", *lines]
            loop = ["#pragma unroll", f"for (int v = 0; v < {width}; v++) {{", *(f"    {line}" for line in each), "}"]
            lines = [*p.reads, *loop, *p.writes]
        if checked:
            lines = [f"if ({first} < end) {{", *(f"    {line}" for line in lines), "}"]
        return [
            unrolled,
            f"for (int k = {start}; k < {end}; k++) {{",
            f"    const {index} {first} = first + {place};",
            *(f"    {line}" for line in lines),
            "}",
        ]

    def _reducing_pass(self, number: int, reductions: Sequence[Node]) -> _PassLines:
        before, after, begun, e = list[str](), list[str](), list[str](), self.elements
        scans = [n for n in reductions if n in self.scans.names]
        for n in scans:
            before += self.scans.before(n)
            e.inner.append(self.scans.step(n, e.value(n.args[0], self.full_index)))
        for j, n in enumerate(reductions):
            if n in scans:
                continue
            how = ops.reduction(n.op, n.args[0].dtype, n.dtype)
            name, value = f"a{number}_{j}{self.row_index}", e.value(n.args[0], self.full_index)
            before.append(f"{how.kind} a{number}_{j}{f'[{e.rows}]' if self.row_index else f' = {how.identity}'};")
            begun.append(f"{name} = {how.identity};")
            e.inner.append(f"{name} = {how.step.format(a=name, b=how.begun.format(value=value, place='col'))};")
            after += self._combine(name, how)
            e.results[n] = (how.result.format(a=name), self.reduced_index)
            self.parts.names[n] = name
        if self.row_index:
            before += e.of_rows(begun)
        if scans:
            after += self.scans.after(scans, number < len(self.schedule.reductions) - 1)
            for n in scans:
                e.hold(n, self.full_index, self.scans.names[n])
        elif self.splits > 1:
            after += self.parts.left(reductions, self.leader)
            if number == len(self.schedule.reductions) - 1:
                after += self.parts.joined()
                e.forget(self.parts.names)
        after += e.of_rows(self._rounded(reductions))
        return _PassLines(e.once() + before, e.read_at_once(), e.inner, [], after)

    def _rounded(self, reductions: Sequence[Node]) -> list[str]:
        """The results as exact as the program has them."""
        names = [(n, self.elements.results[n][0]) for n in reductions if n in self.elements.results]
        return [f"{name} = {text};" for n, name in names if (text := self.elements.rounded(n, name)) != name]

    def _combine(self, name: str, how: ops.Reduction) -> list[str]:
        """What threads have of one row becomes that of the whole row, known to all of them."""
        if self.layout == "column":
            return self._combine_columns(name, how)
        if self.layout == "block":
            return over_block(name, how, "lane", self.block[0])
        return [over_lanes(name, how, self.block[0])] if self.block[0] > 1 else []

    def _combine_columns(self, name: str, how: ops.Reduction) -> list[str]:
        (across, lanes), rows, once = self.block, self.elements.rows, self.at_once
        if lanes == 1:
            return []
        first, each = ("v", f"v = 0; v < {rows}") if once == rows else ("(v - v0)", f"v = v0; v < v0 + {once}")

        def place(lane: str) -> str:
            inner = f"{lane} * {across} + threadIdx.x"
            return f"all[{first} * {across * lanes} + {inner}]" if rows > 1 else f"all[{inner}]"

        def over(text: str) -> list[str]:
            return ["#pragma unroll", f"for (int {each}; v++) {text}"] if rows > 1 else [text]

        second = min(lanes, 8) if lanes <= 8 else 1 << (lanes.bit_length() - 1) // 2  # lanes of which each joins some

        def joined(lane: str, others: int) -> list[str]:
            each = over(f"{name} = {how.step.format(a=name, b=place(lane))};")
            lines = [f"for (int j = 1; j < {others}; j++) {{", *(f"    {line}" for line in each), "}"]
            return ["#pragma unroll 2", *lines]  # more would take registers that decide how many blocks have room

        some = [*joined(f"(lane + j * {second})", lanes // second), *over(f"{place('lane')} = {name};")]
        lines = [
            *over(f"{place('lane')} = {name};"),
            "__syncthreads();",
            *([f"if (lane < {second}) {{", *(f"    {line}" for line in some), "}", "__syncthreads();"]
              if second < lanes else []),
            *over(f"{name} = {place('0')};"),
            *joined("j", second),
            "__syncthreads();",
        ]  # fmt: skip
        if once < rows:
            head = ["#pragma unroll", f"for (int v0 = 0; v0 < {rows}; v0 += {once}) {{"]
            lines = [*head, *(f"    {line}" for line in lines), "}"]
        return [f"{{ {how.kind}* all = ({how.kind}*)shared;", *(f"  {line}" for line in lines), "}"]

    @property
    def leader(self) -> str:
        """One thread of each row."""
        return "live && lane == 0"

    def _writing_pass(self) -> _PassLines:
        e = self.elements
        vectors, writes, ones, one_vectors, one_writes = [], [], [], [], []
        live = "if (live) " if self.layout != "block" else ""
        for j, output in enumerate(self.body.outputs):
            if j in self.totals.results:
                continue
            full = self.space.is_full(output)
            if not full and output.shape != self.space.reduced_shape:
                raise UnsupportedOp(f"a cuda row kernel writes shapes {self.space.shape} or {self.space.reduced_shape}")
            index = self.full_index if full else self.reduced_index
            text = e.stored(output, index)
            place = e.indices.join(index, output.shape)
            vector = f"Vec<{ops.stored(output.dtype)}, {self.width}>"
            first = re.sub(rf"\b{e.fast}\b", f"{e.fast}_", place)
            several = self.width > 1 and neighbouring(place, e.fast, self.width)
            if not full and several:
                one_vectors.append(f"{vector} w{j}v;")
                ones.append(f"w{j}v.v[v] = {text};")
                one_writes.append(f"if ({self.leader}) *({vector}*)(w{j} + {first}) = w{j}v;")
            elif not full:
                ones.append(f"if ({self.leader}) w{j}[{place}] = {text};")
            elif several:
                vectors.append(f"{vector} w{j}v;")
                e.inner.append(f"w{j}v.v[v] = {text};")
                writes.append(f"{live}*({vector}*)(w{j} + {first}) = w{j}v;")
            else:
                e.inner.append(f"{live}w{j}[{place}] = {text};")
        ones += self.totals.of_row(e, self.reduced_index, self.leader)
        after = [*self.totals.begun(), *one_vectors, *e.of_rows(ones), *one_writes, *self.totals.joined()]
        return _PassLines(e.once(), [*e.read_at_once(), *vectors], e.inner, writes, after)
