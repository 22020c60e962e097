"""Kernels that reduce: one thread group per row of the space, several passes over its columns. In: a row or reduce
body and its schedule. Out: the statements of one CUDA function. Next stop: `cuda.emit_kernel`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.emit.cuda.neighbours import side_by_side
from eqfuse.emit.cuda.scheduling.passes import values_behind
from eqfuse.emit.cuda.scheduling.row import RowsSchedule
from eqfuse.emit.cuda.split_rows import SplitRows
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.ops import Role, row


class RowElements(Elements):
    """Elements over `(row, col)`, of which a thread reads `width` neighbours at once. The values `kept` stay in
    registers (`held`) from one pass to the next, the rest is computed again."""

    def __init__(self, parameters: Parameters, indices: Indices, kept: frozenset[Node], width: int) -> None:
        super().__init__(parameters, indices)
        self.kept = kept
        self.vector_width, self.fast = width, "col"
        self.place = f"k * {width} + v" if width > 1 else "k"  # of an element among those of a thread
        self.reciprocals: dict[str, str] = {}
        self.results: dict[Node, tuple[str, Index]] = {}
        self.computed: dict[tuple[Node, Index], tuple[str, list[str]]] = {}
        self.held: dict[tuple[Node, Index], str] = {}

    def next_pass(self) -> None:
        for key, name in self.inner_memo.items():
            self.computed.setdefault(key, (name, self.inner))
        self.inner_memo = {}
        self.inner, self.outer, self.vectors = [], [], {}
        self.short_here = {name for name in self.short_here if name.startswith("s")}

    def forget(self, reductions: Collection[Node]) -> None:
        """What was made of `reductions`, which have become those of whole rows."""
        below = set(reductions)
        for n in topological([n for n, _ in self.outer_memo]):
            if any(a in below for a in n.args):
                below.add(n)
        self.outer_memo = {at: name for at, name in self.outer_memo.items() if at[0] not in below}

    def earlier(self, n: Node, index: Index) -> str | None:
        if row(n.op).role is Role.REDUCTION:
            name, at = self.results[n]
            if at != index:
                raise UnsupportedOp(f"the cuda target cannot read {n.op} of another row")
            return name
        if n not in self.kept or (n, index) not in self.computed:
            return None
        if (n, index) not in self.held:
            name, lines = self.computed[n, index]
            self.held[n, index] = f"h{len(self.held)}"
            lines.append(f"h{len(self.held) - 1}[{self.place}] = {name};")
        name = f"t{self.count}"
        self.count += 1
        self.inner.append(f"{ops.computed(n.dtype)} {name} = {self.held[n, index]}[{self.place}];")
        self.inner_memo[n, index] = name
        return name

    def expression(self, n: Node, values: list[str]) -> str:
        """A row is divided by one number by way of its reciprocal, which takes a third of the instructions."""
        divides = n.op == "divide" and ops.computed(n.dtype) == "float"
        if not divides or self.changes.search(values[1]) or not self.changes.search(values[0]):
            return super().expression(n, values)
        if values[1] not in self.reciprocals:
            self.reciprocals[values[1]] = f"s{self.count}"
            self.outer.append(f"const float s{self.count} = 1.0f / {values[1]};")
            self.count += 1
        quotient = "eqf_quotient" if n.dtype != ops.BFLOAT16 else "eqf_short_quotient"
        return f"{quotient}({values[0]}, {values[1]}, {self.reciprocals[values[1]]})"


def emit(schedule: RowsSchedule, parameters: Parameters) -> list[str]:
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
        self.parts = SplitRows(schedule, parameters, self.leader)
        self.elements = RowElements(parameters, self._indices(), values_behind(schedule.held), rows.width)

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
        segments = [line for p in passes for line in (*p.before, *(self._loop(p) if p.inner else ()), *p.after)]
        items = max(1, self.schedule.items)
        held = [f"{ops.computed(n.dtype)} {name}[{items}];" for (n, _), name in self.elements.held.items()]
        index = self.parameters.integer
        lane = "threadIdx.y" if self.layout == "column" else "threadIdx.x"
        group = f"({index})blockIdx.x" + {
            "column": " * 32 + threadIdx.x", "block": "", "warp": f" * {self.block[1]} + threadIdx.y",
        }[self.layout]  # fmt: skip
        part = self.schedule.per_split
        last = f"min(first + {part}, ({index}){self.columns})" if self.splits > 1 else f"{self.columns}"
        head = [
            f"const {index} row_or_more = {group};",
            f"const bool live = row_or_more < {self.rows};",
            f"const {index} row = live ? row_or_more : {self.rows - 1};  // spare threads write nothing",
            f"const {index} first = {f'({index})blockIdx.y * {part}' if self.splits > 1 else '0'};",
            f"const {index} end = {last};",
            f"const int lane = {lane};",
        ]
        if self.layout != "warp":
            every = [r for level in self.schedule.reductions for r in level]
            widest = max(16 if r.op in ops.PLACES else r.dtype.itemsize for r in every)
            word = {8: "unsigned long long", 16: "Vec<unsigned, 4>"}.get(widest, "unsigned")
            head.append(f"__shared__ {word} shared[{256 if self.layout == 'column' else 32}];")
        return head + held + segments

    def _loop(self, p: _PassLines) -> list[str]:
        schedule, width, index = self.schedule, self.width, self.parameters.integer
        turn = "k" if index == "int" else f"({index})k"
        lines, first, place = p.inner, "col", f"{turn} * {schedule.rows.stride} + lane"
        if width > 1:
            first, place = "col_", f"({place}) * {width}"
            each = [f"const {index} col = col_ + v;", *lines]
            loop = ["#pragma unroll", f"for (int v = 0; v < {width}; v++) {{", *(f"    {line}" for line in each), "}"]
            lines = [*p.reads, *loop, *p.writes]
        if not schedule.whole:
            lines = [f"if ({first} < end) {{", *(f"    {line}" for line in lines), "}"]
        return [
            f"#pragma unroll{'' if schedule.unrolled else ' 4'}",
            f"for (int k = 0; k < {schedule.items // width}; k++) {{",
            f"    const {index} {first} = first + {place};",
            *(f"    {line}" for line in lines),
            "}",
        ]

    def _reducing_pass(self, number: int, reductions: Sequence[Node]) -> _PassLines:
        before, after, e = [], [], self.elements
        inner, outer = e.inner, e.outer
        for j, n in enumerate(reductions):
            how = ops.reduction(n.op, n.args[0].dtype, n.dtype)
            name, value = f"a{number}_{j}", e.value(n.args[0], self.full_index)
            before.append(f"{how.kind} {name} = {how.identity};")
            inner.append(f"{name} = {how.step.format(a=name, b=how.begun.format(value=value, at='col'))};")
            after += self._combine(name, how)
            e.results[n] = (how.result.format(a=name), self.reduced_index)
            self.parts.names[n] = name
        if self.splits > 1:
            after += self.parts.left(reductions)
            if number == len(self.schedule.reductions) - 1:
                after += self.parts.joined()
                e.forget(self.parts.names)
        return _PassLines(outer + before, e.read_at_once(), inner, [], [*after, *self._rounded(reductions)])

    def _rounded(self, reductions: Sequence[Node]) -> list[str]:
        """The results as exact as the program has them."""
        names = [(n, self.elements.results[n][0]) for n in reductions]
        return [f"{name} = {text};" for n, name in names if (text := self.elements.rounded(n, name)) != name]

    def _combine(self, name: str, how: ops.Reduction) -> list[str]:
        kind, step = how.kind, how.step
        if self.layout == "column":
            return [
                f"{{ {kind}* all = ({kind}*)shared;",
                f"  all[lane * 32 + threadIdx.x] = {name};",
                "  __syncthreads();",
                f"  {name} = all[threadIdx.x];",
                f"  for (int j = 1; j < 8; j++) {name} = {step.format(a=name, b='all[j * 32 + threadIdx.x]')};",
                "  __syncthreads(); }",
            ]
        other = f"__shfl_xor_sync(0xffffffffu, {name}, step)"
        if kind.startswith("eqf_"):
            other = f"eqf_shuffle({name}, step)"
        if kind in ("bool", "signed char", "unsigned char", "short", "unsigned short"):
            other = f"({kind})__shfl_xor_sync(0xffffffffu, (int){name}, step)"
        joined = f"{kind} b = {other}; {name} = {step.format(a=name, b='b')};"
        lanes = min(32, self.block[0])
        lines = [f"for (int step = {lanes // 2}; step; step >>= 1) {{ {joined} }}"] if lanes > 1 else []
        if self.layout == "block":
            warps = self.block[0] // 32  # a power of two
            lines += [
                f"{{ {kind}* all = ({kind}*)shared;",
                f"  if (lane % 32 == 0) all[lane / 32] = {name};",
                "  __syncthreads();",
                f"  {name} = all[lane % {warps}];",
                f"  for (int step = {warps // 2}; step; step >>= 1) {{ {joined} }}",
                "  __syncthreads(); }",
            ]
        return lines

    @property
    def leader(self) -> str:
        """One thread of each row."""
        return "live && lane == 0"

    def _writing_pass(self) -> _PassLines:
        e = self.elements
        inner, outer, vectors, writes, singles = e.inner, e.outer, [], [], []
        live = "if (live) " if self.layout != "block" else ""
        for j, output in enumerate(self.body.outputs):
            full = self.space.is_full(output)
            if not full and output.shape != self.space.reduced_shape:
                raise UnsupportedOp(f"a cuda row kernel writes shapes {self.space.shape} or {self.space.reduced_shape}")
            index = self.full_index if full else self.reduced_index
            text = ops.store(output.dtype, e.value(output, index))
            place = e.indices.join(index, output.shape)
            if not full:
                singles.append(f"if ({self.leader}) w{j}[{place}] = {text};")
            elif self.width > 1 and side_by_side(place, "col", self.width):
                vector = f"Vec<{ops.stored(output.dtype)}, {self.width}>"
                vectors.append(f"{vector} w{j}v;")
                inner.append(f"w{j}v.v[v] = {text};")
                first = re.sub(r"\bcol\b", "col_", place)
                writes.append(f"{live}*({vector}*)(w{j} + {first}) = w{j}v;")
            else:
                inner.append(f"{live}w{j}[{place}] = {text};")
        return _PassLines(outer, [*e.read_at_once(), *vectors], inner, writes, singles)
